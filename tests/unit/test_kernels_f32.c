/* SPDX-License-Identifier: Apache-2.0
 *
 * The fp32 kernels for any number of queries, as built for the host: no less exact than a chain in
 * fp32 arithmetic, whatever the lengths, layouts, magnitudes, biases, masks and windows. First the
 * portable ones, of which the one that would be chosen is run; then all of Hopper's that take a
 * call. Up to four queries are chosen for, and are tested, as test_kernels_decode.c has it.
 */
#include "kernels/attention.h"
#include "kernels/takes.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "tests/cmocka.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void init(struct problem *p, int Sq, int Sk, int D, int Dv, const struct layout *layouts)
{
	problem_init(p, ATTN_F32, (int[6]){2, 2, Sq, Sk, D, Dv}, layouts);
}

static bool on_hopper;

static int open_portable(void **state)
{
	on_hopper = false;
	return kernels_open(state);
}

static int open_hopper(void **state)
{
	on_hopper = true;
	return kernels_open_hopper(state);
}

/* The portable variant that would be chosen, if queries were too many for decode.cu. */
static const struct attn_variant *portable_of(const struct problem *p)
{
	struct attn_args many = p->args;

	many.Sq = many.Sq > 4 ? many.Sq : 5;
	return attn_select(&many, 90, NULL);
}

/* Checks with the variant that would be chosen, or with all of Hopper's, the widest aside where
 * half of it would do; frees. */
static void check(struct problem *p, const char *what)
{
	const int width = p->args.D > p->args.Dv ? p->args.D : p->args.Dv;
	uint8_t available[ATTN_VARIANTS_MOST];
	int checked = 0;

	memset(available, 1, sizeof(available));
	for (int n = 0; on_hopper && n < attn_variant_total; n++) {
		const struct attn_variant *v = &attn_variants[n];
		char name[160];

		if (v->family != ATTN_F32_SM90 || (v->max_d > 64 && v->max_d >= 4 * width) ||
		    attn_select_from(&p->args, 90, v->name, available) != v)
			continue;
		snprintf(name, sizeof(name), "%s, %s", what, v->name);
		problem_check(p, v, name);
		checked++;
	}
	if (!on_hopper) {
		const struct attn_variant *v = portable_of(p);

		assert_non_null(v);
		assert_int_equal(v->family, ATTN_F32_ANY);
		problem_check(p, v, what);
		checked++;
	}
	assert_true(checked > 0);
	problem_free(p);
}

static void test_lengths(void **state)
{
	static const int lengths[] = {1, 15, 32, 33, 64, 65, 130};
	struct problem p;

	for (size_t q = 0; q < COUNT(lengths); q++)
		for (size_t k = 0; k < COUNT(lengths); k++) {
			init(&p, lengths[q], lengths[k], 64, 64, NULL);
			check(&p, "lengths");
		}
}

static void test_head_dims(void **state)
{
	static const int dims[] = {1, 7, 32, 40, 64, 65, 80, 127, 128, 160, 253, 256};
	struct problem p;

	for (size_t d = 0; d < COUNT(dims); d++) {
		init(&p, 35, 45, dims[d], dims[d], NULL);
		check(&p, "head dimension");
		init(&p, 33, 40, dims[d], dims[COUNT(dims) - 1 - d], NULL);
		check(&p, "Dv != D");
	}
}

static void check_layout(const struct layout of[4], int n, const char *what)
{
	struct problem p;

	(void)n;
	init(&p, 37, 50, 40, 48, of);
	check(&p, what);
}

static void test_layouts(void **state)
{
	check_layouts(check_layout);
}

static void test_output_dtypes(void **state)
{
	struct problem p;

	init(&p, 40, 70, 64, 64, NULL);
	problem_output(&p, ATTN_F32, &(struct layout){.order = "bhcr", .pad = 1});
	check(&p, "O transposed");
}

/* Relative positions as T5 adds them, padding, and both; masks; windows with and without keys. */
static void test_scores(void **state)
{
	struct problem p;

	init(&p, 50, 90, 64, 64, NULL);
	problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "b"}, 2);
	p.args.spec.scale = 1;
	check(&p, "relative positions, scale 1");
	init(&p, 50, 90, 64, 64, NULL);
	problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "b"}, 2);
	problem_bias(&p, 1, ATTN_F32, &(struct layout){.same = "hr"}, 100);
	check(&p, "two biases");
	init(&p, 50, 90, 128, 128, NULL);
	problem_mask(&p, true, -INFINITY, &(struct layout){.same = "h"}, 0.7);
	check(&p, "mask");
	for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++) {
		init(&p, 100, 70, 40, 72, NULL);
		p.args.spec.window_right = 0;
		p.args.spec.window_shift = -30;
		p.args.spec.empty_row = rule;
		check(&p, "window with rows that see no key");
		init(&p, 100, 70, 40, 40, NULL);
		problem_mask(&p, true, -3.4028234e38f, &(struct layout){.same = "hc"}, 0.7);
		check(&p, "rows masked with the lowest number");
	}
	init(&p, 130, 130, 64, 64, NULL);
	p.args.spec.window_left = 40;
	p.args.spec.window_right = 3;
	check(&p, "band");
	init(&p, 40, 90, 64, 64, NULL);
	p.args.spec.scale = -0.3f;
	check(&p, "negative scale");
}

/* Keys that a mask hides before softmax and, their P, after it: rows that it hides in all, and rows
 * of which it leaves but what a bias makes as low as it. */
static void test_hidden_again(void **state)
{
	static const float hides[] = {-INFINITY, -3.4028234e38f, -30};
	struct problem p;

	for (size_t n = 0; n < COUNT(hides); n++)
		for (int low = 0; low < 3; low++) {
			init(&p, 50, 90, low % 2 ? 40 : 64, 64, NULL);
			problem_again(&p, n % 2, hides[n], low ? hides[low] : hides[n]);
			check(&p, "rows hidden again");
		}
}

/* Biases of an image's rows and columns, as they lie in memory and with queries side by side; and
 * one beside keys that are hidden again. */
static void test_image(void **state)
{
	static const int widths[] = {1, 7, 14, 90};
	struct problem p;

	for (int n = 0; n < 2; n++) {
		init(&p, 50, 90, 64, 64, NULL);
		problem_again(&p, n, n ? -INFINITY : -30, -30);
		problem_bias(&p, 1, ATTN_F32, NULL, 1);
		p.args.spec.bias[1].columns = n ? 9 : -9;
		check(&p, "rows hidden again, and an image's bias");
	}

	for (int n = 0; n < 8; n++) {
		init(&p, 70, 90, n % 3 ? 64 : 80, 64, NULL);
		for (int k = 0; k < ATTN_MAX_BIAS; k++) {
			problem_bias(&p, k, ATTN_F32,
				     &(struct layout){.order = n / 4 ? "bhcr" : NULL}, 1);
			p.args.spec.bias[k].columns = k ? widths[n % 4] : -widths[n % 4];
		}
		if (n == 5)
			problem_mask(&p, true, -INFINITY, NULL, 0.9);
		check(&p, "an image's biases");
	}
}

/* Multiplies each element of an operand of 64 columns by a number that its row decides. */
static void magnify(struct attn_tensor *t, int rows, float (*by)(int row))
{
	for (int b = 0; b < 2; b++)
		for (int h = 0; h < 2; h++)
			for (int r = 0; r < rows; r++)
				for (int c = 0; c < 64; c++)
					*(float *)element_at(t, 2, b, h, r, c) *= by(r);
}
static float huge(int row)
{
	(void)row;
	return 1e18f;
}
static float tiny(int row)
{
	(void)row;
	return 1e-18f;
}
static float mixed(int row)
{
	return ldexpf(1, row % 7 * 3 - 12);
}

/* The parts that operands are split into must not leave their range. */
static void test_magnitudes(void **state)
{
	struct problem p;

	init(&p, 40, 90, 64, 64, NULL);
	magnify(&p.args.q, 40, huge);
	magnify(&p.args.k, 90, tiny);
	magnify(&p.args.v, 90, huge);
	check(&p, "huge and tiny");
	init(&p, 40, 90, 64, 64, NULL);
	magnify(&p.args.q, 40, mixed);
	magnify(&p.args.k, 90, mixed);
	magnify(&p.args.v, 90, mixed);
	check(&p, "mixed magnitudes");
	init(&p, 40, 150, 64, 64, NULL);
	p.args.spec.scale = 20;
	check(&p, "large logits");
}

static void test_nan(void **state)
{
	struct problem p;

	for (int n = 0; n < 3; n++) {
		init(&p, 40, 100, 64, 64, NULL);
		*(float *)element_at(n == 0   ? &p.args.q
				     : n == 1 ? &p.args.k
					      : &p.args.v,
				     2, 1, 0, 17, 3) = NAN;
		check(&p, "NaN");
	}
}

/* Infinities have no second part; a bias of -inf hides what may not matter. */
static void test_infinities(void **state)
{
	const struct layout down = {.order = "bhcr"};
	struct problem p;

	for (int n = 0; n < 3; n++)
		for (int turned = 0; turned < 2; turned++) {
			init(&p, 70, 100, 64, 64,
			     (struct layout[4]){{0}, turned ? down : (struct layout){0}});
			*(float *)element_at(n == 0   ? &p.args.q
					     : n == 1 ? &p.args.k
						      : &p.args.v,
					     2, 1, 0, 17, 3) = n == 1 ? -INFINITY : INFINITY;
			check(&p, "an infinity");
		}
	init(&p, 70, 100, 64, 64, NULL);
	problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "b"}, 2);
	for (int b = 0; b < 2; b++)
		for (int h = 0; h < 2; h++)
			for (int i = 0; i < 70; i++)
				for (int j = 3; j < 100; j += 7) {
					*(float *)element_at(&p.args.spec.bias[0], 2, b, h, i, j) =
						-INFINITY;
					for (int c = 0; c < 64; c++)
						*(float *)element_at(&p.args.v, 2, b, h, j, c) =
							1e30f;
				}
	check(&p, "V of 1e30 behind a bias");
}

/* On Hopper anything of fp32 but lengths and sinks, and one query or two, goes to f32_sm90.cu, and
 * few rows to the blocks of clusters. */
static void test_choice(void **state)
{
	const struct layout down = {.order = "bhcr"}, odd = {.pad = 1};
	static const struct {
		int Sq, Sk, D, layout, parts;
	} calls[] = {{3000, 300, 64, 0, 1}, {3000, 300, 64, 1, 1},  {3000, 300, 64, 2, 1},
		     {3000, 49, 32, 0, 1},  {3000, 300, 40, 0, 1},  {3000, 300, 37, 2, 1},
		     {3000, 300, 96, 0, 1}, {3000, 300, 160, 0, 1}, {5, 1500, 64, 0, 8},
		     {5, 1500, 128, 1, 4}};
	uint8_t available[ATTN_VARIANTS_MOST];
	struct problem p;

	memset(available, 1, sizeof(available));
	for (size_t n = 0; n < COUNT(calls); n++) {
		const struct layout of = calls[n].layout == 1	? down
					 : calls[n].layout == 2 ? odd
								: (struct layout){0};
		const struct attn_variant *v;

		init(&p, calls[n].Sq, calls[n].Sk, calls[n].D, calls[n].D,
		     (struct layout[4]){{0}, of});
		v = attn_select_from(&p.args, 90, NULL, available);
		assert_non_null(v);
		assert_int_equal(v->family, ATTN_F32_SM90);
		assert_int_equal(v->grid_x_factor, calls[n].parts);
		problem_lengths(&p, &(struct layout){.same = "hr"}, 1, 40);
		v = attn_select_from(&p.args, 90, NULL, available);
		assert_non_null(v);
		assert_int_equal(v->family, ATTN_F32_ANY);
		problem_free(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),	   cmocka_unit_test(test_head_dims),
		cmocka_unit_test(test_layouts),	   cmocka_unit_test(test_output_dtypes),
		cmocka_unit_test(test_scores),	   cmocka_unit_test(test_hidden_again),
		cmocka_unit_test(test_magnitudes), cmocka_unit_test(test_nan),
		cmocka_unit_test(test_infinities),
	};
	/* behind them: all draw from one sequence of numbers */
	const struct CMUnitTest images[] = {cmocka_unit_test(test_image)};
	const struct CMUnitTest choice[] = {cmocka_unit_test(test_choice)};
	int failed = cmocka_run_group_tests_name("portable", tests, open_portable, NULL);

	failed += cmocka_run_group_tests_name("Hopper", tests, open_hopper, NULL);
	failed += cmocka_run_group_tests_name("images, portable", images, open_portable, NULL);
	failed += cmocka_run_group_tests_name("images, Hopper", images, open_hopper, NULL);
	return failed + cmocka_run_group_tests_name("choice", choice, NULL, NULL);
}
