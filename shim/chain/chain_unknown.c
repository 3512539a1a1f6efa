/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels without a rule as steps of a chain: which of its values they were handed.
 */
#include "shim/chain/chain.h"

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
