/* SPDX-License-Identifier: Apache-2.0
 *
 * The key from which distances are counted lies amid the queries, the last of them facing the last
 * key: no number becomes larger than it must, and those of the keys that matter least do.
 */
#include "shim/gpu/slopes.h"

#include "shim/real/driver_context.h"
#include "shim/gpu/scratch.h"

/* A replayed capture would write where somebody else does by then. */
static uint64_t room_for(const struct chain *chain, const struct slopes_args *slopes)
{
	const uint64_t count = (uint64_t)slopes->B * (uint64_t)slopes->H * (uint64_t)slopes->Sk;
	struct driver_context here;
	uint64_t room;

	if (chain->captured || !driver_enter(&here, chain->context))
		return 0;
	room = scratch_get(chain->context, chain->stream, count * sizeof(float), false);
	driver_leave(&here);
	return room;
}

bool slopes_place(struct chain *chain, struct attn_args *args, const struct identity *identity)
{
	struct slopes_args *slopes = &chain->slopes;
	struct attn_tensor *bias;

	if (!identity->slopes)
		return true;
	bias = &args->spec.bias[identity->slopes - 1];
	slopes->slopes = identity->spec.bias[identity->slopes - 1];
	if (slopes->slopes.base)
		slopes->slopes.base = bias->base;
	slopes->first = identity->slope_first;
	slopes->most = identity->slope_most;
	slopes->B = bias->stride[0] ? args->B : 1;
	slopes->H = bias->stride[1] ? args->H : 1;
	slopes->Sk = args->Sk;
	slopes->origin = args->Sk - 1 - (args->Sq - 1) / 2;
	slopes->out = room_for(chain, slopes);
	bias->base = slopes->out;
	return slopes->out != 0;
}

void slopes_put(struct chain *chain)
{
	scratch_put(chain->slopes.out, chain->stream);
	chain->slopes.out = 0;
}
