/* SPDX-License-Identifier: Apache-2.0
 *
 * What of an input is not saved yet is a set of ranges that begin at rows; saving takes a piece
 * away from it.
 */
#include "shim/hazard/snapshot.h"

#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/late.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"
#include "shim/site/site.h"

/* A copy of so many bytes takes 6 us, one of a few 3.7 (one H200): no less is saved at once. */
#define LEAST_BYTES (4u << 20)

/* A copy by rows pays where it leaves out much, and its rows are not so narrow that each costs more
 * than its bytes. Else what lies between them is copied, too. */
#define LEAST_EXTENT (128u << 10)
#define LEAST_WIDTH  512

bool snapshot_whole(const struct input *input)
{
	return input->snapshot && !input->unsaved.count;
}

/* ---- one snapshot for several chains -------------------------------------------------------- */

/* Has `other` a copy of what `input` reads? Both were readers when it was taken. */
static bool same_version(const struct input *other, const struct input *input)
{
	return snapshot_whole(other) && other->begin == input->begin && other->end == input->end &&
	       other->pitched.width == input->pitched.width &&
	       other->pitched.pitch == input->pitched.pitch && input->since < other->taken;
}

static bool share(const struct chain *chain, struct input *input)
{
	for_each_chain(other) for (int i = 0; i < other->input_count; i++)
	{
		struct input *theirs = &other->inputs[i];

		if (other->context != chain->context || other->stream != chain->stream ||
		    !same_version(theirs, input))
			continue;
		input->snapshot = theirs->snapshot;
		input->taken = theirs->taken;
		input->unsaved.count = 0;
		input->shared = theirs->shared = true;
		return true;
	}
	return false;
}

static bool in_use(uint64_t snapshot)
{
	for_each_chain(chain) for (int i = 0; i < chain->input_count;
				   i++) if (chain->inputs[i].snapshot == snapshot) return true;
	return false;
}

void snapshot_drop(struct chain *chain, int index)
{
	struct input *input = &chain->inputs[index];
	const uint64_t snapshot = input->snapshot;

	input->snapshot = 0;
	if (snapshot && !input->lent && !(input->shared && in_use(snapshot)))
		scratch_put(snapshot, chain->stream);
	input->shared = input->lent = false;
}

/* ---- copying -------------------------------------------------------------------------------- */

static bool by_rows(const struct input *input, uint64_t to, uint64_t begin, uint64_t end,
		    CUcontext context, CUstream stream)
{
	const uint64_t pitch = input->pitched.pitch;
	const CUDA_MEMCPY2D rows = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = (CUdeviceptr)begin,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = (CUdeviceptr)to,
		.dstPitch = pitch,
		.WidthInBytes = input->pitched.width,
		.Height = (end - begin + pitch - 1) / pitch,
	};

	/* Not every driver takes every pitch. */
	return !fused_copy_rows(context, stream, to, begin, rows.WidthInBytes, pitch,
				rows.Height) ||
	       driver.cuMemcpy2DAsync_v2(&rows, stream) == CUDA_SUCCESS;
}

/* Rows from `begin` on, to `end` or to where the last one that begins before it ends. */
static bool copy_rows(const struct input *input, uint64_t begin, uint64_t end, CUcontext context,
		      CUstream stream)
{
	const uint64_t to = input->snapshot + (begin - input->begin);

	return (input->pitched.pitch && end - begin > LEAST_EXTENT &&
		input->pitched.width >= LEAST_WIDTH &&
		by_rows(input, to, begin, end, context, stream)) ||
	       driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)to, (CUdeviceptr)begin, end - begin,
					   stream) == CUDA_SUCCESS;
}

/* Scratch for the snapshot, or one that another chain has; then nothing is unsaved. */
static bool begin_snapshot(struct chain *chain, struct input *input)
{
	if (share(chain, input))
		return true;
	input->snapshot =
		scratch_get(chain->context, chain->stream, input->end - input->begin, false);
	input->taken = chain_moment();
	range_set_one(&input->unsaved, input->begin, input->end);
	return input->snapshot != 0;
}

/* Copies what is unsaved of [begin, end); false: not all of it, which then still counts as unsaved.
 */
static bool save(const struct chain *chain, struct input *input, uint64_t begin, uint64_t end)
{
	struct range_set rest = input->unsaved;

	if (range_set_cut(&rest, begin, end) < 0) { /* too many pieces: all of them */
		begin = input->begin;
		end = input->end;
		rest.count = 0;
	}
	for_each_range(r, &input->unsaved) {
		const uint64_t from = r->begin > begin ? r->begin : begin;
		const uint64_t to = r->end < end ? r->end : end;

		if (from >= to)
			continue;
		if (!copy_rows(input, from, to, chain->context, chain->stream))
			return false;
		late_reads(chain_queue(chain), from, to);
	}
	input->unsaved = rest;
	return true;
}

/* From the bytes that are about to be overwritten to those worth saving now. false: none. */
static bool choose(const struct chain *chain, const struct input *input, uint64_t *begin,
		   uint64_t *end)
{
	const struct pitched *pitched = &input->pitched;
	const uint64_t bytes = input->end - input->begin;
	const uint64_t least = pitched->pitch ? (LEAST_BYTES + pitched->width - 1) /
							pitched->width * pitched->pitch
					      : LEAST_BYTES;
	const bool all = !chain->closed || bytes <= least;
	uint64_t from = *begin > input->begin ? *begin - input->begin : 0;
	uint64_t to = *end < input->end ? *end - input->begin : bytes;

	if (from >= to || !pitched_rows(pitched, bytes, &from, &to))
		return false;
	from = all ? 0 : from / least * least;
	to = all ? bytes : (to + least - 1) / least * least;
	pitched_rows(pitched, bytes, &from, &to);
	*begin = input->begin + from;
	*end = input->begin + to;
	return !input->snapshot || range_set_touches(&input->unsaved, *begin, *end);
}

bool snapshot_part(struct chain *chain, int index, uint64_t begin, uint64_t end)
{
	struct input *input = &chain->inputs[index];
	const bool first = !input->snapshot;
	struct driver_context here;
	bool done = false;

	if (!choose(chain, input, &begin, &end))
		return true;
	if (chain->captured) /* each replay of the graph would need a copy of its own */
		return false;
	COST(PURPOSE_HAZARDS);
	if (!driver_enter(&here, chain->context))
		return false;
	if (!first || begin_snapshot(chain, input)) {
		done = save(chain, input, begin, end);
		if (first && !done)
			snapshot_drop(chain, index);
	}
	driver_leave(&here);
	if (first && done && !input->shared && chain->site)
		chain->site->live->snapshots++;
	return done;
}

bool snapshot_take(struct chain *chain, int index)
{
	const struct input *input = &chain->inputs[index];

	return snapshot_part(chain, index, input->begin, input->end);
}

bool snapshot_unwatched(struct chain *chain, int from)
{
	for (int i = from; i < chain->input_count; i++)
		if (!memory_watchable_range(chain->inputs[i].begin, chain->inputs[i].end) &&
		    !snapshot_take(chain, i))
			return false;
	return true;
}
