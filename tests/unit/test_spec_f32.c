/* SPDX-License-Identifier: Apache-2.0
 *
 * Chains of fp32 operands: what the fused kernel is told of them, and which kinds of fp32 product
 * it does not stand in for.
 */
#include "tests/unit/spec_fixture.h"

#include "shim/gpu/made_bias.h"
#include "shim/rules/shadow.h"

#include <cublas_api.h>
#include <string.h>

/* The products' kind enters the signature: no two of these are the same site. */
static int compute_type, math_mode;

static void begin_f32(void)
{
	core_begin();
	core.type = CUDA_R_32F;
	core_resize();
	compute_type = CUBLAS_COMPUTE_32F;
	math_mode = CUBLAS_DEFAULT_MATH;
}

static struct op product(struct op op)
{
	op.gemm.compute_type = compute_type;
	op.gemm.math_mode = math_mode;
	return op;
}

static struct chain *scores(void)
{
	struct op op = product(core_scores());

	return chain_open(&op);
}

/* Softmax makes P of `in`; then P V. */
static enum reason close_on(struct chain *chain, uint64_t in)
{
	join(chain, core_softmax(core.p, in));
	return end_with(chain, product(core_context()), NULL);
}

static void assert_f32(void)
{
	const struct attn_tensor *tensors[] = {&args.q, &args.k, &args.v, &args.o};

	for (int i = 0; i < 4; i++)
		assert_int_equal(tensors[i]->dtype, ATTN_F32);
	assert_int_equal(args.q.base, core.q);
	assert_int_equal(args.k.base, core.k);
	assert_int_equal(args.v.base, core.v);
	assert_int_equal(args.o.base, core.o);
	assert_stride(&args.q, core.H * core.Sq * core.D, core.Sq * core.D, core.D, 1);
	assert_stride(&args.k, core.H * core.Sk * core.D, core.Sk * core.D, core.D, 1);
	assert_int_equal(args.spec.round_p, ATTN_F32);
	assert_int_equal(args.spec.round_x, ATTN_F32);
}

static void test_softmax(void **state)
{
	struct chain *chain;

	begin_f32();
	chain = scores();
	join(chain, core_scale(core.x, core.s, 0.25f));
	assert_int_equal(close_on(chain, core.x), REASON_NONE);
	assert_false(by_data);
	assert_f32();
	assert_true(args.spec.scale == 0.25f);
	assert_int_equal(args.spec.bias[0].base, 0);
	assert_non_null(attn_select(&args, 90, NULL));
}

/* A causal bias [Sq,Sk] is added after the scale; T5 has no scale, and a bias a head. */
static void test_bias(void **state)
{
	struct chain *chain;

	begin_f32();
	chain = scores();
	join(chain, core_scale(core.x, core.s, 0.25f));
	join(chain, core_add_mask(core.m, core.x, core.mask));
	assert_int_equal(close_on(chain, core.m), REASON_NONE);
	assert_f32();
	assert_true(args.spec.scale == 0.25f);
	assert_int_equal(args.spec.bias[0].base, core.mask);
	assert_int_equal(args.spec.bias[0].dtype, ATTN_F32);
	assert_true(args.spec.bias_scale[0] == 1);
	assert_int_equal(args.spec.bias[0].stride[1], 0);
	assert_int_equal(args.spec.bias[0].stride[2], core.Sk);
	assert_int_equal(args.spec.bias[0].stride[3], 1);
	assert_non_null(attn_select(&args, 90, NULL));
}

static void test_bias_in_place(void **state)
{
	struct chain *chain;

	begin_f32();
	chain = scores();
	join(chain, core_add_mask(core.s, core.s, core.mask));
	assert_int_equal(close_on(chain, core.s), REASON_NONE);
	assert_f32();
	assert_true(args.spec.scale == 1);
	assert_int_equal(args.spec.bias[0].base, core.mask);
}

/* out = the larger of `in` and a number on the device, as fairseq's descendants have it. */
#define NUMBER CORE_OTHER
static struct op maximum(uint64_t out, uint64_t in)
{
	static const char name[] =
		"_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastINS0_"
		"13BinaryFunctorIfffZZZNS0_19maximum_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE0_"
		"clEvENKUlvE0_clEvEUlffE_EEEEvS5_RKT_EUliE_EEviT1_";
	const unsigned n = (unsigned)(core.H * core.Sq * core.Sk), strides[3] = {4, 4, 0};
	const unsigned char empty = 0;

	return core_strided(name, 3, 1, &n, strides, (uint64_t[]){out, in, NUMBER}, &empty, 1);
}

/* S, a bias, max(, number), softmax; number 0: nobody knows it. `late`: the bias comes behind. */
static enum reason floored(float number, bool late)
{
	struct chain *chain;

	begin_f32();
	if (number != 0)
		shadow_put(NUMBER, &number, sizeof(number));
	chain = scores();
	if (!late)
		join(chain, core_add_mask(core.x, core.s, core.mask));
	join(chain, maximum(core.m, late ? core.s : core.x));
	if (late)
		join(chain, core_add_mask(core.m, core.m, core.mask));
	return close_on(chain, core.m);
}

static void test_floor(void **state)
{
	const float lowest = -0x1.fffffep127f;
	struct chain *chain;

	assert_int_equal(floored(lowest, false), REASON_NONE);
	assert_f32();
	assert_int_equal(args.spec.bias[0].base, core.mask);
	chain = core_only_chain();
	assert_true(made_bias_place(chain, &args, NULL));
	assert_int_equal(chain->complement.in, core.mask);
	assert_int_equal(chain->complement.in_dtype, ATTN_F32);
	assert_int_equal(chain->complement.out_dtype, ATTN_F32);
	assert_int_equal(chain->complement.count, core.Sq * core.Sk);
	assert_int_equal(chain->complement.flags, COMPLEMENT_FLOORS);
	assert_true(chain->complement.weight == lowest);
	assert_int_equal(args.spec.bias[0].base, chain->complement.out);
	made_bias_put(chain);
	assert_int_equal(floored(-1e30f, false), REASON_MASK_FORM); /* a number as others are */
	assert_int_equal(floored(0, false), REASON_SCALARS_ON_DEVICE);
	assert_int_equal(floored(lowest, true), REASON_MASK_FORM); /* or lower after all */
	begin_f32();
	shadow_put(NUMBER, &lowest, sizeof(lowest));
	chain = scores();
	join(chain, maximum(core.m, core.s)); /* nothing is as low */
	assert_int_equal(close_on(chain, core.m), REASON_NONE);
	assert_true(made_bias_place(chain, &args, NULL));
	assert_int_equal(below.scratch, 0);
}

static void assert_kind(int type, int mode, enum reason expected)
{
	struct chain *chain;

	begin_f32();
	compute_type = type;
	math_mode = mode;
	chain = scores();
	join(chain, core_scale(core.x, core.s, 0.25f));
	assert_int_equal(close_on(chain, core.x), expected);
}

static void test_kinds(void **state)
{
	const int flag = CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;

	assert_kind(CUBLAS_COMPUTE_32F, CUBLAS_DEFAULT_MATH, REASON_NONE);
	assert_kind(CUBLAS_COMPUTE_32F, CUBLAS_DEFAULT_MATH | flag, REASON_NONE);
	assert_kind(CUBLAS_COMPUTE_32F, CUBLAS_TF32_TENSOR_OP_MATH, REASON_NONE);
	assert_kind(CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_DEFAULT_MATH, REASON_NONE);
	assert_kind(CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_DEFAULT_MATH, REASON_PRECISION);
	assert_kind(CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_DEFAULT_MATH, REASON_PRECISION);
	assert_kind(CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_DEFAULT_MATH, REASON_PRECISION);
	assert_kind(CUBLAS_COMPUTE_32F, CUBLAS_PEDANTIC_MATH | flag, REASON_PRECISION);
}

/* Either of the two products may be the one that is not ours. */
static void test_one_of_two(void **state)
{
	struct chain *chain;

	begin_f32();
	chain = scores();
	compute_type = CUBLAS_COMPUTE_32F_FAST_16F;
	assert_int_equal(close_on(chain, core.s), REASON_PRECISION);
	begin_f32();
	compute_type = CUBLAS_COMPUTE_32F_FAST_16F;
	chain = scores();
	compute_type = CUBLAS_COMPUTE_32F;
	assert_int_equal(close_on(chain, core.s), REASON_PRECISION);
}

/* A bias by data is of fp32 only: no candidate comes twice. */
static void test_by_data(void **state)
{
	static struct attn_spec guesses[GUESSES];
	struct chain *chain;
	int count;

	begin_f32();
	chain = scores();
	join(chain, core_unknown(core.s, core.mask, 0.375f));
	struct op op = product(core_context());
	op.gemm.b = core.s;
	assert_int_equal(end_with(chain, op, NULL), REASON_NONE);
	assert_true(by_data);
	count = guess_specs(guesses, GUESSES, &args, chain);
	assert_true(count > 0);
	for (int i = 0; i < count; i++) {
		assert_true(!guesses[i].bias[0].base || guesses[i].bias[0].dtype == ATTN_F32);
		for (int k = 0; k < i; k++)
			assert_memory_not_equal(&guesses[i], &guesses[k], sizeof(*guesses));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_softmax), cmocka_unit_test(test_bias),
		cmocka_unit_test(test_floor),	cmocka_unit_test(test_bias_in_place),
		cmocka_unit_test(test_kinds),	cmocka_unit_test(test_one_of_two),
		cmocka_unit_test(test_by_data),
	};

	return CORE_MAIN("spec of fp32", tests);
}
