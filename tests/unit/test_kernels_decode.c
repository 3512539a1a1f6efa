/* SPDX-License-Identifier: Apache-2.0
 *
 * Few queries: the kernels that spread the keys of a row, or of 16, over a block or several, as
 * built for the host, against plain double precision. The host build does not share keys among
 * blocks, but the variants that do so on a GPU must be right there as well.
 */
#include "kernels/attention.h"
#include "kernels/decode_variants.h"
#include "kernels/few_variants.h"
#include "kernels/launch.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* decode.cu has all three, few.cu the first two. */
static const int dtypes[] = {ATTN_F16, ATTN_BF16, ATTN_F32};

static bool is_decode(const struct attn_variant *v)
{
	return v->family == ATTN_DECODE;
}

static bool is_few(const struct attn_variant *v)
{
	return v->family == ATTN_FEW;
}

/* Checks with the narrowest variants of both families that take the problem: those of one block,
 * and where `parts` is set those of several. Frees it. */
static void check(struct problem *p, bool parts, const char *what)
{
	int width = 0, checked = 0;

	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (!(is_decode(v) || is_few(v)) || v->dtype != p->args.q.dtype ||
		    v->max_d < p->args.D || v->max_d < p->args.Dv || (width && v->max_d != width) ||
		    (v->grid_x_factor > 1 && !parts))
			continue;
		width = v->max_d;
		assert_ptr_equal(attn_select(&p->args, 90, v->name), v);
		problem_check(p, v, what);
		checked++;
	}
	/* few.cu has none beyond 128, nor of fp32 */
	assert_int_equal(checked, width > 128 || p->args.q.dtype == ATTN_F32 ? (parts ? 3 : 1)
				  : parts				     ? 7
									     : 2);
	problem_free(p);
}

static void init(struct problem *p, int dtype, int B, int H, int Sq, int Sk, int D, int Dv)
{
	problem_init(p, dtype, (int[6]){B, H, Sq, Sk, D, Dv}, NULL);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static const int keys[] = {1, 7, 64, 197, 500, 2049, 4096};
static const int widths[] = {32, 64, 80, 128, 256};

static void test_shapes(void **state)
{
	struct problem p;

	for (size_t k = 0; k < COUNT(keys); k++)
		for (size_t d = 0; d < COUNT(widths); d++)
			for (int queries = 1; queries <= 4; queries++) {
				const int dtype = dtypes[(k + d + (size_t)queries) % 3];

				if (keys[k] > 2000 && queries % 2 != (int)d % 2)
					continue;
				init(&p, dtype, 1, 2, queries, keys[k], widths[d], widths[d]);
				p.row_step = keys[k] > 2000 ? 3 : 1;
				check(&p, queries == 1, "shape");
			}
}

static void test_head_dims(void **state)
{
	static const int dims[] = {1, 4, 7, 8, 33, 40, 68, 72, 96, 127, 132, 136, 252, 255, 256};
	struct problem p;

	for (size_t d = 0; d < COUNT(dims); d++)
		for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
			init(&p, dtype, 2, 1, 2, 75, dims[d], dims[d]);
			check(&p, false, "head dimension");
			init(&p, dtype, 1, 2, 1, 100, dims[d], dims[COUNT(dims) - 1 - d]);
			check(&p, false, "Dv != D");
		}
}

/* Tiles of rows that are full, or not; and those made of several heads, which share K and V. */
static void test_rows(void **state)
{
	static const int queries[] = {5, 8, 9, 15, 16, 17, 40};
	static const struct layout one = {.same = "h"};
	const struct layout shared[4] = {{0}, one, one, {0}};
	struct problem p;

	for (size_t n = 0; n < COUNT(queries); n++)
		for (int causal = 0; causal < 2; causal++) {
			const int dtype = dtypes[(n + (size_t)causal) % 3], heads = 1 + (int)n * 3;

			problem_init(&p, dtype, (int[6]){2, 2, queries[n], 150, 64, 40}, NULL);
			p.args.spec.window_right = causal ? 0 : ATTN_NO_WINDOW;
			p.args.spec.window_shift = 150 - queries[n];
			check(&p, true, "rows of one head");
			problem_init(&p, dtype, (int[6]){2, heads, 1 + (int)n, 150, 72, 128},
				     shared);
			p.args.spec.window_right = causal ? 0 : ATTN_NO_WINDOW;
			p.args.spec.window_shift = 149 - (int)n;
			problem_mask(&p, true, -INFINITY, NULL, 0.8);
			check(&p, true, "rows of several heads");
		}
}

/* ---- layouts --------------------------------------------------------------------------------- */

static const struct layout layouts[] = {
	{0},
	{.order = "brhc"},
	{.order = "brch"},
	{.order = "bhcr"},	     /* transposed */
	{.order = "bhcr", .pad = 3}, /* transposed, in pieces for some lengths */
	{.order = "bhcr", .pad = 4},
	{.pad = 8},
	{.pad = 1},
	{.offset = 1},
	{.offset = 3, .pad = 5, .order = "bhcr"},
	{.step = 3, .pad = 2},
	{.by_array = true},
	{.by_array = true, .order = "bhcr", .offset = 1},
	{.same = "h"},
	{.same = "bhr"},
	{.order = "rbhc", .pad = 7},
};

/* K and V in each pair of layouts: of 16 bits, and as lanes hold them of fp32, four columns or
 * eight at a time. */
static void test_layouts(void **state)
{
	static const struct {
		int narrow, D, Dv;
	} kinds[] = {{1, 40, 48}, {0, 44, 40}, {0, 132, 144}};
	struct problem p;
	char what[64];

	for (size_t n = 0; n < COUNT(kinds) * COUNT(layouts) * COUNT(layouts); n++) {
		const size_t k = n / COUNT(layouts) % COUNT(layouts), v = n % COUNT(layouts);
		const size_t kind = n / COUNT(layouts) / COUNT(layouts);
		struct layout of[4] = {{0}, layouts[k], layouts[v], {0}};
		const int length = (int[]){61, 64, 60, 72}[(k + v) % 4];

		snprintf(what, sizeof(what), "layouts %zu of K, %zu of V", k, v);
		problem_init(&p, kinds[kind].narrow ? dtypes[k % 2] : ATTN_F32,
			     (int[6]){2, 2, 1, length, kinds[kind].D, kinds[kind].Dv}, of);
		check(&p, false, what);
	}
}

static void test_other_layouts(void **state)
{
	struct problem p;
	char what[64];

	for (size_t l = 0; l < COUNT(layouts) * COUNT(dtypes); l++) {
		const struct layout *layout = &layouts[l / COUNT(dtypes)];
		struct layout of[4] = {*layout, {0}, {0}, {0}};

		snprintf(what, sizeof(what), "layout %zu of Q and O", l / COUNT(dtypes));
		if (!layout->same)
			of[3] = *layout;
		problem_init(&p, dtypes[l % COUNT(dtypes)], (int[6]){2, 3, 3, 50, 96, 72}, of);
		check(&p, false, what);
	}
	for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++)
		for (size_t k = 0; k < COUNT(keys) - 2; k++) {
			struct layout of[4] = {{0}, layouts[3], layouts[k % 2 ? 3 : 0], {0}};

			problem_init(&p, dtype, (int[6]){1, 1, 2, keys[k], 256, 129}, of);
			check(&p, false, "transposed");
		}
}

static void test_output_dtypes(void **state)
{
	struct problem p;

	init(&p, ATTN_F16, 1, 2, 3, 70, 64, 64);
	problem_output(&p, ATTN_F32, NULL);
	check(&p, false, "O of fp32");
	init(&p, ATTN_BF16, 1, 2, 3, 70, 64, 64);
	problem_output(&p, ATTN_F16, &(struct layout){.order = "bhcr", .pad = 1});
	check(&p, false, "O of f16, transposed");
	init(&p, ATTN_F32, 1, 2, 3, 70, 64, 64);
	problem_output(&p, ATTN_F32, &(struct layout){.order = "bhcr", .pad = 1});
	check(&p, false, "all of fp32, O transposed");
}

/* ---- scores ---------------------------------------------------------------------------------- */

static void test_scale(void **state)
{
	static const float scales[] = {1, 0, -0.3f, 3, 1e-20f, 30};
	struct problem p;

	for (size_t n = 0; n < COUNT(scales); n++)
		for (int cap = 0; cap < 2; cap++) {
			init(&p, dtypes[(n + (size_t)cap) % 3], 1, 1, 4, 290, 40, 40);
			p.args.spec.scale = scales[n];
			p.args.spec.softcap = cap ? 5 : 0;
			p.args.spec.out_scale = 0.5f + (float)n;
			check(&p, false, "scale");
		}
	/* so large that max * log2(e) is no float: one key wins everything */
	init(&p, ATTN_BF16, 1, 1, 2, 270, 16, 16);
	for (int i = 0; i < 2; i++)
		for (int d = 0; d < 16; d++)
			number_store(element_at(&p.args.q, 1, 0, 0, i, d), ATTN_BF16,
				     d ? 0 : 0x1.8p63);
	for (int j = 0; j < 270; j++)
		for (int d = 0; d < 16; d++)
			number_store(element_at(&p.args.k, 1, 0, 0, j, d), ATTN_BF16,
				     d ? 0
				       : (1 + j % 100 / 128.0 + (j == 261) / 1.25) *
						     (j % 2 ? 0x1p63 : -0x1p63));
	p.args.spec.scale = 1;
	check(&p, false, "logits near the end of float");
}

static void test_bias(void **state)
{
	struct problem p;
	char what[64];

	for (size_t l = 0; l < COUNT(bias_layouts); l++)
		for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
			snprintf(what, sizeof(what), "bias layout %zu dtype %d", l, dtype);
			init(&p, dtype, 2, 2, 2, 300, 40, 40);
			problem_bias(&p, (int)l % 2, dtype, &bias_layouts[l], 2);
			p.args.spec.bias_scale[l % 2] = l % 3 ? 1.0f : -0.5f;
			p.args.spec.softcap = l % 2 ? 0.0f : 20.0f;
			if (dtype == ATTN_F32)
				p.args.spec.round_x = ATTN_F32;
			else
				problem_bias(&p, 1 - (int)l % 2, ATTN_F32, NULL, 2);
			check(&p, false, what);
			/* a bias of 16 bits that fp32 scores stay fp32 behind */
			init(&p, ATTN_F32, 2, 2, 2, 70, 40, 40);
			problem_bias(&p, (int)l % 2, dtype, &bias_layouts[l], 2);
			check(&p, false, what);
		}
}

/* A factor for each score, before the softcap, the biases and the mask: decode.cu alone takes them,
 * and none that are of a head. */
static void check_scales(struct problem *p, const char *what)
{
	const bool each = attn_scales_each(&p->args.spec);
	const struct attn_variant *v = attn_select(&p->args, 90, NULL);

	assert_int_equal(is_decode(v), each);
	for (int n = 0; n < attn_variant_count; n++) {
		v = &attn_variants[n];
		if (!(is_decode(v) || is_few(v)) || v->dtype != p->args.q.dtype || v->max_d != 64)
			continue;
		assert_ptr_equal(attn_select(&p->args, 90, v->name),
				 each && is_decode(v) ? v : NULL);
		if (each && is_decode(v) && v->grid_x_factor == 1)
			problem_check(p, v, what);
	}
	problem_free(p);
}

static void test_scales(void **state)
{
	struct problem p;
	char what[64];

	for (size_t l = 0; l < COUNT(bias_layouts); l++)
		for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
			if (bias_layouts[l].by_array) /* problem_scales() fills none */
				continue;
			snprintf(what, sizeof(what), "scales layout %zu dtype %d", l, dtype);
			init(&p, dtypes[l % 3], 2, 2, 2, 290, 40, 40);
			problem_scales(&p, dtype, &bias_layouts[l], 1);
			p.args.spec.scales_divide = (int)l % 2;
			p.args.spec.softcap = l % 3 ? 0.0f : 20.0f;
			problem_bias(&p, 0, dtype, NULL, 2);
			if (l % 4 == 3)
				problem_mask(&p, true, -1e4f, NULL, 0.5);
			check_scales(&p, what);
		}
}

static void test_mask(void **state)
{
	static const float fills[] = {-INFINITY, -1e4f, -3.4028234e38f, 0.0f};
	struct problem p;
	char what[64];

	for (size_t l = 0; l < COUNT(bias_layouts); l++)
		for (size_t f = 0; f < COUNT(fills); f++) {
			snprintf(what, sizeof(what), "mask layout %zu fill %g", l,
				 (double)fills[f]);
			init(&p, dtypes[(f + l) % 3], 2, 2, 2, 70, 40, 40);
			problem_mask(&p, (l + f) % 2, fills[f], &bias_layouts[l], 0.5);
			check(&p, false, what);
		}
}

static void test_window(void **state)
{
	static const struct {
		int Sq, Sk, left, right, shift;
		float value;
	} w[] = {
		{4, 4, ATTN_NO_WINDOW, 0, 0, -INFINITY},
		{4, 500, ATTN_NO_WINDOW, 0, 496, -INFINITY}, /* aligned to the last key */
		{4, 500, ATTN_NO_WINDOW, 0, 0, -INFINITY},   /* the first keys alone */
		{3, 500, 100, 0, 497, -INFINITY},	     /* a sliding window */
		{3, 500, 100, 0, 497, -1e9f},
		{2, 500, 40, ATTN_NO_WINDOW, 300, -INFINITY},
		{4, 33, ATTN_NO_WINDOW, 0, -2, -INFINITY}, /* leaves rows without a key */
		{4, 33, ATTN_NO_WINDOW, 0, -2, -1e4f},
		{2, 70, ATTN_NO_WINDOW - 1, ATTN_NO_WINDOW - 1, 0, -INFINITY},
		{2, 150, 10, 10, 1000, -INFINITY}, /* all keys before every window */
		{2, 150, 10, 10, -1000, -65504.0f},
	};
	struct problem p;
	char what[64];

	for (size_t n = 0; n < COUNT(w); n++)
		for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++) {
			snprintf(what, sizeof(what), "window %zu, empty rows by rule %d", n, rule);
			init(&p, dtypes[(n + (size_t)rule) % 3], 1, 2, w[n].Sq, w[n].Sk, 40, 64);
			p.args.spec.window_left = w[n].left;
			p.args.spec.window_right = w[n].right;
			p.args.spec.window_shift = w[n].shift;
			p.args.spec.window_value = w[n].value;
			p.args.spec.empty_row = rule;
			check(&p, false, what);
		}
}

/* ---- corners --------------------------------------------------------------------------------- */

/* Rows emptied by a bias or a mask beside others, with NaN in a V that they then do not see. */
static void test_empty_rows(void **state)
{
	struct problem p;

	for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++)
		for (int by_bias = 0; by_bias < 2; by_bias++) {
			init(&p, dtypes[(by_bias + rule) % 3], 1, 1, 4, 190, 64, 72);
			p.args.spec.empty_row = rule;
			p.args.spec.out_scale = 0.5f;
			if (by_bias)
				problem_bias(&p, 0, ATTN_F16, NULL, 1);
			else
				problem_mask(&p, true, -INFINITY, NULL, 0.5);
			for (int i = 0; i < 4; i += 2)
				for (int j = 0; j < 190; j++) {
					if (by_bias)
						number_store(element_at(&p.args.spec.bias[0], 1, 0,
									0, i, j),
							     ATTN_F16, -INFINITY);
					else
						*(char *)element_at(&p.args.spec.mask, 1, 0, 0, i,
								    j) = 0;
				}
			if (rule == ATTN_EMPTY_ZERO)
				number_store(element_at(&p.args.v, 1, 0, 0, 100, 3), p.args.v.dtype,
					     NAN);
			check(&p, false, by_bias ? "emptied by a bias" : "emptied by a mask");
		}
}

/* Rows filled with one finite number are uniform, also where rounding x does it. */
static void test_finite_fills(void **state)
{
	static const float fills[] = {-1e4f, -65504.0f, -1e9f, -3.4028234e38f};
	struct problem p;

	for (size_t n = 0; n < COUNT(fills); n++)
		for (int round = ATTN_BF16; round <= ATTN_F32; round++) {
			init(&p, n % 2 ? ATTN_F32 : ATTN_BF16, 1, 1, 4, 150, 40, 40);
			problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "bh"}, 0);
			p.args.spec.round_x = round;
			for (int i = 0; i < 4; i++)
				for (int j = i % 2 ? 100 : 0; j < 150; j++)
					number_store(
						element_at(&p.args.spec.bias[0], 1, 0, 0, i, j),
						ATTN_F32, fills[n]);
			check(&p, false, "finite fill");
		}
}

static void test_nonfinite(void **state)
{
	struct problem p;

	for (int n = 0; n < 18; n++) {
		const int dtype = dtypes[n / 6];
		double bad = n % 2 ? INFINITY : NAN;

		init(&p, dtype, 1, 1, 3, 300, 40, 40);
		if (n / 2 % 3 == 0)
			number_store(element_at(&p.args.q, 1, 0, 0, 1, 3), dtype, bad);
		if (n / 2 % 3 == 1)
			number_store(element_at(&p.args.k, 1, 0, 0, 280, 7), dtype, bad);
		if (n / 2 % 3 == 2) {
			number_store(element_at(&p.args.v, 1, 0, 0, 71, 3), dtype, bad);
			number_store(element_at(&p.args.v, 1, 0, 0, 299, 5), dtype, -bad);
		}
		check(&p, false, "non-finite operand");
	}
	init(&p, ATTN_F16, 1, 1, 4, 300, 40, 40);
	problem_bias(&p, 0, ATTN_F32, NULL, 1);
	number_store(element_at(&p.args.spec.bias[0], 1, 0, 0, 0, 70), ATTN_F32, NAN);
	number_store(element_at(&p.args.spec.bias[0], 1, 0, 0, 1, 270), ATTN_F32, INFINITY);
	for (int j = 0; j < 300; j++)
		number_store(element_at(&p.args.spec.bias[0], 1, 0, 0, 2, j), ATTN_F32,
			     j < 260 ? -INFINITY : NAN);
	check(&p, false, "non-finite bias");
	init(&p, ATTN_F16, 1, 1, 2, 100, 40, 40);
	p.args.spec.out_scale = 1e6f;
	p.args.spec.scale = 20;
	check(&p, false, "overflow of O");
}

/* ---- how exact --------------------------------------------------------------------------------
 */

/* What fp32 variants may be off by, root mean square, in relation to O: a program's products of
 * vectors are, with a softmax between them. */
#define EXACT 1.4e-7

/* Runs the narrowest variant on one block; the error. Frees. */
static double error_of(struct problem *p)
{
	const struct attn_args *a = &p->args;
	double *exact = malloc((size_t)a->Dv * sizeof(*exact)), error2 = 0, sum2 = 0;
	const struct attn_variant *v = attn_select(a, 80, NULL);

	assert_true(v && is_decode(v) && v->dtype == ATTN_F32 && v->grid_x_factor == 1);
	problem_run(p, v);
	for (int row = 0; row < a->B * a->H * a->Sq; row++) {
		const int i = row % a->Sq, h = row / a->Sq % a->H, b = row / a->Sq / a->H;

		problem_row(p, b, h, i, false, exact);
		for (int d = 0; d < a->Dv; d++) {
			const double o = number_load(element_at(&a->o, a->H, b, h, i, d), ATTN_F32);

			error2 += (o - exact[d]) * (o - exact[d]);
			sum2 += exact[d] * exact[d];
		}
	}
	free(exact);
	problem_free(p);
	return sqrt(error2 / sum2);
}

/* Many keys; scores far from their maximum, which say what the exponential is worth; V whose mean
 * is not 0, of which sums grow; what else takes an exponential. */
static void test_exact(void **state)
{
	static const int lengths[] = {100, 2049, 20000};
	struct problem p;

	for (size_t d = 1; d < COUNT(widths); d++)
		for (size_t k = 0; k < COUNT(lengths); k++) {
			init(&p, ATTN_F32, 1, 2, 2, lengths[k], widths[d], widths[d]);
			assert_true(error_of(&p) < EXACT);
		}
	init(&p, ATTN_F32, 1, 2, 2, 2049, 64, 64);
	for (int h = 0; h < 2; h++)
		for (int j = 0; j < 2049; j++)
			for (int c = 0; c < 64; c++)
				*(float *)element_at(&p.args.v, 2, 0, h, j, c) += 3;
	assert_true(error_of(&p) < EXACT);
	/* all but the first key 12 to 20 below that one, whose V is 0 */
	init(&p, ATTN_F32, 1, 2, 2, 20000, 64, 64);
	p.args.spec.scale = 0;
	problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "bhr"}, 0);
	for (int j = 1; j < 20000; j++)
		number_store(element_at(&p.args.spec.bias[0], 2, 0, 0, 0, j), ATTN_F32,
			     -12 - j % 1001 / 128.0);
	for (int n = 0; n < 2 * 64; n++)
		number_store(element_at(&p.args.v, 2, 0, n / 64, 0, n % 64), ATTN_F32, 0);
	assert_true(error_of(&p) < EXACT);
	init(&p, ATTN_F32, 1, 2, 2, 500, 128, 128);
	problem_sinks(&p, ATTN_F32, NULL, 1);
	for (int n = 0; n < 4; n++)
		*(float *)element_at(&p.args.spec.sinks, 2, 0, n / 2, n % 2, 0) += 20;
	assert_true(error_of(&p) < EXACT);
	init(&p, ATTN_F32, 1, 2, 2, 500, 128, 128);
	p.args.spec.softcap = 50;
	assert_true(error_of(&p) < EXACT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),	      cmocka_unit_test(test_head_dims),
		cmocka_unit_test(test_rows),	      cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_other_layouts), cmocka_unit_test(test_output_dtypes),
		cmocka_unit_test(test_scale),	      cmocka_unit_test(test_bias),
		cmocka_unit_test(test_mask),	      cmocka_unit_test(test_window),
		cmocka_unit_test(test_empty_rows),    cmocka_unit_test(test_finite_fills),
		cmocka_unit_test(test_nonfinite),     cmocka_unit_test(test_exact),
		cmocka_unit_test(test_scales),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
