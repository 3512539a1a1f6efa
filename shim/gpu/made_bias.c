/* SPDX-License-Identifier: Apache-2.0
 *
 * The key from which distances are counted lies amid the queries, the last of them facing the last
 * key: no number becomes larger than it must, and those of the keys that matter least do. A mask's
 * complement has the mask's own strides, and so has what flags hide by themselves.
 */
#include "shim/gpu/made_bias.h"

#include <string.h>

#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/gpu/scratch.h"

/* A replayed capture would write where somebody else does by then. `had`: 0, or what it has. */
static uint64_t room_for(const struct chain *chain, uint64_t had, uint64_t bytes)
{
	struct driver_context here;
	uint64_t room;

	if (chain->made_stays && had)
		return had;
	if ((chain->captured && !chain->made_stays) || !driver_enter(&here, chain->context))
		return 0;
	room = scratch_get(chain->context, chain->stream, bytes, false);
	driver_leave(&here);
	return room;
}

static bool slopes_place(struct chain *chain, struct attn_args *args,
			 const struct identity *identity)
{
	struct slopes_args *slopes = &chain->slopes;
	struct attn_tensor *bias;

	if (!identity || !identity->slopes)
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
	slopes->out = room_for(chain, slopes->out,
			       (uint64_t)slopes->B * (uint64_t)slopes->H * (uint64_t)slopes->Sk *
				       sizeof(float));
	bias->base = slopes->out;
	return slopes->out != 0;
}

/* Elements from the first of a bias to behind its last. */
static int64_t reach_of(const struct attn_tensor *bias, const struct attn_args *args)
{
	const int64_t size[4] = {args->B, args->H, args->Sq, args->Sk};
	int64_t count = 1;

	for (int d = 0; d < 4; d++)
		count += (size[d] - 1) * bias->stride[d];
	return count;
}

/* Room for what is made of `bias`, which then lies there. */
static bool make_of(struct chain *chain, struct attn_tensor *bias, const struct attn_args *args)
{
	struct complement_args *complement = &chain->complement;

	complement->in = bias->base;
	complement->out_dtype = bias->dtype;
	complement->count = reach_of(bias, args);
	complement->out =
		room_for(chain, complement->out,
			 (uint64_t)complement->count * (uint64_t)attn_dtype_size(bias->dtype));
	bias->base = complement->out;
	return complement->out != 0;
}

/* The same of flags beside which a window hides keys: a number for each query, too. */
static bool make_beyond(struct chain *chain, struct attn_tensor *bias, const struct attn_args *args,
			const struct identity *identity)
{
	const struct attn_spec *found = &identity->spec;
	const int64_t shift = identity_shift(identity, args);
	const int64_t batches = bias->stride[0] ? args->B : 1,
		      heads = bias->stride[1] ? args->H : 1;
	struct complement_args *complement = &chain->complement;

	memcpy(complement->stride, bias->stride, sizeof(complement->stride));
	complement->heads = (int32_t)heads;
	complement->rows = (int32_t)args->Sq;
	complement->keys = (int32_t)args->Sk;
	complement->first = found->window_left == ATTN_NO_WINDOW ? -(int64_t)args->Sq
								 : shift - found->window_left;
	complement->last = shift + found->window_right;
	bias->stride[3] = 1;
	bias->stride[2] = args->Sk;
	bias->stride[1] = heads > 1 ? args->Sq * args->Sk : 0;
	bias->stride[0] = batches > 1 ? heads * args->Sq * args->Sk : 0;
	return make_of(chain, bias, args);
}

static bool flags_place(struct chain *chain, struct attn_args *args,
			const struct identity *identity)
{
	struct attn_tensor *bias;

	if (!identity || !identity->flags)
		return true;
	bias = &args->spec.bias[identity->flags - 1];
	chain->complement.keys = 0;
	chain->complement.in_dtype = identity->flags_type;
	chain->complement.weight = identity->flags_weight;
	chain->complement.flags = identity->flags_say;
	return identity->beyond ? make_beyond(chain, bias, args, identity)
				: make_of(chain, bias, args);
}

static bool floor_place(struct chain *chain, struct attn_args *args)
{
	if (!args->spec.bias[0].base || args->spec.round_x == ATTN_F16_FLOORED ||
	    !spec_floors(chain))
		return true;
	chain->complement.in_dtype = args->spec.bias[0].dtype;
	chain->complement.weight = (float)spec_lowest(args->spec.bias[0].dtype);
	chain->complement.flags = COMPLEMENT_FLOORS;
	return make_of(chain, &args->spec.bias[0], args);
}

static bool complement_place(struct chain *chain, struct attn_args *args)
{
	const struct meaning *meaning = spec_complement(chain);
	struct attn_tensor *bias = NULL;

	if (!meaning)
		return true;
	for (int n = 0; n < ATTN_MAX_BIAS && args->spec.bias[n].base; n++)
		bias = &args->spec.bias[n]; /* softmax's own is the last */
	if (!bias)
		return false;
	chain->complement.in_dtype = meaning->views[2].dtype;
	chain->complement.weight = (float)meaning->added;
	chain->complement.flags = COMPLEMENT_NUMBERS;
	return make_of(chain, bias, args);
}

/* Two masks become one, in rows that begin on 16 bytes. */
static bool masks_place(struct chain *chain, struct attn_args *args)
{
	struct attn_tensor *mask = &args->spec.mask;
	const struct attn_tensor *also = &args->spec.mask_also;
	const bool batches = mask->stride[0] || also->stride[0],
		   heads = mask->stride[1] || also->stride[1];
	const int64_t pitch = (args->Sk + 15) / 16 * 16;
	struct complement_args *both = &chain->complement;

	if (!also->base)
		return true;
	*both = (struct complement_args){.in = mask->base,
					 .out = both->out,
					 .in_dtype = ATTN_BOOL,
					 .out_dtype = ATTN_BOOL,
					 .flags = args->spec.mask_keeps ? COMPLEMENT_KEEPS
									: COMPLEMENT_HIDES,
					 .heads = heads ? args->H : 1,
					 .rows = args->Sq,
					 .keys = (int32_t)pitch,
					 .first = -(int64_t)args->Sq,
					 .last = args->Sk,
					 .also = also->base,
					 .also_keeps = args->spec.mask_also_keeps,
					 .width = args->Sk};
	memcpy(both->stride, mask->stride, sizeof(both->stride));
	memcpy(both->also_stride, also->stride, sizeof(both->also_stride));
	both->count = (batches ? args->B : 1) * both->heads * args->Sq * pitch;
	both->out = room_for(chain, both->out, (uint64_t)both->count);
	args->spec.mask =
		(struct attn_tensor){.base = both->out,
				     .stride = {batches ? both->heads * args->Sq * pitch : 0,
						heads ? args->Sq * pitch : 0, pitch, 1},
				     .dtype = ATTN_BOOL};
	args->spec.mask_keeps = 0;
	args->spec.mask_also.base = 0;
	return both->out != 0;
}

bool made_bias_place(struct chain *chain, struct attn_args *args, const struct identity *identity)
{
	if (slopes_place(chain, args, identity) && flags_place(chain, args, identity) &&
	    floor_place(chain, args) && complement_place(chain, args) && masks_place(chain, args))
		return true;
	made_bias_put(chain);
	return false;
}

int made_bias_write(const struct chain *chain)
{
	const int error = fused_slopes(chain->context, chain->stream, &chain->slopes);

	return error ? error : fused_complement(chain->context, chain->stream, &chain->complement);
}

void made_bias_put(struct chain *chain)
{
	if (chain->made_stays)
		return;
	scratch_put(chain->slopes.out, chain->stream);
	scratch_put(chain->complement.out, chain->stream);
	chain->slopes.out = chain->complement.out = 0;
}
