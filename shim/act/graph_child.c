/* SPDX-License-Identifier: Apache-2.0
 *
 * One stream for each context, and scratch that belongs to a copy for as long as it lives.
 */
#include "shim/act/graph_child.h"

#include "shim/gpu/fused.h"
#include "shim/gpu/made_bias.h"
#include "shim/gpu/scratch.h"
#include "shim/real/driver.h"
#include "shim/real/driver_context.h"

#define CONTEXTS 16

static struct queue workshops[CONTEXTS];

static CUstream new_stream(CUcontext context)
{
	struct driver_context here;
	CUstream stream;

	if (!driver_enter(&here, context))
		return NULL;
	if (driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		stream = NULL;
	driver_leave(&here);
	return stream;
}

CUstream graph_workshop(CUcontext context)
{
	struct queue *free = NULL;

	for (int i = 0; i < CONTEXTS; i++)
		if (workshops[i].stream && workshops[i].context == context)
			return workshops[i].stream;
		else if (!workshops[i].stream)
			free = &workshops[i];
	if (free)
		*free = (struct queue){context, new_stream(context)};
	return free ? free->stream : NULL;
}

void graph_workshop_forget(CUcontext context)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (!context || workshops[i].context == context)
			workshops[i] = (struct queue){0};
}

int graph_child_begin(CUstream stream)
{
	return driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
			       CUDA_SUCCESS
		       ? 0
		       : -1;
}

CUgraph graph_child_end(CUstream stream, int error)
{
	CUgraph child;

	if (driver.cuStreamEndCapture(stream, &child) != CUDA_SUCCESS)
		return NULL;
	if (!error)
		return child;
	driver.cuGraphDestroy(child);
	return NULL;
}

bool graph_saved_place(struct graph_saved *saved, struct chain *chain, const bool *which,
		       CUstream stream)
{
	const int most = (int)(sizeof(saved->block) / sizeof(saved->block[0]));

	for (int i = 0; i < chain->input_count; i++) {
		struct input *input = &chain->inputs[i];

		input->lost = false;
		if (!which[i])
			continue;
		if (saved->count == most)
			return false;
		input->snapshot =
			scratch_get(chain->context, stream, input->end - input->begin, false);
		if (!input->snapshot)
			return false;
		input->lent = true;
		input->unsaved.count = 0;
		input->taken = 0; /* nobody shares it */
		saved->block[saved->count++] = input->snapshot;
	}
	return true;
}

void graph_room_open(struct chain *chain, const struct attn_variant *variant,
		     const struct attn_args *args)
{
	const uint64_t bytes = fused_scratch(chain->context, variant, args);

	chain->room = bytes ? scratch_get(chain->context, chain->stream, bytes, false) : 0;
	fused_lend(chain->room);
}

bool graph_saved_made(struct graph_saved *saved, struct chain *chain)
{
	const int most = (int)(sizeof(saved->block) / sizeof(saved->block[0]));
	const uint64_t room[] = {chain->slopes.out, chain->complement.out, chain->room};
	const int count = !!room[0] + !!room[1] + !!room[2];

	fused_lend(0);
	chain->made_stays = false;
	if (saved->count + count > most) {
		made_bias_put(chain);
		scratch_put(chain->room, chain->stream);
		chain->room = 0;
		return false;
	}
	for (int i = 0; i < 3; i++)
		if (room[i])
			saved->block[saved->count++] = room[i];
	chain->slopes.out = chain->complement.out = chain->room = 0;
	return true;
}

bool graph_saved_at(const struct recorded_chain *record, const bool *which, int op)
{
	for (int i = 0; i < record->chain->input_count; i++)
		if (which[i] && record->reader[i] == op)
			return true;
	return false;
}

int graph_saved_copy(const struct recorded_chain *record, const struct chain *chain,
		     const bool *which, int op)
{
	int error = 0;

	for (int i = 0; i < chain->input_count; i++) {
		const struct input *input = &chain->inputs[i];

		if (which[i] && record->reader[i] == op)
			error |= driver.cuMemcpyDtoDAsync_v2(
					 (CUdeviceptr)input->snapshot, (CUdeviceptr)input->begin,
					 input->end - input->begin, chain->stream) != CUDA_SUCCESS;
	}
	return error ? -1 : 0;
}

void graph_saved_put(struct graph_saved *saved, CUstream stream)
{
	for (int i = 0; i < saved->count; i++)
		scratch_put(saved->block[i], stream);
	saved->count = 0;
}
