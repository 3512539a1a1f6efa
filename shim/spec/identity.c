/* SPDX-License-Identifier: Apache-2.0
 *
 * An identity put to use: from the numbers of pointers to addresses, snapshots where they were
 * taken, and from one number of keys to another.
 */
#include "shim/spec/identity.h"

#include <stdio.h>

#include "shim/op/memory.h"

#define NOWHERE 1 /* computed slopes, before they are given a place */

static enum reason stop(char *detail, const char *why)
{
	snprintf(detail, 96, "%s", why);
	return REASON_UNACCOUNTED_POINTER;
}

/* The n-th pointer to the program's own memory, from 1. */
static uint64_t pointer_at(const struct chain *chain, uint64_t n)
{
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].outside && --n == 0)
			return chain->values[i].begin;
	return 0;
}

static int pointer_count(const struct chain *chain)
{
	int count = 0;

	for (int i = 0; i < chain->value_count; i++)
		count += chain->values[i].outside;
	return count;
}

/* Where that memory can be read now, and how far. */
static uint64_t readable(const struct chain *chain, uint64_t pointer, uint64_t *room)
{
	const struct allocation *allocation = memory_find(pointer);

	*room = allocation ? allocation->base + allocation->bytes - pointer : 0;
	for (int i = 0; i < chain->input_count; i++)
		if (pointer && chain->inputs[i].begin == pointer && chain->inputs[i].snapshot) {
			*room = chain->inputs[i].end - pointer;
			return chain->inputs[i].snapshot;
		}
	return pointer;
}

uint64_t identity_pointer(const struct chain *chain, int *count, uint64_t *room)
{
	*count = pointer_count(chain);
	return readable(chain, pointer_at(chain, (uint64_t)*count), room);
}

/* A tensor that was found with another number of keys: the same form with as many as there are
 * now. The shortest of its strides is a row of them. */
static void fit_keys(struct attn_tensor *tensor, int64_t keys)
{
	int64_t row = INT64_MAX;

	for (int i = 0; i < 3; i++)
		if (tensor->stride[i] && tensor->stride[i] < row)
			row = tensor->stride[i];
	for (int i = 0; i < 3 && tensor->stride[3]; i++)
		tensor->stride[i] = tensor->stride[i] / row * keys;
}

/* From slopes to biases: a number for each key. */
static void spread_slopes(struct attn_tensor *tensor, const struct attn_args *args)
{
	const int64_t keys = args->Sk, heads = tensor->stride[1] ? args->H : 1;

	tensor->dtype = ATTN_F32;
	tensor->stride[0] = tensor->stride[0] ? heads * keys : 0;
	tensor->stride[1] = tensor->stride[1] ? keys : 0;
	tensor->stride[2] = 0;
	tensor->stride[3] = 1;
}

int32_t identity_shift(const struct identity *identity, const struct attn_args *args)
{
	return identity->spec.window_shift ? args->Sk - args->Sq : 0;
}

enum reason identity_apply(struct attn_args *args, const struct chain *chain,
			   const struct identity *identity, char *detail)
{
	const int found = identity_bias_place(chain);
	const struct attn_tensor preload = args->spec.bias[0];
	struct attn_tensor *tensor;
	uint64_t room;

	if (args->spec.bias[found].base || args->spec.mask.base)
		return stop(detail, "a mask beside an unknown kernel");
	if (!identity)
		return REASON_NONE;
	if (identity->pointers != pointer_count(chain))
		return stop(detail, "another number of pointers");
	if (identity->only_keys && args->Sk != identity->only_keys)
		return stop(detail, "another number of keys");
	args->spec = identity->spec;
	args->spec.window_shift = identity_shift(identity, args);
	if (identity->beyond) { /* what flags hide comes with it */
		args->spec.window_left = args->spec.window_right = ATTN_NO_WINDOW;
		args->spec.window_shift = 0;
	}
	if (found)
		args->spec.bias[0] = preload;
	for (int n = found; (tensor = identity_tensor(&args->spec, n)); n++) {
		const bool slopes = n == identity->slopes - 1;

		if (tensor->base)
			tensor->base = readable(chain, pointer_at(chain, tensor->base), &room);
		else if (slopes)
			tensor->base = NOWHERE;
		else
			continue;
		if (slopes)
			spread_slopes(tensor, args);
		else if (!identity->only_keys)
			fit_keys(tensor, args->Sk);
	}
	return REASON_NONE;
}

uint64_t identity_extent(const struct identity *identity, const struct attn_args *args,
			 const struct chain *chain, int number, int64_t *keys)
{
	struct attn_spec found = identity->spec, now = args->spec;
	const struct attn_tensor *tensor;

	for (int n = identity_bias_place(chain); (tensor = identity_tensor(&found, n)); n++) {
		const int64_t *stride = identity_tensor(&now, n)->stride;
		const bool slopes = n == identity->slopes - 1; /* one for Sk biases */
		const int64_t last = (args->B - 1) * stride[0] + (args->H - 1) * stride[1] +
				     (args->Sq - 1) * stride[2] + (args->Sk - 1) * stride[3];

		if (tensor->base != (uint64_t)number)
			continue;
		*keys = stride[3] && !slopes ? args->Sk : 0;
		return (uint64_t)(last / (slopes ? args->Sk : 1) + 1) *
		       (uint64_t)attn_dtype_size(n == identity->flags - 1 ? identity->flags_type
									  : tensor->dtype);
	}
	return 0;
}
