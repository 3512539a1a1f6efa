/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of which the program overwrites part of each row, or every other element, and then the
 * others.
 */
#include "shim/hazard/comb.h"

#include "shim/real/driver.h"

bool comb_begins(struct chain *chain, const struct access *access)
{
	const uint64_t pitch = access->pitch;
	bool any = false;

	if (!chain->closed || chain->recorded || !pitch || chain->comb.width ||
	    !driver.cuMemcpy2DAsync_v2)
		return false;
	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &chain->values[i].live) {
			if (!range_overlap(r->begin, r->end, access->begin, access->end))
				continue;
			any = true;
			if ((r->begin > access->begin && (r->begin - access->begin) % pitch) ||
			    (r->end < access->end && (r->end - access->begin) % pitch))
				return false;
		}
	if (any)
		chain->comb =
			(struct comb){access->begin, access->end, access->comb, access->pitch};
	return any;
}

/* The second: what each row has behind the first, or before it. */
static bool ends_comb(const struct comb *comb, const struct access *access)
{
	return access->mode == ACCESS_WRITE && access->bounded && access->pitch == comb->pitch &&
	       access->comb + comb->width == comb->pitch &&
	       access->end - access->begin - access->comb ==
		       comb->end - comb->begin - comb->width &&
	       (access->begin == comb->begin + comb->width ||
		access->begin + access->comb == comb->begin);
}

static bool forget_both_halves(struct chain *chain, const struct access *access)
{
	const uint64_t begin =
		access->begin < chain->comb.begin ? access->begin : chain->comb.begin;
	const uint64_t end = access->end > chain->comb.end ? access->end : chain->comb.end;

	for (int i = 0; i < chain->value_count; i++)
		if (range_set_cut(&chain->values[i].live, begin, end) < 0)
			return false;
	return true;
}

bool comb_meet(struct chain *chain, const struct access_list *list)
{
	struct comb *comb = &chain->comb;
	const struct access *second = NULL;
	bool over = false, broken = false;

	for (int i = 0; i < list->count && comb->width; i++) {
		const struct access *access = &list->item[i];

		if (!range_overlap(access->begin, access->end, comb->begin, comb->end))
			continue;
		if (ends_comb(comb, access))
			second = access;
		else if (access->mode == ACCESS_WRITE && access->begin <= comb->begin &&
			 access->sure_end >= comb->end)
			over = true;
		else
			broken = true;
	}
	broken |= second && !broken && !forget_both_halves(chain, second);
	if (broken && chain->deferred)
		return false;
	if (broken || over || second)
		comb->width = 0;
	return true;
}
