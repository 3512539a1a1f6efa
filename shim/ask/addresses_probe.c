/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch made again, twice, in copies of the memory that it was pointed to. The first time the
 * copies are true: a word that comes out moved by as much as some copy lies apart from what it
 * stands for is an address in there. That is only believed if every pointer is either filled from
 * or led to by such a word, as it is for a kernel that does nothing else. Then nothing is read from
 * behind the pointers, so that the second time the copies hold a pattern: the same words must come
 * out, and all else must stay.
 */
#include "shim/ask/addresses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/op/memory.h"
#include "shim/ask/mirror.h"
#include "shim/real/driver.h"

#define PATTERN 0x55
#define PASSES	3 /* what is there, and what two launches leave */

struct pointer {
	int where;
	uint64_t value;
	uint64_t room; /* bytes behind it that are looked at */
	bool filled, led_to;
};

struct probe {
	const struct filling *filling;
	int pointer_count;
	struct mirrors mirrors;
	struct pointer pointers[ADDRESSES_POINTERS];
};

/* Pinned: what lies behind each pointer. */
static unsigned char (*seen)[ADDRESSES_POINTERS][ADDRESSES_BYTES];
static CUcontext seen_by; /* the context that takes it along when it goes */

void addresses_forget_context(CUcontext context)
{
	if (!context || context == seen_by)
		seen = NULL;
}

/* ---- the memory, once more ------------------------------------------------------------------ */

static bool add_pointer(struct probe *probe, int where, uint64_t value)
{
	uint64_t begin, end;

	if (!memory_reach(value, &begin, &end))
		return true;
	if (probe->pointer_count == ADDRESSES_POINTERS || !mirrors_add(&probe->mirrors, value))
		return false;
	probe->pointers[probe->pointer_count++] = (struct pointer){.where = where, .value = value};
	return true;
}

/* No further than the next pointer. */
static void set_rooms(struct probe *probe)
{
	for (int i = 0; i < probe->pointer_count; i++) {
		struct pointer *pointer = &probe->pointers[i];
		uint64_t end = mirrors_find(&probe->mirrors, pointer->value)->end;

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
	const struct function *function = probe->filling->function;
	uint64_t word;
	unsigned at;

	for (unsigned i = 0; i < function->param_count; i++)
		for_each_pointer_word(function, i, at) {
			memcpy(&word, probe->filling->params + at, 8);
			if (!add_pointer(probe, (int)at, word))
				return false;
		}
	set_rooms(probe);
	return mirrors_make(&probe->mirrors) && mirrors_refresh(&probe->mirrors);
}

static uint64_t mirrored(const struct probe *probe, const struct pointer *pointer)
{
	return mirrors_place(&probe->mirrors, pointer->value, NULL);
}

static bool launch_there(const struct probe *probe)
{
	const struct filling *filling = probe->filling;

	return mirrors_launch(&probe->mirrors, filling->function, &filling->launch,
			      filling->params);
}

static bool look(const struct probe *probe, int pass)
{
	for (int i = 0; i < probe->pointer_count; i++) {
		const struct pointer *pointer = &probe->pointers[i];
		const uint64_t from = pass ? mirrored(probe, pointer) : pointer->value;

		if (driver.cuMemcpyDtoHAsync_v2(seen[pass][i], (CUdeviceptr)from, pointer->room,
						probe->mirrors.stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
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
	const struct mirror *mirror = NULL;
	int found = -1;

	for (int i = 0; i < probe->mirrors.count; i++) {
		const struct mirror *other = &probe->mirrors.item[i];

		if (other->copy - other->begin != moved)
			continue;
		if (mirror)
			return -1;
		mirror = other;
	}
	for (int i = 0; i < probe->pointer_count; i++) {
		const struct pointer *pointer = &probe->pointers[i];

		if (mirror && mirrors_find(&probe->mirrors, pointer->value) == mirror &&
		    pointer->value <= address && address < mirror->end &&
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
	for (int i = 0; i < probe->mirrors.count; i++) {
		const struct mirror *mirror = &probe->mirrors.item[i];

		if (driver.cuMemsetD8Async((CUdeviceptr)mirror->copy, PATTERN,
					   mirror->end - mirror->begin,
					   probe->mirrors.stream) != CUDA_SUCCESS)
			return false;
	}
	return true;
}

static int run(struct probe *probe, struct filler *filler)
{
	if (!make_mirrors(probe) || !look(probe, 0) || !launch_there(probe) || !look(probe, 1) ||
	    !mirrors_await(&probe->mirrors))
		return -EAGAIN;
	if (!find_arrays(probe, filler))
		return -EINVAL;
	if (!fill_mirrors(probe) || !launch_there(probe) || !look(probe, 2) ||
	    !mirrors_await(&probe->mirrors))
		return -EAGAIN;
	return same_again(probe, filler) ? 0 : -EINVAL;
}

int addresses_probe(struct filler *filler, const struct filling *filling, CUstream stream)
{
	struct probe probe = {.filling = filling};
	void *memory = NULL;
	int error;

	if (!seen && driver.cuMemAllocHost_v2(&memory, PASSES * sizeof(*seen)) == CUDA_SUCCESS)
		seen = memory, seen_by = filling->context;
	if (!seen)
		return -EAGAIN;
	error = mirrors_begin(&probe.mirrors, filling->context, stream) ? run(&probe, filler)
									: -EAGAIN;
	mirrors_close(&probe.mirrors);
	while (error && filler->array_count)
		free(filler->array[--filler->array_count].word);
	return error;
}
