/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels without a rule as steps of a chain: what may be said of the pointers that lead to none of
 * its values.
 */
#include "shim/site/site.h"

/* Length of value `slot` in an occurrence with so many keys. */
static uint64_t value_bytes(const struct site *site, int slot, int64_t keys)
{
	const uint64_t bytes = site->values[slot].bytes, then = (uint64_t)site->values[slot].keys;

	return !then || bytes % then ? bytes : bytes / then * (uint64_t)keys;
}

void site_narrow(const struct site *model, const struct chain *chain, struct access_list *list)
{
	int slot = chain->value_count;

	for (int i = 0; i < list->count; i++) {
		struct access *access = &list->item[i];
		int value;

		if (access->grade != GRADE_UNKNOWN)
			continue;
		value = chain_value_at(chain, access->pointer);
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
			const uint64_t end =
				access->pointer + value_bytes(model, slot, chain->steps[0].gemm.m);

			access->end = end < access->end ? end : access->end;
			access->bounded = true;
			if (model->values[slot].outside)
				access->mode = ACCESS_READ;
			else if (!model->values[slot].left)
				access->sure_end = access->end;
		}
		slot++;
	}
}
