/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of which S is more than fp16 holds, where the program stores S in that: NaN, or hidden,
 * where a program's are, and numbers just below. Every kernel that the host can run, with all that
 * may stand between S and softmax.
 */
#include "kernels/attention.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <stdlib.h>
#include "tests/cmocka.h"

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define BEYOND	    65776.0f
#define HIDDEN(key) ((key) % 16 == 9)

/* What becomes of S in row i, by i % ROW_KINDS. */
enum row {
	ORDINARY,
	ABOVE,	      /* infinite at some keys */
	JUST_BELOW,   /* 65504 there, 0 elsewhere */
	ABOVE_HIDDEN, /* infinite at HIDDEN() keys */
	BELOW,	      /* minus infinity at some keys */
	ALL_BELOW,    /* at all */
	ROW_KINDS
};

/* Q and K: S is the product of three columns but for numbers of moderate size. `alpha` is what
 * GEMM1 multiplies it by. Rows that are all minus infinity only where kernels tell (plain: not). */
static void fill(struct problem *p, bool plain, float alpha)
{
	const struct attn_args *a = &p->args;

	p->args.spec.overflow = BEYOND / alpha;
	for (int i = 0; i < a->Sq; i++) {
		const int kind = i % ROW_KINDS == ALL_BELOW && plain ? ORDINARY : i % ROW_KINDS;

		for (int d = 0; d < a->D; d++) {
			void *at = element_at(&a->q, a->H, 0, 0, i, d);
			double x = d < 3 || kind == JUST_BELOW ? 0 : number_load(at, a->q.dtype);

			if (d == 0 && (kind == ABOVE || kind == BELOW))
				x = (kind == ABOVE ? 300 : -300) / alpha;
			if (d == 0 && kind == JUST_BELOW)
				x = 255.875 / alpha;
			if (d == 1 && kind == ABOVE_HIDDEN)
				x = 300 / alpha;
			if (d == 2 && kind == ALL_BELOW)
				x = -300 / alpha;
			number_store(at, a->q.dtype, x);
		}
	}
	for (int j = 0; j < a->Sk; j++)
		for (int d = 0; d < 3; d++)
			number_store(element_at(&a->k, a->H, 0, 0, j, d), a->k.dtype,
				     d == 2 || (d == 0 && j % 16 == 5) || (d == 1 && HIDDEN(j))
					     ? 256
					     : 0);
}

enum between {
	NOTHING,
	WINDOW,
	MASK,
	MASK_LOWEST,
	BIAS,
	BIAS_LOWEST,
	BIAS_FLOORED,
	BIAS_F32,
	MASK_THEN_BIAS,
	CAP,
	SCALES,
	SCALE_BELOW_0,
	SINKS,
	LENGTHS,
	BETWEEN
};

static const char *const names[BETWEEN] = {
	"nothing",
	"window",
	"mask",
	"mask of -65504",
	"bias",
	"bias of -65504",
	"nothing below -65504",
	"f32 bias",
	"mask then bias",
	"softcap",
	"scales by element",
	"scale below 0",
	"sinks",
	"lengths",
};

/* What lies between S and softmax. HIDDEN() keys are what masks, and biases of 0 and less, hide. */
static void put_between(struct problem *p, enum between between)
{
	struct attn_spec *s = &p->args.spec;
	const bool masked = between == MASK || between == MASK_LOWEST || between == MASK_THEN_BIAS;
	const bool biased = between == BIAS || between == BIAS_LOWEST || between == BIAS_FLOORED;

	if (between == WINDOW)
		s->window_right = 0;
	if (masked)
		problem_mask(p, false, between == MASK_LOWEST ? -65504.0f : -INFINITY, NULL, 0);
	if (biased)
		problem_bias(p, 0, ATTN_F16, NULL, 0);
	s->round_x = between == BIAS_FLOORED ? ATTN_F16_FLOORED : biased ? ATTN_F16 : ATTN_F32;
	for (int i = 0; i < p->args.Sq; i++)
		for (int j = 0; j < p->args.Sk; j++) {
			if (masked)
				number_store(element_at(&s->mask, 1, 0, 0, i, j), ATTN_BOOL,
					     HIDDEN(j));
			if (biased && HIDDEN(j))
				number_store(element_at(&s->bias[0], 1, 0, 0, i, j), ATTN_F16,
					     between == BIAS_LOWEST ? -65504 : -INFINITY);
		}
	if (between == BIAS_F32)
		problem_bias(p, 0, ATTN_F32, NULL, 1);
	if (between == MASK_THEN_BIAS) {
		problem_bias(p, 1, ATTN_F16, NULL, 1);
		s->late_biases = 1;
	}
	if (between == CAP)
		s->softcap = 30;
	if (between == SCALES)
		problem_scales(p, ATTN_F16, NULL, 1);
	if (between == SCALE_BELOW_0)
		s->scale = -s->scale;
	if (between == SINKS)
		problem_sinks(p, ATTN_F16, NULL, 3);
	if (between == LENGTHS)
		problem_lengths(p, NULL, 1, p->args.Sk);
}

static void check(int Sq, int Sk, int D, float alpha, enum between between)
{
	struct problem p;

	problem_init(&p, ATTN_F16, (int[6]){1, 1, Sq, Sk, D, D}, NULL);
	fill(&p, between <= WINDOW, alpha);
	put_between(&p, between);
	problem_check_all(&p, names[between]);
}

static void test_rows(void **state)
{
	static const int widths[] = {40, 64};

	for (int between = 0; between < BETWEEN; between++)
		for (size_t w = 0; w < COUNT(widths); w++) {
			check(12, 150, widths[w], 1, between); /* few queries: all kernels */
			check(70, 300, widths[w], 1, between);
		}
}

static void test_alpha(void **state)
{
	check(12, 150, 64, 0.125f, NOTHING);
	check(12, 150, 64, 0.125f, MASK);
	check(70, 150, 64, 2, NOTHING);
	check(70, 150, 64, 2, BIAS);
}

/* The answer that the others are held to is what it is meant to be. */
static void test_answer(void **state)
{
	struct problem p;
	double out[40];

	for (int between = NOTHING; between <= BIAS_FLOORED; between++) {
		problem_init(&p, ATTN_F16, (int[6]){1, 1, ROW_KINDS, 64, 40, 40}, NULL);
		fill(&p, false, 1);
		put_between(&p, between);
		for (int i = 0; i < ROW_KINDS && between != WINDOW; i++) {
			const bool hides = between == MASK || between == MASK_LOWEST;
			const bool nan = i == ABOVE || (i == ABOVE_HIDDEN && !hides) ||
					 (i == ALL_BELOW && between != MASK_LOWEST &&
					  between != BIAS_FLOORED);

			problem_row(&p, 0, 0, i, false, out);
			assert_int_equal(isnan(out[0]) != 0, nan);
		}
		problem_free(&p);
	}
}

/* Without a limit these are numbers like others. */
static void test_no_limit(void **state)
{
	static const int dtypes[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
	double out[64];
	struct problem p;

	for (size_t n = 0; n < COUNT(dtypes); n++) {
		problem_init(&p, dtypes[n], (int[6]){1, 1, 12, 150, 64, 64}, NULL);
		fill(&p, true, 1);
		p.args.spec.overflow = 0;
		problem_row(&p, 0, 0, ABOVE, false, out);
		assert_true(isfinite(out[0]));
		problem_check_all(&p, "no limit");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_alpha),
		cmocka_unit_test(test_no_limit),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
