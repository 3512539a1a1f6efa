/* SPDX-License-Identifier: Apache-2.0
 *
 * Two lists of a few ranges: what nobody may touch, and what nobody may write.
 */
#include "shim/hazard/outline.h"

#include "shim/hazard/snapshot.h"

/* Around one of `count` ranges, from `first` on, that it touches, or as another; the last one takes
 * what there is no place for. */
static void add(struct range *first, int *count, int most, uint64_t begin, uint64_t end)
{
	for (int i = 0; i < *count; i++)
		if (begin <= first[i].end && first[i].begin <= end) {
			range_widen(&first[i], begin, end);
			return;
		}
	if (*count < most)
		first[(*count)++] = (struct range){begin, end};
	else
		range_widen(&first[most - 1], begin, end);
}

void outline_draw(struct chain *chain)
{
	struct outline *outline = &chain->outline;

	*outline = (struct outline){0};
	if (!chain->closed || chain->captured || chain->recorded || chain->graph ||
	    chain->comb.width)
		return;
	for (int i = 0; i < chain->value_count; i++) {
		const struct range_set *live = &chain->values[i].live;

		if (live->count)
			add(outline->kept, &outline->kept_count, OUTLINE_RANGES,
			    live->item[0].begin, live->item[live->count - 1].end);
	}
	for (int i = 0; i < chain->input_count; i++) {
		const struct input *input = &chain->inputs[i];

		if (!snapshot_whole(input) && !input->lost)
			add(outline->read, &outline->read_count, OUTLINE_RANGES, input->begin,
			    input->end);
	}
	outline->drawn = outline->kept_count > 0;
}

static bool touches(const struct range *ranges, int count, const struct access *access)
{
	for (int i = 0; i < count; i++)
		if (range_overlap(access->begin, access->end, ranges[i].begin, ranges[i].end))
			return true;
	return false;
}

bool outline_meets(const struct chain *chain, const struct access_list *list)
{
	const struct outline *outline = &chain->outline;

	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];

		if (!range_overlap(access->begin, access->end, chain->low, chain->high))
			continue;
		if (!outline->drawn || touches(outline->kept, outline->kept_count, access) ||
		    ((access->mode & ACCESS_WRITE) &&
		     touches(outline->read, outline->read_count, access)))
			return true;
	}
	return false;
}
