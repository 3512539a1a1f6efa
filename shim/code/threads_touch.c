/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of a warp, and of those beside it that go the same way: whose pointer's they are, and
 * how far from it.
 */
#include "shim/code/threads_touch.h"

#include <errno.h>

#include "shim/code/kernel_code_parts.h"

#define FURTHEST (1ll << 40) /* from a pointer */

/* What a warp's lanes touch. */
struct addresses {
	unsigned k[LANES];
	int64_t at[LANES];
	uint32_t strays; /* lanes whose distance is but what it would be if all were 0 that is
			    loaded */
};

/* Lanes in which something else than what was loaded, and numbers, may be added to the pointer. */
static uint32_t leads_anywhere(const struct lanes *of)
{
	return of->unknown & ~of->data;
}

/* Lanes in which these halves are of one pointer's address. */
static uint32_t of_pointer(const struct lanes *low, const struct lanes *high)
{
	return low->pointer == high->pointer && low->pointer && low->pointer <= TURNS
		       ? low->based & high->based
		       : 0;
}

/* A register pair and a distance, on sm_80 and later with something that describes memory; or with
 * a pair of the warp's own to add, to 32 bits perhaps. */
static int addresses_of(const struct warp *warp, const struct thread_op *op, uint32_t mask,
			struct addresses *found)
{
	const struct lanes *zero = &warp->reg[NO_VALUE];
	const struct lanes *low = &warp->reg[op->a], *high = low + 1;
	const struct lanes *more = zero, *upper = zero;
	const unsigned form = op_bits(op, 90, 2) << 1 | op_bits(op, 76, 1);
	const unsigned at = of_warp(op_bits(op, op->opcode == STG ? 64 : 32, 6));
	const int64_t beside = (int64_t)(op->in.low & ~0xffffffffffull) >> 40;
	uint32_t first, second;

	if (!op_bits(op, 72, 1) || (form != 0 && form != 4 && form != 6 && form != 7))
		return -EINVAL;
	if (op->a == NO_VALUE || form == 4)
		high = zero;
	if (form == 4 || form == 6) {
		more = &warp->reg[at];
		upper = at == REGISTERS - 1 ? more : more + 1;
	}
	found->strays = low->unknown | high->unknown | more->unknown | upper->unknown;
	first = of_pointer(low, high) & ~(more->based | upper->based);
	second = of_pointer(more, upper) & ~(low->based | high->based);
	if (mask & (leads_anywhere(low) | leads_anywhere(high) | leads_anywhere(more) |
		    leads_anywhere(upper) | ~(first | second)))
		return -EINVAL;
	for (int l = 0; l < LANES; l++) {
		const unsigned k = (first >> l & 1 ? low->pointer : more->pointer) - 1u;
		const uint64_t address = ((uint64_t)high->value[l] << 32 | low->value[l]) +
					 ((uint64_t)upper->value[l] << 32 | more->value[l]) +
					 (uint64_t)beside;

		if (!(mask >> l & 1))
			continue;
		found->k[l] = k;
		found->at[l] = (int64_t)(address - ((uint64_t)POINTER_UPPER(k) << 32));
		if (found->at[l] < -FURTHEST || found->at[l] > FURTHEST)
			return -EINVAL;
	}
	return 0;
}

/* What a lane touches in the first block, and so many bytes further in each of the others. */
struct place {
	unsigned k;
	int64_t begin, pace;
	bool strays;
};

/* In a stretch they lie as evenly as the numbers do that they are made of, or it is torn. */
static int places_of(const struct threads *threads, const struct thread_op *op, uint32_t mask,
		     struct place place[LANES])
{
	struct addresses found[WITNESSES];
	int error = 0;

	for (unsigned w = 0; w < threads->witnesses && !error; w++)
		error = addresses_of(&threads->warp[w], op, mask, &found[w]);
	for (int l = 0; l < LANES && !error; l++) {
		if (!(mask >> l & 1))
			continue;
		place[l] =
			(struct place){found[0].k[l], found[0].at[l], 0, found[0].strays >> l & 1};
		if (threads->witnesses == 1)
			continue;
		place[l].pace = found[1].at[l] - found[0].at[l];
		for (unsigned w = 1; w < WITNESSES; w++)
			if (found[w].k[l] != found[0].k[l] ||
			    (found[w].strays >> l & 1) != place[l].strays)
				return -EAGAIN;
		if (found[0].at[l] + (__int128)place[l].pace * (threads->blocks - 1) !=
		    found[2].at[l])
			return -EAGAIN;
	}
	return error;
}

/* The first and the last of them, as far as the one in which it begins lowest or ends furthest. */
static void widen(int64_t *first, int64_t *beyond, const struct place *place, unsigned size,
		  uint32_t blocks)
{
	const int64_t last = place->begin + place->pace * (blocks - 1);
	const int64_t low = last < place->begin ? last : place->begin;
	const int64_t high = last < place->begin ? place->begin : last;

	if (low < *first)
		*first = low;
	if (high + size > *beyond)
		*beyond = high + size;
}

/* Which of the blocks it was whose warp stored what is loaded is not told of several: none may have
 * been. */
static int loaded(struct threads *threads, unsigned k, int64_t begin, int64_t end)
{
	if (stored_elsewhere(&threads->stored, k, begin, end))
		return 0;
	threads->alone = true;
	return -EAGAIN;
}

/* Bytes next to each other that lanes store, or load from where the warp stored something; those of
 * the next block begin where these end, or somewhere else. */
static int note_row(struct threads *threads, const struct place *place, int64_t bytes, bool stores)
{
	const int64_t blocks = threads->blocks;
	const uint64_t cost =
		place->pace == bytes ? (uint64_t)(bytes * blocks) / 4096 : (uint64_t)blocks / 8;
	const int64_t rows = place->pace && place->pace != bytes ? blocks : 1;
	int error = 0;

	if (bytes == 0)
		return 0;
	if (threads->left < cost) /* as many instructions would take as long */
		return -E2BIG;
	threads->left -= cost;
	if (place->pace == bytes)
		bytes *= blocks;
	for (int64_t b = 0; b < rows && !error; b++) {
		const int64_t begin = place->begin + b * place->pace;

		error = stores ? stored_note(&threads->stored, place->k, begin, begin + bytes)
			       : loaded(threads, place->k, begin, begin + bytes);
	}
	return error;
}

int threads_touch(struct threads *threads, const struct thread_op *op, uint32_t mask,
		  uint32_t unsure)
{
	static const uint8_t sizes[8] = {1, 1, 2, 2, 4, 8, 16, 0};
	const unsigned size = sizes[op_bits(op, 73, 3)];
	const bool stores = op->opcode == STG;
	struct place places[LANES], row = {0};
	int64_t bytes = 0; /* of the row that lanes touch together */
	int error = size ? places_of(threads, op, mask, places) : -EINVAL;

	for (int l = 0; l < LANES && !error; l++) {
		const struct place place = places[l];
		struct threads_extent *extent;
		bool again = false;

		if (!(mask >> l & 1))
			continue;
		if (place.strays && threads->less_known)
			return -EAGAIN;
		if (place.k == TURNS - 1) { /* nobody's memory */
			if (stores || place.strays || place.pace || place.begin < 0 ||
			    place.begin + size > CODE_TURNS)
				return -EINVAL;
			continue;
		}
		if (!stores && !place.strays && stored_anything(&threads->stored, place.k)) {
			again = threads->witnesses > 1;
			if (!again && stored_by_warp(&threads->stored, place.k, place.begin, size))
				continue;
		}
		extent = &threads->extent[place.k];
		if (place.strays)
			widen(&extent->origin.first, &extent->origin.beyond, &place, size,
			      threads->blocks);
		else if (stores)
			widen(&extent->written.first, &extent->written.beyond, &place, size,
			      threads->blocks);
		else
			widen(&extent->read.first, &extent->read.beyond, &place, size,
			      threads->blocks);
		if (place.strays)
			*(stores ? &extent->strays_writing : &extent->strays_reading) = true;
		else if (stores && unsure >> l & 1)
			threads->stored.perhaps[place.k] = true;
		if (place.strays || (stores ? unsure >> l & 1 : !again))
			continue;
		if (bytes && place.k == row.k && place.pace == row.pace &&
		    place.begin == row.begin + bytes) {
			bytes += size;
			continue;
		}
		error = note_row(threads, &row, bytes, stores);
		row = place;
		bytes = size;
	}
	return error ? error : note_row(threads, &row, bytes, stores);
}
