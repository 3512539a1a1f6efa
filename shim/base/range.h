/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact interval algebra: which bytes of a value are still its own. A set is a few disjoint ranges
 * in ascending order; partial overwrites cut holes into it.
 */
#ifndef FASHIM_RANGE_H
#define FASHIM_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#define RANGE_MAX 16

struct range {
	uint64_t begin, end; /* [begin, end) */
};

struct range_set {
	int count;
	struct range item[RANGE_MAX];
};

#define for_each_range(r, set)                                                                     \
	for (const struct range *r = (set)->item; r < (set)->item + (set)->count; r++)

static inline bool range_overlap(uint64_t a_begin, uint64_t a_end, uint64_t b_begin, uint64_t b_end)
{
	return a_begin < b_end && b_begin < a_end;
}

/* Makes a range reach around another one, too; an empty one becomes it. */
static inline void range_widen(struct range *range, uint64_t begin, uint64_t end)
{
	const bool empty = range->begin >= range->end;

	if (empty || begin < range->begin)
		range->begin = begin;
	if (empty || end > range->end)
		range->end = end;
}

void range_set_one(struct range_set *set, uint64_t begin, uint64_t end);

/* Does [begin, end) meet the set? */
bool range_set_touches(const struct range_set *set, uint64_t begin, uint64_t end);

/* Is all of [begin, end) in the set? */
bool range_set_covers(const struct range_set *set, uint64_t begin, uint64_t end);

/* Removes [begin, end). -ENOSPC when the pieces do not fit; the set is unchanged then and the
 * caller must not let the overwrite happen unseen. */
int range_set_cut(struct range_set *set, uint64_t begin, uint64_t end);

uint64_t range_set_bytes(const struct range_set *set);

#endif
