/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases and scales that are tensors of fewer dimensions than the scores, broadcast in every way:
 * where these fall into batches, heads, queries and keys, and the forms that no kernel takes.
 */
#include "tests/unit/spec_fixture.h"

#include "tests/apps/aten.h"

/* X is `in` and a tensor of these strides. */
static struct op added(uint64_t in, uint64_t tensor, int dims, const unsigned *size,
		       const unsigned *strides)
{
	const float one = 1;

	return core_strided(TEXT(ATEN_ADD_STRIDED), 3, dims, size, strides,
			    (uint64_t[]){core.x, in, tensor}, &one, 4);
}

/* A chain of so many heads and batches that adds a mask in other dimensions. */
static enum reason broadcast(unsigned heads, int dims, const unsigned *size,
			     const unsigned *strides)
{
	struct chain *chain;

	core_begin();
	core.H = heads;
	chain = begin();
	join(chain, added(core.s, core.mask, dims, size, strides));
	return finish(chain);
}

static void test_broadcast(void **state)
{
	const unsigned Sk = 40, Sq = 32, H = 3, B = 2, keys = Sk * 2, all = Sq * Sk * 2;

	/* [B,1,1,Sk]: padding. Heads and queries are one dimension. */
	assert_int_equal(broadcast(H * B, 3, (unsigned[]){Sk, Sq * H, B},
				   (unsigned[]){2, 2, 2, keys, keys, 0, all * H, all * H, keys}),
			 REASON_NONE);
	assert_int_equal(args.B, B);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.bias[0], Sk, 0, 0, 1);
	assert_stride(&args.q, H * Sq * core.D, Sq * core.D, core.D, 1);
	/* [1,H,Sq,Sk]: a bias of each head, the same for all batches. */
	assert_int_equal(broadcast(H * B, 2, (unsigned[]){Sk * Sq * H, B},
				   (unsigned[]){2, 2, 2, all * H, all * H, 0}),
			 REASON_NONE);
	assert_int_equal(args.B, B);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.bias[0], 0, Sq * Sk, Sk, 1);
	/* [B,1,Sq,Sk] */
	assert_int_equal(broadcast(H * B, 3, (unsigned[]){Sk * Sq, H, B},
				   (unsigned[]){2, 2, 2, all, all, 0, all * H, all * H, all}),
			 REASON_NONE);
	assert_int_equal(args.H, H);
	assert_stride(&args.spec.bias[0], Sq * Sk, 0, Sk, 1);
	/* [1,H,1,Sk]: ALiBi as a tensor. */
	assert_int_equal(broadcast(H * B, 4, (unsigned[]){Sk, Sq, H, B},
				   (unsigned[]){2, 2, 2, keys, keys, 0, all, all, keys, all * H,
						all * H, 0}),
			 REASON_NONE);
	assert_stride(&args.spec.bias[0], 0, Sk, 0, 1);
	/* [1,1,Sq,1]: one number a row */
	assert_int_equal(broadcast(H * B, 3, (unsigned[]){Sk, Sq, H * B},
				   (unsigned[]){2, 2, 0, keys, keys, 2, all, all, 0}),
			 REASON_NONE);
	assert_int_equal(args.spec.bias[0].stride[2], 1);
	assert_int_equal(args.spec.bias[0].stride[3], 0);
	/* All of it, [B,H,Sq,Sk]. */
	assert_int_equal(broadcast(H * B, 1, (unsigned[]){Sk * Sq * H * B}, (unsigned[]){2, 2, 2}),
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

	/* [B,Sq,H,Sk] + [B,Sq,1,Sk] */
	assert_int_equal(broadcast(3, 4, (unsigned[]){Sk, H, Sq, B},
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
	/* [B,H,Sq,Sk] + [1,1,Sq,Sk] */
	assert_int_equal(broadcast(3, 3, (unsigned[]){Sk * Sq, H, B},
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

	/* keys in three pieces, or in two that both vary */
	assert_int_equal(broadcast(6, 4, (unsigned[]){Sk / 4, 2, 2, Sq * 6},
				   (unsigned[]){2, 2, 2, Sk / 2, Sk / 2, 0, Sk, Sk, Sk / 2, Sk * 2,
						Sk * 2, Sk}),
			 REASON_MASK_FORM);
	assert_int_equal(broadcast(6, 3, (unsigned[]){Sk / 2, 2, Sq * 6},
				   (unsigned[]){2, 2, 2, Sk, Sk, 2 * Sk, Sk * 2, Sk * 2, 4 * Sk}),
			 REASON_MASK_FORM);
	/* Z in three */
	assert_int_equal(
		broadcast(6, 4, (unsigned[]){Sk * Sq, 1, 2, 3},
			  (unsigned[]){2, 2, 2, 0, 0, 0, all, all, 0, all * 2, all * 2, all}),
		REASON_NONE);
	/* heads, and batches in three, or in two that both vary */
	assert_int_equal(broadcast(24, 5, (unsigned[]){Sk * Sq, 2, 2, 3, 2},
				   (unsigned[]){2, 2, 2, all, all, 0, all * 2, all * 2, all,
						all * 4, all * 4, 0, all * 12, all * 12, all * 2}),
			 REASON_MASK_FORM);
	assert_int_equal(broadcast(12, 4, (unsigned[]){Sk * Sq, 2, 2, 3},
				   (unsigned[]){2, 2, 2, all, all, 0, all * 2, all * 2, all,
						all * 4, all * 4, all * 3}),
			 REASON_MASK_FORM);
}

/* Batches are images and their windows: [1,windows,1,Sq,Sk], [images,1,1,Sq,Sk] and
 * [1,windows,H,Sq,Sk]. */
static void test_windows(void **state)
{
	const unsigned Sk = 40, Sq = 32, H = 2, W = 3, all = Sq * Sk * 2;
	struct chain *chain;

	assert_int_equal(broadcast(H * W * 4, 4, (unsigned[]){Sk * Sq, H, W, 4},
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
		join(chain, added(core.s, core.mask, 2, (unsigned[]){Sk * Sq * H, W * 4},
				  (unsigned[]){2, 2, 2, all * H, all * H, 0}));
		if (windows)
			join(chain, added(core.x, CORE_OTHER, 2, (unsigned[]){Sk * Sq * H * W, 4},
					  (unsigned[]){2, 2, 2, all * H * W, all * H * W, 0}));
		else
			join(chain, added(core.x, CORE_OTHER, 3, (unsigned[]){Sk * Sq, H * W, 4},
					  (unsigned[]){2, 2, 2, all, all, 0, all * H * W,
						       all * H * W, all}));
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

	assert_int_equal(
		FINISHED(added(core.s, core.mask, 3, (unsigned[]){side, Sk / side, Sq * core.H},
			       (unsigned[]){2, 2, 0, 2 * side, 2 * side, 2, keys, keys,
					    2 * Sk / side}),
			 added(core.x, CORE_OTHER, 3, (unsigned[]){side, Sk / side, Sq * core.H},
			       (unsigned[]){2, 2, 2, 2 * side, 2 * side, 0, keys, keys, 2 * side})),
		REASON_NONE);
	assert_int_equal(args.spec.bias[0].columns, -(int)side);
	assert_int_equal(args.spec.bias[0].stride[2], Sk / side);
	assert_int_equal(args.spec.bias[0].stride[3], 1);
	assert_int_equal(args.spec.bias[1].columns, side);
	assert_int_equal(args.spec.bias[1].stride[2], side);
	assert_int_equal(args.spec.bias[1].stride[3], 1);
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
	/* one number, stored in 16 bits */
	assert_int_equal(FINISHED(multiplied(TEXT(ATEN_MULTIPLY_STRIDED), 2, core.x, core.s, 1,
					     (unsigned[]){Sk * Sq * 3}, (unsigned[]){2, 2, 0})),
			 REASON_NONE);
	assert_int_equal(args.spec.scales.base, core.mask);
	assert_stride(&args.spec.scales, 0, 0, 0, 0);
	assert_int_equal(args.spec.round_s,
			 ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_WEIGHTS);
	/* scaled before, and stored */
	assert_int_equal(FINISHED(core_scale(core.x, core.s, 0.3f),
				  multiplied(TEXT(ATEN_MULTIPLY_STRIDED), 2, core.x, core.x, 1,
					     (unsigned[]){Sk * Sq * 3}, (unsigned[]){2, 2, 0})),
			 REASON_NONE);
	assert_int_equal(args.spec.round_s, 0);
	/* all of it: kernels do not round in between */
	assert_int_equal(
		FINISHED(multiplied(TEXT(ATEN_MULTIPLY_STRIDED), 2, core.x, core.s, 2,
				    (unsigned[]){Sk * Sq, 3}, (unsigned[]){2, 2, 2, all, all, 0})),
		REASON_NONE);
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

	/* twice */
	assert_int_equal(FINISHED(multiplied(multiply, 2, core.x, core.s, 2, size, heads),
				  multiplied(multiply, 2, core.x, core.x, 2, size, heads)),
			 REASON_UNKNOWN_KERNEL);
	/* after a bias */
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, CORE_OTHER),
				  multiplied(multiply, 2, core.x, core.x, 2, size, heads)),
			 REASON_UNKNOWN_KERNEL);
	/* after softmax */
	assert_int_equal(ENDED(core_softmax(core.p, core.s),
			       multiplied(multiply, 2, core.p, core.p, 2, size, heads)),
			 REASON_UNKNOWN_KERNEL);
	/* one number for all, after a mask: named as what it is */
	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfc00),
				  multiplied(multiply, 2, core.x, core.x, 1,
					     (unsigned[]){Sk * Sq * 3}, (unsigned[]){2, 2, 0})),
			 REASON_SCALARS_ON_DEVICE);
	/* a number divided by S */
	assert_int_equal(FINISHED(multiplied(TEXT(ATEN_DIVIDE_STRIDED), 1, core.x, core.s, 2, size,
					     swapped)),
			 REASON_UNKNOWN_KERNEL);
	/* beside a kernel that only data could explain, at what the number was then */
	assert_int_equal(FINISHED(multiplied(multiply, 2, core.x, core.s, 2, size, heads),
				  core_unknown(core.x, core.x, 1)),
			 REASON_SCALARS_ON_DEVICE);
}

/* Two biases must agree on where Z falls into batches and heads. */
static void test_split_agrees(void **state)
{
	const unsigned Sk = 40, Sq = 32, all = Sq * Sk * 2;

	for (int second = 2; second <= 3; second++) {
		const unsigned h = (unsigned)second;
		struct chain *chain;

		core_begin();
		core.H = 6;
		chain = begin();
		join(chain, added(core.s, core.mask, 2, (unsigned[]){Sk * Sq * 3, 2},
				  (unsigned[]){2, 2, 2, all * 3, all * 3, 0}));
		join(chain, added(core.x, CORE_OTHER, 2, (unsigned[]){Sk * Sq * h, 6 / h},
				  (unsigned[]){2, 2, 2, all * h, all * h, 0}));
		assert_int_equal(finish(chain), second == 3 ? REASON_NONE : REASON_MASK_FORM);
		if (second == 3)
			assert_int_equal(args.spec.bias[1].base, CORE_OTHER);
	}
}

/* The scores of a row are read from a column, or stored to one. */
static void test_other_order(void **state)
{
	const unsigned n = 32, all = n * n * 2, size[] = {n, n, 3};
	const unsigned across[] = {2, 2 * n, 2, 2 * n, 2, 2 * n, all, all, 0};
	const unsigned down[] = {2 * n, 2, 2, 2, 2 * n, 2 * n, all, all, 0};
	const float one = 1;

	(void)state;
	for (int stored = 0; stored < 2; stored++)
		for (int added = 0; added < 2; added++) {
			struct chain *chain;

			core_begin();
			core.Sk = core.Sq = n;
			core_resize();
			chain = begin();
			join(chain, core_strided(added ? TEXT(ATEN_ADD_STRIDED)
						       : TEXT(ATEN_MULTIPLY_STRIDED),
						 3, 3, size, stored ? down : across,
						 (uint64_t[]){core.x, core.s, core.mask}, &one, 4));
			assert_int_equal(finish(chain), REASON_LAYOUT);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_broadcast),	 cmocka_unit_test(test_folded),
		cmocka_unit_test(test_broadcast_denied), cmocka_unit_test(test_windows),
		cmocka_unit_test(test_decomposed),	 cmocka_unit_test(test_scales_on_device),
		cmocka_unit_test(test_scales_denied),	 cmocka_unit_test(test_other_order),
		cmocka_unit_test(test_split_agrees),
	};

	return CORE_MAIN("broadcast", tests);
}
