/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases made on the way. Slopes of an identified chain: as which bias they are told of, what they
 * are of the program's memory, where they are written out; the complement of a mask, likewise.
 */
#include "tests/unit/spec_fixture.h"

#include <math.h>

#include "shim/gpu/made_bias.h"

static struct identity given;
static struct chain *chain;

static void identify(uint64_t pointer, int64_t b, int64_t h)
{
	given = (struct identity){.heads = core.H, .slopes = 1, .pointers = pointer != 0};
	given.spec.scale = 0.5f;
	given.spec.bias_scale[0] = -1;
	given.spec.bias[0] =
		(struct attn_tensor){.base = pointer, .stride = {b, h, 0, 0}, .dtype = ATTN_F16};
}

/* A chain with a kernel of somebody in its middle that reads core.mask, too. */
static void close_chain(void)
{
	struct op op;

	core_begin();
	chain = begin();
	join(chain, core_unknown(core.s, given.pointers ? core.mask : 0, 0.375f));
	op = core_context();
	op.gemm.b = core.s;
	assert_int_equal(end_with(chain, op, &given), REASON_NONE);
	assert_true(by_data);
}

static void test_of_heads(void **state)
{
	int64_t keys = -1;

	identify(1, 0, 1);
	close_chain();
	assert_int_equal(args.H, core.H);
	assert_stride(&args.spec.bias[0], 0, core.Sk, 0, 1);
	assert_int_equal(args.spec.bias[0].dtype, ATTN_F32);
	assert_true(args.spec.bias_scale[0] == -1);
	assert_int_equal(identity_extent(&given, &args, chain, 1, &keys), 2 * (uint64_t)core.H);
	assert_int_equal(keys, 0);
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->slopes.slopes.base, core.mask);
	assert_int_equal(chain->slopes.slopes.dtype, ATTN_F16);
	assert_int_equal(chain->slopes.slopes.stride[1], 1);
	assert_int_equal(chain->slopes.B, 1);
	assert_int_equal(chain->slopes.H, core.H);
	assert_int_equal(chain->slopes.Sk, core.Sk);
	assert_true(chain->slopes.out >= BELOW_SCRATCH);
	assert_int_equal(args.spec.bias[0].base, chain->slopes.out);
	assert_int_equal(below.scratch, 1);
	made_bias_put(chain);
	assert_int_equal(below.scratch, 0);
	made_bias_put(chain); /* once is enough */
	assert_int_equal(below.scratch, 0);
}

/* One slope a sequence and head, where nothing tells these apart; one for all of them. */
static void test_forms(void **state)
{
	int64_t keys;

	identify(1, core.H, 1);
	close_chain();
	assert_stride(&args.spec.bias[0], core.H * core.Sk, core.Sk, 0, 1);
	assert_int_equal(identity_extent(&given, &args, chain, 1, &keys),
			 2 * (uint64_t)(args.B * args.H));
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->slopes.B * chain->slopes.H, args.B * args.H);
	made_bias_put(chain);
	identify(1, 0, 0);
	close_chain();
	assert_stride(&args.spec.bias[0], 0, 0, 0, 1);
	assert_int_equal(identity_extent(&given, &args, chain, 1, &keys), 2);
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->slopes.B, 1);
	assert_int_equal(chain->slopes.H, 1);
	made_bias_put(chain);
}

/* From no memory at all. */
static void test_computed(void **state)
{
	int64_t keys;

	identify(0, 0, 1);
	given.slope_first = 2;
	given.slope_most = 8;
	close_chain();
	assert_true(args.spec.bias[0].base != 0);
	assert_int_equal(identity_extent(&given, &args, chain, 1, &keys), 0);
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->slopes.slopes.base, 0);
	assert_int_equal(chain->slopes.first, 2);
	assert_true(chain->slopes.most == 8);
	made_bias_put(chain);
}

/* Distances are counted from where they are small: the key that the middle query faces. */
static void test_origin(void **state)
{
	identify(1, 0, 1);
	close_chain();
	args.Sk = 100;
	args.Sq = 1;
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->slopes.origin, 99);
	made_bias_put(chain);
	args.Sq = 41;
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->slopes.origin, 79);
	made_bias_put(chain);
}

/* Flags of a pointer: a bias of fp16 with their strides, made of them each time. */
static void test_flags(void **state)
{
	int64_t keys;

	core_begin();
	given = (struct identity){.heads = core.H,
				  .pointers = 1,
				  .flags = 1,
				  .flags_type = ATTN_F64,
				  .flags_say = COMPLEMENT_KEEPS,
				  .flags_weight = -65504};
	given.spec.scale = 0.5f;
	given.spec.bias_scale[0] = 1;
	given.spec.bias[0] =
		(struct attn_tensor){.base = 1, .stride = {core.Sk, 0, 0, 1}, .dtype = ATTN_F16};
	close_chain();
	assert_stride(&args.spec.bias[0], core.Sk, 0, 0, 1);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(identity_extent(&given, &args, chain, 1, &keys),
			 8 * (uint64_t)(args.B * core.Sk));
	assert_int_equal(keys, core.Sk);
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->complement.in, core.mask);
	assert_int_equal(chain->complement.in_dtype, ATTN_F64);
	assert_int_equal(chain->complement.out_dtype, ATTN_F16);
	assert_int_equal(chain->complement.count, args.B * core.Sk);
	assert_int_equal(chain->complement.flags, COMPLEMENT_KEEPS);
	assert_true(chain->complement.weight == -65504);
	assert_int_equal(args.spec.bias[0].base, chain->complement.out);
	assert_int_equal(below.scratch, 1);
	made_bias_put(chain);
	assert_int_equal(below.scratch, 0);
}

/* Flags, and a triangle that hides as they do: a bias with a number for each query. */
static void test_flags_beyond(void **state)
{
	int64_t keys;

	core_begin();
	given = (struct identity){.heads = core.H,
				  .pointers = 1,
				  .flags = 1,
				  .flags_type = ATTN_BOOL,
				  .flags_say = COMPLEMENT_KEEPS,
				  .flags_weight = -65504,
				  .beyond = true};
	given.spec.scale = 0.5f;
	given.spec.bias_scale[0] = 1;
	given.spec.window_left = 5;
	given.spec.window_shift = 1;
	given.spec.bias[0] =
		(struct attn_tensor){.base = 1, .stride = {0, core.Sk, 0, 1}, .dtype = ATTN_F16};
	close_chain();
	assert_int_equal(args.spec.window_left, ATTN_NO_WINDOW);
	assert_int_equal(args.spec.window_right, ATTN_NO_WINDOW);
	assert_int_equal(identity_extent(&given, &args, chain, 1, &keys),
			 (uint64_t)(core.H * core.Sk));
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->complement.count, core.H * core.Sq * core.Sk);
	assert_int_equal(chain->complement.keys, core.Sk);
	assert_int_equal(chain->complement.heads, core.H);
	assert_int_equal(chain->complement.stride[1], core.Sk);
	assert_int_equal(chain->complement.stride[2], 0);
	assert_int_equal(chain->complement.first, core.Sk - core.Sq - 5);
	assert_int_equal(chain->complement.last, core.Sk - core.Sq);
	assert_stride(&args.spec.bias[0], 0, core.Sq * core.Sk, core.Sk, 1);
	made_bias_put(chain);
	assert_int_equal(below.scratch, 0);
}

/* Bytes are the mask itself. */
static void test_mask(void **state)
{
	int64_t keys;

	core_begin();
	given = (struct identity){.heads = core.H, .pointers = 1};
	given.spec.scale = 0.5f;
	given.spec.mask_keeps = 1;
	given.spec.mask_value = -1e9f;
	given.spec.mask =
		(struct attn_tensor){.base = 1, .stride = {0, 0, core.Sk, 1}, .dtype = ATTN_BOOL};
	close_chain();
	assert_int_equal(args.spec.mask.base, core.mask);
	assert_stride(&args.spec.mask, 0, 0, core.Sk, 1);
	assert_int_equal(identity_extent(&given, &args, chain, 1, &keys),
			 (uint64_t)(core.Sq * core.Sk));
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(below.scratch, 0);
}

/* A mask that is cut out of a larger one: strides as found, and for so many keys alone. */
static void test_cut_out(void **state)
{
	struct op op;

	core_begin();
	given = (struct identity){.heads = core.H, .pointers = 1, .only_keys = core.Sk};
	given.spec.scale = 0.5f;
	given.spec.mask_value = -INFINITY;
	given.spec.mask = (struct attn_tensor){
		.base = 1, .stride = {0, 0, core.Sk + 37, 1}, .dtype = ATTN_BOOL};
	close_chain();
	assert_stride(&args.spec.mask, 0, 0, core.Sk + 37, 1);
	given.only_keys++;
	core_begin();
	chain = begin();
	join(chain, core_unknown(core.s, core.mask, 0.375f));
	op = core_context();
	op.gemm.b = core.s;
	assert_int_equal(end_with(chain, op, &given), REASON_UNACCOUNTED_POINTER);
}

/* Two masks: one, of both their shapes. */
static void test_two_masks(void **state)
{
	const int64_t pitch = (core_begin(), (core.Sk + 15) / 16 * 16);

	chain = begin();
	join(chain, core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff));
	join(chain, core_masked_fill(core.x, core.x, core.mask, 0xfbff));
	join(chain, core_softmax(core.p, core.x));
	assert_int_equal(end_with(chain, core_context(), NULL), REASON_NONE);
	args.spec.mask_also.stride[1] = core.Sk;
	args.spec.mask_also.stride[2] = 0;
	args.spec.mask_also_keeps = 1;
	assert_true(made_bias_place(chain, &args, NULL));
	assert_int_equal(chain->complement.in, CORE_OTHER);
	assert_int_equal(chain->complement.flags, COMPLEMENT_HIDES);
	assert_int_equal(chain->complement.also, core.mask);
	assert_int_equal(chain->complement.also_keeps, 1);
	assert_int_equal(chain->complement.width, core.Sk);
	assert_int_equal(chain->complement.keys, pitch);
	assert_int_equal(chain->complement.heads, core.H);
	assert_int_equal(chain->complement.count, core.H * core.Sq * pitch);
	assert_stride(&args.spec.mask, 0, core.Sq * pitch, pitch, 1);
	assert_int_equal(args.spec.mask.base, chain->complement.out);
	assert_int_equal(args.spec.mask_also.base, 0);
	assert_int_equal(args.spec.mask_keeps, 0);
	assert_true(args.spec.mask_value == -65504);
	made_bias_put(chain);
	assert_int_equal(below.scratch, 0);
}

static void test_no_room(void **state)
{
	identify(1, 0, 1);
	close_chain();
	below.no_scratch = true;
	assert_false(made_bias_place(chain, &args, &given));
	made_bias_put(chain);
	below.no_scratch = false;
	chain->captured = true; /* the room would be somebody else's by the replay */
	assert_false(made_bias_place(chain, &args, &given));
	assert_int_equal(below.scratch, 0);
	given.slopes = 0; /* nothing is needed */
	assert_true(made_bias_place(chain, &args, &given));
	assert_int_equal(chain->slopes.out, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_heads),  cmocka_unit_test(test_forms),
		cmocka_unit_test(test_computed),  cmocka_unit_test(test_origin),
		cmocka_unit_test(test_flags),	  cmocka_unit_test(test_flags_beyond),
		cmocka_unit_test(test_mask),	  cmocka_unit_test(test_cut_out),
		cmocka_unit_test(test_two_masks), cmocka_unit_test(test_no_room),
	};

	return CORE_MAIN("made_bias", tests);
}
