/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of what happens to scores: factors, softcap, biases broadcast in every way, boolean
 * masks, and the forms that no kernel takes.
 */
#include "tests/unit/spec_fixture.h"

#include <math.h>

#include "shim/rules/rules.h"
#include "tests/apps/aten.h"

#define TEXT_(x) #x
#define TEXT(x)	 TEXT_(x)

/* ---- scale, softcap, masks
 * ---------------------------------------------------------------------------- */

static void test_scales(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	op = core_scores();
	op.gemm.alpha = 0.5;
	chain = chain_open(&op);
	join(chain, core_scale(core.x, core.s, 0.25f));
	join(chain, core_scale(core.x, core.x, 4));
	join(chain, core_softmax(core.p, core.x));
	join(chain, core_scale(core.p, core.p, 2)); /* after softmax: another factor */
	op = core_context();
	op.gemm.alpha = 3;
	assert_int_equal(end_with(chain, op, NULL), REASON_NONE);
	assert_true(args.spec.scale == 0.5f);
	assert_true(args.spec.out_scale == 6);
}

/* A factor after a bias multiplies both. */
static void test_scale_after_bias(void **state)
{
	struct chain *chain;

	core_begin();
	chain = begin();
	join(chain, core_scale(core.x, core.s, 0.5f));
	join(chain, core_add_mask(core.x, core.x, core.mask));
	join(chain, core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff));
	join(chain, core_scale(core.x, core.x, 0.25f));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_true(args.spec.scale == 0.125f);
	assert_true(args.spec.bias_scale[0] == 0.25f);
	assert_true(args.spec.mask_value == -65504 * 0.25f);
	/* what was rounded cannot be scaled before, but for what is exact */
	core_begin();
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, core.mask));
	join(chain, core_scale(core.x, core.x, 0.3f));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
}

/* S = 0.5 QK^T + 2 C: what lay in S's memory is a bias with S's own layout. */
static void test_preloaded(void **state)
{
	struct chain *chain;
	struct op op;

	core_begin();
	op = core_scores();
	op.gemm.alpha = 0.5;
	op.gemm.beta = 2;
	chain = chain_open(&op);
	join(chain, core_scale(core.x, core.s, 0.25f));
	join(chain, core_add_mask(core.x, core.x, core.mask));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_true(args.spec.scale == 0.125f);
	assert_int_equal(args.spec.bias[0].base, core.s);
	assert_int_equal(args.spec.bias[0].dtype, ATTN_F16);
	assert_true(args.spec.bias_scale[0] == 0.5f);
	assert_stride(&args.spec.bias[0], core.H * core.Sq * core.Sk, core.Sq * core.Sk, core.Sk,
		      1);
	assert_int_equal(args.spec.bias[1].base, core.mask);
	assert_true(args.spec.bias_scale[1] == 1);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	core_begin(); /* tanh of it is no form of ours */
	chain = chain_open(&op);
	join(chain, core_tanh(core.x, core.s));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
}

/* cap tanh(scale qk / cap) */
static void test_softcap(void **state)
{
	struct chain *chain;

	core_begin();
	chain = begin();
	join(chain, core_scale(core.x, core.s, 0.25f));
	join(chain, core_scale(core.x, core.x, 1 / 8.0f));
	join(chain, core_tanh(core.x, core.x));
	join(chain, core_scale(core.x, core.x, 8));
	assert_int_equal(finish(chain), REASON_NONE);
	/* x = softcap * tanh(scale qk / softcap): tanh's argument must come out as 0.25 qk / 8 */
	assert_true(args.spec.softcap == 8);
	assert_true(args.spec.scale / args.spec.softcap == 0.25f / 8);
	core_begin();
	chain = begin();
	join(chain, core_tanh(core.x, core.s));
	join(chain, core_tanh(core.x, core.x)); /* twice is no form of ours */
	assert_int_equal(finish(chain), REASON_MASK_FORM);
	core_begin();
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, core.mask));
	join(chain, core_tanh(core.x, core.x)); /* tanh of the bias too */
	assert_int_equal(finish(chain), REASON_MASK_FORM);
}

static void test_bias(void **state)
{
	struct chain *chain;

	core_begin();
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, core.mask));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.bias[0].dtype, ATTN_F16);
	assert_int_equal(args.spec.bias[0].stride[1], 0);
	assert_int_equal(args.spec.bias[0].stride[2], core.Sk);
	assert_int_equal(args.spec.bias[0].stride[3], 1);
	assert_true(args.spec.bias_scale[0] == 1);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	assert_int_equal(args.spec.bias[1].base, 0);
}

/* Adds a broadcast mask in other dimensions; Z = 6. */
static enum reason broadcast(int dims, const unsigned *size, const unsigned *strides)
{
	const float one = 1;
	struct chain *chain = begin();

	join(chain, core_strided(TEXT(ATEN_ADD_STRIDED), 3, dims, size, strides,
				 (uint64_t[]){core.x, core.s, core.mask}, &one, 4));
	return finish(chain);
}

static void test_broadcast(void **state)
{
	const unsigned Sk = 40, Sq = 32, H = 3, B = 2, keys = Sk * 2, all = Sq * Sk * 2;

	/* [B,1,1,Sk]: padding. Heads and queries are one dimension. */
	core_begin();
	core.H = H * B;
	assert_int_equal(broadcast(3, (unsigned[]){Sk, Sq * H, B},
				   (unsigned[]){2, 2, 2, keys, keys, 0, all * H, all * H, keys}),
			 REASON_NONE);
	assert_int_equal(args.B, B);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.bias[0], Sk, 0, 0, 1);
	assert_stride(&args.q, H * Sq * core.D, Sq * core.D, core.D, 1);
	/* [1,H,Sq,Sk]: a bias of each head, the same for all batches. */
	core_begin();
	core.H = H * B;
	assert_int_equal(broadcast(2, (unsigned[]){Sk * Sq * H, B},
				   (unsigned[]){2, 2, 2, all * H, all * H, 0}),
			 REASON_NONE);
	assert_int_equal(args.B, B);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.bias[0], 0, Sq * Sk, Sk, 1);
	/* [B,1,Sq,Sk] */
	core_begin();
	core.H = H * B;
	assert_int_equal(broadcast(3, (unsigned[]){Sk * Sq, H, B},
				   (unsigned[]){2, 2, 2, all, all, 0, all * H, all * H, all}),
			 REASON_NONE);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.bias[0], Sq * Sk, 0, Sk, 1);
	/* [1,H,1,Sk]: ALiBi as a tensor. */
	core_begin();
	core.H = H * B;
	assert_int_equal(broadcast(4, (unsigned[]){Sk, Sq, H, B},
				   (unsigned[]){2, 2, 2, keys, keys, 0, all, all, keys, all * H,
						all * H, 0}),
			 REASON_NONE);
	assert_stride(&args.spec.bias[0], 0, Sk, 0, 1);
	/* [1,1,Sq,1]: one number a row */
	core_begin();
	core.H = H * B;
	assert_int_equal(broadcast(3, (unsigned[]){Sk, Sq, H * B},
				   (unsigned[]){2, 2, 0, keys, keys, 2, all, all, 0}),
			 REASON_NONE);
	assert_int_equal(args.spec.bias[0].stride[2], 1);
	assert_int_equal(args.spec.bias[0].stride[3], 0);
	/* All of it, [B,H,Sq,Sk]. */
	core_begin();
	core.H = H * B;
	assert_int_equal(broadcast(1, (unsigned[]){Sk * Sq * H * B}, (unsigned[]){2, 2, 2}),
			 REASON_NONE);
	assert_int_equal(args.B * args.H, H * B);
	assert_stride(&args.spec.bias[0], args.H * Sq * Sk, Sq * Sk, Sk, 1);
}

/* One K and V for all heads: heads and queries are rows of one product, and the mask, which is the
 * same for all heads, tells them apart. */
static void test_folded(void **state)
{
	const unsigned Sk = 40, Sq = 8, H = 4, B = 3, keys = Sk * 2;
	const unsigned all = Sk * Sq * H * 2, rows = H * 8, batch = Sq * H * 8;

	core_begin(); /* [B,Sq,H,Sk] + [B,Sq,1,Sk] */
	assert_int_equal(broadcast(4, (unsigned[]){Sk, H, Sq, B},
				   (unsigned[]){2, 2, 2, keys, keys, 0, keys * H, keys * H, keys,
						all, all, keys * Sq}),
			 REASON_NONE);
	assert_int_equal(args.B, B);
	assert_int_equal(args.H, H);
	assert_int_equal(args.Sq, Sq);
	assert_stride(&args.spec.bias[0], Sk * Sq, 0, Sk, 1);
	assert_stride(&args.q, batch, 8, rows, 1);
	assert_stride(&args.o, batch, 8, rows, 1);
	assert_stride(&args.k, Sk * 8, 0, 8, 1);
	assert_stride(&args.v, Sk * 8, 0, 8, 1);
	core_begin(); /* [B,H,Sq,Sk] + [1,1,Sq,Sk] */
	assert_int_equal(broadcast(3, (unsigned[]){Sk * Sq, H, B},
				   (unsigned[]){2, 2, 2, keys * Sq, keys * Sq, 0, all, all, 0}),
			 REASON_NONE);
	assert_int_equal(args.H, H);
	assert_int_equal(args.Sq, Sq);
	assert_stride(&args.spec.bias[0], 0, 0, Sk, 1);
	assert_stride(&args.q, batch, Sq * 8, 8, 1);
	assert_stride(&args.k, Sk * 8, 0, 8, 1);
}

/* Forms that no [B,H,Sq,Sk] tensor has. */
static void test_broadcast_denied(void **state)
{
	const unsigned Sk = 40, Sq = 32, all = Sq * Sk * 2;

	core_begin();
	core.H = 6; /* keys in three pieces, or in two that both vary */
	assert_int_equal(broadcast(4, (unsigned[]){Sk / 4, 2, 2, Sq * 6},
				   (unsigned[]){2, 2, 2, Sk / 2, Sk / 2, 0, Sk, Sk, Sk / 2, Sk * 2,
						Sk * 2, Sk}),
			 REASON_MASK_FORM);
	core_begin();
	core.H = 6;
	assert_int_equal(broadcast(3, (unsigned[]){Sk / 2, 2, Sq * 6},
				   (unsigned[]){2, 2, 2, Sk, Sk, 2 * Sk, Sk * 2, Sk * 2, 4 * Sk}),
			 REASON_MASK_FORM);
	core_begin();
	core.H = 6; /* Z in three */
	assert_int_equal(
		broadcast(4, (unsigned[]){Sk * Sq, 1, 2, 3},
			  (unsigned[]){2, 2, 2, 0, 0, 0, all, all, 0, all * 2, all * 2, all}),
		REASON_NONE);
	core_begin();
	core.H = 24; /* heads, and batches in three, or in two that both vary */
	assert_int_equal(broadcast(5, (unsigned[]){Sk * Sq, 2, 2, 3, 2},
				   (unsigned[]){2, 2, 2, all, all, 0, all * 2, all * 2, all,
						all * 4, all * 4, 0, all * 12, all * 12, all * 2}),
			 REASON_MASK_FORM);
	core_begin();
	core.H = 12;
	assert_int_equal(broadcast(4, (unsigned[]){Sk * Sq, 2, 2, 3},
				   (unsigned[]){2, 2, 2, all, all, 0, all * 2, all * 2, all,
						all * 4, all * 4, all * 3}),
			 REASON_MASK_FORM);
}

/* Batches are images and their windows: [1,windows,1,Sq,Sk], [images,1,1,Sq,Sk] and
 * [1,windows,H,Sq,Sk]. */
static void test_windows(void **state)
{
	const unsigned Sk = 40, Sq = 32, H = 2, W = 3, all = Sq * Sk * 2;
	const float one = 1;
	struct chain *chain;

	core_begin();
	core.H = H * W * 4;
	assert_int_equal(broadcast(4, (unsigned[]){Sk * Sq, H, W, 4},
				   (unsigned[]){2, 2, 2, all, all, 0, all * H, all * H, all,
						all * H * W, all * H * W, 0}),
			 REASON_NONE);
	assert_int_equal(args.B, W * 4);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.bias[0], Sq * Sk, 0, Sk, 1);
	assert_int_equal(args.spec.bias[0].batches, W);
	/* the number of heads comes from another */
	for (int windows = 0; windows < 2; windows++) {
		core_begin();
		core.H = H * W * 4;
		chain = begin();
		join(chain,
		     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 2, (unsigned[]){Sk * Sq * H, W * 4},
				  (unsigned[]){2, 2, 2, all * H, all * H, 0},
				  (uint64_t[]){core.x, core.s, core.mask}, &one, 4));
		if (windows)
			join(chain,
			     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 2,
					  (unsigned[]){Sk * Sq * H * W, 4},
					  (unsigned[]){2, 2, 2, all * H * W, all * H * W, 0},
					  (uint64_t[]){core.x, core.x, CORE_OTHER}, &one, 4));
		else
			join(chain,
			     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 3,
					  (unsigned[]){Sk * Sq, H * W, 4},
					  (unsigned[]){2, 2, 2, all, all, 0, all * H * W,
						       all * H * W, all},
					  (uint64_t[]){core.x, core.x, CORE_OTHER}, &one, 4));
		assert_int_equal(finish(chain), REASON_NONE);
		assert_int_equal(args.H, H);
		assert_int_equal(args.spec.bias[0].batches, 0);
		assert_int_equal(args.spec.bias[1].batches, windows ? (int)W : -(int)W);
		if (windows)
			assert_stride(&args.spec.bias[1], H * Sq * Sk, Sq * Sk, Sk, 1);
		else
			assert_stride(&args.spec.bias[1], Sq * Sk, 0, Sk, 1);
	}
}

/* Keys are the places of an image, 8 in a row of it: one number for each row, and one for each
 * column. */
static void test_decomposed(void **state)
{
	const unsigned Sk = 40, Sq = 32, side = 8, keys = Sk * 2;
	const float one = 1;
	struct chain *chain;

	core_begin();
	chain = begin();
	join(chain,
	     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 3, (unsigned[]){side, Sk / side, Sq * core.H},
			  (unsigned[]){2, 2, 0, 2 * side, 2 * side, 2, keys, keys, 2 * Sk / side},
			  (uint64_t[]){core.x, core.s, core.mask}, &one, 4));
	join(chain,
	     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 3, (unsigned[]){side, Sk / side, Sq * core.H},
			  (unsigned[]){2, 2, 2, 2 * side, 2 * side, 0, keys, keys, 2 * side},
			  (uint64_t[]){core.x, core.x, CORE_OTHER}, &one, 4));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.bias[0].columns, -(int)side);
	assert_int_equal(args.spec.bias[0].stride[2], Sk / side);
	assert_int_equal(args.spec.bias[0].stride[3], 1);
	assert_int_equal(args.spec.bias[1].columns, side);
	assert_int_equal(args.spec.bias[1].stride[2], side);
	assert_int_equal(args.spec.bias[1].stride[3], 1);
}

/* The last of two biases once more is twice that; another is one too many. */
static void test_added_twice(void **state)
{
	for (int other = 0; other < 3; other++) {
		struct chain *chain;

		core_begin();
		chain = begin();
		join(chain, core_add_mask(core.x, core.s, CORE_OTHER));
		join(chain, core_add_mask(core.x, core.x, core.mask));
		if (other == 2)
			join(chain, core_masked_fill(core.x, core.x, CORE_OTHER + 0x10000, 0xfc00));
		join(chain, core_add_mask(core.x, core.x, other == 1 ? CORE_OTHER : core.mask));
		assert_int_equal(finish(chain), other ? REASON_MASK_FORM : REASON_NONE);
		if (!other) {
			assert_true(args.spec.bias_scale[0] == 1);
			assert_true(args.spec.bias_scale[1] == 2);
		}
	}
}

/* S times or divided by a tensor of these strides; `at`: which operand the tensor is. */
static struct op multiplied(const char *name, int at, uint64_t out, uint64_t in, int dims,
			    const unsigned *size, const unsigned *strides)
{
	const uint64_t operand[3] = {out, at == 1 ? core.mask : in, at == 1 ? in : core.mask};

	return core_strided(name, 3, dims, size, strides, operand, "", 1);
}

/* A number for each head, one for all, one for each score. */
static void test_scales_on_device(void **state)
{
	const unsigned Sk = 40, Sq = 32, H = 3, B = 2, all = Sq * Sk * 2;
	const unsigned heads[] = {2, 2, 0, all, all, 2, all * H, all * H, 0};
	const unsigned swapped[] = {2, 0, 2, all, 2, all, all * H, 0, all * H};
	const unsigned size[] = {Sk * Sq, H, B};
	struct chain *chain;

	for (int way = 0; way < 3; way++) {
		core_begin();
		core.H = H * B;
		chain = begin();
		join(chain, core_scale(core.x, core.s, 0.25f));
		join(chain,
		     multiplied(way == 2 ? TEXT(ATEN_DIVIDE_STRIDED) : TEXT(ATEN_MULTIPLY_STRIDED),
				way == 1 ? 1 : 2, core.x, core.x, 3, size,
				way == 1 ? swapped : heads));
		join(chain, core_add_mask(core.x, core.x, CORE_OTHER));
		assert_int_equal(finish(chain), REASON_NONE);
		assert_int_equal(args.H, H);
		assert_int_equal(args.B, B);
		assert_true(args.spec.scale == 0.25f);
		assert_int_equal(args.spec.scales.base, core.mask);
		assert_int_equal(args.spec.scales.dtype, ATTN_F16);
		assert_stride(&args.spec.scales, 0, 1, 0, 0);
		assert_int_equal(args.spec.scales_divide, way == 2);
		assert_int_equal(args.spec.bias[0].base, CORE_OTHER);
		assert_int_equal(args.spec.round_s, ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED |
							    ATTN_ROUND_BIASED | ATTN_ROUND_WEIGHTS);
	}
	core_begin(); /* one number, stored in 16 bits */
	chain = begin();
	join(chain, multiplied(TEXT(ATEN_MULTIPLY_STRIDED), 2, core.x, core.s, 1,
			       (unsigned[]){Sk * Sq * 3}, (unsigned[]){2, 2, 0}));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.scales.base, core.mask);
	assert_stride(&args.spec.scales, 0, 0, 0, 0);
	assert_int_equal(args.spec.round_s,
			 ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_WEIGHTS);
	core_begin(); /* scaled before, and stored */
	chain = begin();
	join(chain, core_scale(core.x, core.s, 0.3f));
	join(chain, multiplied(TEXT(ATEN_MULTIPLY_STRIDED), 2, core.x, core.x, 1,
			       (unsigned[]){Sk * Sq * 3}, (unsigned[]){2, 2, 0}));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.round_s, 0);
	core_begin(); /* all of it: kernels do not round in between */
	chain = begin();
	join(chain, multiplied(TEXT(ATEN_MULTIPLY_STRIDED), 2, core.x, core.s, 2,
			       (unsigned[]){Sk * Sq, 3}, (unsigned[]){2, 2, 2, all, all, 0}));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_stride(&args.spec.scales, 0, 0, Sk, 1);
	assert_int_equal(args.spec.round_s, 0);
}

/* By what lies on the device, where no kernel takes it. */
static void test_scales_denied(void **state)
{
	const unsigned Sk = 40, Sq = 32, all = Sq * Sk * 2;
	const unsigned size[] = {Sk * Sq, 3}, heads[] = {2, 2, 0, all, all, 2};
	const unsigned swapped[] = {2, 0, 2, all, 2, all};
	const char *const multiply = TEXT(ATEN_MULTIPLY_STRIDED);
	struct chain *chain;

	core_begin(); /* twice */
	chain = begin();
	join(chain, multiplied(multiply, 2, core.x, core.s, 2, size, heads));
	join(chain, multiplied(multiply, 2, core.x, core.x, 2, size, heads));
	assert_int_equal(finish(chain), REASON_UNKNOWN_KERNEL);
	core_begin(); /* after a bias */
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, CORE_OTHER));
	join(chain, multiplied(multiply, 2, core.x, core.x, 2, size, heads));
	assert_int_equal(finish(chain), REASON_UNKNOWN_KERNEL);
	core_begin(); /* after softmax */
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	join(chain, multiplied(multiply, 2, core.p, core.p, 2, size, heads));
	assert_int_equal(end(chain), REASON_UNKNOWN_KERNEL);
	core_begin(); /* one number for all, after a mask: named as what it is */
	chain = begin();
	join(chain, core_masked_fill(core.x, core.s, CORE_OTHER, 0xfc00));
	join(chain, multiplied(multiply, 2, core.x, core.x, 1, (unsigned[]){Sk * Sq * 3},
			       (unsigned[]){2, 2, 0}));
	assert_int_equal(finish(chain), REASON_SCALARS_ON_DEVICE);
	core_begin(); /* a number divided by S */
	chain = begin();
	join(chain, multiplied(TEXT(ATEN_DIVIDE_STRIDED), 1, core.x, core.s, 2, size, swapped));
	assert_int_equal(finish(chain), REASON_UNKNOWN_KERNEL);
	core_begin(); /* beside a kernel that only data could explain, at what the number was then
		       */
	chain = begin();
	join(chain, multiplied(multiply, 2, core.x, core.s, 2, size, heads));
	join(chain, core_unknown(core.x, core.x, 1));
	assert_int_equal(finish(chain), REASON_SCALARS_ON_DEVICE);
}

/* Two biases must agree on where Z falls into batches and heads. */
static void test_split_agrees(void **state)
{
	const unsigned Sk = 40, Sq = 32, all = Sq * Sk * 2;
	const float one = 1;

	for (int second = 2; second <= 3; second++) {
		const unsigned h = (unsigned)second;
		struct chain *chain;

		core_begin();
		core.H = 6;
		chain = begin();
		join(chain, core_strided(TEXT(ATEN_ADD_STRIDED), 3, 2, (unsigned[]){Sk * Sq * 3, 2},
					 (unsigned[]){2, 2, 2, all * 3, all * 3, 0},
					 (uint64_t[]){core.x, core.s, core.mask}, &one, 4));
		join(chain,
		     core_strided(TEXT(ATEN_ADD_STRIDED), 3, 2, (unsigned[]){Sk * Sq * h, 6 / h},
				  (unsigned[]){2, 2, 2, all * h, all * h, 0},
				  (uint64_t[]){core.x, core.x, CORE_OTHER}, &one, 4));
		assert_int_equal(finish(chain), second == 3 ? REASON_NONE : REASON_MASK_FORM);
		if (second == 3)
			assert_int_equal(args.spec.bias[1].base, CORE_OTHER);
	}
}

static void test_masked_fill(void **state)
{
	struct chain *chain;

	core_begin();
	chain = begin();
	join(chain, core_scale(core.x, core.s, 0.25f));
	join(chain, core_masked_fill(core.x, core.x, core.mask, 0xfc00));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.mask.base, core.mask);
	assert_int_equal(args.spec.mask.dtype, ATTN_BOOL);
	assert_int_equal(args.spec.mask.stride[2], core.Sk);
	assert_int_equal(args.spec.mask.stride[3], 1);
	assert_int_equal(args.spec.mask.stride[1], 0);
	assert_true(isinf(args.spec.mask_value) && args.spec.mask_value < 0);
	assert_int_equal(args.spec.mask_keeps, 0);
}

/* Softmax that takes a mask itself, of P from S: as large as the scores, or for `chunk` of them one
 * row of keys. */
static struct op masked_softmax(const char *name, int chunk, bool in_chunks)
{
	const int rows = (int)(core.H * core.Sq), keys = (int)core.Sk;
	const unsigned char flag = in_chunks;

	return core_launch(
		name, 8, (size_t[]){8, 8, 4, 4, 4, 8, 4, 1},
		(const void *[]){&core.p, &core.s, &rows, &keys, &keys, &core.mask, &chunk, &flag});
}

#define MASKED_SOFTMAX                                                                             \
	"_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIN3c104HalfES2_"    \
	"fLi6ELb0ELb1EEEvPT0_PKT_iiiPKbib"

static enum reason with_masked_softmax(const char *name, int chunk, bool in_chunks)
{
	struct chain *chain = begin();

	join(chain, masked_softmax(name, chunk, in_chunks));
	return end(chain);
}

static void test_softmax_mask(void **state)
{
	const int64_t Sk = 40, Sq = 32, H = 3, B = 2;
	struct chain *chain;

	core_begin();
	core.H = H * B;
	assert_int_equal(with_masked_softmax(MASKED_SOFTMAX, -1, false), REASON_NONE);
	assert_int_equal(args.spec.mask.base, core.mask);
	assert_int_equal(args.spec.mask.dtype, ATTN_BOOL);
	assert_stride(&args.spec.mask, args.H * Sq * Sk, Sq * Sk, Sk, 1);
	assert_int_equal(args.spec.mask_keeps, 0);
	assert_true(isinf(args.spec.mask_value) && args.spec.mask_value < 0);
	assert_int_equal(args.spec.empty_row, ATTN_EMPTY_NAN);
	core_begin(); /* [B,1,1,Sk] */
	core.H = H * B;
	assert_int_equal(with_masked_softmax(MASKED_SOFTMAX, (int)(H * Sq * Sk), true),
			 REASON_NONE);
	assert_int_equal(args.B, B);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.mask, Sk, 0, 0, 1);
	core_begin(); /* one batch: one mask */
	assert_int_equal(with_masked_softmax(MASKED_SOFTMAX, (int)(H * Sq * Sk), true),
			 REASON_NONE);
	assert_stride(&args.spec.mask, 0, 0, 0, 1);
	core_begin(); /* a mask before it */
	chain = begin();
	join(chain, core_masked_fill(core.s, core.s, CORE_OTHER, 0xfbff));
	join(chain, masked_softmax(MASKED_SOFTMAX, -1, false));
	assert_int_equal(end(chain), REASON_MASK_FORM);
	core_begin(); /* the mask is made of the scores */
	core.mask = core.s;
	assert_int_equal(with_masked_softmax(MASKED_SOFTMAX, -1, false), REASON_MASK_FORM);
}

/* Chunks that a pair of rows straddles take their mask from the first of the pair; of chunks that
 * are no whole rows, or do not make up the scores, nothing is known. */
static void test_softmax_mask_denied(void **state)
{
	static const char log[] =
		"_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIN3c104"
		"HalfES2_fLi6ELb1ELb1EEEvPT0_PKT_iiiPKbib";
	static const int chunks[] = {40 * 32 + 1, 40 * 7, 39, 0, -1};

	core_begin();
	core.H = 2;
	core.Sq = 3;
	core_resize();
	assert_int_equal(with_masked_softmax(MASKED_SOFTMAX, 40 * 3, true), REASON_UNKNOWN_KERNEL);
	core_begin();
	assert_int_equal(with_masked_softmax(log, -1, false), REASON_UNKNOWN_KERNEL);
	for (unsigned i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
		struct op op;
		struct access_list list;
		static unsigned char params[FUNCTION_MAX_BYTES];
		const struct function *function;

		core_begin();
		op = masked_softmax(MASKED_SOFTMAX, chunks[i], true);
		function = function_get(op.launch.function);
		assert_true(function_read_params(function, &op.launch, params));
		assert_false(rules_access(function, &op.launch, params, &list));
	}
}

/* Biases on top of a mask: they find the fill there. */
static void test_bias_after_mask(void **state)
{
	struct chain *chain;
	char text[96];

	core_begin();
	chain = begin();
	join(chain, core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff));
	join(chain, core_add_mask(core.x, core.x, core.mask));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.mask.base, CORE_OTHER);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.late_biases, 2);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	spec_describe_mask(&args, text, sizeof(text));
	assert_string_equal(text, "mask [1,1,Sq,Sk] bool + bias [1,1,Sq,Sk] f16");
	core_begin(); /* one on either side */
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, core.mask));
	join(chain, core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff));
	join(chain, core_add_mask(core.x, core.x, CORE_OTHER + 0x10000));
	join(chain, core_scale(core.x, core.x, 0.5f));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.bias[1].base, CORE_OTHER + 0x10000);
	assert_int_equal(args.spec.late_biases, 1);
	assert_true(args.spec.mask_value == -65504 * 0.5f);
	core_begin(); /* none: then nothing is late */
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, core.mask));
	join(chain, core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_int_equal(args.spec.late_biases, 0);
}

/* The probabilities of what was hidden are made 0 once more, as ESPnet's attention does: by
 * `again`, where scores are `scores`. */
static enum reason with_zeros(uint64_t again, uint16_t filled, uint16_t with, bool biased,
			      float factor)
{
	struct chain *chain = begin();

	join(chain, core_scale(core.x, core.s, 0.25f));
	if (biased)
		join(chain, core_add_mask(core.x, core.x, core.mask));
	join(chain, core_masked_fill(core.x, core.x, CORE_OTHER, filled));
	if (factor != 1)
		join(chain, core_scale(core.x, core.x, factor));
	join(chain, core_softmax(core.p, core.x));
	join(chain, core_masked_fill(core.p, core.p, again, with));
	return end(chain);
}

static void test_masked_again(void **state)
{
	core_begin(); /* -inf, also beside a bias */
	for (int biased = 0; biased < 2; biased++) {
		assert_int_equal(with_zeros(CORE_OTHER, 0xfc00, 0, biased, 1), REASON_NONE);
		assert_true(isinf(args.spec.mask_value) && args.spec.mask_value < 0);
		assert_int_equal(args.spec.mask.base, CORE_OTHER);
		assert_int_equal(args.spec.empty_row, ATTN_EMPTY_ZERO);
		core_begin();
	}
	/* the lowest number: as good, where nothing else is as low */
	assert_int_equal(with_zeros(CORE_OTHER, 0xfbff, 0, false, 1), REASON_NONE);
	assert_true(isinf(args.spec.mask_value) && args.spec.mask_value < 0);
	assert_int_equal(args.spec.empty_row, ATTN_EMPTY_ZERO);
	core_begin();
	assert_int_equal(with_zeros(CORE_OTHER, 0xfbff, 0, true, 1), REASON_MASK_FORM);
	core_begin();
	assert_int_equal(with_zeros(CORE_OTHER, 0xfbff, 0, false, 0.25f), REASON_MASK_FORM);
	core_begin(); /* a low number is not the lowest */
	assert_int_equal(with_zeros(CORE_OTHER, 0xf0e2, 0, false, 1), REASON_MASK_FORM);
	core_begin(); /* another mask, another number */
	assert_int_equal(with_zeros(CORE_OTHER + 0x10000, 0xfc00, 0, false, 1), REASON_MASK_FORM);
	core_begin();
	assert_int_equal(with_zeros(CORE_OTHER, 0xfc00, 0x3c00, false, 1), REASON_MASK_FORM);
}

/* Memory of the mask that holds another by then. */
static void test_masked_by_another(void **state)
{
	struct chain *chain;

	core_begin();
	chain = begin();
	join(chain, core_masked_fill(core.x, core.s, CORE_OTHER, 0xfc00));
	join(chain, core_softmax(core.p, core.x));
	core_send(core_memset(CORE_OTHER, 64));
	join(chain, core_masked_fill(core.p, core.p, CORE_OTHER, 0));
	assert_int_not_equal(end(chain), REASON_NONE);
}

static void test_forms_denied(void **state)
{
	struct chain *chain;

	core_begin(); /* three biases */
	chain = begin();
	for (uint64_t i = 0; i < 3; i++)
		join(chain, core_add_mask(core.x, i ? core.x : core.s, CORE_OTHER + 0x10000 * i));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
	core_begin(); /* two masks */
	chain = begin();
	join(chain, core_masked_fill(core.x, core.s, CORE_OTHER, 0xfc00));
	join(chain, core_masked_fill(core.x, core.x, CORE_OTHER + 0x10000, 0xfc00));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
	core_begin(); /* a bias on P */
	chain = begin();
	join(chain, core_softmax(core.p, core.s));
	join(chain, core_add_mask(core.p, core.p, core.mask));
	assert_int_equal(end(chain), REASON_MASK_FORM);
	core_begin(); /* S + S */
	chain = begin();
	join(chain, core_add_mask(core.x, core.s, core.s));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scales),
		cmocka_unit_test(test_preloaded),
		cmocka_unit_test(test_scale_after_bias),
		cmocka_unit_test(test_softcap),
		cmocka_unit_test(test_bias),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_broadcast_denied),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_decomposed),
		cmocka_unit_test(test_added_twice),
		cmocka_unit_test(test_scales_on_device),
		cmocka_unit_test(test_scales_denied),
		cmocka_unit_test(test_split_agrees),
		cmocka_unit_test(test_masked_fill),
		cmocka_unit_test(test_masked_again),
		cmocka_unit_test(test_masked_by_another),
		cmocka_unit_test(test_softmax_mask),
		cmocka_unit_test(test_softmax_mask_denied),
		cmocka_unit_test(test_bias_after_mask),
		cmocka_unit_test(test_forms_denied),
	};

	return CORE_MAIN("masks", tests);
}
