/* SPDX-License-Identifier: Apache-2.0
 *
 * The product that ends a chain: it contracts what became of the scores over the keys. Several open
 * chains may be read by one product, as where V comes out of a projection of its own; which of them
 * it ends, and whether that one can be attention at all, is told here.
 */
#include <string.h>

#include "shim/chain/chain.h"
#include "shim/chain/parts.h"

/* P^T seen as [Sk,Sq] lies exactly as the opening GEMM laid S^T, and softmax was over its rows: the
 * backward pass contracts P^T too, which has the softmax of a P. */
static bool contracts_transposed(const struct chain *chain, const struct matrix *p, bool p_is_a,
				 int64_t batch)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const int64_t keys = p_is_a ? p->cols : p->rows, queries = p_is_a ? p->rows : p->cols;
	bool over_rows = false;
	int64_t apart;

	for (int i = 1; i < chain->step_count; i++)
		over_rows |= chain->steps[i].meaning.softmax_apart == queries;
	return over_rows && matrix_even(p, batch, &apart) && queries > 1 &&
	       batch == opener->batch && keys == opener->n && queries == opener->m &&
	       (p_is_a ? p->row_stride : p->col_stride) == 1 &&
	       (p_is_a ? p->col_stride : p->row_stride) == queries &&
	       (batch == 1 || apart == keys * queries);
}

/* P seen as [Sq,Sk] must lie exactly as the opening GEMM laid S: keys fastest, queries next, batch
 * last. *further: columns of each row beyond the keys. */
bool chain_contracts_scores(const struct op_gemm *opener, const struct matrix *p, bool p_is_a,
			    int64_t batch, int64_t *further)
{
	int64_t keys = p_is_a ? p->cols : p->rows, queries = p_is_a ? p->rows : p->cols;
	int64_t key_stride = p_is_a ? p->col_stride : p->row_stride;
	int64_t query_stride = p_is_a ? p->row_stride : p->col_stride, apart;

	if (!matrix_even(p, batch, &apart))
		return false;
	*further = queries > 1 ? query_stride - keys : batch > 1 ? apart - keys : 0;
	return batch == opener->batch && keys == opener->m && queries == opener->n &&
	       (keys == 1 || key_stride == 1) && (*further == 0 || *further == 1) &&
	       (batch == 1 || apart == (keys + *further) * queries);
}

/* What of a chain a product contracts. */
struct contracted {
	int value;
	bool transposed;
	int further;
	uint64_t begin, end;
};

static bool contracts(const struct chain *chain, const struct op *op, struct contracted *found)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	struct gemm gemm;

	if (!chain_plain_product(&op->gemm))
		return false;
	gemm_from_op(&gemm, &op->gemm);
	for (int side = 0; side < 2; side++) {
		const struct matrix *p = side ? &gemm.b : &gemm.a;
		const struct matrix *v = side ? &gemm.a : &gemm.b;
		const int at = chain_value_at(chain, p->base);
		const struct value *value = &chain->values[at < 0 ? 0 : at];
		bool transposed = false;
		int64_t further;

		if (at < 0 || value->begin != p->base)
			continue;
		if (!chain_contracts_scores(opener, p, side == 0, gemm.batch, &further)) {
			transposed = contracts_transposed(chain, p, side == 0, gemm.batch);
			further = 0;
			if (!transposed)
				continue;
		}
		if (chain_value_at(chain, v->base) >= 0) /* P times P: not ours */
			return false;
		*found = (struct contracted){
			.value = at, .transposed = transposed, .further = (int)further};
		matrix_extent(p, gemm.batch, &found->begin, &found->end);
		return (!value->provisional || value->end >= found->end) &&
		       range_set_covers(&value->live, found->begin, found->end);
	}
	return false;
}

bool chain_triangle(const struct chain *chain, struct triangle_args *args)
{
	const struct op_gemm *opener = &chain->steps[0].gemm, *closer = &chain->closer;
	const struct value *p = &chain->values[chain->p_value];
	const int size = bytes_of_cuda(closer->a == p->begin ? closer->atype : closer->btype);
	const uint64_t rows = (uint64_t)opener->n, matrices = (uint64_t)opener->batch;

	*args = (struct triangle_args){
		.first = p->begin, .matrices = matrices, .rows = (int32_t)rows, .size = size};
	return !chain->transposed && !chain->further && opener->m == opener->n &&
	       (size == 2 || size == 4) &&
	       p->end - p->begin == matrices * rows * rows * (uint64_t)size;
}

void chain_settle_length(struct chain *chain, int index, uint64_t end)
{
	struct value *value = &chain->values[index];

	if (!value->provisional)
		return;
	value->end = end;
	chain->high = chain->high > end ? chain->high : end;
	range_set_cut(&value->live, end, UINT64_MAX);
	for (int i = 0; i < chain->value_count; i++)
		if (i != index)
			range_set_cut(&chain->values[i].live, value->begin, end);
	value->provisional = false;
}

bool chain_close(struct chain *chain, const struct op *op)
{
	struct contracted p;

	if (!contracts(chain, op, &p))
		return false;
	chain_settle_length(chain, p.value, p.end);
	chain->transposed = p.transposed;
	chain->further = p.further;
	chain->p_value = p.value;
	chain->closer = op->gemm;
	if (op->gemm.scalars_on_device)
		chain_unfit(chain, REASON_SCALARS_ON_DEVICE, op->gemm.entry);
	return true;
}

void chain_cut_output(struct chain *chain)
{
	struct gemm gemm;
	uint64_t begin, end;

	gemm_from_op(&gemm, &chain->closer);
	matrix_extent(&gemm.c, gemm.batch, &begin, &end);
	for (int k = 0; k < chain->value_count; k++)
		range_set_cut(&chain->values[k].live, begin, end);
}

void chain_end(struct chain *chain, struct site *site)
{
	chain_open_count -= !chain->closed;
	chain->closed = true;
	chain->site = site;
	parts_end(chain);
	chain_cut_output(chain);
}

int chain_closeness(const struct chain *chain, const struct op *op)
{
	struct contracted p;

	if (op->kind != OP_GEMM || (!contracts(chain, op, &p) && !parts_fit(chain, op)))
		return 0;
	return chain->deferred || chain->softmax ? 2 : 1;
}

/* Any kernel may be a softmax or a part of one; but a library's are called by what they are, and
 * there softmax, or exp, which every softmax has, is in the name. */
bool chain_kernel_may_be_softmax(const struct function *function)
{
	const char *name = function->name;

	return !strstr(name, "2at6native") || strstr(name, "oftmax") || strstr(name, "oftMax") ||
	       strstr(name, "exp");
}

bool chain_has_softmax(const struct chain *chain)
{
	bool raised = false;

	for (int i = 1; i < chain->step_count; i++) {
		const enum rule_role role = chain->steps[i].meaning.role;

		raised |= role == ROLE_EXP;
		if (role == ROLE_SOFTMAX || (role == ROLE_ROW_SUM && raised))
			return true;
	}
	return false;
}

bool chain_step_may_be_softmax(const struct step *step)
{
	switch (step->meaning.role) {
	case ROLE_SOFTMAX:
	case ROLE_LOG_SOFTMAX:
		return true;
	case ROLE_SCALE:
	case ROLE_ADD:
	case ROLE_ADD_SCALED:
	case ROLE_ADD_CONSTANT:
	case ROLE_MASKED_FILL:
	case ROLE_WHERE:
	case ROLE_TANH:
	case ROLE_SOFTCAP:
	case ROLE_COPY:
	case ROLE_MULTIPLY:
	case ROLE_DIVIDE:
	case ROLE_FILL:
	case ROLE_DROPOUT:
		return false;
	default:
		return step->function && chain_kernel_may_be_softmax(step->function);
	}
}
