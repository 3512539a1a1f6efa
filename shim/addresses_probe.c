/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch made again, twice, in copies of the memory that it was pointed to. The first time the
 * copies are true: a word that comes out moved by as much as some copy lies apart from what it
 * stands for is an address in there. That is only believed if every pointer is either filled from
 * or led to by such a word, as it is for a kernel that does nothing else. Then nothing is read from
 * behind the pointers, so that the second time the copies hold a pattern: the same words must come
 * out, and all else must stay.
 */
#include "addresses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory.h"
#include "resolve.h"
#include "scratch.h"

#define PATTERN	 0x55
#define PATIENCE 200000000ull /* ns */
#define PASSES	 3	      /* what is there, and what two launches leave */

/* The memory of an allocation from the lowest pointer on. */
struct mirror {
	uint64_t allocation, begin, end, copy;
};

struct pointer {
	int where;
	uint64_t value;
	int mirror;
	uint64_t room; /* bytes behind it that are looked at */
	bool filled, led_to;
};

struct probe {
	const struct filling *filling;
	CUstream stream;
	int mirror_count, pointer_count;
	struct mirror mirrors[ADDRESSES_POINTERS];
	struct pointer pointers[ADDRESSES_POINTERS];
};

/* Pinned: what lies behind each pointer. */
static unsigned char (*seen)[ADDRESSES_POINTERS][ADDRESSES_BYTES];
static bool stuck; /* a copy into `seen` may be under way for ever */

/* ---- the memory, once more ------------------------------------------------------------------ */

static bool add_pointer(struct probe *probe, int where, uint64_t value)
{
	const struct allocation *allocation = memory_find(value);
	struct mirror *mirror;
	int at = 0;

	if (!allocation)
		return true;
	if (!memory_watchable(allocation) || probe->pointer_count == ADDRESSES_POINTERS)
		return false;
	while (at < probe->mirror_count && probe->mirrors[at].allocation != allocation->base)
		at++;
	mirror = &probe->mirrors[at];
	if (at == probe->mirror_count) {
		probe->mirror_count++;
		*mirror = (struct mirror){.allocation = allocation->base,
					  .begin = value,
					  .end = allocation->base + allocation->bytes};
	}
	if (value < mirror->begin)
		mirror->begin = value;
	probe->pointers[probe->pointer_count++] =
		(struct pointer){.where = where, .value = value, .mirror = at};
	return true;
}

/* No further than the next pointer. */
static void set_rooms(struct probe *probe)
{
	for (int i = 0; i < probe->pointer_count; i++) {
		struct pointer *pointer = &probe->pointers[i];
		uint64_t end = probe->mirrors[pointer->mirror].end;

		for (int k = 0; k < probe->pointer_count; k++) {
			const uint64_t other = probe->pointers[k].value;

			if (other > pointer->value && other < end)
				end = other;
		}
		pointer->room = end - pointer->value;
		if (pointer->room > ADDRESSES_BYTES)
			pointer->room = ADDRESSES_BYTES;
	}
}

static bool make_mirrors(struct probe *probe)
{
	const unsigned bytes = probe->filling->function->bytes;
	uint64_t word;

	for (unsigned at = 0; at + 8 <= bytes; at += 8) {
		memcpy(&word, probe->filling->params + at, 8);
		if (!add_pointer(probe, (int)at, word))
			return false;
	}
	set_rooms(probe);
	for (int i = 0; i < probe->mirror_count; i++) {
		struct mirror *mirror = &probe->mirrors[i];
		const uint64_t bytes_held = mirror->end - mirror->begin;

		mirror->copy =
			scratch_get(probe->filling->context, probe->stream, bytes_held, false);
		if (!mirror->copy || driver.cuMemcpyDtoDAsync_v2(
					     (CUdeviceptr)mirror->copy, (CUdeviceptr)mirror->begin,
					     bytes_held, probe->stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

static uint64_t mirrored(const struct probe *probe, const struct pointer *pointer)
{
	const struct mirror *mirror = &probe->mirrors[pointer->mirror];

	return mirror->copy + (pointer->value - mirror->begin);
}

static bool launch_there(const struct probe *probe)
{
	const struct filling *filling = probe->filling;
	const struct function *function = filling->function;
	unsigned char params[ADDRESSES_PARAM_BYTES];
	void *pointers[FUNCTION_MAX_PARAMS];

	memcpy(params, filling->params, function->bytes);
	for (int i = 0; i < probe->pointer_count; i++) {
		const uint64_t there = mirrored(probe, &probe->pointers[i]);

		memcpy(params + probe->pointers[i].where, &there, 8);
	}
	for (unsigned i = 0; i < function->param_count; i++)
		pointers[i] = params + function->param_offset[i];
	return driver.cuLaunchKernel(function->handle, filling->grid[0], filling->grid[1],
				     filling->grid[2], filling->block[0], filling->block[1],
				     filling->block[2], filling->shared_bytes, probe->stream,
				     pointers, NULL) == CUDA_SUCCESS;
}

static bool look(const struct probe *probe, int pass)
{
	for (int i = 0; i < probe->pointer_count; i++) {
		const struct pointer *pointer = &probe->pointers[i];
		const uint64_t from = pass ? mirrored(probe, pointer) : pointer->value;

		if (driver.cuMemcpyDtoHAsync_v2(seen[pass][i], (CUdeviceptr)from, pointer->room,
						probe->stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Not for ever: the stream may itself wait for the program. */
static bool await(const struct probe *probe)
{
	const uint64_t until = now_ns() + PATIENCE;
	CUresult result = CUDA_ERROR_NOT_READY;
	CUevent event;

	if (driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return false;
	if (driver.cuEventRecord(event, probe->stream) == CUDA_SUCCESS)
		while ((result = driver.cuEventQuery(event)) == CUDA_ERROR_NOT_READY &&
		       now_ns() < until)
			;
	driver.cuEventDestroy_v2(event);
	stuck = result == CUDA_ERROR_NOT_READY;
	return result == CUDA_SUCCESS;
}

/* ---- what came out -------------------------------------------------------------------------- */

static uint64_t word_of(int pass, int pointer, uint64_t word)
{
	uint64_t value;

	memcpy(&value, &seen[pass][pointer][8 * word], 8);
	return value;
}

/* The pointer that an address leads on from, when its copy lies `moved` further; -1: none, or it
 * cannot be told. */
static int source_of(const struct probe *probe, uint64_t address, uint64_t moved)
{
	int found = -1, mirror = -1;

	for (int i = 0; i < probe->mirror_count; i++) {
		if (probe->mirrors[i].copy - probe->mirrors[i].begin != moved)
			continue;
		if (mirror >= 0)
			return -1;
		mirror = i;
	}
	for (int i = 0; i < probe->pointer_count; i++) {
		const struct pointer *pointer = &probe->pointers[i];

		if (pointer->mirror == mirror && pointer->value <= address &&
		    address < probe->mirrors[mirror].end &&
		    (found < 0 || pointer->value > probe->pointers[found].value))
			found = i;
	}
	return found;
}

/* Words that came out otherwise than they were, from the pointer on. */
static uint64_t changed_words(const struct pointer *pointer, int at)
{
	uint64_t words = 0;

	while (8 * (words + 1) <= pointer->room && word_of(1, at, words) != word_of(0, at, words))
		words++;
	return words;
}

/* Adds the array that begins at a pointer, if one does. False: it is not only addresses. */
static bool add_array(struct probe *probe, struct filler *filler, int at)
{
	struct pointer *pointer = &probe->pointers[at];
	const uint64_t words = changed_words(pointer, at);
	struct address_array *array = &filler->array[filler->array_count];
	struct address *word;

	if (!words)
		return memcmp(seen[0][at], seen[1][at], pointer->room) == 0;
	if (8 * words == ADDRESSES_BYTES ||
	    memcmp(&seen[0][at][8 * words], &seen[1][at][8 * words], pointer->room - 8 * words))
		return false;
	word = calloc(words, sizeof(*word));
	if (!word)
		return false;
	*array = (struct address_array){.where = pointer->where, .count = (int)words, .word = word};
	filler->array_count++;
	pointer->filled = true;
	for (uint64_t i = 0; i < words; i++) {
		const uint64_t address = word_of(0, at, i);
		const int source = source_of(probe, address, word_of(1, at, i) - address);

		if (source < 0)
			return false;
		probe->pointers[source].led_to = true;
		word[i] = (struct address){
			.where = probe->pointers[source].where,
			.distance = (int64_t)(address - probe->pointers[source].value)};
	}
	return true;
}

static bool find_arrays(struct probe *probe, struct filler *filler)
{
	for (int i = 0; i < probe->pointer_count; i++)
		if (!add_array(probe, filler, i))
			return false;
	for (int i = 0; i < probe->pointer_count; i++)
		if (!probe->pointers[i].filled && !probe->pointers[i].led_to)
			return false;
	return filler->array_count > 0;
}

/* Out of nothing but the pointers, the same words came. */
static bool same_again(const struct probe *probe, const struct filler *filler)
{
	for (int i = 0; i < probe->pointer_count; i++) {
		const struct pointer *pointer = &probe->pointers[i];
		uint64_t bytes = 0;

		for (int k = 0; k < filler->array_count; k++)
			if (filler->array[k].where == pointer->where)
				bytes = 8 * (uint64_t)filler->array[k].count;
		if (memcmp(seen[1][i], seen[2][i], bytes) != 0)
			return false;
		for (uint64_t at = bytes; at < pointer->room; at++)
			if (seen[2][i][at] != PATTERN)
				return false;
	}
	return true;
}

static bool fill_mirrors(const struct probe *probe)
{
	for (int i = 0; i < probe->mirror_count; i++)
		if (driver.cuMemsetD8Async((CUdeviceptr)probe->mirrors[i].copy, PATTERN,
					   probe->mirrors[i].end - probe->mirrors[i].begin,
					   probe->stream) != CUDA_SUCCESS)
			return false;
	return true;
}

static int run(struct probe *probe, struct filler *filler)
{
	if (!make_mirrors(probe) || !look(probe, 0) || !launch_there(probe) || !look(probe, 1) ||
	    !await(probe))
		return -EAGAIN;
	if (!find_arrays(probe, filler))
		return -EINVAL;
	if (!fill_mirrors(probe) || !launch_there(probe) || !look(probe, 2) || !await(probe))
		return -EAGAIN;
	return same_again(probe, filler) ? 0 : -EINVAL;
}

int addresses_probe(struct filler *filler, const struct filling *filling, CUstream stream)
{
	struct probe probe = {.filling = filling, .stream = stream};
	void *memory = NULL;
	int error;

	if (!seen && driver.cuMemAllocHost_v2(&memory, PASSES * sizeof(*seen)) == CUDA_SUCCESS)
		seen = memory;
	if (!seen || stuck)
		return -EAGAIN;
	error = run(&probe, filler);
	for (int i = 0; i < probe.mirror_count; i++)
		scratch_put(probe.mirrors[i].copy, stream);
	if (!stuck)
		scratch_trim(filling->context);
	while (error && filler->array_count)
		free(filler->array[--filler->array_count].word);
	return error;
}
