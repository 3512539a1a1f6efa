/* SPDX-License-Identifier: Apache-2.0
 *
 * Hazards. The rules of held.h, and the two ways of making virtual values real: in place, where
 * every byte the steps would write is still virtual, else in scratch with the standing bytes copied
 * back.
 */
#include "held.h"

#include <stdio.h>
#include <string.h>

#include "blas.h"
#include "config.h"
#include "driver_context.h"
#include "fused.h"
#include "log.h"
#include "memory.h"
#include "resolve.h"
#include "scratch.h"
#include "site.h"

int held_count;

bool held_virtual(const struct chain *chain)
{
	if (!chain->deferred)
		return false;
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].live.count)
			return true;
	return false;
}

static bool any_live(const struct chain *chain)
{
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].live.count)
			return true;
	return false;
}

void held_drop(struct chain *chain)
{
	if (!chain->used)
		return;
	for (int i = 0; i < chain->input_count; i++)
		scratch_put(chain->inputs[i].snapshot, chain->stream);
	if (chain->deferred)
		held_count--;
	chain_free(chain);
}

/* ---- making values real --------------------------------------------------------------------- */

/* Where value i lies while the steps are run again: at home, or in scratch. */
struct places {
	uint64_t value[CHAIN_VALUES];
	bool scratch;
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

static int run_launch(const struct chain *chain, const struct step *step,
		      const struct places *places)
{
	unsigned char params[CHAIN_PARAM_BYTES];
	void *pointers[FUNCTION_MAX_PARAMS];

	memcpy(params, step->params, step->function->bytes);
	for (int i = 0; i < step->ref_count; i++) {
		uint64_t word;

		memcpy(&word, step->params + step->refs[i].where, 8);
		word = place_of(chain, places, &step->refs[i], word);
		memcpy(params + step->refs[i].where, &word, 8);
	}
	for (unsigned i = 0; i < step->function->param_count; i++)
		pointers[i] = params + step->function->param_offset[i];
	return driver.cuLaunchKernel(step->function->handle, step->grid[0], step->grid[1],
				     step->grid[2], step->block[0], step->block[1], step->block[2],
				     step->shared_bytes, chain->stream, pointers,
				     NULL) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

static int run_copy(const struct chain *chain, const struct step *step, const struct places *places)
{
	const struct value *to = &chain->values[step->refs[1].index];

	return driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)places->value[step->refs[1].index],
					   (CUdeviceptr)places->value[step->refs[0].index],
					   to->end - to->begin, chain->stream) == CUDA_SUCCESS
		       ? 0
		       : -1;
}

static int run_steps(const struct chain *chain, const struct places *places)
{
	const struct step *first = &chain->steps[0];
	uint64_t a = first->gemm.a, b = first->gemm.b;
	int error;

	if (chain->inputs[0].snapshot)
		a = chain->inputs[0].snapshot + (a - chain->inputs[0].begin);
	if (chain->inputs[1].snapshot)
		b = chain->inputs[1].snapshot + (b - chain->inputs[1].begin);
	error = blas_run(&first->gemm, chain->context, chain->stream, a, b,
			 places->value[0] + (first->gemm.c - chain->values[0].begin));
	for (int i = 1; i < chain->step_count && !error; i++)
		error = chain->steps[i].kind == OP_COPY
				? run_copy(chain, &chain->steps[i], places)
				: run_launch(chain, &chain->steps[i], places);
	return error;
}

/* In place only if nothing that the steps write belongs to anybody else by now, and no input that
 * is still read in place would be overwritten out of order. */
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
			if (!chain->inputs[k].snapshot &&
			    range_overlap(chain->inputs[k].begin, chain->inputs[k].end,
					  value->begin, value->end))
				return false;
	}
	return true;
}

/* Canaries stand at multiples of the granule, so that cutting a range does not move them. What lies
 * before the first whole granule shares it with bytes that were overwritten. */
static uint64_t granule_up(uint64_t address)
{
	return (address + CANARY_GRANULE - 1) & ~(uint64_t)(CANARY_GRANULE - 1);
}

static int run_in_scratch(struct chain *chain)
{
	struct places places = {.scratch = true};
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
			uint64_t begin = value->canaried ? granule_up(r->begin) : r->begin;

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
	struct places places = {.scratch = false};

	for (int i = 0; i < chain->value_count; i++) {
		places.value[i] = chain->values[i].begin;
		held_guard_write(chain->values[i].begin, chain->values[i].end, chain->context,
				 chain->stream, chain);
	}
	return run_steps(chain, &places);
}

static void note_realised(struct chain *chain, const char *who, bool certain)
{
	struct site *site = chain->site;
	uint64_t bytes = 0;

	if (!site)
		return;
	for (int i = 0; i < chain->value_count; i++)
		bytes += range_set_bytes(&chain->values[i].live);
	site->live->materialised++;
	if (site->live->materialised <= 16) {
		struct json *json = log_record("materialise");

		json_int(json, "site", site->number);
		json_string(json, "by", who);
		json_uint(json, "bytes", bytes);
		log_commit(json);
	}
	/* A reader that comes back makes fusing pointless. One stray op at the end of a forward
	 * does not: a kernel without a rule that reuses the memory, a graph launch that might look
	 * at anything. */
	if (chain->closed && site->live->materialised >= (certain ? 2 : 8) &&
	    site->live->materialised * (certain ? 3 : 2) > site->live->replaced)
		site_decline(site, REASON_SCORES_READ_BY, who);
}

static bool context_lives(void)
{
	size_t free_bytes, total;

	return driver.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS;
}

void held_realise(struct chain *chain, CUstream reader, const char *who, bool certain)
{
	struct driver_context here;
	int error = -1;

	if (!held_virtual(chain)) {
		if (chain->closed)
			held_drop(chain);
		return;
	}
	note_realised(chain, who, certain);
	if (driver_enter(&here, chain->context)) {
		error = may_run_in_place(chain) ? run_in_place(chain) : run_in_scratch(chain);
		driver_order(chain->stream, reader);
		driver_leave(&here);
	}
	/* At the end of the process the context may be gone already, and with it whoever could
	 * look. */
	if (error && context_lives())
		log_violation("site %d: held-back scores could not be computed",
			      chain->site ? chain->site->number : 0);
	chain->deferred = false;
	chain->candidates = NULL;
	held_count--;
	for (int i = 0; i < chain->value_count; i++)
		chain->values[i].canaried = false;
	if (chain->closed)
		held_drop(chain);
}

void held_realise_all(const char *who)
{
	/* Oldest first: a later chain's inputs may be an earlier chain's values. */
	while (held_count > 0) {
		struct chain *oldest = NULL;

		for_each_chain(chain) if (chain->deferred &&
					  (!oldest || chain->serial < oldest->serial)) oldest =
			chain;
		if (!oldest)
			break;
		held_realise(oldest, oldest->stream, who, false);
		if (oldest->used && oldest->deferred) { /* nothing virtual in it, yet open */
			oldest->deferred = false;
			held_count--;
		}
	}
}

/* ---- inputs --------------------------------------------------------------------------------- */

bool held_snapshot(struct chain *chain, int index, CUstream stream)
{
	struct input *input = &chain->inputs[index];
	const uint64_t bytes = input->end - input->begin;
	struct driver_context here;
	bool done = false;

	if (input->snapshot)
		return true;
	if (!driver_enter(&here, chain->context))
		return false;
	input->snapshot = scratch_get(chain->context, stream, bytes, false);
	if (input->snapshot) {
		done = driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)input->snapshot,
						   (CUdeviceptr)input->begin, bytes,
						   stream) == CUDA_SUCCESS;
		driver_order(stream, chain->stream);
		if (!done) {
			scratch_put(input->snapshot, stream);
			input->snapshot = 0;
		}
	}
	driver_leave(&here);
	if (done && chain->site)
		chain->site->live->snapshots++;
	return done;
}

/* Inputs of the chain that [begin, end) may overwrite: save them, or give the chain up. */
static void guard_inputs(struct chain *chain, uint64_t begin, uint64_t end, CUstream stream)
{
	for (int i = 0; i < chain->input_count && chain->used; i++) {
		struct input *input = &chain->inputs[i];

		if (input->snapshot || input->lost ||
		    !range_overlap(input->begin, input->end, begin, end))
			continue;
		if (chain->deferred) {
			if (!held_snapshot(chain, i, stream))
				held_realise(chain, stream, "scratch", false);
		} else if (chain->closed || !chain->timed || !held_snapshot(chain, i, stream)) {
			input->lost = true;
		}
	}
}

void held_guard_inputs(struct chain *chain, const struct op *op, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			guard_inputs(chain, list->item[i].begin, list->item[i].end, op->stream);
}

/* ---- values --------------------------------------------------------------------------------- */

static void set_canaries(struct chain *chain, CUstream stream)
{
	struct driver_context here;

	/* A canary must not land in an input that a re-run still reads. */
	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &chain->values[i].live)
			guard_inputs(chain, r->begin, r->end, chain->stream);
	if (!held_virtual(chain) || !driver_enter(&here, chain->context))
		return;
	for (int i = 0; i < chain->value_count; i++) {
		struct value *value = &chain->values[i];

		for_each_range(r, &value->live) {
			held_guard_write(r->begin, r->end, chain->context, chain->stream, chain);
			if (granule_up(r->begin) < r->end)
				fused_canary_set(chain->context, chain->stream,
						 granule_up(r->begin), r->end);
		}
		value->canaried = true;
	}
	driver_order(chain->stream, stream);
	driver_leave(&here);
}

void held_poison(struct chain *chain)
{
	struct driver_context here;

	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &chain->values[i].live)
			guard_inputs(chain, r->begin, r->end, chain->stream);
	if (!held_virtual(chain) || !driver_enter(&here, chain->context))
		return;
	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &chain->values[i].live) {
			held_guard_write(r->begin, r->end, chain->context, chain->stream, chain);
			driver.cuMemsetD32Async((CUdeviceptr)((r->begin + 3) & ~3ull), CANARY_WORD,
						(r->end - ((r->begin + 3) & ~3ull)) / 4,
						chain->stream);
		}
	driver_leave(&here);
}

/* Somebody outside the chain read real scores while the site is learned. `certain`: the op's
 * accesses are known; otherwise an unknown kernel was handed the value's own address, which may
 * also mean that the memory was reused for its output, so that it takes more than one sighting. */
static void note_reader(struct chain *chain, bool certain, const char *who)
{
	struct site *site = chain->site;

	if (!chain->closed) {
		if (chain->unfit == REASON_NONE) {
			chain->unfit = REASON_SCORES_READ_BY;
			snprintf(chain->detail, sizeof(chain->detail), "%s", who);
		}
		return;
	}
	if (!site || site->state == SITE_DECLINED || (!certain && chain->suspected))
		return;
	chain->suspected = true;
	if (certain || ++site->readers >= 3)
		site_decline(site, REASON_SCORES_READ_BY, who);
}

/* One access against one value. False: the value's chain must be made real first. */
static bool meet(struct chain *chain, struct value *value, const struct access *access,
		 bool *overrun, const char *who)
{
	const bool inside = range_set_touches(&value->live, access->begin, access->begin + 1);

	if (!range_set_touches(&value->live, access->begin, access->end))
		return true;
	if (access->mode == ACCESS_WRITE && access->sure_end > access->begin) {
		if (range_set_cut(&value->live, access->begin, access->sure_end) < 0)
			return false;
		if (!range_set_touches(&value->live, access->begin, access->end))
			return true;
	}
	if (!chain->deferred) {
		if (value->provisional || value->outside)
			; /* may well be an input, which anybody may read */
		else if (access->mode == ACCESS_READ && (inside || access->bounded))
			note_reader(chain, true, who);
		else if (access->mode == ACCESS_UNKNOWN && access->begin == value->begin)
			note_reader(chain, false, who);
		/* From here on these bytes may be somebody else's: do not take their readers for
		 * ours. */
		if (access->mode != ACCESS_READ && inside)
			range_set_cut(&value->live, access->begin, access->end);
		return true;
	}
	if (access->bounded || (inside && access->mode != ACCESS_WRITE))
		return false;
	if (!value->canaried)
		*overrun = true;
	return true;
}

static int saved_inputs(const struct chain *chain)
{
	int count = 0;

	for (int i = 0; i < chain->input_count; i++)
		count += chain->inputs[i].snapshot != 0;
	return count;
}

/* A copy from the host that the program waits for is as good as done when it returns, also for
 * streams that do not wait for the default one. It must not queue behind a copy of ours. */
static void wait_as_program_does(const struct op *op)
{
	struct driver_context here;

	if (op->kind != OP_COPY || !op->copy.from_host || strstr(op->name, "Async") ||
	    !driver_enter(&here, op->context))
		return;
	driver.cuStreamSynchronize(op->stream);
	driver_leave(&here);
}

static void guard_chain(struct chain *chain, const struct op *op, const struct access_list *list,
			bool executed, const char *who)
{
	bool overrun = false, whole = true, near = false, certain = false;
	const int saved = saved_inputs(chain);

	for (int i = 0; i < list->count && !near; i++)
		near = range_overlap(list->item[i].begin, list->item[i].end, chain->low,
				     chain->high);
	if (!near)
		return;
	for (int i = 0; i < list->count && whole; i++)
		for (int k = 0; k < chain->value_count && whole; k++)
			if ((list->item[i].mode & ACCESS_READ) || !list->item[i].bounded) {
				whole = meet(chain, &chain->values[k], &list->item[i], &overrun,
					     who);
				certain = list->item[i].mode == ACCESS_READ;
			}
	for (int i = 0; i < list->count && whole; i++)
		for (int k = 0; k < chain->value_count && whole; k++)
			if (list->item[i].mode == ACCESS_WRITE && list->item[i].bounded)
				whole = meet(chain, &chain->values[k], &list->item[i], &overrun,
					     who);
	if (!whole) {
		held_realise(chain, op->stream, who, certain);
		if (chain->used && chain->unfit == REASON_NONE) {
			chain->unfit = REASON_SCORES_READ_BY;
			snprintf(chain->detail, sizeof(chain->detail), "%s", who);
		}
	} else if (overrun)
		set_canaries(chain, op->stream);
	if (!chain->used)
		return;
	if (!any_live(chain)) {
		held_drop(chain);
		return;
	}
	/* A blocking free waits for the device: the copy belongs where the input was made. */
	for (int i = 0; i < list->count && executed && chain->used; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			guard_inputs(chain, list->item[i].begin, list->item[i].end,
				     op->kind == OP_FREE && op->stream == CU_STREAM_LEGACY
					     ? chain->stream
					     : op->stream);
	if (chain->used && saved_inputs(chain) > saved)
		wait_as_program_does(op);
}

void held_guard(const struct op *op, const struct access_list *list, const struct chain *except,
		bool executed, const char *who)
{
	if (list->opaque) {
		held_realise_all(who);
		return;
	}
	if (!list->count)
		return;
	for_each_chain(chain) if (chain != except) guard_chain(chain, op, list, executed, who);
}

void held_guard_write(uint64_t begin, uint64_t end, CUcontext context, CUstream stream,
		      const struct chain *except)
{
	(void)context;
	for_each_chain(chain) if (chain != except &&
				  (chain->deferred || (!chain->closed && chain->timed)))
		guard_inputs(chain, begin, end, stream);
}
