/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads that share a V share its rows.
 */
#include "shim/gpu/value_rows.h"

#include <string.h>

#define FEWEST 64 /* queries: with fewer, V is read about once anyway */

static bool is_narrow(const struct attn_tensor *v)
{
	return (v->dtype == ATTN_F16 || v->dtype == ATTN_BF16) && !v->by_array &&
	       v->stride[0] >= 0 && v->stride[1] >= 0;
}

bool value_rows_cast(const struct attn_args *args)
{
	return args->q.dtype == ATTN_F32 && args->k.dtype == ATTN_F32 && is_narrow(&args->v);
}

bool value_rows_help(const struct attn_args *args)
{
	const struct attn_tensor *v = &args->v;

	return is_narrow(v) && args->Sq >= FEWEST && args->Sk > 1 && args->Dv > 1 &&
	       v->stride[2] == 1 && v->stride[3] > 1;
}

/* Of how many V there are. */
static int64_t count(const struct attn_args *args, int dimension)
{
	const int32_t size = dimension ? args->H : args->B;

	return args->v.stride[dimension] ? size : 1;
}

uint64_t value_rows_bytes(const struct attn_args *args)
{
	return (uint64_t)(count(args, 0) * count(args, 1) * args->Sk * args->Dv) *
	       (uint64_t)attn_dtype_size(args->q.dtype);
}

static void add(struct relayout *copy, int64_t size, int64_t *to, int64_t from)
{
	if (size == 1)
		return;
	copy->dim[copy->dims].size = size;
	copy->dim[copy->dims].to = *to;
	copy->dim[copy->dims++].from = from;
	*to *= size;
}

void value_rows_lay(struct attn_args *laid, struct relayout *copy, const struct attn_args *args,
		    uint64_t at)
{
	const int64_t rows = (int64_t)args->Sk * args->Dv, heads = count(args, 1);
	int64_t to = 1;

	memset(copy, 0, sizeof(*copy));
	copy->dtype = args->q.dtype;
	copy->source = args->v.dtype;
	copy->in_begin = args->v.base;
	copy->out_begin = at;
	copy->out_end = at + value_rows_bytes(args);
	add(copy, args->Dv, &to, args->v.stride[3]);
	add(copy, args->Sk, &to, args->v.stride[2]);
	add(copy, heads, &to, args->v.stride[1]);
	add(copy, count(args, 0), &to, args->v.stride[0]);
	*laid = *args;
	laid->v.base = at;
	laid->v.dtype = args->q.dtype;
	laid->v.stride[0] = args->v.stride[0] ? rows * heads : 0;
	laid->v.stride[1] = args->v.stride[1] ? rows : 0;
	laid->v.stride[2] = args->Dv;
	laid->v.stride[3] = 1;
}
