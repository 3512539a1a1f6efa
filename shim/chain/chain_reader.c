/* SPDX-License-Identifier: Apache-2.0
 *
 * Which open chain an op continues, where it reads what several have made: a bias may be a product
 * as well as the scores are.
 */
#include "shim/chain/chain.h"

static bool reads(const struct chain *chain, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++)
		if ((list->item[i].mode & ACCESS_READ) && list->item[i].pointer >= chain->low &&
		    list->item[i].pointer < chain->high &&
		    chain_value_at(chain, list->item[i].pointer) >= 0)
			return true;
	return false;
}

/* As many numbers as there are scores? */
static bool writes_scores(const struct chain *chain, const struct access_list *list)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const uint64_t scores = (uint64_t)(opener->m * opener->n * opener->batch);

	for (int i = 0; i < list->count; i++) {
		const struct access *to = &list->item[i];

		if (to->mode == ACCESS_WRITE && to->bounded &&
		    (to->end - to->begin == 2 * scores || to->end - to->begin == 4 * scores))
			return true;
	}
	return false;
}

/* Does an element-wise launch read the chain's numbers as they lie? A product that it turns over or
 * repeats is not what it makes scores of. */
static bool reads_in_order(const struct chain *chain, const struct op *op)
{
	static unsigned char params[FUNCTION_MAX_BYTES]; /* flow lock */
	const struct function *function;
	struct meaning meaning;

	if (op->kind != OP_LAUNCH)
		return false;
	function = function_get(op->launch.function);
	if (!function || !function_read_params(function, &op->launch, params))
		return false;
	rules_meaning(function, &op->launch, params, &meaning);
	for (int i = 1; i < meaning.view_count; i++) {
		const struct view *view = &meaning.views[i];

		if (chain_value_at(chain, view->base) >= 0)
			return view_in_order(&meaning, view);
	}
	return false;
}

/* May it be replaced, for all that is known? Not where something gathers or shifts what the product
 * made, as is done with positions. */
static bool may_be_attention(const struct chain *chain)
{
	for (int i = 1; i < chain->step_count; i++)
		if (chain->steps[i].meaning.role == ROLE_OPAQUE)
			return false;
	return chain->unfit == REASON_NONE;
}

/* Of a sum of two products, as of a bias that is one, which are the scores? */
static bool likelier(const struct chain *chain, const struct chain *other, const struct op *op,
		     const struct access_list *list)
{
	const bool fits = writes_scores(chain, list), may = may_be_attention(chain);
	bool in_order;

	if (fits != writes_scores(other, list))
		return fits;
	if (may != may_be_attention(other))
		return may;
	in_order = reads_in_order(chain, op);
	return in_order != reads_in_order(other, op) ? in_order : chain->serial > other->serial;
}

/* Of two chains that an op reads, which does it belong to? */
static bool takes_before(const struct chain *chain, const struct chain *other, const struct op *op,
			 const struct access_list *list)
{
	const int closeness = chain_closeness(chain, op) - chain_closeness(other, op);

	return closeness ? closeness > 0 : likelier(chain, other, op, list);
}

struct chain *chain_reader(const struct op *op, const struct access_list *list)
{
	struct chain *found = NULL;

	if (!chain_open_count ||
	    (op->kind != OP_LAUNCH && op->kind != OP_GEMM && op->kind != OP_COPY) ||
	    (op->kind == OP_COPY && (list->count != 2 || !op->copy.later)))
		return NULL; /* to or from the host, or one that the host waits for */
	for_each_chain(chain) if (!chain->closed && chain->stream == op->stream &&
				  chain->context == op->context && reads(chain, list) &&
				  (!found || takes_before(chain, found, op, list))) found = chain;
	return found;
}
