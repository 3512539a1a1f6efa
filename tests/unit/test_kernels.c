/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention kernels, as built for the host, against plain double precision over the space of
 * calls: lengths, head dimensions, layouts, biases, masks, windows, fills, and their corners.
 */
#include "kernels/attention.h"
#include "tests/simgpu/sim_kernel.h"
#include "tests/unit/test_kernels_case.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool is_few(const struct attn_variant *v)
{
	return v->family == ATTN_DECODE || v->family == ATTN_FEW;
}

static void init(struct problem *p, int dtype, int B, int H, int Sq, int Sk, int D, int Dv)
{
	problem_init(p, dtype, (int[6]){B, H, Sq, Sk, D, Dv}, NULL);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void test_lengths(void **state)
{
	static const int lengths[] = {1, 7, 63, 64, 65, 127, 129, 197};
	struct problem p;

	for (size_t q = 0; q < COUNT(lengths); q++)
		for (size_t k = 0; k < COUNT(lengths); k++) {
			init(&p, (q + k) % 2 ? ATTN_F16 : ATTN_BF16, 1, 2, lengths[q], lengths[k],
			     64, 64);
			problem_check_all(&p, "lengths");
		}
}

static void test_long(void **state)
{
	struct problem p;

	init(&p, ATTN_F16, 1, 1, 500, 500, 64, 64);
	problem_check_all(&p, "long");
	init(&p, ATTN_BF16, 1, 1, 1000, 1000, 80, 80);
	p.row_step = 7;
	problem_check_chosen(&p, "long");
	init(&p, ATTN_F16, 1, 1, 4096, 4096, 32, 32);
	p.row_step = 97;
	problem_check_chosen(&p, "long");
	init(&p, ATTN_F16, 2, 1, 1, 4096, 128, 128);
	problem_check_all(&p, "one query, many keys");
}

static void test_head_dims(void **state)
{
	static const int dims[] = {1, 8, 32, 33, 40, 64, 72, 80, 96, 127, 128, 160, 255, 256};
	struct problem p;

	for (size_t d = 0; d < COUNT(dims); d++)
		for (int dtype = ATTN_F16; dtype <= ATTN_BF16; dtype++) {
			init(&p, dtype, 1, 1, 70, 75, dims[d], dims[d]);
			problem_check_all(&p, "head dimension");
			init(&p, dtype, 1, 1, 33, 100, dims[d], dims[COUNT(dims) - 1 - d]);
			problem_check_all(&p, "Dv != D");
		}
}

/* Tiles of keys one after the other that are whole and clean, which mma.cu walks over in a loop of
 * its own: begun late (a window), ended early (causal), left where scores grow from tile to tile,
 * or are so large that rows have offsets; rows of K as far apart as those of V, or not. */
static void test_whole_tiles(void **state)
{
	static const struct layout wide[4] = {{0}, {.pad = 8}, {.pad = 24}, {0}};
	static const struct {
		int left, right;
		float scale;
	} kinds[] = {{ATTN_NO_WINDOW, ATTN_NO_WINDOW, 0.2f},
		     {ATTN_NO_WINDOW, 0, 0.2f},
		     {150, 140, 0.2f},
		     {ATTN_NO_WINDOW, ATTN_NO_WINDOW, 30.0f},
		     {ATTN_NO_WINDOW, ATTN_NO_WINDOW, 1e6f}};
	struct problem p;

	(void)state;
	for (int n = 0; n < attn_variant_count; n++)
		for (size_t k = 0; k < COUNT(kinds); k++) {
			const struct attn_variant *v = &attn_variants[n];

			if (v->family != ATTN_MMA || !(v->needs & ATTN_NEEDS_PLAIN))
				continue;
			problem_init(&p, v->dtype,
				     (int[6]){1, 1, 140, 330, v->max_d - 8 * (k % 2), v->max_d},
				     k % 2 ? wide : NULL);
			p.args.spec.window_left = kinds[k].left;
			p.args.spec.window_right = kinds[k].right;
			p.args.spec.window_shift = 100;
			p.args.spec.scale = kinds[k].scale;
			p.row_step = 3;
			problem_check(&p, v, "whole tiles");
			problem_free(&p);
		}
}

/* ---- layouts --------------------------------------------------------------------------------- */

static const struct layout layouts[] = {
	{0},
	{.order = "brhc"},			  /* [B,S,H,D] */
	{.order = "brch"},			  /* heads innermost: no unit stride at all */
	{.order = "bhcr"},			  /* transposed */
	{.order = "bhcr", .pad = 6},		  /* transposed, perhaps in pieces of 16 bytes */
	{.order = "bhcr", .pad = 3},		  /* transposed, odd leading dimension */
	{.pad = 8},				  /* longer rows, still in pieces of 16 bytes */
	{.pad = 4},				  /* of 8 bytes */
	{.pad = 1},				  /* odd leading dimension */
	{.offset = 1},				  /* base on an odd element */
	{.offset = 3, .pad = 5, .order = "bhcr"}, /* all at once */
	{.step = 3, .pad = 2},			  /* no unit stride */
	{.by_array = true},
	{.by_array = true, .order = "bhcr", .offset = 1},
	{.order = "hbrc"},
	{.order = "rbhc", .pad = 7},
};

/* Each operand in each layout, the others in the default one; then all in a mixture. */
static void test_layouts(void **state)
{
	struct problem p;
	char what[64];

	for (int operand = 0; operand < 4; operand++)
		for (size_t l = 0; l < COUNT(layouts); l++) {
			struct layout of[4] = {{0}};

			of[operand] = layouts[l];
			snprintf(what, sizeof(what), "layout %zu of %c", l, "QKVO"[operand]);
			problem_init(&p, l % 2 ? ATTN_BF16 : ATTN_F16,
				     (int[6]){2, 3, 37, 50, 40, 48}, of);
			problem_check_all(&p, what);
		}
	for (size_t l = 0; l < COUNT(layouts); l++) {
		struct layout of[4];

		for (size_t operand = 0; operand < 4; operand++)
			of[operand] = layouts[(l * (operand + 1) + operand) % COUNT(layouts)];
		snprintf(what, sizeof(what), "mixture %zu of layouts", l);
		problem_init(&p, ATTN_F16, (int[6]){2, 2, 66, 65, 72, 80}, of);
		problem_check_chosen(&p, what);
	}
}

/* K and V shared by heads (stride 0), as multi-query attention has them. */
static void test_shared_heads(void **state)
{
	const struct layout of[4] = {{0}, {.same = "h"}, {.same = "h"}, {0}};
	struct problem p;

	problem_init(&p, ATTN_F16, (int[6]){2, 3, 40, 40, 64, 64}, of);
	problem_check_all(&p, "shared heads");
}

static void test_output_dtypes(void **state)
{
	struct problem p;

	for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
		init(&p, ATTN_F16, 1, 2, 40, 70, 64, 64);
		problem_output(&p, dtype, NULL);
		/* a bf16 O of f16 operands is coarser than what problem_check allows for */
		if (dtype == ATTN_BF16) {
			assert_non_null(attn_select(&p.args, 90, NULL));
			problem_free(&p);
			continue;
		}
		problem_check_all(&p, "dtype of O");
		init(&p, ATTN_BF16, 1, 2, 40, 70, 64, 64);
		problem_output(&p, dtype, &(struct layout){.order = "bhcr", .pad = 1});
		problem_check_all(&p, "dtype of O, transposed");
	}
}

/* O in Q's own memory. */
static void test_output_over_q(void **state)
{
	struct problem p;

	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];
		unsigned queries = is_few(v) ? 4 : 150;
		unsigned char *apart;

		init(&p, v->dtype, 2, 2, (int)queries, 80, v->max_d, v->max_d);
		problem_check(&p, v, "O apart from Q");
		apart = malloc(p.operand[OPERAND_O].bytes);
		memcpy(apart, p.operand[OPERAND_O].data, p.operand[OPERAND_O].bytes);
		p.args.o = p.args.q;
		{
			char name[128];
			const struct sim_kernel *k;
			unsigned grid[3] = {(queries + (unsigned)v->rows_per_block - 1) /
						    (unsigned)v->rows_per_block *
						    (unsigned)v->grid_x_factor,
					    2, 2};
			unsigned block[3] = {(unsigned)v->threads, 1, 1};
			void *params[1] = {&p.args};

			snprintf(name, sizeof(name), "sim_kernel_%s", v->symbol);
			k = dlsym(kernels, name);
			assert_non_null(k);
			assert_int_equal(k->run(grid, block, (unsigned)v->shared_bytes, params), 0);
		}
		assert_memory_equal(apart, p.operand[OPERAND_Q].data, p.operand[OPERAND_Q].bytes);
		free(apart);
		problem_free(&p);
	}
}

/* ---- scores ---------------------------------------------------------------------------------- */

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

/* Scores as a program has them that stores each step in 16 bits: large, so that a rounding left out
 * shows in O. Factors are no powers of two, neither are lengths multiples of a tile. */
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
		assert_int_equal(attn_select(&p.args, 90, NULL) != NULL, n == 0);
		assert_null(attn_select(&p.args, 90, "wmma_bf16_d64_r128"));
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

static const struct layout bias_layouts[] = {
	{0},
	{.same = "hr"},		     /* padding mask, one row per batch */
	{.same = "bh"},		     /* one matrix for all */
	{.same = "b"},		     /* relative positions */
	{.same = "c"},		     /* one number per row */
	{.same = "bhrc"},	     /* a constant */
	{.order = "bhcr", .pad = 1}, /* transposed */
	{.pad = 3, .offset = 1},
	{.step = 2},
	{.by_array = true},
};

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

/* ---- corners --------------------------------------------------------------------------------- */

/* Rows whose every key is -inf, by mask and by bias, amid others. */
static void test_empty_rows(void **state)
{
	struct problem p;

	for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++)
		for (int by_bias = 0; by_bias < 2; by_bias++) {
			init(&p, by_bias ? ATTN_F16 : ATTN_BF16, 2, 1, 50, 90, 40, 72);
			p.args.spec.empty_row = rule;
			if (by_bias)
				problem_bias(&p, 0, ATTN_F16, NULL, 1);
			else
				problem_mask(&p, true, -INFINITY, NULL, 0.5);
			for (int i = 0; i < 50; i += 3)
				for (int j = 0; j < 90; j++) {
					if (by_bias)
						number_store(element_at(&p.args.spec.bias[0], 1, 1,
									0, i, j),
							     ATTN_F16, -INFINITY);
					else
						*(char *)element_at(&p.args.spec.mask, 1, 1, 0, i,
								    j) = 0;
				}
			problem_check_all(&p, by_bias ? "rows emptied by a bias"
						      : "rows emptied by a mask");
		}
}

/* Rows fully masked with a finite fill come out as the mean of V, not as 0 or NaN. */
static void test_finite_fills(void **state)
{
	static const float fills[] = {-1e4f, -65504.0f, -1e9f, -3.4028234e38f};
	struct problem p;

	for (size_t n = 0; n < COUNT(fills); n++)
		for (int round = ATTN_F16; round <= ATTN_F32; round++) {
			int dtype = fabsf(fills[n]) > 65504 ? ATTN_BF16 : ATTN_F16;

			if (round == ATTN_F16 && dtype == ATTN_BF16)
				continue;
			init(&p, dtype, 1, 1, 40, 150, 40, 40);
			problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "bh"}, 0);
			p.args.spec.round_x = round;
			for (int i = 0; i < 40; i++)
				for (int j = i % 4 == 0 ? 0 : 100; j < 150; j++)
					number_store(
						element_at(&p.args.spec.bias[0], 1, 0, 0, i, j),
						ATTN_F32, fills[n]);
			problem_check_all(&p, "finite fill");
		}
}

static void test_large_logits(void **state)
{
	struct problem p;

	for (int n = 0; n < 2; n++) {
		init(&p, n ? ATTN_BF16 : ATTN_F16, 1, 1, 40, 150, 64, 64);
		p.args.spec.scale = n ? 30 : 10;
		problem_check_all(&p, "large logits");
	}
	/* so large that max * log2(e) is no float: one key wins everything */
	init(&p, ATTN_BF16, 1, 1, 20, 70, 16, 16);
	for (int i = 0; i < 20; i++)
		for (int d = 0; d < 16; d++)
			number_store(element_at(&p.args.q, 1, 0, 0, i, d), ATTN_BF16,
				     d ? 0 : 0x1.8p63);
	for (int j = 0; j < 70; j++)
		for (int d = 0; d < 16; d++)
			number_store(element_at(&p.args.k, 1, 0, 0, j, d), ATTN_BF16,
				     d ? 0 : (1 + j / 128.0) * (j % 2 ? 0x1p63 : -0x1p63));
	p.args.spec.scale = 1;
	problem_check_all(&p, "logits near the end of float");
}

/* What is not a number, or infinite, goes where the formula takes it. */
static void test_nonfinite(void **state)
{
	struct problem p;

	for (int n = 0; n < 8; n++) {
		int dtype = n % 2 ? ATTN_BF16 : ATTN_F16;
		double bad = n / 4 ? INFINITY : NAN;

		init(&p, dtype, 1, 1, 40, 100, 40, 40);
		switch (n / 2 % 2 * 4 + n % 4) {
		case 0:
		case 1:
			number_store(element_at(&p.args.q, 1, 0, 0, 17, 3), dtype, bad);
			break;
		case 6:
		case 7:
			number_store(element_at(&p.args.v, 1, 0, 0, 71, 3), dtype, bad);
			number_store(element_at(&p.args.v, 1, 0, 0, 11, 5), dtype, -bad);
			break;
		default:
			number_store(element_at(&p.args.k, 1, 0, 0, 80, 7), dtype, bad);
		}
		problem_check_all(&p, "non-finite operand");
	}
	init(&p, ATTN_F16, 1, 1, 40, 100, 40, 40);
	problem_bias(&p, 0, ATTN_F32, NULL, 1);
	number_store(element_at(&p.args.spec.bias[0], 1, 0, 0, 5, 70), ATTN_F32, NAN);
	number_store(element_at(&p.args.spec.bias[0], 1, 0, 0, 6, 70), ATTN_F32, INFINITY);
	for (int j = 0; j < 100; j++)
		number_store(element_at(&p.args.spec.bias[0], 1, 0, 0, 7, j), ATTN_F32,
			     j < 60 ? -INFINITY : NAN);
	problem_check_all(&p, "non-finite bias");
	/* O beyond the largest f16 is infinite */
	init(&p, ATTN_F16, 1, 1, 40, 100, 40, 40);
	p.args.spec.out_scale = 1e6f;
	p.args.spec.scale = 20;
	problem_check_all(&p, "overflow of O");
}

/* ---- all together ---------------------------------------------------------------------------- */

static int pick(int n)
{
	return (int)(number_random() * n);
}

/* Random calls: everything may meet everything. */
static void test_random(void **state)
{
	struct problem p;
	char what[64];

	for (int n = 0; n < 150; n++) {
		int dtype = pick(2), dims[6] = {1 + pick(2),   1 + pick(3),   1 + pick(140),
						1 + pick(140), 1 + pick(140), 1 + pick(140)};
		struct layout of[4];

		for (int i = 0; i < 4; i++)
			of[i] = layouts[pick(COUNT(layouts))];
		problem_init(&p, dtype, dims, of);
		for (int i = 0; i < ATTN_MAX_BIAS; i++)
			if (pick(3) == 0)
				problem_bias(&p, i, pick(3),
					     &bias_layouts[pick(COUNT(bias_layouts))], 1);
		if (pick(3) == 0)
			problem_mask(&p, pick(2), pick(2) ? -INFINITY : -100,
				     &bias_layouts[pick(COUNT(bias_layouts))], 0.5);
		if (pick(3) == 0) {
			p.args.spec.window_right = pick(20);
			p.args.spec.window_left = pick(2) ? ATTN_NO_WINDOW : pick(100);
			p.args.spec.window_shift = pick(40) - 20;
			p.args.spec.window_value = pick(3) ? -INFINITY : -50;
		}
		p.args.spec.softcap = pick(4) ? 0 : 5;
		p.args.spec.empty_row = pick(3);
		p.args.spec.round_x = pick(2) ? ATTN_F32 : dtype;
		snprintf(what, sizeof(what), "random call %d", n);
		problem_check_chosen(&p, what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_whole_tiles),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_head_dims),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_shared_heads),
		cmocka_unit_test(test_output_dtypes),
		cmocka_unit_test(test_output_over_q),
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
		cmocka_unit_test(test_empty_rows),
		cmocka_unit_test(test_finite_fills),
		cmocka_unit_test(test_large_logits),
		cmocka_unit_test(test_nonfinite),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
