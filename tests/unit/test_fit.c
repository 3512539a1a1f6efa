/* SPDX-License-Identifier: Apache-2.0
 *
 * From rows of P back to what made them: for each thing that may stand between S and P a softmax is
 * computed here, rounded to half precision as programs do, and must be recognised; one that is of
 * no such form must not.
 */
#include "tests/cmocka.h"

#include <math.h>
#include <string.h>

#include "shim/ask/fit.h"

#define B    2
#define H    3
#define KEYS 600
#define STEP 0x1p-12 /* of half precision */

static struct fit_grid grid;
static float before_p[FIT_ROWS * KEYS], run_p[FIT_ROWS * KEYS], far_p[FIT_ROWS * KEYS];
static struct observation before, run, far;

/* What the program is made to compute: x of score s at (z, i, j), or NAN: not seen. */
typedef double score_fn(const struct observation *of, double s, int64_t z, int64_t i, int64_t j);

static double half(double x)
{
	const double unit = x > 0x1p-14 ? exp2(floor(log2(x)) - 10) : 0x1p-24;

	return nearbyint(x / unit) * unit;
}

static void compute(struct observation *of, score_fn *score)
{
	for (int r = 0; r < grid.rows; r++) {
		const int64_t z = grid.row[r].z, i = grid.row[r].i;
		double x[KEYS], most = -INFINITY, sum = 0;

		for (int64_t j = 0; j < KEYS; j++) {
			const uint64_t at = (uint64_t)((z * grid.Sq + i) * KEYS + j);

			x[j] = score(of, content_value(&of->scores, at), z, i, j);
			most = x[j] > most ? x[j] : most;
		}
		for (int64_t j = 0; j < KEYS; j++)
			sum += isnan(x[j]) ? 0 : exp(x[j] - most);
		for (int64_t j = 0; j < KEYS; j++)
			of->p[r * KEYS + j] = isnan(x[j]) ? 0 : (float)half(exp(x[j] - most) / sum);
	}
}

static void begin(int64_t queries)
{
	grid = (struct fit_grid){.Z = B * H, .Sq = queries, .Sk = KEYS};
	fit_rows(&grid);
	assert_true(grid.rows > B * H);
	before = (struct observation){.p = before_p};
	run = (struct observation){.p = run_p};
	far = (struct observation){.p = far_p};
}

static void fill(struct content *content, enum content_kind kind, int exponent)
{
	*content = (struct content){.kind = kind,
				    .dtype = ATTN_F16,
				    .exponent = exponent,
				    .seed = 7,
				    .count = UINT64_MAX};
}

/* ---- scores ---------------------------------------------------------------------------------- */

static double plain(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of, (void)z, (void)i, (void)j;
	return 0.3 * s;
}

/* To the next of half precision. */
static double half_of(double x)
{
	return x < 0 ? -half(-x) : half(x);
}

/* Scaled, and kept in half precision. */
static double kept(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of, (void)z, (void)i, (void)j;
	return half_of(0.3 * s);
}

static double capped(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of, (void)z, (void)i, (void)j;
	return 5 * tanh(0.3 * s / 5);
}

static double squared(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of, (void)z, (void)i, (void)j;
	return 0.3 * s * s;
}

static void ask_scores(score_fn *score)
{
	begin(50);
	fill(&run.scores, CONTENT_CENTERED, 3);
	fill(&far.scores, CONTENT_CENTERED, 6);
	compute(&before, score);
	compute(&run, score);
	compute(&far, score);
}

static void test_scale(void **state)
{
	struct model model = {.left = -1, .round_s = ATTN_F32, .round_x = ATTN_F32};
	double misfit, rms, most;

	ask_scores(plain);
	assert_true(fit_slope(&grid, &before, &run, &model.scale, &misfit));
	assert_true(fabs(model.scale / 0.3 - 1) < 1e-4);
	assert_true(misfit < 4 * STEP);
	fit_check(&grid, &run, &model, STEP, &rms, &most);
	assert_true(rms < 2);
	model.scale = 0.31;
	fit_check(&grid, &run, &model, STEP, &rms, &most);
	assert_true(rms > 20);
}

/* What a program rounds tells in scores that are far apart, and is no other function. */
static void test_rounded_scores(void **state)
{
	struct model model = {.scale = 0.3, .left = -1, .round_s = ATTN_F32, .round_x = ATTN_F32};
	double rms, other, most;

	ask_scores(kept);
	model.round_s = ATTN_F16;
	fit_check(&grid, &far, &model, STEP, &rms, &most);
	assert_true(rms < 2);
	model.round_s = ATTN_F32;
	fit_check(&grid, &far, &model, STEP, &other, &most);
	assert_true(other > 4 * rms);
	model.round_s = ATTN_BF16;
	fit_check(&grid, &far, &model, STEP, &other, &most);
	assert_true(other > 12);
}

static void test_softcap(void **state)
{
	const struct observation *const both[2] = {&run, &far};
	struct model model = {.left = -1, .round_s = ATTN_F32, .round_x = ATTN_F32};
	double misfit, rms, most;

	ask_scores(capped);
	assert_true(fit_slope(&grid, &before, &run, &model.scale, &misfit));
	assert_true(fit_softcap(&grid, &before, both, &model.scale, &model.cap));
	assert_true(fabs(model.scale / 0.3 - 1) < 1e-3);
	assert_true(fabs(model.cap / 5 - 1) < 1e-3);
	fit_check(&grid, &far, &model, STEP, &rms, &most);
	assert_true(rms < 12);
	ask_scores(squared); /* neither */
	assert_true(fit_slope(&grid, &before, &run, &model.scale, &misfit));
	assert_true(misfit > 4 * STEP);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static struct form form;
static double weight;
static bool sides; /* of the query: it is the distance that counts */

static double biased(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	const int64_t along = form.along == FORM_EACH	    ? z
			      : form.along == FORM_MODULO   ? z % H
			      : form.along == FORM_QUOTIENT ? z / H
							    : 0;
	const int64_t at = form.unit * along + form.row * i + form.column * j;
	const double value = content_value(&of->input[0], (uint64_t)at);

	return s + weight * value * (form.column ? 1 : sides ? fabs((double)(i - j)) : (double)j);
}

/* Added and rounded first, scaled then. */
static double scaled_sum(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)z;
	return 0.3 * half_of(s + content_value(&of->input[0], (uint64_t)(i * KEYS + j)));
}

static void test_scaled_sums(void **state)
{
	struct model model = {.scale = 0.3,
			      .left = -1,
			      .round_s = ATTN_F32,
			      .round_x = ATTN_F16,
			      .readings = 1,
			      .reading = {{.kind = READ_BIAS,
					   .dtype = ATTN_F16,
					   .form = {.along = FORM_NONE, .row = KEYS, .column = 1},
					   .weight = 0.3}}};
	double rms, most;

	begin(50);
	fill(&run.scores, CONTENT_CENTERED, 3);
	fill(&run.input[0], CONTENT_CONSTANT, 11);
	compute(&run, scaled_sum);
	fit_check(&grid, &run, &model, STEP, &rms, &most);
	assert_true(rms > 100);
	model.later = 0.3;
	fit_check(&grid, &run, &model, STEP, &rms, &most);
	assert_true(rms < 2);
	fill(&run.input[0], CONTENT_CONSTANT, -4); /* small ones do not tell */
	compute(&run, scaled_sum);
	model.later = 0;
	fit_check(&grid, &run, &model, STEP, &rms, &most);
	assert_true(rms < 12);
}

static bool ask_input(int exponent, struct model *model, double *effect)
{
	*model = (struct model){.scale = 1};
	fill(&run.input[0], CONTENT_HASH, exponent);
	compute(&before, biased);
	compute(&run, biased);
	return fit_input(&grid, &before, &run, 0, model, effect);
}

static void test_forms(void **state)
{
	static const enum form_along along[] = {FORM_NONE, FORM_EACH, FORM_MODULO, FORM_QUOTIENT};
	struct model model;
	double effect;

	begin(50);
	weight = 1.5;
	for (int n = 0; n < 8; n++) {
		const int64_t row = n % 2 ? KEYS : 0, whole = row ? grid.Sq * KEYS : KEYS;

		form = (struct form){.along = along[n / 2], .unit = whole, .row = row, .column = 1};
		assert_true(ask_input(0, &model, &effect));
		assert_int_equal(model.readings, 1);
		assert_int_equal(model.reading[0].kind, READ_BIAS);
		assert_int_equal(model.reading[0].form.along, form.along);
		assert_int_equal(model.reading[0].form.row, row);
		if (n >= 4)
			assert_int_equal(model.reading[0].form.heads, H);
		assert_true(fabs(model.reading[0].weight / weight - 1) < 1e-3);
	}
	form = (struct form){.along = FORM_MODULO, .unit = 1}; /* slopes */
	weight = 0.01;
	assert_true(ask_input(0, &model, &effect));
	assert_int_equal(model.reading[0].kind, READ_RAMP);
	assert_int_equal(model.reading[0].form.along, FORM_MODULO);
	sides = true;
	assert_true(ask_input(0, &model, &effect));
	assert_int_equal(model.reading[0].kind, READ_SIDES);
	sides = false;
	form = (struct form){.row = 1, .column = grid.Sq}; /* columns and rows change places */
	weight = 1;
	assert_false(ask_input(0, &model, &effect));
	assert_true(effect > 1 && isfinite(effect));
}

/* What leaves but a few keys says that it is too strong, not that it does nothing. */
static void test_strength(void **state)
{
	struct model model;
	double effect;

	begin(50);
	form = (struct form){.column = 1};
	weight = 10000;
	assert_false(ask_input(0, &model, &effect));
	assert_true(isinf(effect));
	assert_true(ask_input(-12, &model, &effect));
	assert_true(fabs(model.reading[0].weight / weight - 1) < 1e-3);
	weight = 0;
	assert_false(ask_input(0, &model, &effect));
	assert_true(effect < 1);
}

/* ---- edges ----------------------------------------------------------------------------------- */

static double window(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	const int64_t at = i + KEYS - grid.Sq;

	(void)of, (void)z;
	return j <= at && j >= at - 9 ? s : NAN;
}

static double by_sequence(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)i;
	return j < (int64_t)content_value(&of->input[0], (uint64_t)(z / H)) ? s : NAN;
}

static double every_other(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of, (void)z, (void)i;
	return j % 2 ? s : NAN;
}

static void test_edges(void **state)
{
	static const int32_t lengths[B] = {KEYS - 3, 41};
	struct model model = {.scale = 1};

	begin(150);
	compute(&run, window);
	assert_true(fit_edges(&grid, &run, -1, &model));
	assert_true(model.causal);
	assert_int_equal(model.shift, KEYS - 150);
	assert_int_equal(model.left, 9);
	compute(&run, every_other);
	assert_false(fit_edges(&grid, &run, -1, &model));
	model = (struct model){.scale = 1};
	run.input[0] = (struct content){
		.kind = CONTENT_WORDS, .dtype = ATTN_I32, .words = lengths, .count = B};
	compute(&run, by_sequence);
	assert_true(fit_edges(&grid, &run, 0, &model));
	assert_int_equal(model.reading[0].kind, READ_LENGTHS);
	assert_int_equal(model.reading[0].form.along, FORM_QUOTIENT);
	assert_int_equal(model.reading[0].form.heads, H);
	assert_false(model.causal);
}

/* ---- flags ------------------------------------------------------------------------------------
 */

static bool set(const struct observation *of, int64_t at)
{
	return content_value(&of->input[0], (uint64_t)at) != 0;
}

/* [B,1,1,Sk] are shown, none beyond the query; [H,Sq,Sk] hide. */
static double shown_keys(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	return set(of, z / H * KEYS + j) && j <= i ? s : NAN;
}

static double hidden_pairs(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	return set(of, (z % H * grid.Sq + i) * KEYS + j) ? NAN : s;
}

/* The corner of a larger square. */
#define PITCH (KEYS + 37)
static double corner(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	return set(of, i * PITCH + j) ? s + 0 * (double)z : NAN;
}

/* As numbers among others: x - 1000, or -1000 in its place. */
static double lowered(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	return (set(of, z / H * KEYS + j) ? 0 : -1000) + s + 0 * (double)i;
}

static double replaced(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	return set(of, z / H * KEYS + j) ? s + 0 * (double)i : -1000;
}

static void set_flags(unsigned ones, uint64_t count)
{
	run.input[0] = (struct content){
		.kind = CONTENT_FLAGS, .dtype = ATTN_I32, .seed = 9, .ones = ones, .count = count};
}

static void test_flags(void **state)
{
	struct model model = {.scale = 1, .left = -1};

	begin(50);
	set_flags(64, B * KEYS);
	compute(&run, shown_keys);
	assert_true(fit_flags(&grid, &run, 0, &model));
	assert_int_equal(model.readings, 1);
	assert_int_equal(model.reading[0].kind, READ_FLAGS);
	assert_int_equal(model.reading[0].dtype, ATTN_I32);
	assert_int_equal(model.reading[0].form.along, FORM_QUOTIENT);
	assert_int_equal(model.reading[0].form.heads, H);
	assert_int_equal(model.reading[0].form.row, 0);
	assert_true(model.reading[0].keeps);
	assert_true(model.causal);
	assert_int_equal(model.left, -1);
	set_flags(64, B * KEYS - 1); /* they do not reach that far */
	assert_false(fit_flags(&grid, &run, 0, &model));
	model = (struct model){.scale = 1, .left = -1};
	set_flags(64, H * 50 * KEYS);
	compute(&run, hidden_pairs);
	assert_true(fit_flags(&grid, &run, 0, &model));
	assert_int_equal(model.reading[0].form.along, FORM_MODULO);
	assert_int_equal(model.reading[0].form.row, KEYS);
	assert_false(model.reading[0].keeps);
	assert_false(model.causal);
	model = (struct model){.scale = 1, .left = -1};
	set_flags(64, 49 * PITCH + KEYS);
	compute(&run, corner);
	assert_true(fit_flags(&grid, &run, 0, &model));
	assert_int_equal(model.reading[0].form.along, FORM_NONE);
	assert_int_equal(model.reading[0].form.row, PITCH);
	assert_true(model.reading[0].keeps);
	assert_false(model.causal);
	model = (struct model){.scale = 1, .left = -1};
	set_flags(64, 49 * PITCH + KEYS - 1);
	assert_false(fit_flags(&grid, &run, 0, &model));
	compute(&run, every_other); /* by no flags */
	assert_false(fit_flags(&grid, &run, 0, &model));
	assert_int_equal(model.readings, 0);
}

/* A number for what is hidden shows where scores are lower still. */
static void test_hidden_numbers(void **state)
{
	struct model model = {.scale = 1, .left = -1, .round_s = ATTN_F32, .round_x = ATTN_F32};
	double rms, most;

	begin(50);
	set_flags(64, B * KEYS);
	compute(&run, lowered);
	assert_true(fit_flags(&grid, &run, 0, &model));
	run.scores = (struct content){.kind = CONTENT_STEPS, .dtype = ATTN_F32, .seed = 7};
	run.scores.low = -1016;
	assert_false(fit_tells_hidden(&grid, &run, &model)); /* each row has a score of 0 left */
	set_flags(1, B * KEYS);
	assert_true(fit_tells_hidden(&grid, &run, &model));
	compute(&run, lowered);
	for (int n = 0; n < 4; n++) {
		model.reading[0].weight = n < 2 ? -1000 : n < 3 ? -1032 : -INFINITY;
		model.reading[0].replaces = n == 1;
		fit_check(&grid, &run, &model, STEP, &rms, &most);
		assert_int_equal(rms < 2, n == 0);
	}
	compute(&run, replaced);
	for (int n = 0; n < 2; n++) {
		model.reading[0].weight = -1000;
		model.reading[0].replaces = n == 1;
		fit_check(&grid, &run, &model, STEP, &rms, &most);
		assert_int_equal(rms < 2, n == 1);
	}
}

/* ---- slopes of the kernel's own ---------------------------------------------------------------
 */

static double slope_of(int64_t z)
{
	static const double usual[H] = {0x1p-4, 0x1p-8, 0x1p-2}; /* two heads, and one between */

	return usual[z % H];
}

static double leaning(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of;
	return j <= i + KEYS - grid.Sq ? 0.3 * s - slope_of(z) * (double)(i - j) : NAN;
}

static double bent(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of;
	return 0.3 * s - slope_of(z) * fabs((double)(i + KEYS - grid.Sq - j));
}

/* Each by a factor that its neighbours do not have. */
static double odd(const struct observation *of, double s, int64_t z, int64_t i, int64_t j)
{
	(void)of;
	return 0.3 * s - 0.25 / (double)(1 + z % H) * (double)(i - j);
}

/* As P shows them in the last row of each head. */
static bool ask_slopes(score_fn *score, struct alibi *alibi)
{
	double slope[B * H], span[B * H];

	begin(150);
	grid.rows = B * H;
	for (int z = 0; z < B * H; z++) {
		grid.row[z].z = z;
		grid.row[z].i = grid.Sq - 1;
	}
	compute(&before, score);
	for (int z = 0; z < B * H; z++)
		assert_true(fit_ramp(&grid, &before, z, &slope[z], &span[z]));
	begin(150);
	compute(&before, score);
	return fit_alibi(slope, span, B * H, 16 * STEP, alibi);
}

static void test_slopes(void **state)
{
	struct model model = {.scale = 0.3, .left = -1, .round_s = ATTN_F32, .round_x = ATTN_F32};
	double rms, most;

	assert_true(ask_slopes(leaning, &model.alibi));
	assert_int_equal(model.alibi.heads, H);
	assert_int_equal(model.alibi.first, 2);
	assert_true(model.alibi.most == 8);
	assert_true(fabs(model.alibi.weight - 1) < 1e-3);
	assert_true(fabs(fit_alibi_slope(&model.alibi, H) / slope_of(0) - 1) < 1e-3);
	/* most keys of a steep head are too small for P to show */
	assert_true(fit_edges(&grid, &before, -1, &model));
	assert_true(model.causal);
	assert_int_equal(model.shift, KEYS - 150);
	assert_int_equal(model.left, -1);
	model.alibi.weight = 1;
	fill(&run.scores, CONTENT_CENTERED, 3);
	compute(&run, leaning);
	fit_check(&grid, &run, &model, STEP, &rms, &most);
	assert_true(rms < 2);
	model.alibi.first = 3; /* another progression */
	fit_check(&grid, &run, &model, STEP, &rms, &most);
	assert_true(rms > 20);
}

static void test_other_slopes(void **state)
{
	struct model model = {.scale = 0.3, .left = -1, .round_s = ATTN_F32, .round_x = ATTN_F32};

	assert_false(ask_slopes(odd, &model.alibi));
	assert_int_equal(model.alibi.heads, 0);
	assert_true(fit_alibi_slope(&model.alibi, 1) == 0);
	assert_true(ask_slopes(bent, &model.alibi)); /* no row but the last has a line */
	assert_false(fit_edges(&grid, &before, -1, &model));
}

static void test_empty_rows(void **state)
{
	begin(50);
	memset(run_p, 0, sizeof(run_p));
	assert_int_equal(fit_empty_row(&grid, &run), ATTN_EMPTY_ZERO);
	for (int n = 0; n < grid.rows * KEYS; n++)
		run_p[n] = 1.0f / KEYS;
	assert_int_equal(fit_empty_row(&grid, &run), ATTN_EMPTY_MEAN);
	run_p[KEYS] = NAN; /* in one row */
	assert_int_equal(fit_empty_row(&grid, &run), -1);
	for (int n = 0; n < grid.rows * KEYS; n++)
		run_p[n] = NAN;
	assert_int_equal(fit_empty_row(&grid, &run), ATTN_EMPTY_NAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scale),	       cmocka_unit_test(test_softcap),
		cmocka_unit_test(test_rounded_scores), cmocka_unit_test(test_scaled_sums),
		cmocka_unit_test(test_forms),	       cmocka_unit_test(test_strength),
		cmocka_unit_test(test_edges),	       cmocka_unit_test(test_slopes),
		cmocka_unit_test(test_flags),	       cmocka_unit_test(test_hidden_numbers),
		cmocka_unit_test(test_other_slopes),   cmocka_unit_test(test_empty_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
