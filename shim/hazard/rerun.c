/* SPDX-License-Identifier: Apache-2.0
 *
 * The making of virtual values: in their own place, where every byte of it is still virtual, else
 * in scratch with the standing bytes copied back.
 */
#include "shim/hazard/rerun.h"

#include "shim/chain/parts.h"
#include "shim/gpu/blas.h"
#include "shim/hazard/held.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/step_launch.h"
#include "shim/hazard/snapshot.h"

/* ---- a whole chain -------------------------------------------------------------------------- */

/* Where value i lies while the steps are run again. */
struct places {
	uint64_t value[CHAIN_VALUES]; /* 0: nowhere, before its first step and behind its last */
	bool home[CHAIN_VALUES];      /* where the program has it; else in scratch */
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
		place[i] = place_of(chain, places, &step->refs[i], step_pointer(chain, step, i));
	return step_run(chain, step, place);
}

static uint64_t input_place(const struct input *input)
{
	return input->snapshot ? input->snapshot : input->begin;
}

static int move(const struct chain *chain, uint64_t to, uint64_t from, uint64_t bytes)
{
	return driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)to, (CUdeviceptr)from, bytes,
					   chain->stream) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

/* What GEMM1 adds to must be where it will look for it. */
static int put_preload(const struct chain *chain, const struct places *places)
{
	const struct input *input = &chain->inputs[chain->preload];
	const uint64_t place[2] = {places->value[0], input_place(input)};

	if (chain->relayed[RELAYOUT_BIAS] >= 0)
		return step_launch(chain->stream, &chain->relay[RELAYOUT_BIAS].step, place);
	return place[0] == place[1] ? 0
				    : move(chain, place[0], place[1], input->end - input->begin);
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
	return *scratch && !step_launch(chain->stream, &copy->step, place)
		       ? *scratch + (address - copy->out_begin)
		       : 0;
}

static bool uses(const struct step *step, int value)
{
	for (int i = 0; i < step->ref_count; i++)
		if (step->refs[i].kind == REF_VALUE && step->refs[i].index == value)
			return true;
	return false;
}

/* Is a step (0: GEMM1, which makes value 0) the first to use a value? */
static bool begins(const struct chain *chain, int step, int value)
{
	for (int i = 0; i < step; i++)
		if (uses(&chain->steps[i], value))
			return false;
	return value == 0 ? step == 0 : uses(&chain->steps[step], value);
}

static bool used_behind(const struct chain *chain, int step, int value)
{
	for (int i = step + 1; i < chain->step_count; i++)
		if (uses(&chain->steps[i], value))
			return true;
	return false;
}

/* A kernel without a rule may leave bytes alone that it wrote when it was measured: they keep what
 * lies in the value's place, where nobody wrote since. */
static int put_what_lies_there(const struct chain *chain, int step, int value, uint64_t room)
{
	int error = 0;

	if (chain->values[value].left && /* what it leaves alone is zero (holes.h) */
	    driver.cuMemsetD8Async((CUdeviceptr)room, 0,
				   chain->values[value].end - chain->values[value].begin,
				   chain->stream) != CUDA_SUCCESS)
		return -1;
	if (chain->steps[step].kind != OP_LAUNCH || chain->steps[step].meaning.role != ROLE_UNKNOWN)
		return 0;
	for_each_range(r, &chain->values[value].live)
		error |= move(chain, room + (r->begin - chain->values[value].begin), r->begin,
			      r->end - r->begin);
	return error;
}

/* Room for what the step is the first to use. */
static int make_room(const struct chain *chain, int step, struct places *places)
{
	for (int i = 0; i < chain->value_count; i++) {
		const struct value *value = &chain->values[i];

		if (places->home[i] || !begins(chain, step, i))
			continue;
		places->value[i] =
			scratch_get(chain->context, chain->stream, value->end - value->begin, true);
		if (!places->value[i] || put_what_lies_there(chain, step, i, places->value[i]))
			return -1;
	}
	return 0;
}

static void give_back(const struct chain *chain, struct places *places, int value)
{
	if (!places->home[value])
		scratch_put(places->value[value], chain->stream);
	places->value[value] = 0;
}

/* Of a chain's values, two or three exist at a time: what neither a later step nor anybody else
 * will read makes room for the next. */
static void clear_room(const struct chain *chain, int step, struct places *places)
{
	for (int i = 0; i < chain->value_count; i++)
		if (places->value[i] && !chain->values[i].live.count &&
		    !used_behind(chain, step, i))
			give_back(chain, places, i);
}

static int run_first(const struct chain *chain, const struct places *places)
{
	const struct op_gemm *gemm = &chain->steps[0].gemm;
	uint64_t a, b, scratch[2];
	int error = -1;

	if (chain->preload >= 0 && put_preload(chain, places))
		return -1;
	a = put_operand(chain, 0, gemm->a, &scratch[0]);
	b = put_operand(chain, 1, gemm->b, &scratch[1]);
	if (a && b)
		error = blas_run(gemm, chain->context, chain->stream, a, b,
				 places->value[0] + (gemm->c - chain->values[0].begin));
	scratch_put(scratch[0], chain->stream);
	scratch_put(scratch[1], chain->stream);
	return error;
}

static int run_steps(const struct chain *chain, struct places *places)
{
	int error = 0;

	for (int i = 0; i < chain->step_count && !error; i++) {
		error = make_room(chain, i, places);
		if (!error)
			error = i ? run_step(chain, &chain->steps[i], places)
				  : run_first(chain, places);
		clear_room(chain, i, places);
	}
	return error;
}

/* Is nothing that lies in a value's place anybody else's by now, nor an input that is still to be
 * read there? (What GEMM1 adds to is read before anything is written.) */
static bool may_lie_at_home(const struct chain *chain, const struct value *value)
{
	struct range_set rest;

	if (chain->comb.width &&
	    range_overlap(chain->comb.begin, chain->comb.end, value->begin, value->end))
		return false;
	range_set_one(&rest, value->begin, value->end);
	for (int k = 0; k < chain->value_count; k++)
		for_each_range(r, &chain->values[k].live)
			if (range_set_cut(&rest, r->begin, r->end) < 0)
				return false;
	for (int k = 0; k < chain->input_count; k++)
		if (!chain->inputs[k].snapshot && k != chain->preload &&
		    range_overlap(chain->inputs[k].begin, chain->inputs[k].end, value->begin,
				  value->end))
			return false;
	return !rest.count;
}

/* Nothing of a captured chain's was touched by anybody yet. */
static void choose_places(const struct chain *chain, struct places *places)
{
	for (int i = 0; i < chain->value_count; i++) {
		const struct value *value = &chain->values[i];

		places->home[i] = chain->captured || may_lie_at_home(chain, value);
		if (!places->home[i])
			continue;
		places->value[i] = value->begin;
		held_guard_write(value->begin, value->end, chain_queue(chain), chain);
	}
}

/* What lies between the pieces of the comb, from the first of them in [begin, end) on; `from`: of
 * the byte at `begin`. */
static int move_between(const struct chain *chain, uint64_t begin, uint64_t end, uint64_t from)
{
	const uint64_t width = chain->comb.width, pitch = chain->comb.pitch;
	const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
				    .srcDevice = (CUdeviceptr)(from + width),
				    .srcPitch = pitch,
				    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
				    .dstDevice = (CUdeviceptr)(begin + width),
				    .dstPitch = pitch,
				    .WidthInBytes = pitch - width,
				    .Height = (end - begin) / pitch};

	return !rows.Height || (driver.cuMemcpy2DAsync_v2 &&
				driver.cuMemcpy2DAsync_v2(&rows, chain->stream) == CUDA_SUCCESS)
		       ? 0
		       : -1;
}

/* A standing range: before the comb, between its pieces, and behind it. */
static int write_range(const struct chain *chain, const struct range *r, uint64_t from)
{
	const struct comb *comb = &chain->comb;
	uint64_t begin = comb->begin > r->begin ? comb->begin : r->begin;
	uint64_t end = comb->end < r->end ? comb->end : r->end;
	int error = 0;

	if (!comb->width || begin >= end)
		return move(chain, r->begin, from, r->end - r->begin);
	if (begin > r->begin)
		error |= move(chain, r->begin, from, begin - r->begin);
	error |= move_between(chain, begin, end, from + (begin - r->begin));
	if (end < r->end)
		error |= move(chain, end, from + (end - r->begin), r->end - end);
	return error;
}

/* The standing bytes of what was made in scratch. */
static int write_back(const struct chain *chain, int i, const struct places *places)
{
	const struct value *value = &chain->values[i];
	int error = 0;

	for_each_range(r, &value->live) {
		held_guard_write(r->begin, r->end, chain_queue(chain), chain);
		error |= write_range(chain, r, places->value[i] + (r->begin - value->begin));
	}
	return error;
}

static int run_again(const struct chain *chain)
{
	struct places places = {0};
	int error;

	choose_places(chain, &places);
	error = run_steps(chain, &places);
	for (int i = 0; i < chain->value_count && !error; i++)
		if (!places.home[i] && places.value[i])
			error = write_back(chain, i, &places);
	for (int i = 0; i < chain->value_count; i++)
		give_back(chain, &places, i);
	return error;
}

/* Of what was saved in part, the rest is where it was. */
static int complete_snapshots(struct chain *chain)
{
	for (int i = 0; i < chain->input_count; i++)
		if (chain->inputs[i].snapshot && !snapshot_take(chain, i))
			return -1;
	return 0;
}

int rerun_chain(struct chain *chain)
{
	if (complete_snapshots(chain))
		return -1;
	return run_again(chain);
}

int rerun_parts(const struct chain *chain)
{
	struct op_gemm gemm;

	parts_taken(chain, &gemm);
	return blas_run(&gemm, chain->context, chain->stream, gemm.a, gemm.b, gemm.c);
}
