/* SPDX-License-Identifier: Apache-2.0
 *
 * Between chains, whose operands are A, B and V of two products, and calls of a kernel, whose
 * operands are Q, K and V: which copy made which of them.
 */
#include "shim/act/originals.h"

#include <string.h>

#include "shim/hazard/copies.h"
#include "shim/act/delivery.h"

/* Which of attention's operands the chain's operand n (A, B, V) is. */
static enum relayout_operand operand_of(const struct chain *chain, int n)
{
	if (n == 2)
		return RELAYOUT_V;
	return (n == 0) != chain->transposed ? RELAYOUT_K : RELAYOUT_Q;
}

bool originals_read(struct attn_args *args, const struct chain *chain,
		    const struct relayout *output, uint64_t at)
{
	const struct relayout *from[RELAYOUT_TENSORS] = {[RELAYOUT_O] = output};
	uint64_t in[RELAYOUT_TENSORS] = {[RELAYOUT_O] = at};

	for (int n = 0; n < RELAYOUT_OPERANDS; n++) {
		const struct input *input;

		if (chain->relayed[n] < 0)
			continue;
		input = &chain->inputs[chain->relayed[n]];
		from[operand_of(chain, n)] = &chain->relay[n];
		in[operand_of(chain, n)] = input->snapshot ? input->snapshot : input->begin;
	}
	return relayout_apply(args, from, in);
}

/* As relayout_apply(), but the strides for O go to *order. */
static bool apply(struct attn_args *args, struct attn_tensor *order,
		  const struct relayout *const from[RELAYOUT_TENSORS],
		  const uint64_t in[RELAYOUT_TENSORS])
{
	struct attn_args found = *args;

	if (!relayout_apply(&found, from, in))
		return false;
	if (from[RELAYOUT_O]) {
		*order = found.o;
		found.o = args->o;
		if (found.B != args->B)
			found.o.stride[0] = found.H * found.o.stride[1];
	}
	*args = found;
	return true;
}

static uint64_t output_bytes(const struct chain *chain)
{
	struct gemm gemm;
	uint64_t begin, end;

	gemm_from_op(&gemm, &chain->closer);
	matrix_extent(&gemm.c, gemm.batch, &begin, &end);
	return end - begin;
}

void originals_compare(struct attn_args *args, struct attn_tensor *order, const struct chain *chain)
{
	const struct relayout *from[RELAYOUT_TENSORS] = {NULL};
	uint64_t in[RELAYOUT_TENSORS] = {0};
	bool possible;

	memset(order, 0, sizeof(*order));
	for (int n = 0; n < RELAYOUT_OPERANDS; n++) {
		const struct relayout *copy = copies_intact(chain->made_by[n]);

		if (!copy)
			continue;
		from[operand_of(chain, n)] = copy;
		in[operand_of(chain, n)] = copy->in_begin;
	}
	from[RELAYOUT_O] = delivery_known(chain->site, output_bytes(chain));
	if (from[RELAYOUT_O]) {
		possible = apply(args, order, from, in);
		delivery_compared(chain->site, possible);
		from[RELAYOUT_O] = NULL;
	} else {
		possible = false;
	}
	possible = possible || apply(args, order, from, in);
	for (int n = 0; n < RELAYOUT_OPERANDS; n++)
		copies_compared(chain->made_by[n], chain->site, possible);
}
