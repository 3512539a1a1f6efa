/* SPDX-License-Identifier: Apache-2.0
 *
 * What comparisons are allowed to show: numbers as a GPU reported them for right answers, and for
 * wrong ones of each size, in every type.
 */
#include "tests/cmocka.h"

#include <math.h>
#include <string.h>

#include "shim/act/verdict.h"

#define COUNT  4096
#define FACTOR 2 /* FASHIM_TOL's default */

static struct rounding of_types(int in, int out, bool tf32)
{
	struct attn_args args;

	memset(&args, 0, sizeof(args));
	args.q.dtype = args.k.dtype = args.v.dtype = in;
	args.o.dtype = out;
	args.spec.round_p = in;
	return rounding_of(&args, tf32);
}

/* O of order one; both errors as root mean square, the largest four times that. */
static struct drift_sampled_result sampled(double app, double fused)
{
	return (struct drift_sampled_result){
		.sum_ref2 = COUNT,
		.sum_app2 = COUNT * app * app,
		.sum_fused2 = COUNT * fused * fused,
		.max_app = 4 * app,
		.max_fused = 4 * fused,
		.max_ref = 4,
		.count = COUNT,
	};
}

static struct drift_result whole(double difference)
{
	return (struct drift_result){.max_abs = difference, .max_app = 4, .count = COUNT};
}

static void assert_explained(double app, int in, bool tf32, bool by_rule, bool by_data)
{
	const struct rounding rounding = of_types(in, in, tf32);
	const struct drift_sampled_result r = sampled(app, app);

	assert_int_equal(verdict_explains(&r, &rounding, false), by_rule);
	assert_int_equal(verdict_explains(&r, &rounding, true), by_data);
}

static void test_explains(void **state)
{
	assert_explained(3e-4, ATTN_F16, false, true, true);
	assert_explained(8e-3, ATTN_F16, false, true, false);
	assert_explained(3e-2, ATTN_F16, false, false, false);
	assert_explained(3e-3, ATTN_BF16, false, true, true);
	assert_explained(2e-1, ATTN_BF16, false, false, false);
	assert_explained(3e-7, ATTN_F32, false, true, true);
	assert_explained(2.4e-6, ATTN_F32, false, true, true); /* a sum over 16384 keys */
	assert_explained(8e-6, ATTN_F32, false, true, false);
	assert_explained(3e-5, ATTN_F32, false, false, false);
	assert_explained(1e-3, ATTN_F32, false, false, false); /* TF32 where fp32 was asked for */
	assert_explained(1e-3, ATTN_F32, true, true, true);
	assert_explained(3e-2, ATTN_F32, true, false, false);
}

/* All zeros, or no numbers: the two agree, and that says nothing. */
static void test_empty(void **state)
{
	const struct drift_sampled_result nothing = {.count = 0};
	const struct drift_sampled_result zeros = {.count = COUNT};
	const struct drift_sampled_result some = sampled(3e-4, 3e-4);
	const struct drift_result whole = {.count = COUNT}, none = {.count = 0};

	for (int type = ATTN_F16; type <= ATTN_F32; type++) {
		const struct rounding rounding = of_types(type, type, false);

		assert_true(verdict_explains(&zeros, &rounding, true));
		assert_null(verdict_disagreement(&whole, &rounding));
		assert_true(verdict_as_exact(&zeros, &rounding, FACTOR, 0));
	}
	assert_false(verdict_no_numbers(&whole));
	assert_true(verdict_no_numbers(&none));
	assert_true(verdict_empty(&nothing));
	assert_true(verdict_empty(&zeros));
	assert_false(verdict_empty(&some));
}

/* One element far off, the rest in order. */
static void test_one_element(void **state)
{
	const struct rounding fp32 = of_types(ATTN_F32, ATTN_F32, false);
	struct drift_sampled_result r = sampled(3e-7, 3e-7);

	r.max_app = 1e-3;
	assert_false(verdict_explains(&r, &fp32, false));
	assert_true(verdict_as_exact(&r, &fp32, FACTOR, 0));
	r = sampled(3e-7, 3e-7);
	r.max_fused = 1e-3;
	assert_true(verdict_explains(&r, &fp32, true));
	assert_false(verdict_as_exact(&r, &fp32, FACTOR, 0));
}

/* What the program's largest error was elsewhere counts, up to twice what it is here. */
static void test_luck(void **state)
{
	const struct rounding fp32 = of_types(ATTN_F32, ATTN_F32, false);
	struct drift_sampled_result r = sampled(3e-7, 3e-7);
	const double own = verdict_own_error(&r);

	r.max_fused = 3 * r.max_app + 2 * fp32.output * r.max_ref;
	assert_false(verdict_as_exact(&r, &fp32, FACTOR, 0));
	assert_false(verdict_as_exact(&r, &fp32, FACTOR, own));
	assert_false(verdict_as_exact(&r, &fp32, FACTOR, 1.4 * own));
	assert_true(verdict_as_exact(&r, &fp32, FACTOR, 1.6 * own));
	r.max_fused *= 1.5;
	assert_false(verdict_as_exact(&r, &fp32, FACTOR, 100 * own));
	r = sampled(3e-7, 9e-7); /* all of it, not one number */
	assert_false(verdict_as_exact(&r, &fp32, FACTOR, 100 * own));
	r.max_ref = 0;
	assert_true(verdict_own_error(&r) == 0);
}

static void test_not_finite(void **state)
{
	const struct rounding fp32 = of_types(ATTN_F32, ATTN_F32, false);
	const struct rounding fp16 = of_types(ATTN_F16, ATTN_F16, false);
	struct drift_sampled_result r = sampled(3e-7, 3e-7);
	struct drift_result d = whole(0);

	r.app_nonfinite = 1;
	assert_false(verdict_explains(&r, &fp32, false));
	assert_true(verdict_as_exact(&r, &fp32, FACTOR, 0));
	r = sampled(3e-7, 3e-7);
	r.fused_nonfinite = 1;
	assert_true(verdict_explains(&r, &fp32, false));
	assert_false(verdict_as_exact(&r, &fp32, FACTOR, 0));
	d.nonfinite_mismatch = 1;
	assert_string_equal(verdict_disagreement(&d, &fp32),
			    "what is no number on one side is one on the other");
	assert_non_null(verdict_disagreement(&d, &fp16));
}

static void assert_exact(double app, double fused, int dtype, bool tf32, bool expected)
{
	const struct rounding rounding = of_types(dtype, dtype, tf32);
	const struct drift_sampled_result r = sampled(app, fused);

	assert_int_equal(verdict_as_exact(&r, &rounding, FACTOR, 0), expected);
}

static void test_as_exact(void **state)
{
	assert_exact(3e-4, 1e-4, ATTN_F16, false, true);
	assert_exact(3e-4, 8e-4, ATTN_F16, false, true); /* a rounding step on top */
	assert_exact(3e-4, 1e-3, ATTN_F16, false, false);
	assert_exact(4e-7, 3e-7, ATTN_F32, false, true);
	assert_exact(4e-7, 8e-7, ATTN_F32, false, true);
	assert_exact(4e-7, 1e-6, ATTN_F32, false, false);
	assert_exact(4e-7, 1e-3, ATTN_F32, false, false);
	assert_exact(0, 5e-8, ATTN_F32, false, true); /* a single key: O is V */
	assert_exact(0, 5e-7, ATTN_F32, false, false);
	assert_exact(1e-3, 3e-7, ATTN_F32, true, true);
	assert_exact(1e-3, 1e-3, ATTN_F32, true, true);
	/* TF32 was allowed and not used: the program's own error is the measure all the same. */
	assert_exact(4e-7, 1e-3, ATTN_F32, true, false);
}

/* Rows that are not sampled: a wrong one shows in fp32. */
static void test_agrees(void **state)
{
	const struct rounding fp32 = of_types(ATTN_F32, ATTN_F32, false);
	const struct rounding tf32 = of_types(ATTN_F32, ATTN_F32, true);
	const struct rounding fp16 = of_types(ATTN_F16, ATTN_F16, false);
	struct drift_result d = whole(2e-5);

	assert_null(verdict_disagreement(&d, &fp32));
	d = whole(1e-3);
	assert_non_null(verdict_disagreement(&d, &fp32));
	assert_null(verdict_disagreement(&d, &tf32));
	d = whole(1);
	assert_non_null(verdict_disagreement(&d, &tf32));
	assert_null(verdict_disagreement(&d, &fp16)); /* its rows may be decided by rounding */
	d.max_app = 0;
	assert_non_null(verdict_disagreement(&d, &fp32));
	d.max_abs = 0;
	assert_null(verdict_disagreement(&d, &fp32));
}

static void assert_moved(double moved, int dtype, bool agrees, bool wanted)
{
	const struct rounding rounding = of_types(dtype, dtype, false);
	const struct drift_result d = {.count = COUNT,
				       .max_app = 4,
				       .sum_app2 = COUNT,
				       .sum_diff2 = COUNT * moved * moved};

	assert_int_equal(!verdict_disagreement(&d, &rounding), agrees);
	assert_int_equal(!verdict_moved(&d, rounding.wanted), wanted);
}

/* Subnormal numbers of fp16. */
static void test_small(void **state)
{
	const struct rounding fp16 = of_types(ATTN_F16, ATTN_F16, false);
	const struct rounding bf16 = of_types(ATTN_BF16, ATTN_BF16, false);
	struct drift_result d = {.count = COUNT, .max_app = 1e-4, .sum_app2 = COUNT * 1e-10};

	assert_null(verdict_disagreement(&d, &fp16));
	d.sum_diff2 = COUNT * 1e-17;
	assert_non_null(verdict_disagreement(&d, &fp16));
	assert_null(verdict_disagreement(&d, &bf16));
	d.sum_app2 = COUNT * 1e-8;
	assert_null(verdict_disagreement(&d, &fp16));
}

/* A kernel that rounds where the program does hardly moves it. */
static void test_rounded_moves_little(void **state)
{
	struct attn_args args = {.v.dtype = ATTN_F16,
				 .o.dtype = ATTN_F16,
				 .spec.round_p = ATTN_F16,
				 .spec.round_s = ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS};
	struct drift_result d = {
		.count = COUNT, .max_app = 4, .sum_app2 = COUNT, .sum_diff2 = COUNT * 5e-3 * 5e-3};
	struct rounding rounding = rounding_of(&args, false);

	assert_non_null(verdict_disagreement(&d, &rounding));
	d.sum_diff2 = COUNT * 2e-4 * 2e-4;
	assert_null(verdict_disagreement(&d, &rounding));
}

/* The fused O may be the better one: the program's is not to move far. */
static void test_moved(void **state)
{
	assert_moved(1e-3, ATTN_F16, true, true);
	assert_moved(3e-3, ATTN_F16, true, false);
	assert_moved(2e-2, ATTN_F16, false, false);
	assert_moved(7e-3, ATTN_BF16, true, true);
	assert_moved(1e-2, ATTN_BF16, true, false);
	assert_moved(2e-2, ATTN_BF16, false, false); /* T5's unscaled scores */
	assert_moved(2e-6, ATTN_F32, true, true);
	assert_moved(1e-5, ATTN_F32, true, false);		 /* Visformer's, of 1e7 */
	assert_true(rounding_where_choices(ATTN_BF16) < 2.6e-3); /* GPT-OSS */
	assert_true(rounding_where_choices(ATTN_F16) > 4e-4);
	assert_true(isinf(rounding_where_choices(ATTN_F32)));
}

/* P has the operands' type, whatever O has. */
static void test_wider_output(void **state)
{
	const struct rounding wide = of_types(ATTN_F16, ATTN_F32, false);
	struct drift_sampled_result r = sampled(3e-4, 1e-4);

	assert_true(verdict_explains(&r, &wide, true));
	assert_true(verdict_as_exact(&r, &wide, FACTOR, 0));
	r = sampled(3e-4, 7e-4); /* no rounding step of fp16 to be had here */
	assert_false(verdict_as_exact(&r, &wide, FACTOR, 0));
	assert_true(isinf(wide.apart));
}

static void test_rms(void **state)
{
	assert_true(verdict_rms(16, 4) == 2);
	assert_true(verdict_rms(0, 4) == 0);
	assert_true(verdict_rms(0, 0) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_explains),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_one_element),
		cmocka_unit_test(test_luck),
		cmocka_unit_test(test_not_finite),
		cmocka_unit_test(test_as_exact),
		cmocka_unit_test(test_agrees),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_rounded_moves_little),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_wider_output),
		cmocka_unit_test(test_rms),
	};

	return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
