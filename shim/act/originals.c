/* SPDX-License-Identifier: Apache-2.0
 *
 * Between chains, whose operands are A, B and V of two products, and calls of a kernel, whose
 * operands are Q, K and V: which copy made which of them.
 */
#include "shim/act/originals.h"

#include <string.h>

#include "shim/hazard/copies.h"
#include "shim/act/delivery.h"
#include "shim/op/memory.h"

/* Which of attention's operands the chain's operand n (A, B, V, C) is. */
static enum relayout_operand operand_of(const struct chain *chain, int n)
{
	if (n >= 2)
		return n == 2 ? RELAYOUT_V : RELAYOUT_BIAS;
	return (n == 0) != chain->transposed ? RELAYOUT_K : RELAYOUT_Q;
}

static struct attn_tensor *tensor_of(struct attn_args *args, int operand)
{
	struct attn_tensor *const tensor[] = {[RELAYOUT_Q] = &args->q,
					      [RELAYOUT_K] = &args->k,
					      [RELAYOUT_V] = &args->v,
					      [RELAYOUT_BIAS] = &args->spec.bias[0]};

	return tensor[operand];
}

/* Is the operand read from before a cast already? */
static bool narrowed(struct attn_args *args, const struct chain *chain, int n)
{
	return n < 2 && chain->narrow[n] >= 0 &&
	       tensor_of(args, operand_of(chain, n))->dtype == chain->cast[n].source;
}

/* The same, and the cast was not the last that happened to it: the copy behind it may be held back.
 */
static bool joined(struct attn_args *args, const struct chain *chain, int n)
{
	const struct relayout *copy = copies_intact(chain->made_by[n]);

	return copy && !relayout_casts(copy) && narrowed(args, chain, n);
}

static bool is_mixed(const struct attn_args *args)
{
	return args->q.dtype != args->v.dtype;
}

void originals_note(struct chain *chain)
{
	const bool wide = chain->steps[0].gemm.atype == CUDA_R_32F;

	for (int n = 0; n < 2; n++) {
		chain->made_by[n] =
			copies_origin(chain, chain->inputs[n].begin, chain->inputs[n].end);
		chain->cast_by[n] = wide ? copies_cast(chain->made_by[n], &chain->cast[n]) : 0;
	}
	if (chain->preload >= 0)
		chain->made_by[RELAYOUT_BIAS] =
			copies_origin(chain, chain->inputs[chain->preload].begin,
				      chain->inputs[chain->preload].end);
}

void originals_settle(struct chain *chain)
{
	for (int n = 0; n < 2; n++) {
		const struct relayout *cast = &chain->cast[n];

		chain->narrow[n] = -1;
		if (chain->steps[0].gemm.atype != chain->closer.atype &&
		    copies_intact(chain->cast_by[n]) &&
		    memory_watchable_range(cast->in_begin, cast->in_end))
			chain->narrow[n] = chain_add_input(chain, cast->in_begin, cast->in_end);
	}
}

bool originals_narrow(struct attn_args *args, const struct chain *chain, bool wide)
{
	const struct relayout *from[RELAYOUT_TENSORS] = {NULL};
	uint64_t in[RELAYOUT_TENSORS] = {0};

	if (!is_mixed(args) || wide)
		return true;
	for (int n = 0; n < 2; n++) {
		const struct relayout *cast = &chain->cast[n];
		const struct input *input;

		if (chain->narrow[n] < 0 || cast->source != args->v.dtype)
			return false;
		input = &chain->inputs[chain->narrow[n]];
		if (input->lost)
			return false;
		from[operand_of(chain, n)] = cast;
		in[operand_of(chain, n)] = input->snapshot ? input->snapshot : input->begin;
	}
	return relayout_apply(args, from, in);
}

bool originals_read(struct attn_args *args, const struct chain *chain,
		    const struct relayout *output, uint64_t at)
{
	const struct relayout *from[RELAYOUT_TENSORS] = {[RELAYOUT_O] = output};
	uint64_t in[RELAYOUT_TENSORS] = {[RELAYOUT_O] = at};

	for (int n = 0; n < RELAYOUT_OPERANDS; n++) {
		const struct input *input;

		if (chain->relayed[n] < 0 || narrowed(args, chain, n))
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

/* *delivered: with O in the order in which it would be written, which is known and possible. */
static bool apply_either_way(struct attn_args *args, struct attn_tensor *order,
			     const struct relayout *output,
			     const struct relayout *from[RELAYOUT_TENSORS],
			     const uint64_t in[RELAYOUT_TENSORS], bool *delivered)
{
	from[RELAYOUT_O] = output;
	*delivered = output && apply(args, order, from, in);
	from[RELAYOUT_O] = NULL;
	return *delivered || apply(args, order, from, in);
}

void originals_compare(struct attn_args *args, struct attn_tensor *order, const struct chain *chain)
{
	const struct relayout *from[RELAYOUT_TENSORS] = {NULL}, *output;
	uint64_t in[RELAYOUT_TENSORS] = {0};
	bool possible, delivered, read[RELAYOUT_OPERANDS];

	memset(order, 0, sizeof(*order));
	for (int n = 0; n < RELAYOUT_OPERANDS; n++) {
		const struct relayout *copy = copies_intact(chain->made_by[n]);

		/* fp32 PV rounds nothing to 16 bits, where what a cast read would be. */
		read[n] = copy && !relayout_casts(copy) && !narrowed(args, chain, n);
		if (!read[n])
			continue;
		from[operand_of(chain, n)] = copy;
		in[operand_of(chain, n)] = copy->in_begin;
	}
	output = delivery_known(chain->site, output_bytes(chain));
	possible = apply_either_way(args, order, output, from, in, &delivered);
	if (!possible && from[RELAYOUT_BIAS]) { /* Q, K and V do without it */
		from[RELAYOUT_BIAS] = NULL;
		read[RELAYOUT_BIAS] = false;
		possible = apply_either_way(args, order, output, from, in, &delivered);
	}
	if (output)
		delivery_compared(chain->site, delivered);
	for (int n = 0; n < RELAYOUT_OPERANDS; n++)
		copies_compared(chain->made_by[n], chain->site,
				possible && (read[n] || joined(args, chain, n)));
}
