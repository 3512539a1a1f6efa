/* SPDX-License-Identifier: Apache-2.0
 *
 * What surrounds the attention kernels: the reference, the comparisons, looks at memory. What is
 * made of masks for them: test_kernels_made.c. The choice of a variant and of an image:
 * test_kernels_choice.c.
 */
#include "kernels/attention.h"
#include "kernels/complement.h"
#include "tests/unit/test_kernels_launch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

/* ---- reference ------------------------------------------------------------------------------- */

/* Runs the reference on every row and compares it with the plain answer; returns the largest score.
 * open: the bias is 0 where it matters, where the reference does not round. */
static double check_reference_of(struct problem *p, bool open)
{
	const struct attn_args *a = &p->args;
	int total = a->B * a->H * a->Sq;
	struct reference_args r = {.attn = *a, .rows = total};
	double *out = malloc((size_t)(total * a->Dv) * sizeof(*out));
	double *scratch = malloc((size_t)(total * a->Sk) * sizeof(*scratch));
	double *exact = malloc((size_t)a->Dv * sizeof(*exact));
	double largest = 0;

	r.out = (uint64_t)(uintptr_t)out;
	r.scratch = (uint64_t)(uintptr_t)scratch;
	r.largest = (uint64_t)(uintptr_t)&largest;
	launch("fashim_reference", (unsigned)total, REFERENCE_THREADS, &r, sizeof(r));
	if (open)
		p->args.spec.round_x = ATTN_F32;
	for (int row = 0; row < total; row++) {
		problem_row(p, row / a->Sq / a->H, row / a->Sq % a->H, row % a->Sq, false, exact);
		for (int d = 0; d < a->Dv; d++) {
			double x = out[row * a->Dv + d];

			if (isnan(exact[d]))
				assert_true(isnan(x));
			else
				assert_true(fabs(x - exact[d]) <= 1e-12 * (1 + fabs(exact[d])));
		}
	}
	free(exact);
	free(scratch);
	free(out);
	problem_free(p);
	return largest;
}

static void check_reference(struct problem *p)
{
	check_reference_of(p, false);
}

/* One score is about 1000; or all lie far below 0, where none counts as the largest. */
static void test_reference_largest(void **state)
{
	struct problem p;

	for (int sign = -1; sign <= 1; sign += 2) {
		double largest;

		problem_init(&p, ATTN_F32, (int[6]){1, 2, 9, 20, 8, 8}, NULL);
		problem_bias(&p, 0, ATTN_F16, NULL, 1);
		for (int n = 0; n < 2 * 9 * 20; n++)
			number_store((char *)p.operand[OPERAND_BIAS].data + 2 * n, ATTN_F16,
				     n == 123 ? sign * 1000 : -1000);
		largest = check_reference_of(&p, false);
		assert_true(sign < 0 ? largest == 0 : fabs(largest - 1000) < 50);
	}
}

/* A mask that closes all keys, and one that closes every third. */
static void test_reference_masks(void **state)
{
	struct problem p;

	for (int open = 0; open < 2; open++) {
		problem_init(&p, ATTN_F16, (int[6]){1, 2, 9, 20, 8, 8}, NULL);
		problem_bias(&p, 0, ATTN_F16, NULL, 1);
		for (int n = 0; n < 2 * 9 * 20; n++)
			number_store((char *)p.operand[OPERAND_BIAS].data + 2 * n, ATTN_F16,
				     open && n % 3 ? 0 : -65504);
		p.args.spec.round_x = ATTN_F16;
		check_reference_of(&p, open);
	}
}

static void test_reference(void **state)
{
	struct layout of[4] = {{0}, {.order = "bhcr"}, {.by_array = true}, {0}};
	struct problem p;

	for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
		problem_init(&p, dtype, (int[6]){2, 2, 5, 150, 33, 140}, of);
		check_reference(&p);
		problem_init(&p, dtype, (int[6]){1, 2, 9, 20, 8, 8}, NULL);
		problem_bias(&p, 0, ATTN_F32, &(struct layout){.same = "hr"}, 3);
		problem_bias(&p, 1, ATTN_BF16, NULL, 3);
		p.args.spec.bias_scale[1] = -2;
		p.args.spec.round_x = dtype;
		p.args.spec.softcap = 3;
		p.args.spec.out_scale = 0.25f;
		check_reference(&p);
		for (int rule = ATTN_EMPTY_NAN; rule <= ATTN_EMPTY_MEAN; rule++) {
			problem_init(&p, dtype, (int[6]){1, 1, 20, 20, 8, 8}, NULL);
			problem_mask(&p, rule % 2, -1e4f, &(struct layout){.order = "bhcr"}, 0.3);
			p.args.spec.window_right = 1;
			p.args.spec.window_left = 4;
			p.args.spec.window_shift = -3;
			p.args.spec.empty_row = rule;
			check_reference(&p);
		}
	}
	for (int steps = 1; steps < 16; steps++) {
		problem_init(&p, steps % 2, (int[6]){1, 2, 9, 20, 33, 8}, NULL);
		problem_bias(&p, 0, ATTN_F32, NULL, 3);
		p.args.spec.round_s = steps / 2;
		p.args.spec.round_x = steps / 2 & ATTN_ROUND_BIASED ? steps % 2 : ATTN_F32;
		p.args.spec.alpha = 1.7f;
		p.args.spec.scale = 2.9f;
		check_reference(&p);
	}
}

static void test_sample_rows(void **state)
{
	assert_int_equal(attn_sample_row(0, 1, 100), 0);
	for (int32_t n = 2; n < 50; n++) {
		assert_int_equal(attn_sample_row(0, n, 1000), 0);
		assert_int_equal(attn_sample_row(n - 1, n, 1000), 999);
		for (int32_t r = 1; r < n; r++)
			assert_true(attn_sample_row(r, n, 1000) > attn_sample_row(r - 1, n, 1000));
	}
	/* no overflow where rows are many */
	assert_int_equal(attn_sample_row(63, 64, (int64_t)1 << 40), ((int64_t)1 << 40) - 1);
}

/* ---- drift ----------------------------------------------------------------------------------- */

enum { B = 2, H = 3, SQ = 41, DV = 24, TOTAL = B * H * SQ * DV };

static struct attn_tensor dense(const void *base, int dtype)
{
	struct attn_tensor t = {.base = (uint64_t)(uintptr_t)base,
				.stride = {H * SQ * DV, SQ * DV, DV, 1},
				.dtype = dtype};
	return t;
}

static void test_drift(void **state)
{
	float app[TOTAL], fused[TOTAL];
	struct drift_result r, expect = {0};
	struct drift_args args = {
		dense(app, ATTN_F32), dense(fused, ATTN_F32), B, H, SQ, DV, 0.25, 0.125, 0};

	args.result = (uint64_t)(uintptr_t)&r;
	for (int n = 0; n < TOTAL; n++) {
		app[n] = (float)(n % 17) - 8;
		fused[n] = app[n] + (float)(n % 5) * 0.125f;
	}
	app[100] = NAN;
	fused[100] = NAN; /* agree */
	app[200] = INFINITY;
	fused[200] = INFINITY; /* agree */
	app[300] = INFINITY;
	fused[300] = -INFINITY;
	app[400] = 1;
	fused[400] = NAN;
	app[777] = 3;
	fused[777] = 100;
	app[999] = 103;
	fused[999] = 6; /* as large a difference, but later */
	for (int n = 0; n < TOTAL; n++) {
		double diff = fabs((double)app[n] - fused[n]);

		if (!isfinite(app[n]) || !isfinite(fused[n]))
			continue;
		expect.count++;
		expect.sum_diff2 += diff * diff;
		expect.sum_app2 += (double)app[n] * app[n];
		expect.sum_fused2 += (double)fused[n] * fused[n];
		expect.sum_dot += (double)app[n] * fused[n];
		expect.beyond += diff > 0.25 + 0.125 * fabs((double)app[n]);
	}
	for (unsigned blocks = 1; blocks < 40; blocks += 7) {
		memset(&r, 0, sizeof(r));
		launch("fashim_drift", blocks, DRIFT_THREADS, &args, sizeof(args));
		assert_int_equal(r.count, expect.count);
		assert_int_equal(r.count, TOTAL - 4);
		assert_int_equal(r.nonfinite_mismatch, 2);
		assert_int_equal(r.beyond, expect.beyond);
		assert_int_equal(r.worst_index, 777);
		assert_true(r.max_abs == 97 && r.worst_app == 3 && r.worst_fused == 100);
		assert_true(r.max_app == 103);
		assert_true(fabs(r.sum_diff2 - expect.sum_diff2) < 1e-6);
		assert_true(fabs(r.sum_app2 - expect.sum_app2) < 1e-6);
		assert_true(fabs(r.sum_fused2 - expect.sum_fused2) < 1e-6);
		assert_true(fabs(r.sum_dot - expect.sum_dot) < 1e-6);
		assert_int_equal(r.lock, 0);
		assert_int_equal(r.blocks, blocks);
	}
	/* the same numbers in another layout and dtype differ by nothing */
	{
		struct problem p;

		problem_init(&p, ATTN_BF16, (int[6]){B, H, SQ, 8, DV, DV}, NULL);
		for (int n = 0; n < TOTAL; n++)
			app[n] = (float)number_load((char *)p.operand[OPERAND_Q].data + 2 * n,
						    ATTN_BF16);
		args.app = dense(app, ATTN_F32);
		args.fused = p.args.q;
		memset(&r, 0, sizeof(r));
		launch("fashim_drift", 3, DRIFT_THREADS, &args, sizeof(args));
		assert_int_equal(r.count, TOTAL);
		assert_true(r.max_abs == 0 && r.sum_diff2 == 0 && r.sum_dot == r.sum_app2);
		problem_free(&p);
	}
}

static void test_drift_sampled(void **state)
{
	enum { ROWS = 13 };
	float app[TOTAL], fused[TOTAL];
	double reference[ROWS * DV];
	struct drift_sampled_result r;
	struct drift_sampled_args args = {
		dense(app, ATTN_F32), dense(fused, ATTN_F32), B, H, SQ, DV, ROWS, 0, 0, 0};
	int64_t row = attn_sample_row(7, ROWS, B * H * SQ);

	args.reference = (uint64_t)(uintptr_t)reference;
	args.result = (uint64_t)(uintptr_t)&r;
	for (int n = 0; n < TOTAL; n++) {
		app[n] = 1e9f; /* rows that are not sampled must not count */
		fused[n] = -1e9f;
	}
	for (int s = 0; s < ROWS; s++)
		for (int d = 0; d < DV; d++) {
			int64_t at = attn_sample_row(s, ROWS, B * H * SQ) * DV + d;

			reference[s * DV + d] = d - 12;
			app[at] = (float)(d - 12) + 0.5f;
			fused[at] = (float)(d - 12) - 0.25f;
		}
	app[row * DV + 3] = NAN;
	fused[row * DV + 4] = INFINITY;
	reference[7 * DV + 5] = NAN;
	memset(&r, 0, sizeof(r));
	launch("fashim_drift_sampled", ROWS, DRIFT_THREADS, &args, sizeof(args));
	assert_int_equal(r.count, ROWS * DV - 1);
	assert_int_equal(r.app_nonfinite, 2);
	assert_int_equal(r.fused_nonfinite, 2);
	assert_true(r.max_app == 0.5 && r.max_fused == 0.25 && r.max_ref == 12);
	assert_true(r.sum_app2 == 0.25 * (ROWS * DV - 2));
	assert_true(r.sum_fused2 == 0.0625 * (ROWS * DV - 2));
	assert_int_equal(r.lock, 0);
	assert_int_equal(r.blocks, ROWS);

	args.fused.base = 0;
	memset(&r, 0, sizeof(r));
	launch("fashim_drift_sampled", ROWS, DRIFT_THREADS, &args, sizeof(args));
	assert_int_equal(r.app_nonfinite, 2);
	assert_int_equal(r.fused_nonfinite, 0);
	assert_true(r.max_app == 0.5 && r.max_fused == 0 && r.sum_fused2 == 0);
}

/* Memory that was not zeroed, as the failed or overtaken fill before them leaves it: they come
 * back, and their count of blocks says that nothing was measured. */
static void test_drift_unprepared(void **state)
{
	enum { BLOCKS = 7, ROWS = 5 };
	static const int bytes[] = {0x00, 0x01, 0x02, 0x7f, 0xff};
	static float app[TOTAL], fused[TOTAL];
	static double reference[ROWS * DV];
	struct drift_result r;
	struct drift_sampled_result s;
	struct drift_args args = {
		dense(app, ATTN_F32), dense(fused, ATTN_F32), B, H, SQ, DV, 0.25, 0.125, 0};
	struct drift_sampled_args sampled = {
		dense(app, ATTN_F32), dense(fused, ATTN_F32), B, H, SQ, DV, ROWS, 0, 0, 0};

	args.result = (uint64_t)(uintptr_t)&r;
	sampled.reference = (uint64_t)(uintptr_t)reference;
	sampled.result = (uint64_t)(uintptr_t)&s;
	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++)
		for (uint64_t lock = 0; lock < 4; lock++) {
			memset(&r, bytes[i], sizeof(r));
			memset(&s, bytes[i], sizeof(s));
			if (lock < 3) /* else it is what the memory holds */
				r.lock = s.lock = lock;
			launch("fashim_drift", BLOCKS, DRIFT_THREADS, &args, sizeof(args));
			launch("fashim_drift_sampled", ROWS, DRIFT_THREADS, &sampled,
			       sizeof(sampled));
			assert_int_equal(r.blocks == BLOCKS, !bytes[i] && lock % 3 == 0);
			assert_int_equal(s.blocks == ROWS, !bytes[i] && lock % 3 == 0);
		}
	/* what an earlier one left */
	memset(&r, 0, sizeof(r));
	for (unsigned n = 1; n < 4; n++) {
		launch("fashim_drift", BLOCKS, DRIFT_THREADS, &args, sizeof(args));
		assert_int_equal(r.blocks, n * BLOCKS);
	}
}

/* ---- looks at memory ------------------------------------------------------------------------- */

static void test_find_addresses(void **state)
{
	enum { WORDS = 3000 };
	static uint64_t memory[WORDS + 1];
	struct addresses_result found = {0};
	struct addresses_args args = {.base = (uint64_t)(uintptr_t)memory + 4,
				      .bytes = 8 * WORDS,
				      .low = 0x7000,
				      .high = 0x8000,
				      .result = (uint64_t)(uintptr_t)&found};

	for (int n = 0; n <= WORDS; n++)
		memory[n] = (uint64_t)n % 0x900;
	memory[0] = 0x7000;	/* begins before */
	memory[WORDS] = 0x7000; /* ends behind */
	memory[1] = 0x7000;
	memory[77] = 0x7fff;
	memory[78] = 0x8000;
	memory[WORDS - 1] = 0x7abc;
	launch("fashim_find_addresses", 3, INSPECT_THREADS, &args, sizeof(args));
	assert_int_equal(found.count, 3);
	assert_int_equal(found.word[0] + found.word[1] + found.word[2], 0x7000 + 0x7fff + 0x7abc);
	for (int n = 0; n <= WORDS; n++)
		memory[n] = 0x7100;
	memset(&found, 0, sizeof(found));
	launch("fashim_find_addresses", 2, INSPECT_THREADS, &args, sizeof(args));
	assert_int_equal(found.count, WORDS - 1);
	assert_int_equal(found.word[ADDRESSES_FOUND - 1], 0x7100);
}

static void test_count_unwritten(void **state)
{
	enum { BYTES = 2777 };
	static unsigned char first[BYTES + 1], second[BYTES + 1];
	uint64_t left = 0;
	struct unwritten_args args = {.first = (uint64_t)(uintptr_t)first + 1,
				      .second = (uint64_t)(uintptr_t)second + 1,
				      .bytes = BYTES,
				      .result = (uint64_t)(uintptr_t)&left,
				      .first_pattern = 0x55,
				      .second_pattern = 0xaa};

	memset(first, 0x55, sizeof(first));
	memset(second, 0x55, sizeof(second)); /* written, by chance as the first pattern */
	launch("fashim_count_unwritten", 2, INSPECT_THREADS, &args, sizeof(args));
	assert_int_equal(left, 0);
	second[0] = second[1] = second[700] = second[BYTES] = 0xaa;
	first[700] = 3;
	launch("fashim_count_unwritten", 1, INSPECT_THREADS, &args, sizeof(args));
	assert_int_equal(left, 2);
}

/* Above the diagonal a number that is not 0; on it, and below, what neither launch wrote. */
static void test_count_triangle(void **state)
{
	enum { MATRICES = 2, ROWS = 5, COUNT = MATRICES * ROWS * ROWS };
	static unsigned char first[4 * COUNT], second[4 * COUNT];

	for (int size = 2; size <= 4; size += 2) {
		uint64_t found = 0;
		struct triangle_args args = {.first = (uint64_t)(uintptr_t)first,
					     .matrices = MATRICES,
					     .result = (uint64_t)(uintptr_t)&found,
					     .rows = ROWS,
					     .size = size,
					     .first_pattern = 0x5a,
					     .second_pattern = 0xa5};

		memset(first, 0, sizeof(first));
		for (int n = 0; n < COUNT; n++)
			if (n % ROWS <= n / ROWS % ROWS)
				first[n * size] = 9;
		launch("fashim_count_triangle", 3, INSPECT_THREADS, &args, sizeof(args));
		assert_int_equal(found, 0);
		first[(ROWS * ROWS + 1) * size + size - 1] = 1; /* of the second, the first row's */
		first[(ROWS - 1) * size] = 0x80;
		launch("fashim_count_triangle", 1, INSPECT_THREADS, &args, sizeof(args));
		assert_int_equal(found, 2);
		found = 0;
		args.second = (uint64_t)(uintptr_t)second;
		memset(first, 0x5a, sizeof(first));
		memset(second, 0xa5, sizeof(second));
		for (int n = 0; n < COUNT; n++)
			if (n % ROWS <= n / ROWS % ROWS)
				second[n * size + size - 1] = 7; /* a byte of it is enough */
		launch("fashim_count_triangle", 3, INSPECT_THREADS, &args, sizeof(args));
		assert_int_equal(found, 0);
		memset(second + (COUNT - 1) * size, 0xa5, (size_t)size);
		launch("fashim_count_triangle", 3, INSPECT_THREADS, &args, sizeof(args));
		assert_int_equal(found, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_reference_masks),
		cmocka_unit_test(test_reference_largest),
		cmocka_unit_test(test_sample_rows),
		cmocka_unit_test(test_drift),
		cmocka_unit_test(test_drift_sampled),
		cmocka_unit_test(test_drift_unprepared),
		cmocka_unit_test(test_find_addresses),
		cmocka_unit_test(test_count_unwritten),
		cmocka_unit_test(test_count_triangle),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
