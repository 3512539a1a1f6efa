/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies in scratch, made in stream order; waiting is by an event and with a limit.
 */
#include "shim/ask/mirror.h"

#include <string.h>

#include "shim/base/clock.h"
#include "shim/ask/extent.h"
#include "shim/base/config.h"
#include "shim/gpu/fused.h"
#include "shim/code/kernel_code.h"
#include "shim/op/memory.h"
#include "shim/gpu/step_launch.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"

#define PATIENCE 200000000ull

/* Around what kernels touch: they are as far from its ends as vectors reach, and lie as aligned. */
#define MARGIN (1u << 20)

static unsigned char *pinned;
static CUcontext pinned_by; /* the context that takes it along when it goes */
static bool late;	    /* a wait was in vain … */
static CUevent unfinished;  /* … until this one was: host memory may still be written to */

/* ---- whether --------------------------------------------------------------------------------- */

static bool mirrors_talks(const struct function *function)
{
	return strstr(function->name, "nccl") || strstr(function->name, "nvshmem");
}

/* Something else lies where an input was: launching again on that would be reckless. */
static bool inputs_gone(const struct chain *chain)
{
	for (int i = 1; i < chain->value_count; i++)
		if (chain->values[i].provisional && !chain->values[i].used && i != chain->p_value &&
		    !range_set_touches(&chain->values[i].live, chain->values[i].begin,
				       chain->values[i].begin + 1))
			return true;
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++) {
			const struct ref *ref = &chain->steps[s].refs[i];

			if (ref->kind == REF_INPUT && chain->inputs[ref->index].lost)
				return true;
		}
	return false;
}

static bool is_somewhere(uint64_t address)
{
	return memory_find(address) != NULL;
}

/* What a kernel that is launched again must not do is known from its code, or it is not launched.
 */
const char *mirrors_objection(const struct function *function, const unsigned grid[3],
			      const unsigned block[3], const unsigned char *params)
{
	const char *hindrance;

	if (config()->ask == ASK_OFF)
		return "FASHIM_ASK=off";
	if (mirrors_talks(function))
		return "a kernel that waits for other GPUs";
	/* It would not be pointed to its copy. */
	if (function_hides_address(function, params, is_somewhere))
		return "an address that lies across its parameters";
	hindrance = kernel_code_hindrance(function->handle, function->name, function->code);
	/* It may be in code that this launch has no way to, as that of assertions about its
	 * numbers. */
	return hindrance && extent_contained(function, grid, block, params) ? NULL : hindrance;
}

static const char *any_objection(const struct chain *chain)
{
	for (int s = 1; s < chain->step_count; s++) {
		const struct step *step = &chain->steps[s];
		const char *objection = step->function
						? mirrors_objection(step->function, step->grid,
								    step->block, step->params)
						: NULL;

		if (objection)
			return objection;
	}
	return NULL;
}

const char *mirrors_hindrance(const struct chain *chain)
{
	if (inputs_gone(chain))
		return "what a kernel read was overwritten before it could be launched again";
	return any_objection(chain);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Is what an earlier wait gave up on done by now? */
static bool finished(void)
{
	if (unfinished && driver.cuEventQuery(unfinished) == CUDA_ERROR_NOT_READY)
		return false;
	if (unfinished)
		driver.cuEventDestroy_v2(unfinished);
	unfinished = NULL;
	late = false;
	return true;
}

bool mirrors_begin(struct mirrors *mirrors, CUcontext context, CUstream stream)
{
	memset(mirrors, 0, sizeof(*mirrors));
	mirrors->context = context;
	mirrors->stream = stream;
	if (!pinned) {
		void *memory = NULL;

		if (driver.cuMemAllocHost_v2(&memory, MIRROR_HOST) != CUDA_SUCCESS)
			return false;
		pinned = memory;
		pinned_by = context;
	}
	mirrors->host = pinned;
	return finished() &&
	       driver.cuEventCreate(&mirrors->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
}

void mirrors_forget(CUcontext context)
{
	if (context && context != pinned_by)
		return;
	pinned = NULL;
	unfinished = NULL;
	late = false;
}

bool mirrors_add(struct mirrors *mirrors, uint64_t pointer)
{
	const struct allocation *allocation = memory_find(pointer);
	int at = 0;

	if (!memory_watchable(allocation))
		return false;
	while (at < mirrors->count && mirrors->item[at].begin != allocation->base)
		at++;
	if (at == MIRRORS)
		return false;
	if (at == mirrors->count)
		mirrors->item[mirrors->count++] = (struct mirror){
			.begin = allocation->base, .end = allocation->base + allocation->bytes};
	return true;
}

/* That much of the allocation: a program may have all its memory in one, and what lies between is
 * none of the kernels'. */
static bool add_part(struct mirrors *mirrors, uint64_t begin, uint64_t end)
{
	const struct allocation *allocation = memory_find(begin);
	uint64_t last;
	int at = 0;

	if (!memory_watchable(allocation))
		return false;
	last = allocation->base + allocation->bytes;
	begin = begin - allocation->base > MARGIN ? (begin - MARGIN) & ~(uint64_t)(MARGIN - 1)
						  : allocation->base;
	begin = begin > allocation->base ? begin : allocation->base;
	end = end < last && last - end > MARGIN ? end + MARGIN : last;
	while (at < mirrors->count) { /* what overlaps becomes one */
		const struct mirror other = mirrors->item[at];

		if (!range_overlap(other.begin, other.end, begin, end)) {
			at++;
			continue;
		}
		begin = other.begin < begin ? other.begin : begin;
		end = other.end > end ? other.end : end;
		mirrors->item[at] = mirrors->item[--mirrors->count];
		at = 0;
	}
	if (at == MIRRORS)
		return false;
	mirrors->item[mirrors->count++] = (struct mirror){.begin = begin, .end = end};
	return true;
}

/* Is it known of all steps where they go, whatever they find there? */
static bool all_bounded(const struct chain *chain)
{
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++) {
			const struct ref *ref = &chain->steps[s].refs[i];
			const uint64_t pointer = step_pointer(chain, &chain->steps[s], i);
			const struct allocation *allocation =
				memory_find(pointer + (uint64_t)ref->first);

			if (!ref->bounded || !allocation ||
			    pointer + (uint64_t)ref->beyond > allocation->base + allocation->bytes)
				return false;
		}
	return true;
}

static bool add_all(struct mirrors *mirrors)
{
	const struct chain *chain = mirrors->chain;
	const bool bounded = all_bounded(chain);

	mirrors->bounded = bounded;
	if (bounded ? !add_part(mirrors, chain->values[0].begin, chain->values[0].end)
		    : !mirrors_add(mirrors, chain->values[0].begin))
		return false;
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++) {
			const struct ref *ref = &chain->steps[s].refs[i];
			const uint64_t pointer = step_pointer(chain, &chain->steps[s], i);

			if (bounded ? !add_part(mirrors, pointer + (uint64_t)ref->first,
						pointer + (uint64_t)ref->beyond)
				    : !mirrors_add(mirrors, pointer))
				return false;
		}
	return true;
}

bool mirrors_make(struct mirrors *mirrors)
{
	for (int i = 0; i < mirrors->count; i++) {
		struct mirror *mirror = &mirrors->item[i];

		mirror->copy = scratch_get(mirrors->context, mirrors->stream,
					   mirror->end - mirror->begin, false);
		if (!mirror->copy)
			return false;
	}
	return true;
}

bool mirrors_any_address(const struct addresses_result *found)
{
	for (uint64_t i = 0; i < found->count && i < ADDRESSES_FOUND; i++)
		if (memory_find(found->word[i]))
			return true;
	return found->count > ADDRESSES_FOUND;
}

int mirrors_find_addresses(CUcontext context, CUstream stream, uint64_t base, uint64_t bytes,
			   uint64_t room)
{
	struct memory_stretch stretch[MEMORY_STRETCHES];
	const int stretches = memory_stretches(stretch);
	int error = 0;

	for (int i = 0; i < stretches && !error; i++) {
		const struct addresses_args args = {.base = base,
						    .bytes = bytes,
						    .low = stretch[i].low,
						    .high = stretch[i].high,
						    .result = room};

		error = fused_find_addresses(context, stream, &args);
	}
	return error;
}

bool mirrors_self_contained(struct mirrors *mirrors)
{
	const uint64_t room = scratch_get(mirrors->context, mirrors->stream,
					  sizeof(struct addresses_result), false);
	bool done = room &&
		    driver.cuMemsetD8Async((CUdeviceptr)room, 0, sizeof(struct addresses_result),
					   mirrors->stream) == CUDA_SUCCESS;

	for (int i = 0; i < mirrors->count && done; i++) {
		const struct mirror *mirror = &mirrors->item[i];

		done = !mirrors_find_addresses(mirrors->context, mirrors->stream, mirror->copy,
					       mirror->end - mirror->begin, room);
	}
	done = done &&
	       driver.cuMemcpyDtoHAsync_v2(mirrors->host, (CUdeviceptr)room,
					   sizeof(struct addresses_result),
					   mirrors->stream) == CUDA_SUCCESS &&
	       mirrors_await(mirrors);
	scratch_put(room, mirrors->stream);
	if (done && mirrors_any_address((const struct addresses_result *)mirrors->host)) {
		mirrors->hindrance = "addresses lie in the memory that a kernel is pointed to";
		return false;
	}
	return done;
}

bool mirrors_open(struct mirrors *mirrors, const struct chain *chain)
{
	const bool begun = mirrors_begin(mirrors, chain->context, chain->stream);

	mirrors->chain = chain;
	return begun && add_all(mirrors) && mirrors_make(mirrors) && mirrors_refresh(mirrors) &&
	       (mirrors->bounded || mirrors_self_contained(mirrors));
}

void mirrors_close(struct mirrors *mirrors)
{
	/* large, and not needed again; what is not done may take for ever */
	const bool trim = mirrors->event && !late && mirrors_await(mirrors);

	for (int i = 0; i < mirrors->count; i++)
		scratch_put(mirrors->item[i].copy, mirrors->stream);
	if (trim)
		scratch_trim(mirrors->context);
	if (mirrors->event && late)
		unfinished = mirrors->event;
	else if (mirrors->event)
		driver.cuEventDestroy_v2(mirrors->event);
	mirrors->event = NULL;
	mirrors->count = 0;
}

bool mirrors_refresh(const struct mirrors *mirrors)
{
	for (int i = 0; i < mirrors->count; i++) {
		const struct mirror *mirror = &mirrors->item[i];

		if (driver.cuMemcpyDtoDAsync_v2(
			    (CUdeviceptr)mirror->copy, (CUdeviceptr)mirror->begin,
			    mirror->end - mirror->begin, mirrors->stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

const struct mirror *mirrors_find(const struct mirrors *mirrors, uint64_t pointer)
{
	for (int i = 0; i < mirrors->count; i++)
		if (pointer >= mirrors->item[i].begin && pointer < mirrors->item[i].end)
			return &mirrors->item[i];
	return NULL;
}

uint64_t mirrors_place(const struct mirrors *mirrors, uint64_t pointer, uint64_t *room)
{
	const struct mirror *mirror = mirrors_find(mirrors, pointer);

	if (mirror && room)
		*room = mirror->end - pointer;
	return mirror ? mirror->copy + (pointer - mirror->begin) : 0;
}

uint64_t mirrors_room(const struct mirrors *mirrors, uint64_t pointer)
{
	const struct chain *chain = mirrors->chain;
	uint64_t room = 0;

	mirrors_place(mirrors, pointer, &room);
	if (chain->values[0].begin > pointer && chain->values[0].begin - pointer < room)
		room = chain->values[0].begin - pointer;
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++) {
			const uint64_t other = step_pointer(chain, &chain->steps[s], i);

			if (other > pointer && other - pointer < room)
				room = other - pointer;
		}
	return room;
}

/* ---- work ------------------------------------------------------------------------------------ */

bool mirrors_run(const struct mirrors *mirrors, const struct step *step)
{
	uint64_t place[CHAIN_REFS];

	for (int i = 0; i < step->ref_count; i++)
		place[i] = mirrors_place(mirrors, step_pointer(mirrors->chain, step, i), NULL);
	return step_run(mirrors->chain, step, place) == 0;
}

bool mirrors_launch(const struct mirrors *mirrors, const struct function *function,
		    const struct op_launch *launch, const unsigned char *params)
{
	static unsigned char there[FUNCTION_MAX_BYTES]; /* flow lock */
	void *pointers[FUNCTION_MAX_PARAMS];
	uint64_t word, place;
	unsigned at;

	memcpy(there, params, function->bytes);
	for (unsigned i = 0; i < function->param_count; i++) {
		pointers[i] = there + function->param_offset[i];
		for_each_pointer_word(function, i, at) {
			memcpy(&word, params + at, 8);
			place = mirrors_place(mirrors, word, NULL);
			if (place)
				memcpy(there + at, &place, 8);
		}
	}
	return driver.cuLaunchKernel(function->handle, launch->grid[0], launch->grid[1],
				     launch->grid[2], launch->block[0], launch->block[1],
				     launch->block[2], launch->shared_bytes, mirrors->stream,
				     pointers, NULL) == CUDA_SUCCESS;
}

bool mirrors_await(const struct mirrors *mirrors)
{
	const uint64_t until = clock_ns(CLOCK_MONOTONIC) + PATIENCE;
	CUresult result;

	if (driver.cuEventRecord(mirrors->event, mirrors->stream) != CUDA_SUCCESS)
		return false;
	do
		result = driver.cuEventQuery(mirrors->event);
	while (result == CUDA_ERROR_NOT_READY && clock_ns(CLOCK_MONOTONIC) < until);
	late |= result == CUDA_ERROR_NOT_READY;
	return result == CUDA_SUCCESS;
}

bool mirrors_fill(const struct mirrors *mirrors, uint64_t to, uint64_t bytes, uint64_t period)
{
	const CUstream stream = mirrors->stream;
	uint64_t done = bytes < period ? bytes : period;

	if (driver.cuMemcpyHtoDAsync_v2((CUdeviceptr)to, mirrors->host, done, stream) !=
	    CUDA_SUCCESS)
		return false;
	while (done < bytes) {
		const uint64_t more = done < bytes - done ? done : bytes - done;

		if (driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)(to + done), (CUdeviceptr)to, more,
						stream) != CUDA_SUCCESS)
			return false;
		done += more;
	}
	return mirrors_await(mirrors);
}
