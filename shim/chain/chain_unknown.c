/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels without a rule as steps of a chain: which of its values they were handed, and what may be
 * said of the rest of their pointers.
 */
#include "shim/chain/chain.h"

#include "shim/site/site.h"

void chain_narrow(const struct chain *chain, struct access_list *list, const struct site *model)
{
	int slot = chain->value_count;

	for (int i = 0; i < list->count; i++) {
		struct access *access = &list->item[i];
		const int value = chain_value_at(chain, access->pointer);

		if (access->grade != GRADE_UNKNOWN)
			continue;
		access->begin = access->sure_end = access->pointer;
		if (model)
			access->grade = GRADE_MEASURED;
		if (value >= 0) {
			if (!chain->values[value].provisional)
				access->end = chain->values[value].end;
			access->bounded = true;
			continue;
		}
		access->mode = ACCESS_WRITE;
		if (model) {
			const uint64_t end = access->pointer +
					     site_value_bytes(model, slot, chain->steps[0].gemm.m);

			access->end = end < access->end ? end : access->end;
			access->bounded = true;
			if (model->values[slot].outside)
				access->mode = ACCESS_READ;
			else
				access->sure_end = access->end;
		}
		slot++;
	}
}

int chain_new_pointers(const struct chain *chain, const struct access_list *list)
{
	int count = 0;

	for (int i = 0; i < list->count; i++)
		count += list->item[i].grade == GRADE_UNKNOWN &&
			 chain_value_at(chain, list->item[i].pointer) < 0;
	return count;
}

bool chain_takes_whole(const struct chain *chain, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];
		const int at = chain_value_at(chain, access->pointer);
		const struct value *value = &chain->values[at < 0 ? 0 : at];
		const bool known = access->grade != GRADE_UNKNOWN;

		if (at >= 0 && (access->mode & ACCESS_READ) && !value->provisional &&
		    !range_set_covers(&value->live, known ? access->begin : value->begin,
				      known ? access->end : value->end))
			return false;
	}
	return true;
}
