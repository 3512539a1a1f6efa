/* SPDX-License-Identifier: Apache-2.0
 *
 * Interval sets small enough for linear scans.
 */
#include "shim/base/range.h"

#include <errno.h>
#include <string.h>

void range_set_one(struct range_set *set, uint64_t begin, uint64_t end)
{
	set->count = begin < end;
	set->item[0] = (struct range){begin, end};
}

bool range_set_touches(const struct range_set *set, uint64_t begin, uint64_t end)
{
	for_each_range(r, set)
		if (range_overlap(r->begin, r->end, begin, end))
			return true;
	return false;
}

bool range_set_covers(const struct range_set *set, uint64_t begin, uint64_t end)
{
	for_each_range(r, set) {
		if (begin >= end)
			break;
		if (r->end <= begin)
			continue;
		if (r->begin > begin)
			return false;
		begin = r->end;
	}
	return begin >= end;
}

int range_set_cut(struct range_set *set, uint64_t begin, uint64_t end)
{
	struct range_set left;

	if (begin >= end || !range_set_touches(set, begin, end))
		return 0;
	left.count = 0;
	for_each_range(r, set) {
		struct range piece[2] = {{r->begin, r->end < begin ? r->end : begin},
					 {r->begin > end ? r->begin : end, r->end}};

		for (int i = 0; i < 2; i++) {
			if (piece[i].begin >= piece[i].end)
				continue;
			if (left.count == RANGE_MAX)
				return -ENOSPC;
			left.item[left.count++] = piece[i];
		}
	}
	set->count = left.count;
	memcpy(set->item, left.item, (size_t)left.count * sizeof(*left.item));
	return 0;
}

uint64_t range_set_bytes(const struct range_set *set)
{
	uint64_t bytes = 0;

	for_each_range(r, set)
		bytes += r->end - r->begin;
	return bytes;
}
