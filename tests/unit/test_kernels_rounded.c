/* SPDX-License-Identifier: Apache-2.0
 *
 * rounded.cu and rounded_decode.cu, as built for the host, against a chain in double precision that
 * rounds where a program does: every variant that takes a call, on the matrix instructions of a
 * warp and on Hopper's. Keys in every number of tiles, for each way in which they are dealt out and
 * kept.
 */
#include "kernels/attention.h"
#include "kernels/decode_variants.h"
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "tests/cmocka.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define PRODUCT ATTN_ROUND_PRODUCT
#define SCALED	ATTN_ROUND_SCALED
#define BIASED	ATTN_ROUND_BIASED
#define WEIGHTS ATTN_ROUND_WEIGHTS

static bool by_warpgroups; /* which rounded_decode.cu knows nothing of */

static int open_warpgroups(void **state)
{
	by_warpgroups = true;
	return kernels_open_hopper(state);
}

/* With all variants of the least width that takes it; frees. */
static void check(struct problem *p, const char *what)
{
	int width = 0;

	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];

		if (!rounds_weights(v) || attn_select(&p->args, 90, v->name) != v ||
		    (width && v->max_d > width) ||
		    (by_warpgroups && v->family == ATTN_ROUNDED_DECODE))
			continue;
		width = v->max_d;
		problem_check(p, v, what);
	}
	assert_true(width > 0);
	assert_true(rounds_weights(attn_select(&p->args, 90, NULL)));
	problem_free(p);
}

static void init(struct problem *p, int dtype, int Sq, int Sk, int D, int round_s,
		 const struct layout *layouts)
{
	struct attn_spec *s = &p->args.spec;

	problem_init(p, dtype, (int[6]){1, 2, Sq, Sk, D, D}, layouts);
	s->round_s = round_s;
	s->alpha = round_s & SCALED ? 0.7f : s->scale;
	s->round_x = round_s & BIASED ? dtype : ATTN_F32;
}

static void test_lengths(void **state)
{
	static const int queries[] = {1, 15, 17, 64, 65, 130};
	static const int keys[] = {1, 31, 64, 65, 129, 255, 300, 512, 513, 700};
	struct problem p;

	(void)state;
	for (size_t q = 0; q < COUNT(queries); q++)
		for (size_t k = 0; k < COUNT(keys); k++) {
			init(&p, (int)(q + k) % 2, queries[q], keys[k], 64,
			     k % 2 ? PRODUCT | WEIGHTS : PRODUCT | SCALED | WEIGHTS, NULL);
			p.row_step = 1 + queries[q] / 13;
			check(&p, "lengths");
		}
}

static void test_head_dims(void **state)
{
	static const int dims[] = {1, 33, 40, 64, 72, 80, 127, 128, 160, 256};
	struct problem p;

	(void)state;
	for (size_t d = 0; d < COUNT(dims); d++) {
		init(&p, (int)d % 2, 70, 150, dims[d], PRODUCT | SCALED | WEIGHTS, NULL);
		p.row_step = 9;
		check(&p, "head dimension");
	}
}

static void check_layout(const struct layout of[4], int n, const char *what)
{
	struct problem p;

	init(&p, n % 2, 67, 90, n % 3 ? 48 : 100, PRODUCT | WEIGHTS, of);
	p.row_step = 7;
	check(&p, what);
}

static void test_layouts(void **state)
{
	check_layouts(check_layout);
}

/* Sums of fp16 that are not let below its lowest number; rows of which all are there, too. */
static void test_floor(void **state)
{
	const struct attn_args *a;
	struct problem p;

	(void)state;
	for (int few = 0; few < 2; few++) {
		init(&p, ATTN_F16, few ? 12 : 70, 150, 64, PRODUCT | BIASED | WEIGHTS, NULL);
		a = &p.args;
		p.args.spec.round_x = ATTN_F16_FLOORED;
		problem_bias(&p, 0, ATTN_F16, NULL, 3);
		p.args.spec.bias_scale[0] = 2;
		for (int n = 0; n < a->B * a->H * a->Sq * a->Sk; n++) {
			const int j = n % a->Sk, i = n / a->Sk % a->Sq, z = n / a->Sk / a->Sq;

			if (i % 3 == 0 || (i + j) % 4 == 0)
				number_store(element_at(&a->spec.bias[0], a->H, z / a->H, z % a->H,
							i, j),
					     ATTN_F16, j % 3 ? -65504 : -32752);
		}
		check(&p, "nothing below -65504");
	}
}

/* What happens to scores, as each set of steps may be asked for: with numbers so large that a
 * rounding left out shows. */
static void test_scores(void **state)
{
	static const int steps[] = {WEIGHTS, PRODUCT | WEIGHTS, SCALED | WEIGHTS,
				    PRODUCT | SCALED | WEIGHTS};
	static const struct layout odd = {.pad = 1}, shared = {.same = "hr"};
	enum {
		PLAIN,
		BIAS,
		KEYS,
		ODD,
		TWO,
		MASK,
		FINITE,
		LATE,
		LENGTHS,
		SINKS,
		SCALES,
		CAP,
		CAP_BIAS,
		KINDS
	};
	struct problem p;
	char what[64];

	(void)state;
	for (size_t n = 0; n < KINDS * COUNT(steps); n++) {
		const int kind = (int)(n / COUNT(steps)), dtype = (int)n % 2;
		const bool biased = (kind >= BIAS && kind <= TWO) || kind == CAP_BIAS;
		struct attn_spec *s = &p.args.spec;

		init(&p, dtype, 50 + (int)n, n % 3 ? 180 : 560, n % 2 ? 64 : 33,
		     steps[n % COUNT(steps)] | (biased ? BIASED : 0), NULL);
		s->alpha = n % 3 ? 0.7f : -0.43f;
		s->scale = s->alpha * (n % 4 ? 3.3f : 1.0f);
		p.row_step = 5;
		if (biased || kind == LATE)
			problem_bias(&p, 0, n % 4 ? dtype : ATTN_F32,
				     kind == KEYS  ? &shared
				     : kind == ODD ? &odd
						   : NULL,
				     3);
		if (kind == TWO)
			problem_bias(&p, 1, ATTN_F32, NULL, 3);
		if (kind == MASK || kind == FINITE || kind == LATE)
			problem_mask(&p, true, kind == MASK ? -INFINITY : -9984.0f,
				     n % 3 ? NULL : &odd, 0.7);
		if (kind == LATE)
			s->late_biases = ATTN_MAX_BIAS;
		if (kind == LENGTHS)
			problem_lengths(&p, NULL, 1, p.args.Sk);
		if (kind == SINKS)
			problem_sinks(&p, dtype, NULL, 3);
		if (kind >= CAP) {
			s->round_s |= ATTN_ROUND_CAPPED;
			s->softcap = n % 4 ? 5.0f : 30.0f;
		}
		if (kind == SCALES)
			problem_scales(&p, ATTN_F32, &(struct layout){.same = "brc"}, 1);
		snprintf(what, sizeof(what), "scores, steps %d, kind %d", s->round_s, kind);
		check(&p, what);
	}
}

/* The largest of each row is taken off, beside a sink or not, whichever group or block has it: that
 * each walk has all keys and what all have found. Whether what is left is rounded does not show
 * here, but in test_weights(). */
static void test_largest_off(void **state)
{
	static const int queries[] = {1, 15, 40, 130}, keys[] = {1, 33, 200, 560};
	enum { PLAIN, BIAS, SINKS, BOTH, CAUSAL, KINDS };
	struct problem p;
	char what[64];

	(void)state;
	for (int n = 0; n < KINDS * 16; n++) {
		const int kind = n / 16, dtype = (n + kind) % 2;
		const bool biased = kind == BIAS || kind == BOTH;
		struct attn_spec *s = &p.args.spec;

		init(&p, dtype, queries[n % 4], keys[n / 4 % 4],
		     n % 3   ? 64
		     : n % 2 ? 128
			     : 200,
		     WEIGHTS | ATTN_ROUND_LESS | (n % 5 ? PRODUCT : 0) | (biased ? BIASED : 0),
		     NULL);
		s->scale = s->alpha = dtype == ATTN_F16 ? 6 : 3;
		p.row_step = 5;
		if (biased)
			problem_bias(&p, 0, dtype, NULL, 5);
		if (kind == SINKS || kind == BOTH)
			problem_sinks(&p, dtype, NULL, 40);
		if (kind == CAUSAL)
			s->window_right = 0;
		snprintf(what, sizeof(what), "largest off, %d", n);
		check(&p, what);
	}
}

enum { ALONE = 60 }; /* keys, each of which is one column of V */

/* Scores that fp32 holds, and V by which O is P. */
static void show_weights(struct problem *p)
{
	struct attn_args *a = &p->args;

	for (int n = 0; n < a->H * ALONE * 64; n++) {
		const int h = n / ALONE / 64, j = n / 64 % ALONE, d = n % 64;

		number_store(element_at(&a->k, a->H, 0, h, j, d), a->q.dtype,
			     rint(32 * number_normal()) / 16);
		number_store(element_at(&a->v, a->H, 0, h, j, d), a->q.dtype, j == d);
	}
	for (int n = 0; n < a->H * a->Sq * 64; n++)
		number_store(element_at(&a->q, a->H, 0, n / 64 / a->Sq, n / 64 % a->Sq, n % 64),
			     a->q.dtype, rint(32 * number_normal()) / 16);
}

/* P[h,i,:] of a program that stores all in the type of Q, scores less their largest only if
 * `less`. */
static void weights_of(const struct attn_args *a, int h, int i, bool less, double p[ALONE])
{
	const int dtype = a->q.dtype;
	double most = -INFINITY, sum = 0, sink = -INFINITY;

	for (int j = 0; j < ALONE; j++) {
		p[j] = 0;
		for (int d = 0; d < 64; d++)
			p[j] += number_load(element_at(&a->q, a->H, 0, h, i, d), dtype) *
				number_load(element_at(&a->k, a->H, 0, h, j, d), dtype);
		p[j] = number_round(a->spec.alpha * p[j], dtype);
		most = fmax(most, p[j]);
	}
	if (a->spec.sinks.base)
		sink = number_load(element_at(&a->spec.sinks, a->H, 0, h, i, 0), dtype);
	most = fmax(most, sink);
	for (int j = 0; j < ALONE; j++) {
		p[j] = exp(less ? number_round(p[j] - most, dtype) : p[j] - most);
		sum += p[j];
	}
	sum += exp(less ? number_round(sink - most, dtype) : sink - most);
	for (int j = 0; j < ALONE; j++)
		p[j] = number_round(p[j] / sum, dtype);
}

/* Weight by weight, where the scores leave no choice: with the largest off as it is stored, not as
 * fp32 would have it. */
static void test_weights(void **state)
{
	struct problem p;

	(void)state;
	for (int n = 0; n < 12; n++) {
		int runs = 0, apart = 0;

		init(&p, n % 2, (int[]){1, 15, 130}[n % 3], ALONE, 64,
		     PRODUCT | WEIGHTS | ATTN_ROUND_LESS, NULL);
		p.args.spec.scale = p.args.spec.alpha = 0.125f;
		if (n >= 6)
			problem_sinks(&p, n % 2, NULL, 8);
		show_weights(&p);
		for (int m = 0; m < attn_variant_count; m++) {
			const struct attn_variant *v = &attn_variants[m];
			double want[ALONE], otherwise[ALONE];

			if (v->max_d > 64 || attn_select(&p.args, 90, v->name) != v)
				continue;
			problem_run(&p, v);
			runs++;
			for (int k = 0; k < p.args.H * p.args.Sq * ALONE; k++) {
				const int h = k / ALONE / p.args.Sq, i = k / ALONE % p.args.Sq,
					  j = k % ALONE;
				const double step = n % 2 ? 0x1p-7 : 0x1p-10;
				const double o = number_load(
					element_at(&p.args.o, p.args.H, 0, h, i, j), n % 2);

				if (j == 0) {
					weights_of(&p.args, h, i, true, want);
					weights_of(&p.args, h, i, false, otherwise);
				}
				if (want[j] < 0x1p-12)
					continue;
				assert_true(fabs(o - want[j]) <= step * want[j]);
				apart += fabs(o - otherwise[j]) > step * want[j];
			}
		}
		assert_true(runs >= 1 && apart > 0);
		problem_free(&p);
	}
}

/* A look at the bias, as prepare.cu takes it; where the kernel is told that it need not read it, it
 * finds NaN. */
enum { CAUSAL, PADDED, BAND, PARTLY, LOOKS };
static const float dead = -INFINITY;

static float bias_at(const struct problem *p, int b, int i, int j)
{
	return (float)number_load(element_at(&p->args.spec.bias[0], p->args.H, b, 0, i, j),
				  p->args.q.dtype);
}

static void look(struct problem *p, const struct attn_variant *v, struct attn_mapped *mapped)
{
	static struct attn_range ranges[64];
	static struct attn_span spans[1024];
	const struct attn_args *a = &p->args;
	const int rows = v->rows_per_block, tiles = (a->Sq + rows - 1) / rows;

	if (!v->keys)
		return;
	for (int n = 0; n < a->B * tiles; n++) {
		const int b = n / tiles, first = n % tiles * rows,
			  last = first + rows < a->Sq ? first + rows : a->Sq;
		const int count = (a->Sk + v->keys - 1) / v->keys;
		struct attn_range *r = &ranges[n];
		bool spanned = true, sees[64] = {false}, zero[64];

		memset(zero, 1, sizeof(zero));
		for (int i = first; i < last; i++) {
			struct attn_span *span = &spans[b * a->Sq + i];
			int zeros = 0;

			*span = (struct attn_span){INT32_MAX, -1};
			for (int j = 0; j < a->Sk; j++) {
				const float bias = bias_at(p, b, i, j);

				sees[j / v->keys] |= bias > dead;
				zero[j / v->keys] &= bias == 0;
				spanned &= bias == 0 || bias == dead;
				if (bias != 0)
					continue;
				zeros++;
				span->first = j < span->first ? j : span->first;
				span->last = j;
			}
			spanned &= zeros && zeros == span->last - span->first + 1;
		}
		*r = (struct attn_range){0, count, 0, 0};
		while (!sees[r->begin])
			r->begin++;
		while (!sees[r->end - 1])
			r->end--;
		r->clear_begin = r->begin;
		while (r->clear_begin < r->end && !zero[r->clear_begin])
			r->clear_begin++;
		r->clear_end = r->clear_begin;
		while (r->clear_end < r->end && zero[r->clear_end])
			r->clear_end++;
		if (spanned) {
			r->clear_begin = r->begin;
			r->clear_end = r->end;
		}
		for (int i = first; i < last; i++)
			for (int j = 0; j < a->Sk; j++) {
				const int tile = j / v->keys;

				if (tile < r->begin || tile >= r->end ||
				    (tile >= r->clear_begin && tile < r->clear_end))
					number_store(element_at(&a->spec.bias[0], a->H, b, 0, i, j),
						     a->q.dtype, NAN);
			}
	}
	mapped->ranges = (uint64_t)(uintptr_t)ranges;
	mapped->spans = (uint64_t)(uintptr_t)spans;
	mapped->range_step[0] = tiles;
	mapped->span_step[0] = a->Sq;
	mapped->range_step[1] = mapped->span_step[1] = 1;
}

static float mask_of(int kind, int i, int j, int Sq, int Sk)
{
	const int there = j - i - (Sk - Sq);

	switch (kind) {
	case CAUSAL:
		return there > 0 ? dead : 0;
	case PADDED: /* on the left, and causal */
		return there > 0 || j < 70 ? dead : 0;
	case BAND:
		return there > 0 || there < -90 ? dead : 0;
	default: /* a few numbers of its own, far from the others */
		return there > 0 ? dead : j < 30 ? 0.5f : 0;
	}
}

static void test_looks(void **state)
{
	static const struct layout shared = {.same = "h"};
	struct problem p;
	char what[64];
	int checked = 0;

	(void)state;
	for (int n = 0; n < 4 * LOOKS; n++) {
		const int kind = n % LOOKS, dtype = n / LOOKS % 2, D = n / LOOKS < 2 ? 64 : 128;
		const int Sq = 140, Sk = 200 + 17 * n;

		for (int m = 0; m < attn_variant_count; m++) {
			const struct attn_variant *v = &attn_variants[m];

			if (v->family != ATTN_ROUNDED || v->max_d != D || v->dtype != dtype)
				continue;
			init(&p, dtype, Sq, Sk, D,
			     PRODUCT | SCALED | WEIGHTS | (n % 3 ? BIASED : 0), NULL);
			problem_bias(&p, 0, dtype, &shared, 0);
			for (int i = 0; i < Sq; i++)
				for (int j = 0; j < Sk; j++)
					number_store(
						element_at(&p.args.spec.bias[0], 2, 0, 0, i, j),
						dtype, (double)mask_of(kind, i, j, Sq, Sk));
			p.row_step = 7;
			p.look = look;
			snprintf(what, sizeof(what), "look %d", kind);
			if (attn_select(&p.args, 90, v->name) == v) {
				problem_check(&p, v, what);
				checked += v->keys > 0;
			}
			problem_free(&p);
		}
	}
	assert_true(checked >= 4 * LOOKS);
}

/* Tiles of keys that some rows, or all, do not see. */
static void test_windows(void **state)
{
	static const int windows[][3] = {/* left, right, shift */
					 {ATTN_NO_WINDOW, 0, 0},
					 {ATTN_NO_WINDOW, 0, 300},
					 {ATTN_NO_WINDOW, 0, -70},
					 {70, 0, 200},
					 {10, 90, 100},
					 {50, ATTN_NO_WINDOW, 250},
					 {ATTN_NO_WINDOW, 3, -500},
					 {5, 5, 380}};
	struct problem p;
	char what[64];

	(void)state;
	for (size_t n = 0; n < 3 * COUNT(windows); n++) {
		const int *window = windows[n % COUNT(windows)];
		struct attn_spec *s = &p.args.spec;

		init(&p, (int)n % 2, n % 3 ? 150 : 12, n % 4 ? 450 : 600, 64,
		     PRODUCT | SCALED | WEIGHTS, NULL);
		s->window_left = window[0];
		s->window_right = window[1];
		s->window_shift = window[2];
		s->window_value = n < 2 * COUNT(windows) ? -INFINITY : -9984.0f;
		s->empty_row = n < COUNT(windows) ? ATTN_EMPTY_ZERO : ATTN_EMPTY_MEAN;
		p.row_step = 5;
		snprintf(what, sizeof(what), "window %zu", n);
		check(&p, what);
	}
}

/* Rows without a key, and rows that are masked by a number: uniform. Maxima beyond what a product
 * holds, or infinite. */
static void test_extremes(void **state)
{
	struct problem p;

	(void)state;
	for (int empty = ATTN_EMPTY_NAN; empty <= ATTN_EMPTY_MEAN; empty++)
		for (int n = 0; n < 4; n++) {
			const float lowest = n % 2 ? -0x1.fep127f : -65504.0f;

			init(&p, n % 2, n < 2 ? 40 : 9, n < 2 ? 300 : 530, 64,
			     PRODUCT | SCALED | WEIGHTS, NULL);
			p.args.spec.empty_row = empty;
			problem_mask(&p, true, empty == ATTN_EMPTY_NAN ? lowest : -INFINITY,
				     &(struct layout){.same = "bhr"}, 0.0);
			check(&p, "rows without a key");
			init(&p, n % 2, n < 2 ? 40 : 9, 300, 64, PRODUCT | WEIGHTS, NULL);
			p.args.spec.empty_row = empty;
			p.args.spec.alpha = p.args.spec.scale = 1500.0f;
			check(&p, "scores far from 0");
			init(&p, n % 2, 40, 300, 64, PRODUCT | SCALED | WEIGHTS, NULL);
			p.args.spec.empty_row = empty;
			problem_mask(&p, true, lowest, &(struct layout){.same = "bhr"}, 0.0);
			problem_sinks(&p, n % 2, NULL, 3);
			check(&p, "rows without weight beside a sink");
		}
}

/* Which variant is chosen where. */
static void test_choice(void **state)
{
	static const struct {
		int heads, queries, keys, round_s, rows, parts, kept;
	} calls[] = {
		{64, 1, 4096, PRODUCT | WEIGHTS, 1, 4, 0},
		{64, 1, 256, PRODUCT | WEIGHTS, 1, 1, 0},
		{64, 2, 4096, PRODUCT | WEIGHTS, 1, 1, 0},
		{64, 1, ROUNDED_DECODE_KEYS, PRODUCT | WEIGHTS, 1, 4, 0},
		{64, 1, ROUNDED_DECODE_KEYS + 1, PRODUCT | WEIGHTS, 16, 4, 0},
		{64, 4, 4096, PRODUCT | WEIGHTS, 1, 1, 0},
		{64, 5, 4096, PRODUCT | WEIGHTS, 16, 4, 0},
		{64, 5, 100, PRODUCT | WEIGHTS, 16, 1, 0},
		{256, 9, 4096, PRODUCT | WEIGHTS, 16, 1, 0},
		{64, 512, 512, PRODUCT | WEIGHTS, 64, 1, 1},
		{64, 512, 513, PRODUCT | WEIGHTS, 128, 1, 0},
		{64, 512, 512, WEIGHTS, 128, 1, 0},
		{8, 512, 2048, PRODUCT | WEIGHTS, 64, 1, 0},
	};

	(void)state;
	for (size_t n = 0; n < COUNT(calls); n++) {
		struct problem p;
		const struct attn_variant *v;

		problem_init(&p, ATTN_BF16, (int[6]){1, 1, 1, 1, 64, 64}, NULL);
		p.args.H = calls[n].heads;
		p.args.Sq = calls[n].queries;
		p.args.Sk = calls[n].keys;
		p.args.spec.round_s = calls[n].round_s;
		p.args.spec.alpha = p.args.spec.scale;
		v = attn_select(&p.args, 90, NULL);
		assert_non_null(v);
		assert_int_equal(v->family,
				 calls[n].rows == 1 ? ATTN_ROUNDED_DECODE : ATTN_ROUNDED);
		assert_int_equal(v->rows_per_block, calls[n].rows);
		assert_int_equal(v->grid_x_factor, calls[n].parts);
		assert_int_equal((v->needs & ATTN_NEEDS_SHORT) != 0, calls[n].kept);
		problem_free(&p);
	}
}

#define TESTS                                                                                      \
	cmocka_unit_test(test_lengths), cmocka_unit_test(test_head_dims),                          \
		cmocka_unit_test(test_layouts), cmocka_unit_test(test_scores),                     \
		cmocka_unit_test(test_largest_off), cmocka_unit_test(test_weights),                \
		cmocka_unit_test(test_floor), cmocka_unit_test(test_looks),                        \
		cmocka_unit_test(test_windows), cmocka_unit_test(test_extremes)

int main(void)
{
	const struct CMUnitTest warps[] = {TESTS, cmocka_unit_test(test_choice)};
	const struct CMUnitTest warpgroups[] = {TESTS};

	return cmocka_run_group_tests_name("rounded, by warps", warps, kernels_open, NULL) +
	       cmocka_run_group_tests_name("rounded, by warpgroups", warpgroups, open_warpgroups,
					   NULL);
}
