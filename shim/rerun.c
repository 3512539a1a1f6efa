/* SPDX-License-Identifier: Apache-2.0
 *
 * The kept parameters, with other words where the pointers stand; and the two ways of making
 * virtual values real: in place, where every byte the steps would write is still virtual, else in
 * scratch with the standing bytes copied back.
 */
#include "rerun.h"

#include <string.h>

#include "blas.h"
#include "fused.h"
#include "held.h"
#include "resolve.h"
#include "scratch.h"

uint64_t rerun_pointer(const struct chain *chain, const struct step *step, int i)
{
	const struct ref *ref = &step->refs[i];
	uint64_t word;

	if (step->kind == OP_COPY)
		return chain->values[ref->index].begin;
	memcpy(&word, step->params + ref->where, 8);
	return word;
}

int rerun_launch(CUstream stream, const struct step *step, const uint64_t *place)
{
	unsigned char params[CHAIN_PARAM_BYTES];
	void *pointers[FUNCTION_MAX_PARAMS];

	memcpy(params, step->params, step->function->bytes);
	for (int i = 0; i < step->ref_count; i++)
		memcpy(params + step->refs[i].where, &place[i], 8);
	for (unsigned i = 0; i < step->function->param_count; i++)
		pointers[i] = params + step->function->param_offset[i];
	return driver.cuLaunchKernel(step->function->handle, step->grid[0], step->grid[1],
				     step->grid[2], step->block[0], step->block[1], step->block[2],
				     step->shared_bytes, stream, pointers, NULL) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

static int run_copy(const struct chain *chain, const struct step *step, const uint64_t *place)
{
	const struct value *to = &chain->values[step->refs[1].index];

	return driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)place[1], (CUdeviceptr)place[0],
					   to->end - to->begin, chain->stream) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

int rerun_step(const struct chain *chain, const struct step *step, const uint64_t place[CHAIN_REFS])
{
	return step->kind == OP_COPY ? run_copy(chain, step, place)
				     : rerun_launch(chain->stream, step, place);
}

/* ---- a whole chain -------------------------------------------------------------------------- */

/* Where value i lies while the steps are run again: at home, or in scratch. */
struct places {
	uint64_t value[CHAIN_VALUES];
};

static uint64_t place_of(const struct chain *chain, const struct places *places,
			 const struct ref *ref, uint64_t input_pointer)
{
	const struct input *input;

	if (ref->kind == REF_VALUE)
		return places->value[ref->index] + (uint64_t)ref->delta;
	input = &chain->inputs[ref->index];
	return input->snapshot ? input->snapshot + (input_pointer - input->begin) : input_pointer;
}

static int run_step(const struct chain *chain, const struct step *step, const struct places *places)
{
	uint64_t place[CHAIN_REFS];

	for (int i = 0; i < step->ref_count; i++)
		place[i] = place_of(chain, places, &step->refs[i], rerun_pointer(chain, step, i));
	return rerun_step(chain, step, place);
}

/* What GEMM1 adds to must be where it will look for it. */
static int put_preload(const struct chain *chain, const struct places *places)
{
	const struct input *input = &chain->inputs[chain->preload];
	const uint64_t from = input->snapshot ? input->snapshot : input->begin;

	return from == places->value[0] ||
			       driver.cuMemcpyDtoDAsync_v2(
				       (CUdeviceptr)places->value[0], (CUdeviceptr)from,
				       input->end - input->begin, chain->stream) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

static uint64_t input_place(const struct input *input)
{
	return input->snapshot ? input->snapshot : input->begin;
}

/* Where operand n of GEMM1 can be read. What is relayed is copied as the program wanted it;
 * *scratch: there. 0: no scratch. */
static uint64_t put_operand(const struct chain *chain, int n, uint64_t address, uint64_t *scratch)
{
	const struct input *input = &chain->inputs[n];
	const struct relayout *copy = &chain->relay[n];
	uint64_t place[2];

	*scratch = 0;
	if (chain->relayed[n] < 0)
		return input_place(input) + (address - input->begin);
	*scratch =
		scratch_get(chain->context, chain->stream, copy->out_end - copy->out_begin, true);
	place[0] = *scratch;
	place[1] = input_place(input);
	return *scratch && !rerun_launch(chain->stream, &copy->step, place)
		       ? *scratch + (address - copy->out_begin)
		       : 0;
}

static int run_steps(const struct chain *chain, const struct places *places)
{
	const struct step *first = &chain->steps[0];
	uint64_t a, b, scratch[2];
	int error = -1;

	if (chain->preload >= 0 && put_preload(chain, places))
		return -1;
	a = put_operand(chain, 0, first->gemm.a, &scratch[0]);
	b = put_operand(chain, 1, first->gemm.b, &scratch[1]);
	if (a && b)
		error = blas_run(&first->gemm, chain->context, chain->stream, a, b,
				 places->value[0] + (first->gemm.c - chain->values[0].begin));
	scratch_put(scratch[0], chain->stream);
	scratch_put(scratch[1], chain->stream);
	for (int i = 1; i < chain->step_count && !error; i++)
		error = run_step(chain, &chain->steps[i], places);
	return error;
}

/* In place only if nothing that the steps write belongs to anybody else by now, and no input that
 * is still read in place would be overwritten out of order. (What GEMM1 adds to is read before
 * anything is written.) */
static bool may_run_in_place(const struct chain *chain)
{
	struct range_set rest;

	for (int i = 0; i < chain->value_count; i++) {
		const struct value *value = &chain->values[i];

		range_set_one(&rest, value->begin, value->end);
		for (int k = 0; k < chain->value_count; k++) {
			if (chain->values[k].canaried)
				return false;
			for_each_range(r, &chain->values[k].live)
				if (range_set_cut(&rest, r->begin, r->end) < 0)
					return false;
		}
		if (rest.count)
			return false;
		for (int k = 0; k < chain->input_count; k++)
			if (!chain->inputs[k].snapshot && k != chain->preload &&
			    range_overlap(chain->inputs[k].begin, chain->inputs[k].end,
					  value->begin, value->end))
				return false;
	}
	return true;
}

static int run_in_scratch(struct chain *chain)
{
	struct places places = {{0}};
	int error = 0;

	for (int i = 0; i < chain->value_count; i++) {
		const struct value *value = &chain->values[i];

		places.value[i] =
			scratch_get(chain->context, chain->stream, value->end - value->begin, true);
		if (!places.value[i])
			error = -1;
	}
	if (!error)
		error = run_steps(chain, &places);
	for (int i = 0; i < chain->value_count && !error; i++) {
		const struct value *value = &chain->values[i];

		for_each_range(r, &value->live) {
			uint64_t begin = value->canaried ? rerun_granule_up(r->begin) : r->begin;

			held_guard_write(r->begin, r->end, chain->context, chain->stream, chain);
			if (begin < r->end)
				error |= fused_copy_standing(chain->context, chain->stream, begin,
							     places.value[i] +
								     (begin - value->begin),
							     r->end - begin, value->canaried);
		}
	}
	for (int i = 0; i < chain->value_count; i++)
		scratch_put(places.value[i], chain->stream);
	return error;
}

static int run_in_place(struct chain *chain)
{
	struct places places = {0};

	for (int i = 0; i < chain->value_count; i++) {
		places.value[i] = chain->values[i].begin;
		held_guard_write(chain->values[i].begin, chain->values[i].end, chain->context,
				 chain->stream, chain);
	}
	return run_steps(chain, &places);
}

int rerun_chain(struct chain *chain)
{
	/* Nothing of a captured chain's was touched by anybody yet. */
	return chain->captured || may_run_in_place(chain) ? run_in_place(chain)
							  : run_in_scratch(chain);
}
