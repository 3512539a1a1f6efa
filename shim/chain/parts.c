/* SPDX-License-Identifier: Apache-2.0
 *
 * Products in parts (parts.h), as far as it is a matter of chains alone.
 */
#include "shim/chain/parts.h"

#include <string.h>

static int waiting; /* chains that miss a part */

/* The same words, wherever the operands lie and whatever the handle. */
static bool same_product(const struct op_gemm *a, const struct op_gemm *b)
{
	return a->library == b->library && !strcmp(a->entry, b->entry) && a->transa == b->transa &&
	       a->transb == b->transb && a->m == b->m && a->n == b->n && a->k == b->k &&
	       a->atype == b->atype && a->btype == b->btype && a->ctype == b->ctype &&
	       a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc && a->batch == b->batch &&
	       a->stride_a == b->stride_a && a->stride_b == b->stride_b &&
	       a->stride_c == b->stride_c && a->alpha == b->alpha && a->beta == b->beta &&
	       a->compute_type == b->compute_type && a->algo == b->algo &&
	       a->math_mode == b->math_mode;
}

/* May it be a part, for what it says itself? */
static bool may_be_part(const struct op_gemm *gemm)
{
	return chain_plain_product(gemm) && gemm->run <= 1 && gemm->parts <= 1 && !gemm->d &&
	       !gemm->scalars_on_device && gemm->beta == 0;
}

/* Bytes from one operand to another, a whole number of elements forwards; -1: not so. */
static int64_t apart(uint64_t first, uint64_t second, cudaDataType type)
{
	return second < first || (second - first) % (uint64_t)bytes_of_cuda(type)
		       ? -1
		       : (int64_t)(second - first);
}

/* How far apart the operands of two products are, in bytes. */
struct steps {
	int64_t a, b, c;
};

static struct steps steps_of(const struct op_gemm *first, const struct op_gemm *second)
{
	return (struct steps){apart(first->a, second->a, first->atype),
			      apart(first->b, second->b, first->btype),
			      apart(first->c, second->c, first->ctype)};
}

static bool forwards(const struct steps *step)
{
	return step->a >= 0 && step->b >= 0 && step->c > 0;
}

/* Is a product the nth behind the first, of those so far apart? */
static bool is_nth(const struct op_gemm *first, const struct op_gemm *gemm, int64_t n,
		   const struct steps *step)
{
	return gemm->a == first->a + (uint64_t)(n * step->a) &&
	       gemm->b == first->b + (uint64_t)(n * step->b) &&
	       gemm->c == first->c + (uint64_t)(n * step->c);
}

/* So many products as one, whose entries come in runs if each has several. */
static void gather(struct op_gemm *gemm, int64_t parts, const struct steps *step)
{
	const int64_t a = step->a / bytes_of_cuda(gemm->atype);
	const int64_t b = step->b / bytes_of_cuda(gemm->btype);
	const int64_t c = step->c / bytes_of_cuda(gemm->ctype);

	if (gemm->batch > 1) {
		gemm->run = gemm->batch;
		gemm->inner_a = gemm->stride_a;
		gemm->inner_b = gemm->stride_b;
		gemm->inner_c = gemm->stride_c;
	}
	gemm->stride_a = a;
	gemm->stride_b = b;
	gemm->stride_c = c;
	gemm->batch *= parts;
	gemm->parts = parts;
}

/* ---- GEMM1 ---------------------------------------------------------------------------------- */

/* Is the chain its first product, and all that this read and made as it was? */
static bool untouched(const struct chain *chain)
{
	const struct value *scores = &chain->values[0];

	for (int n = 0; n < 2; n++)
		if (chain->relayed[n] >= 0 || chain->inputs[n].snapshot || chain->inputs[n].lost)
			return false;
	return !chain->closed && !chain->captured && chain->step_count == 1 &&
	       chain->value_count == 1 && chain->input_count == 2 && chain->unfit == REASON_NONE &&
	       may_be_part(&chain->steps[0].gemm) &&
	       range_set_covers(&scores->live, scores->begin, scores->end);
}

static bool goes_with(const struct chain *chain, const struct chain *other)
{
	return other->context == chain->context && other->stream == chain->stream &&
	       other->deferred == chain->deferred && untouched(other) &&
	       same_product(&chain->steps[0].gemm, &other->steps[0].gemm);
}

static struct chain *next_of(const struct chain *first, int n, struct steps *step)
{
	const struct op_gemm *gemm = &first->steps[0].gemm;
	const uint64_t size = first->values[0].end - first->values[0].begin;

	for_each_chain(chain)
	{
		const struct op_gemm *other = &chain->steps[0].gemm;

		if (chain->values[0].begin != first->values[0].begin + (uint64_t)n * size ||
		    !goes_with(first, chain))
			continue;
		if (n == 1)
			*step = steps_of(gemm, other);
		if (forwards(step) && is_nth(gemm, other, n, step))
			return chain;
	}
	return NULL;
}

int parts_find(struct chain *first, uint64_t end, struct chain *list[PARTS_MOST])
{
	struct steps step;
	int count = 1;

	list[0] = first;
	if (!untouched(first))
		return 1;
	while (count < PARTS_MOST && list[count - 1]->values[0].end < end) {
		list[count] = next_of(first, count, &step);
		if (!list[count])
			break;
		count++;
	}
	return count;
}

/* It is read whole from now on: of what was saved before, a part may have been another. */
static void set_operand(struct chain *chain, int n, const struct matrix *matrix, int64_t batch)
{
	int64_t size[MATRIX_DIMS], stride[MATRIX_DIMS];
	struct input *input = &chain->inputs[n];

	matrix_extent(matrix, batch, &input->begin, &input->end);
	matrix_dimensions(matrix, batch, size, stride);
	input->pitched = pitched_of(MATRIX_DIMS, size, stride, matrix->element);
	input->since = chain_moment();
	chain->low = chain->low < input->begin ? chain->low : input->begin;
	chain->high = chain->high > input->end ? chain->high : input->end;
}

void parts_join(struct chain *const list[], int count)
{
	struct chain *chain = list[0];
	struct op_gemm *gemm = &chain->steps[0].gemm;
	const struct steps step = steps_of(gemm, &list[1]->steps[0].gemm);
	struct value *scores = &chain->values[0];
	struct gemm all;

	gather(gemm, count, &step);
	gemm_from_op(&all, gemm);
	scores->end = list[count - 1]->values[0].end;
	range_set_one(&scores->live, scores->begin, scores->end);
	chain->high = chain->high > scores->end ? chain->high : scores->end;
	set_operand(chain, 0, &all.a, all.batch);
	set_operand(chain, 1, &all.b, all.batch);
	memset(chain->made_by, 0, sizeof(chain->made_by));
	memset(chain->cast_by, 0, sizeof(chain->cast_by));
}

const struct chain *parts_before(const struct op *op)
{
	if (!may_be_part(&op->gemm))
		return NULL;
	for_each_chain(chain) if (chain->context == op->context && chain->stream == op->stream &&
				  chain->values[0].end == op->gemm.c && untouched(chain) &&
				  same_product(&chain->steps[0].gemm, &op->gemm)) return chain;
	return NULL;
}

/* ---- GEMM2 ---------------------------------------------------------------------------------- */

/* Which value of the chain the op contracts as the part that comes next; -1: none. */
static int value_of(const struct chain *chain, const struct op *op)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	struct op_gemm part = *opener;
	struct gemm gemm;

	if (opener->parts <= 1 || chain->closed || chain->closer.parts > 1 ||
	    !may_be_part(&op->gemm))
		return -1;
	part.batch /= part.parts;
	gemm_from_op(&gemm, &op->gemm);
	for (int side = 0; side < 2; side++) {
		const struct matrix *p = side ? &gemm.b : &gemm.a;
		const struct matrix *v = side ? &gemm.a : &gemm.b;
		const uint64_t bytes = (uint64_t)(part.m * part.n * part.batch * p->element);
		const uint64_t all = p->base - (uint64_t)chain->closing * bytes;
		const int at =
			chain->closing ? chain->closing_value : chain_value_at(chain, p->base);
		uint64_t o_begin, o_end;
		int64_t further;

		if (at < 0 || chain->values[at].begin != all ||
		    !chain_contracts_scores(&part, p, !side, gemm.batch, &further) || further ||
		    chain_value_at(chain, v->base) >= 0 ||
		    !range_set_covers(&chain->values[at].live, p->base, p->base + bytes))
			continue;
		matrix_extent(&gemm.c, gemm.batch, &o_begin, &o_end);
		for (int i = 0; i < chain->value_count; i++)
			if (range_set_touches(&chain->values[i].live, o_begin, o_end))
				return -1; /* of which a part is still to be read */
		return at;
	}
	return -1;
}

bool parts_fit(const struct chain *chain, const struct op *op)
{
	const struct op_gemm *first = &chain->closer;

	if (op->kind != OP_GEMM || op->context != chain->context || op->stream != chain->stream ||
	    value_of(chain, op) < 0)
		return false;
	if (!chain->closing)
		return true;
	if (!same_product(first, &op->gemm))
		return false;

	const struct steps step =
		steps_of(first, chain->closing == 1 ? &op->gemm : &chain->closer_second);

	return forwards(&step) && is_nth(first, &op->gemm, chain->closing, &step);
}

/* The first so many of a closer. */
static void closer_of(const struct chain *chain, int64_t count, struct op_gemm *gemm)
{
	const struct steps step = steps_of(&chain->closer, &chain->closer_second);

	*gemm = chain->closer;
	if (gemm->parts > 1)
		gemm->batch = gemm_part(gemm) * count;
	else if (count > 1)
		gather(gemm, count, &step);
}

void parts_taken(const struct chain *chain, struct op_gemm *gemm)
{
	closer_of(chain, chain->closing, gemm);
}

/* P is as long as all parts of it. */
static void settle_p(struct chain *chain)
{
	const struct value *p = &chain->values[chain->closing_value];
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const int64_t numbers = opener->m * opener->n * opener->batch;

	chain_settle_length(chain, chain->closing_value,
			    p->begin + (uint64_t)(numbers * bytes_of_cuda(chain->closer.atype)));
}

bool parts_take(struct chain *chain, const struct op *op)
{
	const int64_t parts = chain->steps[0].gemm.parts;
	struct op_gemm all;

	chain->age = 0;
	if (!chain->closing) {
		waiting++;
		chain->closing_value = value_of(chain, op);
		chain->closer = op->gemm;
		settle_p(chain);
	} else if (chain->closing == 1) {
		chain->closer_second = op->gemm;
	}
	if (chain->closing + 1 < parts) {
		chain->closing++;
		return false;
	}
	waiting--;
	closer_of(chain, parts, &all);
	chain->closer = all;
	chain->p_value = chain->closing_value;
	return true;
}

bool parts_wait(void)
{
	return waiting > 0;
}

void parts_end(struct chain *chain)
{
	waiting -= chain->closing && chain->closer.parts <= 1;
	chain->closing = 0;
}
