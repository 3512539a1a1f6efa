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

/* Which pointer leads to which value, and where in it. */
static uint64_t add_ref(uint64_t hash, int where, int slot, int64_t delta)
{
	return hash_mix(hash_mix(hash, (uint64_t)where << 16 | (uint64_t)slot), (uint64_t)delta);
}

uint64_t chain_refs_of(const struct chain *chain, const struct access_list *list)
{
	uint64_t hash = 0;
	int slot = chain->value_count;

	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];
		const int at = chain_value_at(chain, access->pointer);

		hash = at < 0 ? add_ref(hash, access->where, slot++, 0)
			      : add_ref(hash, access->where, at,
					(int64_t)(access->pointer - chain->values[at].begin));
	}
	return hash;
}

uint64_t chain_refs_of_step(const struct step *step)
{
	uint64_t hash = 0;

	for (int i = 0; i < step->ref_count; i++)
		hash = add_ref(hash, step->refs[i].where, step->refs[i].slot,
			       step->refs[i].kind == REF_VALUE ? step->refs[i].delta : 0);
	return hash;
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
