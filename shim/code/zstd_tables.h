/* SPDX-License-Identifier: Apache-2.0
 *
 * Zstandard's two kinds of codes (RFC 8878, 4): finite state entropy and Huffman, both read
 * backwards from the end of a piece of input.
 */
#ifndef FASHIM_ZSTD_TABLES_H
#define FASHIM_ZSTD_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STATE_LOG_MAX	9 /* of literal and match lengths */
#define HUFFMAN_LOG_MAX 11
#define SYMBOLS_MAX	256

/* Input, read from its last bit on. */
struct backward {
	const unsigned char *base;
	size_t bytes;
	int64_t left; /* bits; below 0: more were asked for than there are, which read as 0 */
};

struct state_table {
	unsigned log; /* 2^log states */
	struct {
		uint16_t base;
		uint8_t symbol, bits;
	} state[1 << STATE_LOG_MAX];
};

struct huffman_table {
	unsigned log; /* 0: none yet */
	struct {
		uint8_t symbol, bits;
	} code[1 << HUFFMAN_LOG_MAX];
};

/* false: there is no bit that marks the end. */
bool backward_open(struct backward *in, const unsigned char *base, size_t bytes);

/* ---- in line: each sequence reads nine times, each literal byte once ---- */

/* n <= 32 bits from bit `at` on; what lies behind the end reads as 0. */
static inline uint32_t bits_at(const unsigned char *base, size_t bytes, size_t at, unsigned n)
{
	const size_t first = at >> 3;
	uint64_t word = 0;

	if (first + 8 <= bytes)
		memcpy(&word, base + first, 8);
	else if (first < bytes)
		memcpy(&word, base + first, bytes - first);
	return (uint32_t)(word >> (at & 7) & ((1ull << n) - 1));
}

/* n <= 32 */
static inline uint32_t backward_peek(const struct backward *in, unsigned n)
{
	if (in->left >= n)
		return bits_at(in->base, in->bytes, (size_t)in->left - n, n);
	if (in->left <= 0)
		return 0;
	return bits_at(in->base, in->bytes, 0, (unsigned)in->left) << (n - (unsigned)in->left);
}

static inline uint32_t backward_read(struct backward *in, unsigned n)
{
	const uint32_t value = backward_peek(in, n);

	in->left -= n;
	return value;
}

/* From how often each of `count` symbols occurs (-1: less than once); the sum is 2^log, checked. */
bool state_table_make(struct state_table *table, unsigned log, const int16_t *often,
		      unsigned count);

/* From its description at `at`, of at most `symbols` symbols. The bytes it took, 0: malformed. */
size_t state_table_read(struct state_table *table, const unsigned char *at, size_t bytes,
			unsigned log_max, unsigned symbols);
size_t huffman_table_read(struct huffman_table *table, const unsigned char *at, size_t bytes);

/* `made` symbols of one stream that is used up by them. */
bool huffman_decode(const struct huffman_table *table, const unsigned char *at, size_t bytes,
		    unsigned char *to, size_t made);

#endif
