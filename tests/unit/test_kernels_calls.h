/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that a variant is chosen for: described, never run.
 */
#ifndef FASHIM_TEST_KERNELS_CALLS_H
#define FASHIM_TEST_KERNELS_CALLS_H

#include "kernels/attention.h"
#include "kernels/takes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

static inline struct attn_args call(int dtype, int batch, int heads, int queries, int D, int Dv)
{
	struct attn_args a = {
		.B = batch, .H = heads, .Sq = queries, .Sk = queries, .D = D, .Dv = Dv};

	a.q.dtype = a.k.dtype = a.v.dtype = a.o.dtype = dtype;
	return a;
}

/* The call with its operands packed, scaled as usual and without a window. */
static inline struct attn_args packed_call(int heads, int length)
{
	struct attn_args a = call(ATTN_F16, 1, heads, length, 64, 64);
	struct attn_tensor *const t[] = {&a.q, &a.k, &a.v, &a.o};

	for (int n = 0; n < 4; n++)
		*t[n] = (struct attn_tensor){
			.base = 4096, .stride = {0, length * 64, 64, 1}, .dtype = ATTN_F16};
	a.spec.scale = 0.125f;
	a.spec.round_x = ATTN_F32;
	a.spec.window_left = a.spec.window_right = ATTN_NO_WINDOW;
	a.spec.window_value = -INFINITY;
	return a;
}

/* Every variant is there. Free it. */
static inline uint8_t *all_available(void)
{
	uint8_t *available = malloc((size_t)attn_variant_total);

	assert_non_null(available);
	return memset(available, 1, (size_t)attn_variant_total);
}

/* What calls differ in that a choice looks at, but for sizes. */
enum call_kind {
	KIND_PLAIN,
	KIND_CAUSAL,
	KIND_BIAS,
	KIND_BIASES,
	KIND_WIDE_BIASES, /* of fp32 */
	KIND_IMAGE,	  /* two, of which a number stands for several keys */
	KIND_MASK,
	KIND_SINKS,
	KIND_ROUNDED,
	KIND_ROUNDED_BIASES,
	KIND_ROUNDED_SINKS,
	KIND_COUNT
};

/* A call of a kind; down: K lies across; odd: rows start anywhere. */
static inline struct attn_args call_of(enum call_kind kind, int dtype, int heads, int queries,
				       int keys, int D, int down, int odd)
{
	struct attn_args a = call(dtype, 1, heads, queries, D, D);
	struct attn_tensor *const t[] = {&a.q, &a.k, &a.v, &a.o};
	static const int biases[KIND_COUNT] = {[KIND_BIAS] = 1,
					       [KIND_BIASES] = 2,
					       [KIND_WIDE_BIASES] = 2,
					       [KIND_IMAGE] = 2,
					       [KIND_ROUNDED_BIASES] = 2};
	const int64_t line = D + odd;

	a.Sk = keys;
	for (int n = 0; n < 4; n++)
		*t[n] = (struct attn_tensor){
			.base = 4096, .stride = {0, 8192 * line, line, 1}, .dtype = dtype};
	if (down) {
		a.k.stride[2] = 1;
		a.k.stride[3] = (keys + 7) / 8 * 8 + odd;
	}
	a.spec.scale = a.spec.alpha = 0.125f;
	a.spec.round_x = ATTN_F32;
	a.spec.window_left = a.spec.window_right = ATTN_NO_WINDOW;
	a.spec.window_value = -INFINITY;
	if (kind == KIND_CAUSAL)
		a.spec.window_right = 0;
	for (int n = 0; n < biases[kind]; n++)
		a.spec.bias[n] =
			(struct attn_tensor){.base = 4096,
					     .stride = {0, 0, keys, 1},
					     .dtype = kind == KIND_WIDE_BIASES ? ATTN_F32 : dtype};
	if (kind == KIND_IMAGE) {
		a.spec.bias[0].columns = -14;
		a.spec.bias[1].columns = 14;
	}
	if (kind == KIND_MASK)
		a.spec.mask = (struct attn_tensor){
			.base = 4096, .stride = {0, 0, keys, 1}, .dtype = ATTN_BOOL};
	if (kind == KIND_SINKS || kind == KIND_ROUNDED_SINKS)
		a.spec.sinks =
			(struct attn_tensor){.base = 4096, .stride = {0, 1, 0, 0}, .dtype = dtype};
	if (kind >= KIND_ROUNDED)
		a.spec.round_s = ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS;
	a.spec.round_p = dtype;
	return a;
}

#endif
