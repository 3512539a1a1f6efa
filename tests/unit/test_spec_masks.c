/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of what happens to scores: factors, softcap, biases, boolean masks, and the forms
 * that no kernel takes. Tensors that are broadcast: test_spec_broadcast.c.
 */
#include "tests/unit/spec_fixture.h"

#include <math.h>

#include "shim/rules/rules.h"

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
	assert_int_equal(FINISHED(core_scale(core.x, core.s, 0.5f),
				  core_add_mask(core.x, core.x, core.mask),
				  core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff),
				  core_scale(core.x, core.x, 0.25f)),
			 REASON_NONE);
	assert_true(args.spec.scale == 0.125f);
	assert_true(args.spec.bias_scale[0] == 0.25f);
	assert_true(args.spec.mask_value == -65504 * 0.25f);
	/* what was rounded cannot be scaled before, but for what is exact */
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  core_scale(core.x, core.x, 0.3f)),
			 REASON_MASK_FORM);
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
	core_begin(); /* rounded before it is added to, and then again */
	op.gemm.alpha = 0.3;
	chain = chain_open(&op);
	join(chain, core_add_mask(core.x, core.s, core.mask));
	assert_int_equal(finish(chain), REASON_NONE);
	assert_true(args.spec.alpha == 0.3f);
	assert_int_equal(args.spec.round_s,
			 ATTN_ROUND_PRODUCT | ATTN_ROUND_BIASED | ATTN_ROUND_WEIGHTS);
	core_begin(); /* tanh of it is no form of ours */
	chain = chain_open(&op);
	join(chain, core_tanh(core.x, core.s));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
}

/* cap tanh(scale qk / cap) */
static void test_softcap(void **state)
{
	assert_int_equal(FINISHED(core_scale(core.x, core.s, 0.25f),
				  core_scale(core.x, core.x, 1 / 8.0f), core_tanh(core.x, core.x),
				  core_scale(core.x, core.x, 8)),
			 REASON_NONE);
	/* x = softcap * tanh(scale qk / softcap): tanh's argument must come out as 0.25 qk / 8 */
	assert_true(args.spec.softcap == 8);
	assert_true(args.spec.scale / args.spec.softcap == 0.25f / 8);
	/* twice is no form of ours */
	assert_int_equal(FINISHED(core_tanh(core.x, core.s), core_tanh(core.x, core.x)),
			 REASON_MASK_FORM);
	/* tanh of the bias too */
	assert_int_equal(
		FINISHED(core_add_mask(core.x, core.s, core.mask), core_tanh(core.x, core.x)),
		REASON_MASK_FORM);
}

static void test_bias(void **state)
{
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask)), REASON_NONE);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.bias[0].dtype, ATTN_F16);
	assert_int_equal(args.spec.bias[0].stride[1], 0);
	assert_int_equal(args.spec.bias[0].stride[2], core.Sk);
	assert_int_equal(args.spec.bias[0].stride[3], 1);
	assert_true(args.spec.bias_scale[0] == 1);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	assert_int_equal(args.spec.bias[1].base, 0);
}

#define ADD_CASTS                                                                                  \
	"_ZN2at6native27unrolled_elementwise_kernelINS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EELi"   \
	"4E23TrivialOffsetCalculatorILi2EjES7_ILi1EjENS0_6memory12LoadWithCastILi2EEENSA_13Stor"   \
	"eWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_"

/* The sum, in fp32, of numbers in fp32 and others in fp16. */
static struct op add_casts(uint64_t out, enum core_number to, uint64_t wide, uint64_t narrow)
{
	const uint64_t pointers[3] = {out, wide, narrow};
	const struct {
		unsigned char types[4];
		uint32_t bytes[2];
	} load = {{CORE_FLOAT, CORE_HALF}, {4, 2}};
	const uint32_t store[2] = {to, to == CORE_FLOAT ? 4 : 2};
	const unsigned char nothing = 0;
	const float one = 1;
	const int n = (int)(core.H * core.Sq * core.Sk);

	return core_launch(ADD_CASTS, 7, (size_t[]){4, 4, 24, 1, 1, 12, 8},
			   (const void *[]){&n, &one, pointers, &nothing, &nothing, &load, store});
}

/* Of fp32 scores, to P in fp16. */
static struct op softmax_wide(uint64_t out, uint64_t in)
{
	static const char name[] = "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_"
				   "forwardIfN3c104HalfEfLi9ELb0ELb0EEEvPT0_PKT_iiiPKbib";
	const int rows = (int)(core.H * core.Sq), keys = (int)core.Sk;
	const unsigned char no = 0;
	const uint64_t mask = 0;
	const int chunk = 0;

	return core_launch(name, 8, (size_t[]){8, 8, 4, 4, 4, 8, 4, 1},
			   (const void *[]){&out, &in, &rows, &keys, &keys, &mask, &chunk, &no});
}

/* Scores in fp16 whose masks are added in fp32, for a softmax of fp16: rounded behind them. */
static void test_bias_in_fp32(void **state)
{
	const uint64_t wide = CORE_OTHER, sum = wide + 0x40000, mask = wide + 0x80000;
	const int64_t count = core.H * core.Sq * core.Sk;

	assert_int_equal(FINISHED(core_cast(wide, CORE_FLOAT, core.s, CORE_HALF, count),
				  add_casts(sum, CORE_FLOAT, wide, mask),
				  core_cast(core.x, CORE_HALF, sum, CORE_FLOAT, count)),
			 REASON_NONE);
	assert_int_equal(args.spec.bias[0].base, mask);
	assert_int_equal(args.spec.bias[0].dtype, ATTN_F16);
	assert_true(args.spec.bias_scale[0] == 1);
	assert_stride(&args.spec.bias[0], count, core.Sq * core.Sk, core.Sk, 1);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	assert_int_equal(args.spec.round_s,
			 ATTN_ROUND_PRODUCT | ATTN_ROUND_BIASED | ATTN_ROUND_WEIGHTS);
	/* two of them are rounded once, which no kernel does in this order */
	assert_int_equal(FINISHED(core_cast(wide, CORE_FLOAT, core.s, CORE_HALF, count),
				  add_casts(sum, CORE_FLOAT, wide, mask),
				  add_casts(wide, CORE_FLOAT, sum, mask + 0x40000),
				  core_cast(core.x, CORE_HALF, wide, CORE_FLOAT, count)),
			 REASON_NONE);
	assert_int_equal(args.spec.bias[1].base, mask + 0x40000);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	assert_int_equal(args.spec.round_s, 0);
	/* the first rounded alone: what it swallows of the scores is lost, of the second is not */
	assert_int_equal(ENDED(core_add_mask(core.x, core.s, core.mask),
			       core_cast(wide, CORE_FLOAT, core.x, CORE_HALF, count),
			       add_casts(sum, CORE_FLOAT, wide, mask), softmax_wide(core.p, sum)),
			 REASON_MASK_FORM);
	assert_string_equal(detail, "biases are rounded in two ways");
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  core_cast(wide, CORE_FLOAT, core.x, CORE_HALF, count),
				  add_casts(sum, CORE_FLOAT, wide, mask),
				  core_cast(core.x, CORE_HALF, sum, CORE_FLOAT, count)),
			 REASON_NONE);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	/* the sum itself is stored in fp16 */
	assert_int_equal(FINISHED(core_cast(wide, CORE_FLOAT, core.s, CORE_HALF, count),
				  add_casts(core.x, CORE_HALF, wide, mask)),
			 REASON_NONE);
	assert_int_equal(args.spec.round_x, ATTN_F16);
}

/* A copy of the driver's knows no type: what was in fp32 before it is in fp32 behind it. */
static void test_bias_copied_by_driver(void **state)
{
	const uint64_t wide = CORE_OTHER, sum = wide + 0x40000, copy = wide + 0x80000;
	const int64_t count = core.H * core.Sq * core.Sk;

	assert_int_equal(ENDED(core_cast(wide, CORE_FLOAT, core.s, CORE_HALF, count),
			       add_casts(sum, CORE_FLOAT, wide, wide + 0xc0000),
			       core_copy(sum, copy, 4 * (uint64_t)count),
			       softmax_wide(core.p, copy)),
			 REASON_NONE);
	assert_int_equal(args.spec.round_x, ATTN_F32);
	assert_int_equal(args.spec.round_s, ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS);
	/* in 16 bits, too */
	assert_int_equal(FINISHED(core_add_mask(core.p, core.s, core.mask),
				  core_copy(core.p, core.x, core.score_bytes)),
			 REASON_NONE);
	assert_int_equal(args.spec.round_x, ATTN_F16);
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

static void test_masked_fill(void **state)
{
	assert_int_equal(FINISHED(core_scale(core.x, core.s, 0.25f),
				  core_masked_fill(core.x, core.x, core.mask, 0xfc00)),
			 REASON_NONE);
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
	/* a mask before it */
	assert_int_equal(ENDED(core_masked_fill(core.s, core.s, CORE_OTHER, 0xfbff),
			       masked_softmax(MASKED_SOFTMAX, -1, false)),
			 REASON_MASK_FORM);
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
		assert_false(rules_access(function, &op.launch, params, &list, NULL));
	}
}

/* Biases on top of a mask: they find the fill there. */
static void test_bias_after_mask(void **state)
{
	char text[96];

	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
				  core_add_mask(core.x, core.x, core.mask)),
			 REASON_NONE);
	assert_int_equal(args.spec.mask.base, CORE_OTHER);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.late_biases, 2);
	assert_int_equal(args.spec.round_x, ATTN_F16);
	spec_describe_mask(&args, text, sizeof(text));
	assert_string_equal(text, "mask [1,1,Sq,Sk] bool + bias [1,1,Sq,Sk] f16");
	/* one on either side */
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff),
				  core_add_mask(core.x, core.x, CORE_OTHER + 0x10000),
				  core_scale(core.x, core.x, 0.5f)),
			 REASON_NONE);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.bias[1].base, CORE_OTHER + 0x10000);
	assert_int_equal(args.spec.late_biases, 1);
	assert_true(args.spec.mask_value == -65504 * 0.5f);
	/* none: then nothing is late */
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff)),
			 REASON_NONE);
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

static void assert_hidden_again(float value)
{
	assert_int_equal(args.spec.empty_row, ATTN_EMPTY_AGAIN);
	assert_true(args.spec.hidden_value == value);
	assert_true(args.spec.mask_value == -INFINITY);
}

static void test_masked_again(void **state)
{
	core_begin();
	assert_int_equal(with_zeros(CORE_OTHER, 0xfc00, 0, false, 1), REASON_NONE);
	assert_true(isinf(args.spec.mask_value) && args.spec.mask_value < 0);
	assert_int_equal(args.spec.mask.base, CORE_OTHER);
	assert_int_equal(args.spec.empty_row, ATTN_EMPTY_ZERO);
	core_begin(); /* a bias may hide all that the mask leaves: NaN is not made 0 */
	assert_int_equal(with_zeros(CORE_OTHER, 0xfc00, 0, true, 1), REASON_NONE);
	assert_hidden_again(-INFINITY);
	core_begin();
	/* the lowest number: as good, where nothing else is as low */
	assert_int_equal(with_zeros(CORE_OTHER, 0xfbff, 0, false, 1), REASON_NONE);
	assert_true(isinf(args.spec.mask_value) && args.spec.mask_value < 0);
	assert_int_equal(args.spec.empty_row, ATTN_EMPTY_ZERO);
	core_begin();
	assert_int_equal(with_zeros(CORE_OTHER, 0xfbff, 0, true, 1), REASON_NONE);
	assert_hidden_again(-65504);
	core_begin();
	assert_int_equal(with_zeros(CORE_OTHER, 0xfbff, 0, false, 0.25f), REASON_NONE);
	assert_hidden_again(-16376);
	core_begin(); /* a low number is not the lowest */
	assert_int_equal(with_zeros(CORE_OTHER, 0xf0e2, 0, false, 1), REASON_NONE);
	assert_hidden_again(-10000);
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

/* Two masks hide by one number what either hides. */
static void test_two_masks(void **state)
{
	const uint64_t other = CORE_OTHER + 0x10000, third = CORE_OTHER + 0x20000;

	core_begin();
	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
				  core_masked_fill(core.x, core.x, other, 0xfbff)),
			 REASON_NONE);
	assert_int_equal(args.spec.mask.base, CORE_OTHER);
	assert_int_equal(args.spec.mask_also.base, other);
	assert_true(args.spec.mask_value == -65504);
	/* by two numbers; where one is scaled in between, too */
	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
				  core_masked_fill(core.x, core.x, other, 0xfc00)),
			 REASON_MASK_FORM);
	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
				  core_scale(core.x, core.x, 0.5f),
				  core_masked_fill(core.x, core.x, other, 0xfbff)),
			 REASON_MASK_FORM);
	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfc00),
				  core_scale(core.x, core.x, 0.5f),
				  core_masked_fill(core.x, core.x, other, 0xfc00)),
			 REASON_NONE);
	/* what is added in between is hidden by the second alone; what is before or behind is not
	 */
	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
				  core_add_mask(core.x, core.x, core.mask),
				  core_masked_fill(core.x, core.x, other, 0xfbff)),
			 REASON_MASK_FORM);
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.mask),
				  core_masked_fill(core.x, core.x, CORE_OTHER, 0xfbff),
				  core_masked_fill(core.x, core.x, other, 0xfbff)),
			 REASON_NONE);
	assert_int_equal(args.spec.late_biases, 0);
	/* three */
	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
				  core_masked_fill(core.x, core.x, other, 0xfbff),
				  core_masked_fill(core.x, core.x, third, 0xfbff)),
			 REASON_MASK_FORM);
	/* whose weights are made 0 again behind the softmax */
	assert_int_equal(ENDED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
			       core_masked_fill(core.x, core.x, other, 0xfbff),
			       core_softmax(core.p, core.x),
			       core_masked_fill(core.p, core.p, other, 0)),
			 REASON_MASK_FORM);
}

static void test_forms_denied(void **state)
{
	struct chain *chain;

	core_begin(); /* three biases */
	chain = begin();
	for (uint64_t i = 0; i < 3; i++)
		join(chain, core_add_mask(core.x, i ? core.x : core.s, CORE_OTHER + 0x10000 * i));
	assert_int_equal(finish(chain), REASON_MASK_FORM);
	/* a bias on P */
	assert_int_equal(
		ENDED(core_softmax(core.p, core.s), core_add_mask(core.p, core.p, core.mask)),
		REASON_MASK_FORM);
	/* S + S */
	assert_int_equal(FINISHED(core_add_mask(core.x, core.s, core.s)), REASON_MASK_FORM);
}

/* Scores that become whole numbers on the way are others. */
static void test_whole_numbers(void **state)
{
	for (int whole = 0; whole < 2; whole++) {
		const int64_t elements = (core_begin(), core.H * core.Sq * core.Sk);
		struct chain *chain = begin();

		join(chain, core_cast(CORE_OTHER, whole ? CORE_INT : CORE_FLOAT, core.s, CORE_HALF,
				      elements));
		join(chain, core_cast(core.x, CORE_HALF, CORE_OTHER, whole ? CORE_INT : CORE_FLOAT,
				      elements));
		assert_int_equal(finish(chain), whole ? REASON_DTYPE : REASON_NONE);
	}
	core_begin(); /* bits of fp32 taken for whole numbers */
	core.type = CUDA_R_32F;
	core.math_mode *= 16;
	core_resize();
	{
		struct chain *chain = begin();

		join(chain,
		     core_cast(core.x, CORE_FLOAT, core.s, CORE_INT, core.H * core.Sq * core.Sk));
		assert_int_equal(finish(chain), REASON_DTYPE);
	}
}

/* A fill, or a sum, that 16 bits do not hold once it is scaled or cast: -inf, so that a row of
 * nothing else is NaN. */
static void test_fill_overflows(void **state)
{
	const int64_t elements = (core_begin(), core.H * core.Sq * core.Sk);
	struct chain *chain;

	assert_int_equal(FINISHED(core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff),
				  core_scale(core.x, core.x, 2)),
			 REASON_NONE);
	assert_true(args.spec.mask_value == -INFINITY);
	core_begin(); /* scaled where there is room for it */
	chain = begin();
	join(chain, core_masked_fill(core.x, core.s, CORE_OTHER, 0xfbff));
	join(chain, core_cast(CORE_OTHER + 0x40000, CORE_FLOAT, core.x, CORE_HALF, elements));
	core.type = CUDA_R_32F;
	join(chain, core_scale(CORE_OTHER + 0x40000, CORE_OTHER + 0x40000, 2));
	core.type = CUDA_R_16F;
	join(chain, core_cast(core.m, CORE_HALF, CORE_OTHER + 0x40000, CORE_FLOAT, elements));
	join(chain, core_softmax(core.p, core.m));
	assert_int_equal(end(chain), REASON_NONE);
	assert_true(args.spec.mask_value == -INFINITY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scales),
		cmocka_unit_test(test_preloaded),
		cmocka_unit_test(test_scale_after_bias),
		cmocka_unit_test(test_softcap),
		cmocka_unit_test(test_bias),
		cmocka_unit_test(test_bias_in_fp32),
		cmocka_unit_test(test_bias_copied_by_driver),
		cmocka_unit_test(test_added_twice),
		cmocka_unit_test(test_masked_fill),
		cmocka_unit_test(test_masked_again),
		cmocka_unit_test(test_masked_by_another),
		cmocka_unit_test(test_softmax_mask),
		cmocka_unit_test(test_softmax_mask_denied),
		cmocka_unit_test(test_bias_after_mask),
		cmocka_unit_test(test_two_masks),
		cmocka_unit_test(test_forms_denied),
		cmocka_unit_test(test_whole_numbers),
		cmocka_unit_test(test_fill_overflows),
	};

	return CORE_MAIN("masks", tests);
}
