/* SPDX-License-Identifier: Apache-2.0
 *
 * Zstandard frames (unpack.h, RFC 8878) without dictionaries. The whole output is at hand, so there
 * is no window; checksums are not looked at: the driver has unpacked the same bytes before.
 */
#include "shim/code/unpack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/code/zstd_tables.h"

#define FRAME_MAGIC	0xfd2fb528u
#define SKIP_MAGIC	0x184d2a50u /* and the 15 that follow */
#define BLOCK_MAX	(128u << 10)
#define SHORT		16 /* bytes: most copies have less, and as many are copied where there is room */
#define LITERAL_SYMBOLS 36
#define MATCH_SYMBOLS	53
#define OFFSET_SYMBOLS	32

/* One of the three things a sequence says. */
struct part {
	struct state_table table;
	bool known; /* by an earlier block, or this one */
};

struct decoder {
	unsigned char *to;
	size_t made, done;
	struct huffman_table huffman;
	struct part literals, offsets, matches;
	uint32_t recent[3]; /* offsets */
	unsigned char literal[BLOCK_MAX];
};

static uint32_t little(const unsigned char *at, unsigned bytes)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint32_t)at[i] << (8 * i);
	return value;
}

/* ---- literals -----------------------------------------------------------------------------------
 */

static bool four_streams(struct decoder *d, const unsigned char *at, size_t bytes, size_t made)
{
	const size_t each = (made + 3) / 4;
	size_t begin = 6;

	if (bytes < 6 || 3 * each > made)
		return false;
	for (unsigned i = 0; i < 4; i++) {
		size_t size = i < 3 ? little(at + 2 * i, 2) : bytes - begin;

		if (size > bytes - begin ||
		    !huffman_decode(&d->huffman, at + begin, size, d->literal + i * each,
				    i < 3 ? each : made - 3 * each))
			return false;
		begin += size;
	}
	return true;
}

/* The bytes of the block that its literals took, 0: malformed. *count: how many there are. */
static size_t literals_read(struct decoder *d, const unsigned char *at, size_t bytes, size_t *count)
{
	const unsigned kind = bytes ? at[0] & 3 : 0, form = bytes ? at[0] >> 2 & 3 : 0;
	size_t head, packed, tree = 0;

	if (!bytes)
		return 0;
	if (kind < 2) { /* as they are, or one byte again and again */
		head = form == 1 ? 2 : form == 3 ? 3 : 1;
		if (head > bytes)
			return 0;
		*count = little(at, (unsigned)head) >> (head == 1 ? 3 : 4);
		packed = kind ? 1 : *count;
		if (*count > BLOCK_MAX || packed > bytes - head)
			return 0;
		if (kind)
			memset(d->literal, at[head], *count);
		else
			memcpy(d->literal, at + head, *count);
		return head + packed;
	}
	head = form < 2 ? 3 : form + 2u;
	if (head > bytes)
		return 0;
	{
		const unsigned width = form < 2 ? 10 : form == 2 ? 14 : 18;
		uint64_t sizes = 0;

		memcpy(&sizes, at, head);
		sizes >>= 4;
		*count = sizes & ((1u << width) - 1);
		packed = sizes >> width & ((1u << width) - 1);
	}
	if (*count > BLOCK_MAX || packed > bytes - head)
		return 0;
	at += head;
	if (kind == 2) {
		tree = huffman_table_read(&d->huffman, at, packed);
		if (!tree)
			return 0;
	}
	if (form ? !four_streams(d, at + tree, packed - tree, *count)
		 : !huffman_decode(&d->huffman, at + tree, packed - tree, d->literal, *count))
		return 0;
	return head + packed;
}

/* ---- sequences ----------------------------------------------------------------------------------
 */

/* What a length's code stands for: a base and bits to read. */
struct length {
	uint32_t base;
	uint8_t bits;
};

static const struct length literal_length[LITERAL_SYMBOLS] = {
	{0, 0},	    {1, 0},	{2, 0},	    {3, 0},	 {4, 0},      {5, 0},
	{6, 0},	    {7, 0},	{8, 0},	    {9, 0},	 {10, 0},     {11, 0},
	{12, 0},    {13, 0},	{14, 0},    {15, 0},	 {16, 1},     {18, 1},
	{20, 1},    {22, 1},	{24, 2},    {28, 2},	 {32, 3},     {40, 3},
	{48, 4},    {64, 6},	{128, 7},   {256, 8},	 {512, 9},    {1024, 10},
	{2048, 11}, {4096, 12}, {8192, 13}, {16384, 14}, {32768, 15}, {65536, 16},
};

static const struct length match_length[MATCH_SYMBOLS] = {
	{3, 0},	    {4, 0},	 {5, 0},      {6, 0},	   {7, 0},     {8, 0},	   {9, 0},
	{10, 0},    {11, 0},	 {12, 0},     {13, 0},	   {14, 0},    {15, 0},	   {16, 0},
	{17, 0},    {18, 0},	 {19, 0},     {20, 0},	   {21, 0},    {22, 0},	   {23, 0},
	{24, 0},    {25, 0},	 {26, 0},     {27, 0},	   {28, 0},    {29, 0},	   {30, 0},
	{31, 0},    {32, 0},	 {33, 0},     {34, 0},	   {35, 1},    {37, 1},	   {39, 1},
	{41, 1},    {43, 2},	 {47, 2},     {51, 3},	   {59, 3},    {67, 4},	   {83, 4},
	{99, 5},    {131, 7},	 {259, 8},    {515, 9},	   {1027, 10}, {2051, 11}, {4099, 12},
	{8195, 13}, {16387, 14}, {32771, 15}, {65539, 16},
};

static const int16_t literal_often[LITERAL_SYMBOLS] = {
	4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
	2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1,
};
static const int16_t match_often[MATCH_SYMBOLS] = {
	1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,	 1,  1,	 1,  1,	 1,  1,
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
};
static const int16_t offset_often[29] = {
	1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1,
};

/* The bytes that its description took, or -1. mode: predefined, one symbol, described, as before.
 */
static long part_read(struct part *part, unsigned mode, const unsigned char *at, size_t bytes,
		      unsigned log_max, unsigned symbols, const int16_t *often,
		      unsigned often_count, unsigned often_log)
{
	size_t taken;

	if (mode == 3)
		return part->known ? 0 : -1;
	part->known = false;
	if (mode == 0) {
		part->known = state_table_make(&part->table, often_log, often, often_count);
		return part->known ? 0 : -1;
	}
	if (mode == 1) {
		if (!bytes || at[0] >= symbols)
			return -1;
		part->table.log = 0;
		part->table.state[0].base = 0;
		part->table.state[0].bits = 0;
		part->table.state[0].symbol = at[0];
		part->known = true;
		return 1;
	}
	taken = state_table_read(&part->table, at, bytes, log_max, symbols);
	part->known = taken != 0;
	return taken ? (long)taken : -1;
}

/* The three latest offsets have short names; which of them a name means hangs on whether the
 * sequence has literals. 0: there is none such. */
static uint32_t offset_of(struct decoder *d, uint32_t value, bool literals)
{
	uint32_t offset;
	unsigned name;

	if (value > 3) {
		offset = value - 3;
		name = 2;
	} else {
		name = value - 1 + !literals;
		offset = name < 3 ? d->recent[name] : d->recent[0] - 1;
	}
	if (name > 1)
		d->recent[2] = d->recent[1];
	if (name > 0)
		d->recent[1] = d->recent[0];
	d->recent[0] = offset;
	return offset;
}

static bool copy_literals(struct decoder *d, size_t *used, size_t have, size_t count)
{
	const size_t room = d->made - d->done;

	if (count > have - *used || count > room)
		return false;
	if (count <= SHORT && room >= SHORT && *used <= BLOCK_MAX - SHORT)
		memcpy(d->to + d->done, d->literal + *used, SHORT);
	else
		memcpy(d->to + d->done, d->literal + *used, count);
	d->done += count;
	*used += count;
	return true;
}

static bool copy_match(struct decoder *d, size_t offset, size_t count)
{
	unsigned char *to = d->to + d->done;
	const size_t room = d->made - d->done;

	if (!offset || offset > d->done || count > room)
		return false;
	d->done += count;
	if (count <= SHORT && room >= SHORT && offset >= SHORT) {
		memcpy(to, to - offset, SHORT);
		return true;
	}
	if (offset >= count) {
		memcpy(to, to - offset, count);
		return true;
	}
	/* The two overlap: no more at a time than lies between them. */
	for (; offset >= 8 && count >= 8; count -= 8, to += 8)
		memcpy(to, to - offset, 8);
	for (; count; count--, to++)
		*to = to[-(ptrdiff_t)offset];
	return true;
}

static unsigned symbol_of(const struct part *part, unsigned state)
{
	return part->table.state[state].symbol;
}

static void go_on(const struct part *part, struct backward *in, unsigned *state)
{
	*state = part->table.state[*state].base + backward_read(in, part->table.state[*state].bits);
}

static bool sequences_run(struct decoder *d, const unsigned char *at, size_t bytes, unsigned count,
			  size_t have)
{
	unsigned literals, offsets, matches;
	struct backward in;
	size_t used = 0;

	if (!backward_open(&in, at, bytes))
		return false;
	literals = backward_read(&in, d->literals.table.log);
	offsets = backward_read(&in, d->offsets.table.log);
	matches = backward_read(&in, d->matches.table.log);
	for (unsigned i = 0; i < count; i++) {
		const unsigned offset_bits = symbol_of(&d->offsets, offsets);
		const struct length *match = &match_length[symbol_of(&d->matches, matches)];
		const struct length *literal = &literal_length[symbol_of(&d->literals, literals)];
		const uint32_t value = (1u << offset_bits) + backward_read(&in, offset_bits);
		const size_t match_count = match->base + backward_read(&in, match->bits);
		const size_t literal_count = literal->base + backward_read(&in, literal->bits);

		if (in.left < 0 || !copy_literals(d, &used, have, literal_count) ||
		    !copy_match(d, offset_of(d, value, literal_count != 0), match_count))
			return false;
		if (i + 1 < count) {
			go_on(&d->literals, &in, &literals);
			go_on(&d->matches, &in, &matches);
			go_on(&d->offsets, &in, &offsets);
		}
	}
	return in.left == 0 && copy_literals(d, &used, have, have - used);
}

static bool block_packed(struct decoder *d, const unsigned char *at, size_t bytes)
{
	size_t have = 0, taken = literals_read(d, at, bytes, &have), used = 0;
	unsigned count, modes;
	long part;

	if (!taken || taken == bytes)
		return false;
	count = at[taken++];
	if (!count)
		return taken == bytes && copy_literals(d, &used, have, have);
	if (count >= 128) {
		const unsigned more = count == 255 ? 2 : 1;

		if (bytes - taken < more)
			return false;
		count = more == 2 ? little(at + taken, 2) + 0x7f00
				  : ((count - 128) << 8) + at[taken];
		taken += more;
	}
	if (taken == bytes)
		return false;
	modes = at[taken++];
	if (modes & 3)
		return false;
#define PART(which, shift, log, symbols, often, often_log)                                         \
	part = part_read(&d->which, modes >> (shift)&3, at + taken, bytes - taken, log, symbols,   \
			 often, sizeof(often) / sizeof(*(often)), often_log);                      \
	if (part < 0)                                                                              \
		return false;                                                                      \
	taken += (size_t)part
	PART(literals, 6, 9, LITERAL_SYMBOLS, literal_often, 6);
	PART(offsets, 4, 8, OFFSET_SYMBOLS, offset_often, 5);
	PART(matches, 2, 9, MATCH_SYMBOLS, match_often, 6);
#undef PART
	return sequences_run(d, at + taken, bytes - taken, count, have);
}

/* ---- blocks and frames --------------------------------------------------------------------------
 */

static bool block_run(struct decoder *d, unsigned kind, const unsigned char *at, size_t bytes,
		      size_t count)
{
	if (kind == 2)
		return block_packed(d, at, bytes);
	if (count > d->made - d->done)
		return false;
	if (kind == 1)
		memset(d->to + d->done, at[0], count);
	else
		memcpy(d->to + d->done, at, count);
	d->done += count;
	return true;
}

/* The bytes of a frame, 0: malformed. */
static size_t frame_run(struct decoder *d, const unsigned char *at, size_t bytes)
{
	static const uint8_t size_bytes[] = {0, 2, 4, 8}, name_bytes[] = {0, 1, 2, 4};
	const unsigned form = bytes > 4 ? at[4] : 0;
	const bool single = form & 0x20;
	size_t taken = 5, size;
	bool last = false;

	if (bytes < 5 || form & 8)
		return 0;
	taken += !single + name_bytes[form & 3] + size_bytes[form >> 6] + (single && form < 0x40);
	d->huffman.log = 0;
	d->literals.known = d->offsets.known = d->matches.known = false;
	memcpy(d->recent, (uint32_t[]){1, 4, 8}, sizeof(d->recent));
	while (!last) {
		uint32_t head;

		if (taken > bytes || bytes - taken < 3)
			return 0;
		head = little(at + taken, 3);
		taken += 3;
		last = head & 1;
		size = (head >> 1 & 3) == 1 ? 1 : head >> 3;
		if ((head >> 1 & 3) == 3 || size > bytes - taken ||
		    !block_run(d, head >> 1 & 3, at + taken, size, head >> 3))
			return 0;
		taken += size;
	}
	taken += form & 4; /* a checksum of four bytes */
	return taken <= bytes ? taken : 0;
}

int unpack_zstd(const unsigned char *from, size_t size, unsigned char *to, size_t made)
{
	struct decoder *d = malloc(sizeof(*d));
	size_t at = 0, taken = 1;

	if (!d)
		return -ENOMEM;
	d->to = to;
	d->made = made;
	d->done = 0;
	/* What fills the input up to a round size is no frame. */
	while (taken && size - at > 8) {
		const uint32_t magic = little(from + at, 4);

		if (magic == FRAME_MAGIC)
			taken = frame_run(d, from + at, size - at);
		else if ((magic & ~15u) == SKIP_MAGIC && little(from + at + 4, 4) <= size - at - 8)
			taken = 8 + (size_t)little(from + at + 4, 4);
		else
			break;
		at += taken;
	}
	size = d->done;
	free(d);
	return taken && size == made ? 0 : -EINVAL;
}
