/* SPDX-License-Identifier: Apache-2.0
 *
 * What may happen to scores, in the attention kernels as built for the host: scales, softcap,
 * biases, masks, windows, and the roundings of a program that stores them.
 */
#include "kernels/attention.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <stdio.h>
#include "tests/cmocka.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void init(struct problem *p, int dtype, int B, int H, int Sq, int Sk, int D, int Dv)
{
	problem_init(p, dtype, (int[6]){B, H, Sq, Sk, D, Dv}, NULL);
}

static void test_scale(void **state)
{
	static const float scales[] = {1.0f, 0.0f, -0.3f, 3.0f, 1e-20f};
	struct problem p;

	for (size_t n = 0; n < COUNT(scales); n++) {
		init(&p, ATTN_F16, 1, 1, 40, 90, 40, 40);
		p.args.spec.scale = scales[n];
		p.args.spec.out_scale = 0.5f + (float)n;
		problem_check_all(&p, "scale");
	}
}

/* Scales in memory, one for all, for each head, each row, each score; of any sign; beside all that
 * may come after them. */
static void test_scales(void **state)
{
	static const struct layout spreads[] = {{.same = "bhrc"},
						{.same = "brc"},
						{.same = "rc"},
						{.same = "bhc"},
						{.same = "bhr"},
						{.same = "bh"},
						{0},
						{.order = "bhcr", .pad = 1}};
	static const int dtypes[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
	struct problem p;

	for (size_t n = 0; n < COUNT(spreads) * COUNT(dtypes); n++) {
		const size_t spread = n % COUNT(spreads);

		init(&p, dtypes[n % 3], 2, 3, 37, 70, 40, 40);
		problem_scales(&p, dtypes[n / COUNT(spreads)], &spreads[spread], 3.0);
		problem_check_all(&p, "scales");
		init(&p, dtypes[n % 3], 2, 3, 70, 67, 64, 48);
		problem_scales(&p, dtypes[n / COUNT(spreads)], &spreads[spread], 1.0);
		p.args.spec.scales_divide = n % 2;
		problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "b"}, 1.0);
		problem_mask(&p, n % 2, -INFINITY, NULL, n % 2 ? 0.9 : 0.1);
		if (n % 3 == 0)
			p.args.spec.softcap = 5;
		if (n % 4 == 0)
			p.args.spec.window_right = 0;
		p.args.spec.empty_row = ATTN_EMPTY_ZERO;
		problem_check_all(&p, "scales before a bias");
	}
	init(&p, ATTN_F16, 1, 2, 100, 100, 64, 64);
	problem_scales(&p, ATTN_F16, &(struct layout){.same = "brc"}, 1.0);
	number_store(element_at(&p.args.spec.scales, 2, 0, 0, 0, 0), ATTN_F16, 0);
	number_store(element_at(&p.args.spec.scales, 2, 0, 1, 0, 0), ATTN_F16, NAN);
	problem_check_all(&p, "no scale, and what is none");
	init(&p, ATTN_F16, 1, 1, 20, 20, 64, 64);
	problem_scales(&p, ATTN_BOOL, NULL, 1.0);
	assert_null(attn_select(&p.args, 90, NULL));
	problem_free(&p);
}

/* S times a scale, rounded as a program stores it. */
static void test_rounded_scales(void **state)
{
	static const int steps[] = {ATTN_ROUND_PRODUCT, ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED};
	struct problem p;

	for (int n = 0; n < 16; n++) {
		init(&p, n % 2 ? ATTN_F16 : ATTN_BF16, 2, 3, 50, 70, 64, 64);
		p.args.spec.alpha = n & 8 ? 1 : p.args.spec.scale;
		p.args.spec.round_s = steps[n >> 1 & 1] | (n & 4 ? ATTN_ROUND_WEIGHTS : 0);
		p.args.spec.scales_divide = n & 8 ? 0 : 1;
		problem_scales(&p, n % 2 ? ATTN_F16 : ATTN_F32, &(struct layout){.same = "brc"},
			       2.0);
		problem_check_rounded(&p, "scales, rounded");
	}
	init(&p, ATTN_BF16, 1, 2, 50, 70, 64, 64);
	problem_scales(&p, ATTN_BF16, NULL, 2.0);
	p.args.spec.alpha = 1;
	p.args.spec.round_s = ATTN_ROUND_PRODUCT;
	assert_null(attn_select(&p.args, 90, NULL));
	problem_free(&p);
}

/* Biases and masks of some of the batches, which come again or are shared by those in a row. */
static void test_batches(void **state)
{
	static const int batches[] = {1, 2, 3, 5, -2, -3, -6};
	struct problem p;

	for (size_t n = 0; n < 3 * COUNT(batches); n++) {
		const int of = batches[n % COUNT(batches)];

		init(&p, (int)(n / COUNT(batches)), 6, 2, 33, 49, 32, 32);
		problem_mask(&p, true, -INFINITY, &(struct layout){.same = n % 2 ? "h" : ""}, 0.7);
		problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = n % 3 ? "h" : "b"}, 1.0);
		problem_bias(&p, 1, ATTN_BF16, &(struct layout){.by_array = n % 3 == 1}, 1.0);
		p.args.spec.mask.batches = of;
		p.args.spec.bias[n % 2].batches = of;
		p.args.spec.empty_row = ATTN_EMPTY_ZERO;
		problem_check_all(&p, "batches that come again");
		init(&p, (int)(n / COUNT(batches)), 6, 2, 2, 49, 32, 32);
		problem_mask(&p, true, -INFINITY, NULL, 0.7);
		problem_scales(&p, ATTN_F32, &(struct layout){.same = "hrc"}, 1.0);
		p.args.spec.mask.batches = of;
		p.args.spec.scales.batches = of;
		problem_check_all(&p, "batches that come again");
	}
}

/* Biases of keys that come again, as the columns of an image do, and of keys that share one, as
 * those in a row of it. */
static void test_columns(void **state)
{
	static const int widths[] = {1, 2, 7, 14, 70};
	struct problem p;

	for (size_t n = 0; n < 6 * COUNT(widths); n++) {
		const int width = widths[n % COUNT(widths)], dtype = (int)(n / COUNT(widths)) % 3;

		init(&p, dtype, 2, 2, 35, 70, 64, 64);
		problem_bias(&p, 0, ATTN_F32, &(struct layout){.pad = 1}, 1.0);
		problem_bias(&p, 1, dtype, &(struct layout){.order = n % 2 ? "bhcr" : NULL}, 1.0);
		p.args.spec.bias[0].columns = -width;
		p.args.spec.bias[1].columns = width;
		p.args.spec.round_x = dtype;
		if (n % 4 == 0)
			problem_mask(&p, true, -INFINITY, NULL, 0.9);
		problem_check_all(&p, "rows and columns of keys");
	}
}

/* Scores as a program has them that stores each step in 16 bits: large, so that a rounding left out
 * shows in O. Factors are no powers of two, neither are lengths multiples of a tile. */
static void test_rounded_scores(void **state)
{
	static const int steps[] = {ATTN_ROUND_PRODUCT,
				    ATTN_ROUND_SCALED,
				    ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED,
				    ATTN_ROUND_BIASED,
				    ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_BIASED,
				    ATTN_ROUND_WEIGHTS,
				    ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS,
				    ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_BIASED |
					    ATTN_ROUND_WEIGHTS};
	static const struct layout shared[4] = {{0}, {.same = "h"}, {.same = "h"}, {0}};
	static const struct layout odd = {.pad = 1};
	enum { PLAIN, BIAS, ODD_BIAS, TWO, MASK, LATE, WINDOW, LENGTHS, GQA, KINDS };
	struct problem p;
	char what[64];

	for (int n = 0; n < KINDS * 5; n++) {
		const int kind = n / 5, dtype = n % 2, D = n % 3 == 0 ? 128 : n % 3 == 1 ? 64 : 33;
		struct attn_spec *s = &p.args.spec;

		problem_init(&p, dtype, (int[6]){1, 2, 37 + n, 101 + 13 * (n % 7), D, D},
			     kind == GQA ? shared : NULL);
		s->round_s = steps[n % 8];
		s->alpha = n % 3 ? 0.7f : -0.43f;
		s->scale = s->alpha * (n % 4 ? 3.3f : 1.0f);
		s->round_x = s->round_s & ATTN_ROUND_BIASED ? dtype : ATTN_F32;
		if (kind == BIAS || kind == TWO || kind == LATE)
			problem_bias(&p, 0, n % 4 ? dtype : ATTN_F32, NULL, 3);
		if (kind == ODD_BIAS)
			problem_bias(&p, 0, dtype, &odd, 3);
		if (kind == TWO)
			problem_bias(&p, 1, ATTN_F32, NULL, 3);
		if (kind == MASK || kind == LATE)
			problem_mask(&p, true, n % 4 ? -INFINITY : -1e4f, n % 3 ? NULL : &odd, 0.7);
		if (kind == LATE)
			s->late_biases = ATTN_MAX_BIAS;
		if (kind == WINDOW)
			s->window_right = 5;
		if (kind == LENGTHS)
			problem_lengths(&p, NULL, 1, p.args.Sk);
		snprintf(what, sizeof(what), "scores rounded %d, kind %d", s->round_s, kind);
		problem_check_rounded(&p, what);
	}
}

/* What no kernel rounds as asked for, none is given. */
static void test_rounded_refusals(void **state)
{
	struct problem p;

	for (int n = 0; n < 7; n++) {
		init(&p, n == 1 ? ATTN_F32 : ATTN_BF16, 1, 1, 40, 90, n == 2 ? 200 : 64, 64);
		p.args.spec.round_s = ATTN_ROUND_PRODUCT | ATTN_ROUND_BIASED;
		p.args.spec.alpha = n == 3 ? 0.0f : 1.0f;
		p.args.spec.softcap = n == 4 ? 5.0f : 0.0f;
		if (n == 5)
			p.args.spec.round_x = ATTN_F32;
		if (n == 6)
			p.args.spec.round_x = ATTN_F16;
		assert_int_equal(attn_select(&p.args, 90, NULL) != NULL, n == 0 || n == 2);
		assert_int_equal(attn_select(&p.args, 90, "wmma_bf16_d256_r64") != NULL,
				 n == 0 || n == 2);
		assert_null(attn_select(&p.args, 90, "mma_bf16_d64_r128")); /* for plain calls */
		p.args.spec.round_s = 0;
		if (n == 0)
			assert_non_null(attn_select(&p.args, 90, "mma_bf16_d64_r128"));
		problem_free(&p);
	}
}

static void test_softcap(void **state)
{
	struct problem p;

	for (int n = 0; n < 3; n++) {
		init(&p, n % 2 ? ATTN_BF16 : ATTN_F16, 1, 1, 40, 90, 40, 40);
		p.args.spec.scale = 2;
		p.args.spec.softcap = (float[]){1, 20, 50}[n];
		problem_check_all(&p, "softcap");
	}
}

static void test_bias(void **state)
{
	struct problem p;
	char what[64];

	for (size_t l = 0; l < COUNT(bias_layouts); l++)
		for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
			snprintf(what, sizeof(what), "bias layout %zu dtype %d", l, dtype);
			init(&p, dtype == ATTN_BF16 ? ATTN_BF16 : ATTN_F16, 2, 2, 37, 70, 40, 40);
			problem_bias(&p, (int)l % 2, dtype, &bias_layouts[l], 2);
			p.args.spec.bias_scale[l % 2] = l % 3 ? 1.0f : -0.5f;
			if (dtype == ATTN_F32)
				p.args.spec.round_x = ATTN_F32;
			problem_check_all(&p, what);
		}
	for (size_t l = 0; l < COUNT(bias_layouts); l++) {
		snprintf(what, sizeof(what), "two biases %zu", l);
		init(&p, ATTN_F16, 2, 2, 37, 70, 40, 40);
		problem_bias(&p, 0, ATTN_F16, &bias_layouts[l], 2);
		problem_bias(&p, 1, ATTN_F32, &bias_layouts[COUNT(bias_layouts) - 1 - l], 2);
		problem_check_chosen(&p, what);
	}
}

static void test_mask(void **state)
{
	static const float fills[] = {-INFINITY, -1e4f, -1e9f, -3.4028234e38f, -65504.0f, 0.0f};
	struct problem p;
	char what[64];

	for (size_t l = 0; l < COUNT(bias_layouts); l++)
		for (size_t f = 0; f < COUNT(fills); f++) {
			bool keeps = (l + f) % 2;

			snprintf(what, sizeof(what), "mask layout %zu fill %g", l,
				 (double)fills[f]);
			init(&p, f % 2 ? ATTN_BF16 : ATTN_F16, 2, 2, 37, 70, 40, 40);
			problem_mask(&p, keeps, fills[f], &bias_layouts[l], keeps ? 0.7 : 0.3);
			if (l % 2)
				problem_check_all(&p, what);
			else
				problem_check_chosen(&p, what);
		}
}

static void test_window(void **state)
{
	static const struct {
		int Sq, Sk, left, right, shift;
		float value;
	} w[] = {
		{70, 70, ATTN_NO_WINDOW, 0, 0, -INFINITY},    /* causal */
		{200, 200, ATTN_NO_WINDOW, 0, 0, -INFINITY},  /* causal, several tiles */
		{33, 100, ATTN_NO_WINDOW, 0, 67, -INFINITY},  /* aligned to the last key */
		{100, 33, ATTN_NO_WINDOW, 0, -67, -INFINITY}, /* leaves rows without a key */
		{100, 33, ATTN_NO_WINDOW, 0, -67, -1e4f},
		{197, 197, 16, 16, 0, -INFINITY}, /* a band */
		{197, 197, 16, 0, 0, -INFINITY},
		{197, 197, 70, 3, -5, -1e9f},
		{197, 197, 0, ATTN_NO_WINDOW, 0, -INFINITY},
		{70, 70, ATTN_NO_WINDOW - 1, ATTN_NO_WINDOW - 1, 0, -INFINITY},
		{70, 70, ATTN_NO_WINDOW, 0, 0, -3.4028234e38f},
		{70, 150, 10, 10, 1000, -INFINITY}, /* all keys before every window */
		{70, 150, 10, 10, -1000, -65504.0f},
	};
	struct problem p;
	char what[64];

	for (size_t n = 0; n < COUNT(w); n++)
		for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++) {
			snprintf(what, sizeof(what), "window %zu, empty rows by rule %d", n, rule);
			init(&p, n % 2 ? ATTN_BF16 : ATTN_F16, 1, 1, w[n].Sq, w[n].Sk, 40, 64);
			p.args.spec.window_left = w[n].left;
			p.args.spec.window_right = w[n].right;
			p.args.spec.window_shift = w[n].shift;
			p.args.spec.window_value = w[n].value;
			p.args.spec.empty_row = rule;
			problem_check_all(&p, what);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_scales),
		cmocka_unit_test(test_rounded_scales),
		cmocka_unit_test(test_batches),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_rounded_scores),
		cmocka_unit_test(test_rounded_refusals),
		cmocka_unit_test(test_softcap),
		cmocka_unit_test(test_bias),
		cmocka_unit_test(test_mask),
		cmocka_unit_test(test_window),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
