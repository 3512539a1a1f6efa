/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a program's rounding is asked of the kernel: first, once O moved, and where some
 * site's scores are so large that all others must keep still.
 */
#include "tests/unit/core.h"

#include <math.h>
#include <string.h>

#include "shim/act/comparison.h"
#include "shim/act/roundings.h"
#include "shim/log/log.h"
#include "shim/rules/rules.h"

#define SCORES (ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED)
#define ALL    (SCORES | ATTN_ROUND_WEIGHTS)

static struct site *fresh(int n)
{
	struct site *site = &sites[n];

	memset(site, 0, sizeof(*site));
	site->number = n;
	site->live = &log_live()->sites[n];
	return site;
}

/* [2,4,256,64] in one type, [B,H,S,D] packed. */
static struct attn_args call(int dtype, int32_t round_s)
{
	struct attn_args args = {.B = 2, .H = 4, .Sq = 256, .Sk = 256, .D = 64, .Dv = 64};
	struct attn_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.o};

	for (int n = 0; n < 4; n++)
		*tensors[n] = (struct attn_tensor){.base = 0x1000000u * (unsigned)(n + 1),
						   .stride = {65536, 16384, 64, 1},
						   .dtype = dtype};
	args.spec = (struct attn_spec){.scale = 0.125f,
				       .out_scale = 1,
				       .alpha = 1,
				       .round_s = round_s,
				       .round_x = ATTN_F32,
				       .round_p = dtype,
				       .window_left = ATTN_NO_WINDOW,
				       .window_right = ATTN_NO_WINDOW};
	return args;
}

/* What is asked of the kernel for a call. */
static int32_t asked(struct site *site, struct attn_args args)
{
	site->dtype = args.q.dtype;
	roundings_note(site, NULL, &args);
	return args.spec.round_s;
}

static void test_first(void **state)
{
	core_begin();
	assert_int_equal(asked(fresh(0), call(ATTN_F16, ALL)), 0);
	assert_int_equal(asked(fresh(0), call(ATTN_BF16, ALL)), SCORES);
	assert_int_equal(asked(fresh(0), call(ATTN_BF16, 0)), 0);
	assert_int_equal(asked(fresh(0), call(ATTN_BF16, ATTN_ROUND_WEIGHTS)), 0);
	assert_int_equal(asked(fresh(0), call(ATTN_F32, 0)), 0);
}

static void test_more(void **state)
{
	struct site *site;

	core_begin();
	site = fresh(0);
	asked(site, call(ATTN_F16, ALL));
	assert_true(roundings_left(site) && roundings_more(site));
	assert_int_equal(asked(site, call(ATTN_F16, ALL)), ALL);
	assert_false(roundings_left(site) || roundings_more(site));
	assert_int_equal(asked(site, call(ATTN_F16, ALL)), ALL);

	site = fresh(0);
	asked(site, call(ATTN_BF16, ALL));
	assert_true(roundings_more(site));
	assert_int_equal(asked(site, call(ATTN_BF16, ALL)), ALL);
	assert_false(roundings_more(site));
}

/* What was learned of another kernel counts no more. */
static void test_anew(void **state)
{
	struct site *site;

	core_begin();
	site = fresh(0);
	asked(site, call(ATTN_BF16, ALL));
	site->passed = 1;
	asked(site, call(ATTN_BF16, ALL));
	assert_int_equal(site->passed, 1);
	roundings_more(site);
	assert_int_equal(site->passed, 0);
}

/* No kernel rounds scores alone where there is a softcap, and none does where scales differ within
 * a head. */
static void test_no_kernel(void **state)
{
	struct attn_args args = call(ATTN_BF16, ALL | ATTN_ROUND_CAPPED);
	struct site *site;

	core_begin();
	args.spec.softcap = 30;
	site = fresh(0);
	assert_int_equal(asked(site, args), 0);
	assert_true(roundings_more(site));
	assert_int_equal(asked(site, args), ALL | ATTN_ROUND_CAPPED);

	args = call(ATTN_BF16, ALL | ATTN_ROUND_LESS); /* what all kernels round is asked of them */
	site = fresh(0);
	assert_int_equal(asked(site, args), SCORES);
	assert_true(roundings_more(site));
	assert_int_equal(asked(site, args), ALL | ATTN_ROUND_LESS);

	args = call(ATTN_BF16, ALL);
	args.spec.scales =
		(struct attn_tensor){.base = 0x9000000, .stride = {0, 0, 0, 1}, .dtype = ATTN_BF16};
	site = fresh(0);
	assert_int_equal(asked(site, args), 0);
	assert_false(roundings_left(site));
}

static double worst, largest;	    /* of O's numbers, how far they lie apart; of the scores */
static double own_most, fused_most; /* largest errors of the two sides */

/* The numbers of a comparison whose two sides lie `moved` apart, the program's `own` from the exact
 * answer, root mean square. */
static void compared(struct site *site, const struct attn_args *args, double moved, double own)
{
	struct comparison_result result = {
		.drift = {.sum_diff2 = moved * moved * 1e4,
			  .sum_app2 = 1e4,
			  .sum_fused2 = 1e4,
			  .sum_dot = 1e4,
			  .max_app = 1,
			  .max_abs = worst,
			  .count = 10000,
			  .blocks = 1},
		.own = {.sum_ref2 = 100,
			.sum_app2 = own * own * 100,
			.sum_fused2 = own * own * 100,
			.max_app = own_most,
			.max_fused = fused_most,
			.max_ref = 1,
			.count = 100,
			.blocks = 1},
		.largest = largest,
	};
	const struct comparison comparison = {
		.site = site,
		.result = &result,
		.rows = 1,
		.blocks = 1,
		.round_s = args->spec.round_s,
		.rounding = rounding_of(args, false),
	};

	comparison_judge(&comparison);
}

/* One site whose scores' roundings decide what its O is: bf16 begins with all of them from then on,
 * and no O in 16 bits may move by more than a kernel does that rounds all. */
static void test_steep(void **state)
{
	struct attn_args args = call(ATTN_BF16, ALL);
	struct site *site;

	core_begin();
	site = fresh(0);
	args.spec.round_s = asked(site, args);
	assert_true(isinf(comparison_wanted(ATTN_BF16)));
	compared(site, &args, 0.0028, 0.007);
	assert_int_equal(site->passed, 1);
	assert_true(isinf(comparison_wanted(ATTN_BF16)));
	compared(site, &args, 0.0028, 0.009);
	assert_true(comparison_wanted(ATTN_BF16) < 0.0028);
	assert_true(isinf(comparison_wanted(ATTN_F16)));
	assert_int_equal(asked(fresh(1), call(ATTN_BF16, ALL)), ALL);
	assert_int_equal(asked(site, call(ATTN_BF16, ALL)), ALL);
	assert_int_equal(asked(fresh(2), call(ATTN_F16, ALL)), 0);
}

/* A few numbers of fp16 far apart, and all the others not: a kernel that rounds, where there is
 * one. */
static void test_single(void **state)
{
	struct attn_args args = call(ATTN_F16, ALL);
	struct site *site;

	core_begin();
	site = fresh(0);
	args.spec.round_s = asked(site, args);
	worst = 0.005;
	compared(site, &args, 0.0016, 0.0016);
	assert_int_equal(site->passed, 1);
	worst = 0.0084;
	compared(site, &args, 0.0016, 0.0016);
	assert_int_equal(asked(site, call(ATTN_F16, ALL)), ALL);
	assert_int_equal(site->passed, 0);
	site = fresh(1);
	args.spec.round_s = asked(site, call(ATTN_F16, 0));
	compared(site, &args, 0.0016, 0.0016);
	assert_int_equal(site->passed, 1);
	site = fresh(2);
	args = call(ATTN_BF16, SCORES);
	args.spec.round_s = asked(site, args);
	compared(site, &args, 0.0016, 0.0016);
	assert_int_equal(site->passed, 1);
	worst = 0;
}

/* Next to nothing may move what lies before scores whose last bit counts. */
static void test_large(void **state)
{
	const struct attn_args args = call(ATTN_F32, 0);

	core_begin();
	asked(fresh(0), args);
	largest = 1000;
	compared(&sites[0], &args, 1e-7, 1e-7);
	assert_true(isinf(comparison_wanted(ATTN_F32)));
	largest = 1e6;
	compared(&sites[0], &args, 1e-7, 1e-7);
	assert_true(comparison_wanted(ATTN_F32) == 0);
	largest = 0;
}

/* Where single numbers of O are another key's, though all in all it hardly moved, nothing may be
 * replaced that lies before it, nor it: not if it can't be told whether it is attention. */
static void test_fickle(void **state)
{
	struct attn_args args = call(ATTN_F16, ALL);
	struct site *site;

	core_begin();
	site = fresh(0);
	args.spec.round_s = asked(site, args);
	worst = 0.005;
	compared(site, &args, 0.001, 0.001);
	worst = 0.5;
	compared(fresh(1), &args, 0.01, 0.1);
	assert_int_equal(sites[1].reason, REASON_NOT_EXPLAINED);
	assert_null(comparison_objection(ATTN_F16));
	compared(site, &args, 0.01, 0.01);
	assert_non_null(comparison_objection(ATTN_F16));
	assert_null(comparison_objection(ATTN_BF16));
	assert_int_equal(site->state, SITE_LEARNING);
	worst = 0;
	args = call(ATTN_F16, ALL);
	args.spec.round_s = asked(site, args);
	assert_int_equal(args.spec.round_s, ALL);
	compared(site, &args, 1e-5, 0.1);
	assert_int_equal(site->state, SITE_DECLINED);
	assert_int_equal(site->reason, REASON_DRIFT);
}

/* What becomes of an fp32 site whose program's largest error was `before` once, and is 1e-7 where
 * the kernel's is 2.9 times that and a rounding. */
static enum site_state after(double before)
{
	const struct attn_args args = call(ATTN_F32, 0);
	struct site *site;

	core_begin();
	site = fresh(0);
	asked(site, args);
	fused_most = 0;
	own_most = before;
	compared(site, &args, 1e-8, 1e-8);
	own_most = 1e-7;
	fused_most = 2.9e-7 + 2 * 0x1p-24;
	compared(site, &args, 1e-8, 1e-8);
	own_most = fused_most = 0;
	return site->state;
}

/* Bad luck, once the program's own was as large. */
static void test_luck(void **state)
{
	assert_int_equal(after(1e-7), SITE_DECLINED);
	assert_int_equal(after(1.4e-7), SITE_DECLINED);
	assert_int_not_equal(after(1.5e-7), SITE_DECLINED);
	assert_int_not_equal(after(1e-6), SITE_DECLINED);
	assert_int_equal(after(0.5), SITE_DECLINED); /* that was no answer */
	assert_int_equal(sites[0].reason, REASON_NOT_EXPLAINED);
}

/* Ones are put where the largest of some scores are. */
static void test_picked(void **state)
{
#define SCATTER                                                                                    \
	"_ZN2at6native34_scatter_gather_elementwise_kernelILi128ELi8EZNS0_34_cuda_scatter_fill_"   \
	"internal_kernelI"
	static char whole[] = SCATTER "NS0_10OpaqueTypeILi8EEElE",
		    half[] = SCATTER "NS0_10OpaqueTypeILi2EEElE";
	struct function function = {.name = whole};

	core_begin();
	rules_bind(&function);
	assert_false(rules_picks());
	function.name = half;
	rules_bind(&function);
	assert_true(rules_picks());
	assert_true(comparison_strict() & 4);
	assert_null(comparison_objection(ATTN_BF16));
	assert_true(comparison_wanted(ATTN_BF16) < 2e-3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),  cmocka_unit_test(test_more),
		cmocka_unit_test(test_anew),   cmocka_unit_test(test_no_kernel),
		cmocka_unit_test(test_luck), /* before what keeps all of fp32 still */
		cmocka_unit_test(test_steep),  cmocka_unit_test(test_single),
		cmocka_unit_test(test_large),  cmocka_unit_test(test_fickle),
		cmocka_unit_test(test_picked),
	};

	return CORE_MAIN("roundings", tests);
}
