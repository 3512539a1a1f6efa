/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies in scratch, made in stream order; waiting is by an event and with a limit.
 */
#include "mirror.h"

#include <string.h>
#include <time.h>

#include "memory.h"
#include "rerun.h"
#include "resolve.h"
#include "scratch.h"

#define PATIENCE 200000000ull

static unsigned char *pinned;

/* ---- whether --------------------------------------------------------------------------------- */

/* Kernels that talk to other GPUs wait for an answer; nobody would give one. */
static bool talks(const struct chain *chain)
{
	for (int s = 1; s < chain->step_count; s++)
		if (chain->steps[s].function && (strstr(chain->steps[s].function->name, "nccl") ||
						 strstr(chain->steps[s].function->name, "nvshmem")))
			return true;
	return false;
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

const char *mirrors_hindrance(const struct chain *chain)
{
	if (inputs_gone(chain))
		return "what a kernel read was overwritten before it could be launched again";
	if (talks(chain))
		return "a kernel that waits for other GPUs";
	return NULL;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static bool add(struct mirrors *mirrors, uint64_t pointer)
{
	const struct allocation *allocation = memory_find(pointer);
	struct mirror *mirror;
	int at = 0;

	if (!memory_watchable(allocation))
		return false;
	while (at < mirrors->count && mirrors->item[at].allocation != allocation->base)
		at++;
	if (at == MIRRORS)
		return false;
	mirror = &mirrors->item[at];
	if (at == mirrors->count) {
		mirrors->count++;
		*mirror = (struct mirror){.allocation = allocation->base,
					  .begin = pointer,
					  .end = allocation->base + allocation->bytes};
	}
	if (pointer < mirror->begin)
		mirror->begin = pointer;
	return true;
}

static bool add_all(struct mirrors *mirrors)
{
	const struct chain *chain = mirrors->chain;

	if (!add(mirrors, chain->values[0].begin))
		return false;
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++)
			if (!add(mirrors, rerun_pointer(chain, &chain->steps[s], i)))
				return false;
	return true;
}

bool mirrors_open(struct mirrors *mirrors, const struct chain *chain)
{
	memset(mirrors, 0, sizeof(*mirrors));
	mirrors->chain = chain;
	if (!pinned) {
		void *memory = NULL;

		if (driver.cuMemAllocHost_v2(&memory, MIRROR_HOST) != CUDA_SUCCESS)
			return false;
		pinned = memory;
	}
	mirrors->host = pinned;
	if (!add_all(mirrors) ||
	    driver.cuEventCreate(&mirrors->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < mirrors->count; i++) {
		struct mirror *mirror = &mirrors->item[i];

		mirror->copy = scratch_get(chain->context, chain->stream,
					   mirror->end - mirror->begin, false);
		if (!mirror->copy)
			return false;
	}
	return true;
}

void mirrors_close(struct mirrors *mirrors)
{
	const struct chain *chain = mirrors->chain;
	/* large, and not needed again; what is not done may take for ever */
	const bool trim = mirrors->event && mirrors_await(mirrors);

	for (int i = 0; i < mirrors->count; i++)
		scratch_put(mirrors->item[i].copy, chain->stream);
	if (trim)
		scratch_trim(chain->context);
	if (mirrors->event)
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
			    mirror->end - mirror->begin, mirrors->chain->stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

uint64_t mirrors_place(const struct mirrors *mirrors, uint64_t pointer, uint64_t *room)
{
	for (int i = 0; i < mirrors->count; i++) {
		const struct mirror *mirror = &mirrors->item[i];

		if (pointer < mirror->begin || pointer >= mirror->end)
			continue;
		if (room)
			*room = mirror->end - pointer;
		return mirror->copy + (pointer - mirror->begin);
	}
	return 0;
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
			const uint64_t other = rerun_pointer(chain, &chain->steps[s], i);

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
		place[i] = mirrors_place(mirrors, rerun_pointer(mirrors->chain, step, i), NULL);
	return rerun_step(mirrors->chain, step, place) == 0;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

bool mirrors_await(const struct mirrors *mirrors)
{
	const uint64_t until = now_ns() + PATIENCE;
	CUresult result;

	if (driver.cuEventRecord(mirrors->event, mirrors->chain->stream) != CUDA_SUCCESS)
		return false;
	do
		result = driver.cuEventQuery(mirrors->event);
	while (result == CUDA_ERROR_NOT_READY && now_ns() < until);
	return result == CUDA_SUCCESS;
}

bool mirrors_fill(const struct mirrors *mirrors, uint64_t to, uint64_t bytes, uint64_t period)
{
	const CUstream stream = mirrors->chain->stream;
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
