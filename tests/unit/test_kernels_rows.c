/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row may have beside its scores, in the kernels as built for the host: a length, a sink,
 * and biases that are added after the mask. In every variant that takes the call, few queries and
 * many, 16-bit and fp32.
 */
#include "kernels/attention.h"
#include "kernels/takes.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <string.h>
#include "tests/cmocka.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const int dtypes[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
static const int queries[] = {1, 3, 40, 100};

/* [2,2,queries,keys], and head dimensions that differ. */
static void init(struct problem *p, int dtype, int Sq, int Sk)
{
	problem_init(p, dtype, (int[6]){2, 2, Sq, Sk, 40, 64}, NULL);
}

static const struct layout row_layouts[] = {
	{0},		   /* a number per row */
	{.same = "hr"},	   /* per batch */
	{.same = "br"},	   /* per head */
	{.order = "rhbc"}, /* scattered */
	{.by_array = true},
};

static void test_lengths(void **state)
{
	struct problem p;

	for (size_t l = 0; l < COUNT(row_layouts); l++)
		for (size_t q = 0; q < COUNT(queries); q++)
			for (size_t t = 0; t < COUNT(dtypes); t++) {
				init(&p, dtypes[t], queries[q], 150);
				problem_lengths(&p, &row_layouts[l], 1, 160);
				problem_check_all(&p, "lengths");
			}
}

/* Rows of length 0, and of less, beside others: by the rule, and whether the block's other rows
 * share their length or not. */
static void test_no_key(void **state)
{
	struct problem p;

	for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++)
		for (size_t q = 0; q < COUNT(queries); q++)
			for (size_t t = 0; t < COUNT(dtypes); t++) {
				const bool shared = (q + t) % 2;

				init(&p, dtypes[t], queries[q], 90);
				problem_lengths(&p, &row_layouts[shared], -2, 1);
				p.args.spec.empty_row = rule;
				problem_check_all(&p, "no key");
			}
}

/* A length ends a row whatever window, mask or bias say of its keys. */
static void test_lengths_and_others(void **state)
{
	struct problem p;

	for (size_t q = 0; q < COUNT(queries); q++)
		for (size_t t = 0; t < COUNT(dtypes); t++) {
			init(&p, dtypes[t], queries[q], 150);
			problem_lengths(&p, &row_layouts[q % 2], 0, 150);
			p.args.spec.window_right = 10;
			p.args.spec.window_value = -100;
			problem_check_all(&p, "lengths and a filled window");
			init(&p, dtypes[t], queries[q], 150);
			problem_lengths(&p, &row_layouts[q % 2], 0, 150);
			p.args.spec.window_right = 10;
			p.args.spec.window_left = 50;
			p.args.spec.window_shift = 20;
			problem_check_all(&p, "lengths and a window");
			init(&p, dtypes[t], queries[q], 150);
			problem_lengths(&p, &row_layouts[1], 1, 150);
			problem_bias(&p, 0, ATTN_F32, NULL, 1);
			problem_mask(&p, false, -50, &(struct layout){.same = "hr"}, 0.5);
			problem_check_all(&p, "lengths, bias and mask");
		}
}

static void test_sinks(void **state)
{
	struct problem p;

	for (size_t l = 0; l < COUNT(row_layouts); l++)
		for (size_t q = 0; q < COUNT(queries); q++)
			for (size_t t = 0; t < COUNT(dtypes); t++) {
				init(&p, dtypes[t], queries[q], 150);
				problem_sinks(&p, dtypes[(t + l) % 3], &row_layouts[l], 4);
				problem_check_all(&p, "sinks");
			}
}

/* Sinks far above and below the scores, at the end of what there is, and no sink at all. */
static void test_extreme_sinks(void **state)
{
	static const double sinks[] = {100,	     -100,	65504,	  -65504, -3.4028234e38,
				       3.4028234e38, -INFINITY, INFINITY, NAN};
	struct problem p;

	for (size_t s = 0; s < COUNT(sinks); s++)
		for (size_t q = 0; q < COUNT(queries); q++)
			for (size_t t = 0; t < COUNT(dtypes); t++) {
				init(&p, dtypes[t], queries[q], 90);
				problem_sinks(&p, ATTN_F32, NULL, 1);
				for (int i = 0; i < queries[q]; i += 2)
					number_store(element_at(&p.args.spec.sinks, 2, 1, 0, i, 0),
						     ATTN_F32, sinks[s]);
				problem_check_all(&p, "a sink out of range");
			}
}

/* A row without a key whose sink stands is 0, not empty; with a window that leaves whole blocks of
 * rows no key, too. */
static void test_sinks_alone(void **state)
{
	struct problem p;

	for (size_t q = 0; q < COUNT(queries); q++)
		for (size_t t = 0; t < COUNT(dtypes); t++) {
			init(&p, dtypes[t], queries[q], 90);
			p.args.spec.empty_row = ATTN_EMPTY_MEAN;
			problem_sinks(&p, ATTN_F16, NULL, 1);
			problem_lengths(&p, NULL, 0, 3);
			number_store(element_at(&p.args.spec.sinks, 2, 0, 0, 0, 0), ATTN_F16,
				     -INFINITY);
			problem_check_all(&p, "sinks and lengths");
			init(&p, dtypes[t], queries[q], 90);
			problem_sinks(&p, ATTN_BF16, &row_layouts[2], 1);
			p.args.spec.window_right = 0;
			p.args.spec.window_shift = -60;
			problem_check_all(&p, "sinks and a window");
		}
}

/* Mask, then biases: a fill that a bias pushes past the end of 16 bits is -inf, and one that it
 * lifts is not. */
static void test_late_biases(void **state)
{
	struct problem p;

	for (int late = 1; late <= ATTN_MAX_BIAS; late++)
		for (size_t q = 0; q < COUNT(queries); q++)
			for (size_t t = 0; t < COUNT(dtypes); t++) {
				init(&p, dtypes[t], queries[q], 150);
				problem_mask(&p, true, -3, NULL, 0.6);
				problem_bias(&p, 0, dtypes[t], &row_layouts[1], 2);
				problem_bias(&p, 1, dtypes[t], NULL, 2);
				p.args.spec.late_biases = late;
				problem_check_all(&p, "biases after the mask");
				init(&p, dtypes[t], queries[q], 150);
				problem_mask(&p, true, -INFINITY, NULL, 0.6);
				problem_bias(&p, 1, ATTN_F32, NULL, 2);
				p.args.spec.late_biases = late;
				problem_check_all(&p, "the second bias after the mask");
			}
}

static void test_late_overflow(void **state)
{
	static const struct {
		int dtype;
		float lowest;
	} t[] = {{ATTN_F16, -65504.0f}, {ATTN_BF16, -0x1.fep127f}, {ATTN_F32, -3.4028234e38f}};
	struct problem p;

	for (size_t n = 0; n < COUNT(t); n++)
		for (size_t q = 0; q < COUNT(queries); q++)
			for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++) {
				init(&p, t[n].dtype, queries[q], 70);
				problem_mask(&p, true, t[n].lowest, NULL, 0.5);
				problem_bias(&p, 1, t[n].dtype, NULL, 0);
				for (int i = 0; i < queries[q]; i++)
					for (int j = 0; j < 70; j++) {
						/* every third row keeps but one key */
						if (i % 3 == 0)
							*(char *)element_at(&p.args.spec.mask, 2, 1,
									    1, i, j) = j == 5;
						if (i % 3 == 0 || j > 50)
							number_store(
								element_at(&p.args.spec.bias[1], 2,
									   1, 1, i, j),
								t[n].dtype, t[n].lowest);
					}
				p.args.spec.late_biases = 1;
				p.args.spec.empty_row = rule;
				problem_check_all(&p, "fill plus fill");
			}
}

/* Calls with nothing rare go where they went; others where there are registers for it. */
static void test_choice(void **state)
{
	static uint8_t all[ATTN_VARIANTS_MOST];
	struct attn_args a;
	struct problem p;

	memset(all, 1, sizeof(all));
	problem_init(&p, ATTN_F16, (int[6]){2, 16, 512, 512, 64, 64}, NULL);
	a = p.args;
	assert_int_equal(attn_select_from(&a, 90, NULL, all)->family, ATTN_TMA);
	a.spec.sinks = a.q;
	assert_string_equal(attn_select_from(&a, 90, NULL, all)->name, "sm90_f16_d64_any");
	a = p.args;
	a.spec.lengths = a.q;
	assert_null(attn_select_from(&a, 90, NULL, all)); /* halves are no lengths */
	a.spec.lengths.dtype = ATTN_I32;
	assert_string_equal(attn_select_from(&a, 90, NULL, all)->name, "sm90_f16_d64_any");
	a.Sq = 1;
	assert_int_equal(attn_select_from(&a, 90, NULL, all)->family, ATTN_DECODE);
	a.spec.window_right = 0;
	a.spec.window_value = -1;
	assert_int_not_equal(attn_select_from(&a, 90, NULL, all)->family, ATTN_DECODE);
	a = p.args;
	a.spec.mask = a.spec.bias[1] = a.q;
	a.spec.mask.dtype = ATTN_BOOL;
	a.spec.late_biases = 1;
	assert_string_equal(attn_select_from(&a, 90, NULL, all)->name, "sm90_f16_d64_any");
	a.spec.late_biases = 0;
	assert_true(attn_select_from(&a, 90, NULL, all)->needs & ATTN_NEEDS_USUAL);
	problem_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_no_key),
		cmocka_unit_test(test_lengths_and_others),
		cmocka_unit_test(test_sinks),
		cmocka_unit_test(test_extreme_sinks),
		cmocka_unit_test(test_sinks_alone),
		cmocka_unit_test(test_late_biases),
		cmocka_unit_test(test_late_overflow),
		cmocka_unit_test(test_choice),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
