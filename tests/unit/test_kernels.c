/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention kernels, as built for the host, against plain double precision over the space of
 * calls: lengths, head dimensions, layouts, their corners, and all at random. What happens to
 * scores: test_kernels_scores.c.
 */
#include "kernels/attention.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

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
	static const int dims[] = {1,  8,   32,	 33,  40,  64,	72,  80,
				   96, 127, 128, 160, 184, 192, 255, 256};
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
		const int queries = takes_few_queries(v) ? 4 : 150;
		const int keys = strstr(v->name, "_window") ? 60 : 80; /* it has no room for more */
		unsigned char *apart;

		init(&p, v->dtype, 2, 2, queries, keys, v->max_d, v->max_d);
		problem_check(&p, v, "O apart from Q");
		apart = malloc(p.operand[OPERAND_O].bytes);
		memcpy(apart, p.operand[OPERAND_O].data, p.operand[OPERAND_O].bytes);
		p.args.o = p.args.q;
		problem_run(&p, v);
		assert_memory_equal(apart, p.operand[OPERAND_Q].data, p.operand[OPERAND_Q].bytes);
		free(apart);
		problem_free(&p);
	}
}

/* ---- corners --------------------------------------------------------------------------------- */

/* Keys that a mask hides before softmax and, their P, after it: rows that it hides in all, and rows
 * of which it leaves but what a bias makes as low as it. */
static void test_hidden_again(void **state)
{
	static const float hides[] = {-INFINITY, -65504, -30};
	struct problem p;

	for (size_t n = 0; n < COUNT(hides); n++)
		for (int low = 0; low < 3; low++) {
			init(&p, low % 2 ? ATTN_F16 : ATTN_BF16, 2, 1, 50, 90, 40, 72);
			problem_again(&p, n % 2, hides[n], low ? hides[low] : hides[n]);
			problem_check_all(&p, "rows hidden again");
		}
}

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
		cmocka_unit_test(test_lengths),	      cmocka_unit_test(test_whole_tiles),
		cmocka_unit_test(test_long),	      cmocka_unit_test(test_head_dims),
		cmocka_unit_test(test_layouts),	      cmocka_unit_test(test_shared_heads),
		cmocka_unit_test(test_output_dtypes), cmocka_unit_test(test_output_over_q),
		cmocka_unit_test(test_hidden_again),  cmocka_unit_test(test_empty_rows),
		cmocka_unit_test(test_finite_fills),  cmocka_unit_test(test_large_logits),
		cmocka_unit_test(test_nonfinite),     cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
