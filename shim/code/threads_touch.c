/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of a warp, and of those beside it that go the same way: whose pointer's they are, and
 * how far from it.
 */
#include "shim/code/threads_touch.h"

#include <errno.h>

#include "shim/code/kernel_code_parts.h"

#define FURTHEST (1ll << 40) /* from a pointer */

/* Whose address these halves are, counted from 1; 0: of none, or not of one. */
static unsigned pointer_in(const struct lanes *low, const struct lanes *high, int lane)
{
	if (!((low->based & high->based) >> lane & 1))
		return 0;
	return low->pointer == high->pointer && low->pointer <= TURNS ? low->pointer : 0;
}

static bool is_number(const struct lanes *low, const struct lanes *high, int lane)
{
	return !((low->based | high->based) >> lane & 1);
}

/* Nothing but what was loaded, and numbers, is added to the pointer there. */
static bool only_strays(const struct lanes *of, int lane)
{
	return (~of->unknown | of->data) >> lane & 1;
}

/* A register pair and a distance, on sm_80 and later with something that describes memory; or with
 * a pair of the warp's own to add, to 32 bits perhaps. *strays: the distance is but what it would
 * be if all were 0 that is loaded. */
static int address_of(const struct warp *warp, const struct thread_op *op, int lane, unsigned *k,
		      int64_t *distance, bool *strays)
{
	const struct lanes *zero = &warp->reg[NO_VALUE];
	const struct lanes *low = &warp->reg[op->a], *high = low + 1;
	const struct lanes *more = zero, *upper = zero;
	const unsigned form = op_bits(op, 90, 2) << 1 | op_bits(op, 76, 1);
	const unsigned at = of_warp(op_bits(op, op->opcode == STG ? 64 : 32, 6));
	uint64_t address;

	if (!op_bits(op, 72, 1) || (form != 0 && form != 4 && form != 6 && form != 7))
		return -EINVAL;
	if (op->a == NO_VALUE || form == 4)
		high = zero;
	if (form == 4 || form == 6) {
		more = &warp->reg[at];
		upper = at == REGISTERS - 1 ? more : more + 1;
	}
	*strays = (low->unknown | high->unknown | more->unknown | upper->unknown) >> lane & 1;
	if (!only_strays(low, lane) || !only_strays(high, lane) || !only_strays(more, lane) ||
	    !only_strays(upper, lane))
		return -EINVAL;
	*k = pointer_in(low, high, lane);
	if (!*k && is_number(low, high, lane))
		*k = pointer_in(more, upper, lane);
	else if (!is_number(more, upper, lane))
		return -EINVAL;
	if (!*k)
		return -EINVAL;
	address = (uint64_t)high->value[lane] << 32 | low->value[lane];
	address += (uint64_t)upper->value[lane] << 32 | more->value[lane];
	address += (uint64_t)((int64_t)(op->in.low & ~0xffffffffffull) >> 40);
	*distance = (int64_t)(address - ((uint64_t)POINTER_UPPER(--*k) << 32));
	return *distance < -FURTHEST || *distance > FURTHEST ? -EINVAL : 0;
}

/* What a lane touches in the first block, and so many bytes further in each of the others. */
struct place {
	unsigned k;
	int64_t begin, pace;
	bool strays;
};

/* In a stretch it lies as evenly as the numbers do that it is made of, or is torn. */
static int place_of(const struct threads *threads, const struct thread_op *op, int lane,
		    struct place *place)
{
	int error =
		address_of(&threads->warp[0], op, lane, &place->k, &place->begin, &place->strays);
	int64_t at[WITNESSES] = {place->begin};
	__int128 end;

	place->pace = 0;
	for (unsigned w = 1; w < threads->witnesses && !error; w++) {
		unsigned k;
		bool strays;

		error = address_of(&threads->warp[w], op, lane, &k, &at[w], &strays);
		if (!error && (k != place->k || strays != place->strays))
			error = -EAGAIN;
	}
	if (error || threads->witnesses == 1)
		return error;
	place->pace = at[1] - at[0];
	end = at[0] + (__int128)place->pace * (threads->blocks - 1);
	return end == at[2] ? 0 : -EAGAIN;
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

/* Bytes next to each other that lanes store; those of the next block begin where these end, or
 * somewhere else. */
static int note_stored(struct threads *threads, const struct place *place, int64_t bytes)
{
	const int64_t blocks = threads->blocks;
	const uint64_t cost =
		place->pace == bytes ? (uint64_t)(bytes * blocks) / 4096 : (uint64_t)blocks / 8;
	int error = 0;

	if (bytes == 0)
		return 0;
	if (threads->left < cost) /* as many instructions would take as long */
		return -E2BIG;
	threads->left -= cost;
	if (place->pace == bytes)
		return stored_note(&threads->stored, place->k, place->begin,
				   place->begin + bytes * blocks);
	for (int64_t b = 0; b < (place->pace ? blocks : 1) && !error; b++)
		error = stored_note(&threads->stored, place->k, place->begin + b * place->pace,
				    place->begin + b * place->pace + bytes);
	return error;
}

int threads_touch(struct threads *threads, const struct thread_op *op, uint32_t mask,
		  uint32_t unsure)
{
	static const uint8_t sizes[8] = {1, 1, 2, 2, 4, 8, 16, 0};
	const unsigned size = sizes[op_bits(op, 73, 3)];
	const bool stores = op->opcode == STG;
	struct place place, row = {0};
	int64_t bytes = 0; /* of the row that lanes store together */
	int error = size ? 0 : -EINVAL;

	for (int l = 0; l < LANES && !error; l++) {
		struct threads_extent *extent;

		if (!(mask >> l & 1))
			continue;
		error = place_of(threads, op, l, &place);
		if (error)
			break;
		if (place.strays && threads->less_known)
			return -EAGAIN;
		if (place.k == TURNS - 1) { /* nobody's memory */
			if (stores || place.strays || place.pace || place.begin < 0 ||
			    place.begin + size > CODE_TURNS)
				return -EINVAL;
			continue;
		}
		/* Which of the blocks it was whose warp stored it is not told. */
		if (!stores && !place.strays && threads->witnesses > 1 &&
		    stored_anything(&threads->stored, place.k)) {
			threads->alone = true;
			return -EAGAIN;
		}
		if (!stores && !place.strays &&
		    stored_by_warp(&threads->stored, place.k, place.begin, size))
			continue;
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
		if (place.strays || !stores || unsure >> l & 1)
			continue;
		if (bytes && place.k == row.k && place.pace == row.pace &&
		    place.begin == row.begin + bytes) {
			bytes += size;
			continue;
		}
		error = note_stored(threads, &row, bytes);
		row = place;
		bytes = size;
	}
	return error ? error : note_stored(threads, &row, bytes);
}
