/* SPDX-License-Identifier: Apache-2.0
 *
 * It must be a kernel of which a rule tells what it touches: as a step it is launched again.
 */
#include "shim/chain/digest.h"

#include "shim/op/memory.h"

static bool may_be_again(const struct sight *sight)
{
	const struct op *op = sight->op;

	return op->kind == OP_LAUNCH && !op->launch.cooperative && !op->launch.peculiar &&
	       sight->function && sight->function->rule && sight->params;
}

/* Inputs are read where they are, whatever lies over them in the program's view. */
static bool is_over_input(const struct chain *chain, const struct access *access)
{
	for (int i = 0; i < chain->input_count; i++)
		if (range_overlap(access->begin, access->end, chain->inputs[i].begin,
				  chain->inputs[i].end))
			return true;
	return false;
}

bool digest_is(const struct chain *chain, const struct sight *sight)
{
	const struct access_list *list = sight->list;
	const struct value *p;
	int reads = 0, writes = 0;

	if (!chain->closed || chain->captured || chain->recorded || chain->graph ||
	    chain->comb.width || !may_be_again(sight) || list->opaque || list->far ||
	    list->count != 2 || !queue_same(op_queue(sight->op), chain_queue(chain)))
		return false;
	p = &chain->values[chain->p_value];
	if (p->provisional || p->outside)
		return false;
	for (int i = 0; i < list->count; i++) {
		const struct access *a = &list->item[i];

		if (!a->bounded)
			return false;
		reads += a->mode == ACCESS_READ && range_set_covers(&p->live, a->begin, a->end) &&
			 chain_value_at(chain, a->pointer) == chain->p_value;
		writes += a->mode == ACCESS_WRITE && a->sure_end == a->end &&
			  a->pointer == a->begin && 2 * (a->end - a->begin) <= p->end - p->begin &&
			  !range_overlap(a->begin, a->end, p->begin, p->end) &&
			  !is_over_input(chain, a);
	}
	return reads == 1 && writes == 1;
}

bool digest_append(struct chain *chain, const struct sight *sight)
{
	const struct value *last;

	if (!chain_append(chain, sight))
		return false;
	last = &chain->values[chain->value_count - 1];
	if (!memory_watchable_range(last->begin, last->end))
		chain_unfit(chain, REASON_MEMORY, sight->who);
	return true;
}
