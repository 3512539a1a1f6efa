/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of codes, from how they are described (zstd_tables.h).
 */
#include "shim/code/zstd_tables.h"

#define WEIGHT_LOG_MAX 6

static unsigned highest_bit(uint32_t value) /* not 0 */
{
	return 31 - (unsigned)__builtin_clz(value);
}

bool backward_open(struct backward *in, const unsigned char *base, size_t bytes)
{
	if (!bytes || !base[bytes - 1])
		return false;
	*in = (struct backward){base, bytes,
				(int64_t)(bytes - 1) * 8 + highest_bit(base[bytes - 1])};
	return true;
}

bool state_table_make(struct state_table *table, unsigned log, const int16_t *often, unsigned count)
{
	const unsigned size = 1u << log, step = (size >> 1) + (size >> 3) + 3;
	uint16_t next[SYMBOLS_MAX];
	unsigned top = size, at = 0, sum = 0;

	if (log > STATE_LOG_MAX || count > SYMBOLS_MAX)
		return false;
	for (unsigned s = 0; s < count; s++)
		sum += often[s] < 0 ? 1u : (unsigned)often[s];
	if (sum != size)
		return false;
	table->log = log;
	for (unsigned s = 0; s < count; s++) {
		next[s] = often[s] < 0 ? 1 : (uint16_t)often[s];
		if (often[s] < 0)
			table->state[--top].symbol = (uint8_t)s;
	}
	for (unsigned s = 0; s < count; s++)
		for (int i = 0; i < often[s]; i++) {
			table->state[at].symbol = (uint8_t)s;
			do
				at = (at + step) & (size - 1);
			while (at >= top);
		}
	for (unsigned i = 0; i < size; i++) {
		const unsigned x = next[table->state[i].symbol]++;

		table->state[i].bits = (uint8_t)(log - highest_bit(x));
		table->state[i].base = (uint16_t)((x << table->state[i].bits) - size);
	}
	return true;
}

size_t state_table_read(struct state_table *table, const unsigned char *at, size_t bytes,
			unsigned log_max, unsigned symbols)
{
	const unsigned log = bytes ? (at[0] & 15) + 5u : 0;
	int16_t often[SYMBOLS_MAX];
	unsigned count = 0, again;
	size_t bit = 4;
	int left;

	if (!bytes || log > log_max || log > STATE_LOG_MAX || symbols > SYMBOLS_MAX)
		return 0;
	for (left = 1 << log; left > 0;) {
		/* A value of one bit less where that says enough. */
		const unsigned n = highest_bit((uint32_t)left + 1) + 1;
		const uint32_t low = (1u << (n - 1)) - 1,
			       spare = (1u << n) - 1 - ((uint32_t)left + 1);
		uint32_t value = bits_at(at, bytes, bit, n);

		if (count == symbols || bit > bytes * 8)
			return 0;
		bit += n;
		if ((value & low) < spare) {
			value &= low;
			bit--;
		} else if (value > low) {
			value -= spare;
		}
		often[count++] = (int16_t)((int)value - 1);
		left -= value ? (int)value - 1 : 1;
		for (again = value == 1 ? 3 : 0; again == 3;) {
			again = bits_at(at, bytes, bit, 2);
			bit += 2;
			if (again > symbols - count || bit > bytes * 8)
				return 0;
			for (unsigned i = 0; i < again; i++)
				often[count++] = 0;
		}
	}
	if (left || bit > bytes * 8 || !state_table_make(table, log, often, count))
		return 0;
	return (bit + 7) / 8;
}

/* ---- Huffman ------------------------------------------------------------------------------------
 */

/* Weights as two states in turn write them, until the input has no more. Their number, 0:
 * malformed. */
static unsigned weights_read(const unsigned char *at, size_t bytes, uint8_t *weight)
{
	struct state_table table;
	struct backward in;
	const size_t head = state_table_read(&table, at, bytes, WEIGHT_LOG_MAX, SYMBOLS_MAX);
	unsigned state[2], count = 0;

	if (!head || !backward_open(&in, at + head, bytes - head))
		return 0;
	state[0] = backward_read(&in, table.log);
	state[1] = backward_read(&in, table.log);
	if (in.left < 0)
		return 0;
	for (unsigned turn = 0;; turn ^= 1) {
		const unsigned was = state[turn];

		if (count + 2 > SYMBOLS_MAX - 1)
			return 0;
		weight[count++] = table.state[was].symbol;
		state[turn] = table.state[was].base + backward_read(&in, table.state[was].bits);
		if (in.left < 0) {
			weight[count++] = table.state[state[turn ^ 1]].symbol;
			return count;
		}
	}
}

/* The last symbol has what the others leave. */
static bool huffman_table_make(struct huffman_table *table, uint8_t *weight, unsigned count)
{
	unsigned begin[HUFFMAN_LOG_MAX + 2] = {0}, at = 0;
	uint32_t sum = 0, rest;

	for (unsigned s = 0; s < count; s++) {
		if (weight[s] > HUFFMAN_LOG_MAX)
			return false;
		sum += weight[s] ? 1u << (weight[s] - 1) : 0;
	}
	if (!sum || highest_bit(sum) + 1 > HUFFMAN_LOG_MAX)
		return false;
	table->log = highest_bit(sum) + 1;
	rest = (1u << table->log) - sum;
	if (rest & (rest - 1))
		return false;
	weight[count++] = (uint8_t)(highest_bit(rest) + 1);
	for (unsigned w = 1; w <= table->log; w++) { /* the longest codes first */
		begin[w] = at;
		for (unsigned s = 0; s < count; s++)
			at += weight[s] == w ? 1u << (w - 1) : 0;
	}
	if (at != 1u << table->log)
		return false;
	for (unsigned s = 0; s < count; s++)
		for (unsigned i = 0; weight[s] && i < 1u << (weight[s] - 1); i++) {
			table->code[begin[weight[s]]].symbol = (uint8_t)s;
			table->code[begin[weight[s]]++].bits =
				(uint8_t)(table->log + 1 - weight[s]);
		}
	return true;
}

size_t huffman_table_read(struct huffman_table *table, const unsigned char *at, size_t bytes)
{
	uint8_t weight[SYMBOLS_MAX];
	unsigned count;
	size_t taken;

	table->log = 0;
	if (!bytes)
		return 0;
	if (at[0] < 128) {
		taken = 1u + at[0];
		count = taken > bytes ? 0 : weights_read(at + 1, at[0], weight);
	} else {
		count = at[0] - 127u;
		taken = 1 + (count + 1) / 2;
		if (taken > bytes)
			return 0;
		for (unsigned s = 0; s < count; s++)
			weight[s] = s & 1 ? at[1 + s / 2] & 15 : at[1 + s / 2] >> 4;
	}
	if (!count || !huffman_table_make(table, weight, count)) {
		table->log = 0;
		return 0;
	}
	return taken;
}

bool huffman_decode(const struct huffman_table *table, const unsigned char *at, size_t bytes,
		    unsigned char *to, size_t made)
{
	struct backward in;

	if (!table->log || !backward_open(&in, at, bytes))
		return false;
	for (size_t i = 0; i < made; i++) {
		const uint32_t code = backward_peek(&in, table->log);

		to[i] = table->code[code].symbol;
		in.left -= table->code[code].bits;
		if (in.left < 0)
			return false;
	}
	return in.left == 0;
}
