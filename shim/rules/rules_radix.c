/* SPDX-License-Identifier: Apache-2.0
 *
 * CUB's radix sort of one long row of keys, with values or without, as PyTorch calls it: in a
 * single tile; or counts of all digits first, then a pass for each digit from one buffer to
 * another. Read off the CCCL of CUDA 13.0, whose sorts count in 64 bits.
 */
#include "shim/rules/rule_reader.h"

#include <stdlib.h>
#include <string.h>

#include "shim/op/memory.h"

#define DIGITS	256			    /* 8 bits a pass */
#define PORTION ((1ll << 28) - (1ll << 16)) /* keys: so many at the least are sorted at once */

/* Bytes of a key and of a value, 0: there is none. false: the name is another. */
static bool widths(const struct reading *r, int64_t *key, int64_t *value)
{
	static const char before[] = "10policy_hubI", none[] = "NS0_8NullTypeE",
			  opaque[] = "N2at4cuda3cub6detail10OpaqueTypeILi", behind[] = "yE10Policy";
	const char *at = rule_find(r, before);
	char *end;

	if (!at)
		return false;
	at += strlen(before);
	*key = rule_template_type(&at, type_unknown).bytes;
	if (strncmp(at, none, strlen(none)) == 0) {
		*value = 0;
		at += strlen(none);
	} else if (strncmp(at, opaque, strlen(opaque)) == 0) {
		*value = strtol(at + strlen(opaque), &end, 10);
		at = strncmp(end, "EEE", 3) == 0 && *value >= 1 && *value <= 16 ? end + 3 : "";
	} else {
		*value = rule_type_of_letter(*at).bytes;
		at += *at && *value;
	}
	return *key && strncmp(at, behind, strlen(behind)) == 0;
}

/* (keys, sorted, values, sorted, unsigned long N, int first bit, int last, none), in one block. */
bool rule_read_radix_tile(struct reading *r)
{
	const int64_t n = PARAM(4);
	int64_t key, value;

	return rule_takes(r, 8, 8, 8, 8, 8, 4, 4, 1) && widths(r, &key, &value) &&
	       r->launch->grid[0] == 1 && n <= 1 << 16 && rule_reads(r, 0, rule_times(n, key)) &&
	       rule_writes(r, 1, n * key) &&
	       (!value || (rule_reads(r, 2, n * value) && rule_writes(r, 3, n * value)));
}

/* (counts, keys, unsigned long N, int first bit, int last, none). */
bool rule_read_radix_counts(struct reading *r)
{
	const int64_t bits = PARAM(4) - PARAM(3);
	int64_t key, value;

	return rule_takes(r, 8, 8, 8, 4, 4, 1) && widths(r, &key, &value) && PARAM(3) >= 0 &&
	       bits >= 1 && PARAM(4) <= 8 * key &&
	       rule_changes(r, 0, (bits + 7) / 8 * DIGITS * 8) &&
	       rule_reads(r, 1, rule_times(PARAM(2), key));
}

/* (counts), which become sums, a block for each pass. */
bool rule_read_radix_sums(struct reading *r)
{
	return rule_takes(r, 8) && rule_has(r, "EyEEvPT0_") && r->launch->grid[0] <= 16 &&
	       rule_changes(r, 0, (int64_t)r->launch->grid[0] * DIGITS * 8);
}

/* How much there may be of a buffer. */
static int64_t room(const struct reading *r, unsigned param)
{
	const uint64_t pointer = (uint64_t)PARAM(param);
	uint64_t begin, end;

	return memory_reach(pointer, &begin, &end) && end > pointer &&
			       end - pointer < (uint64_t)RULE_ROOM
		       ? (int64_t)(end - pointer)
		       : RULE_ROOM;
}

/* (scratch, count of blocks, sums for a further portion, sums, to keys, from keys, to values, from
 * values, int N, int first bit, int bits, none): all of the keys, where their buffer is too small
 * for a further portion of them. */
bool rule_read_radix_pass(struct reading *r)
{
	const int64_t n = PARAM(8);
	int64_t key, value;

	return rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 1) && widths(r, &key, &value) &&
	       !PARAM(2) && n >= 1 && r->launch->grid[0] <= n && room(r, 4) < PORTION * key &&
	       rule_changes(r, 0, (int64_t)r->launch->grid[0] * DIGITS * 4) &&
	       rule_changes(r, 1, 4) && rule_reads(r, 3, DIGITS * 8) &&
	       rule_writes(r, 4, n * key) && rule_reads(r, 5, n * key) &&
	       (!value || (rule_writes(r, 6, n * value) && rule_reads(r, 7, n * value)));
}

/* (places, int N, divider): of each of its rows, places from 0 on. */
bool rule_read_reverse_indices(struct reading *r)
{
	return rule_takes(r, 8, 4, 12) && rule_writes(r, 0, PARAM(1) * 8);
}
