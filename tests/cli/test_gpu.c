/* SPDX-License-Identifier: Apache-2.0
 *
 * What `fashim bench` and `fashim tune` measure with, over the CPU stand-in: operands that a seed
 * determines, timers that call what they say, truth that sees every wrong element.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tools/base/half.h"
#include "tools/gpu/gpu_timer.h"
#include "tools/gpu/gpu_truth.h"

static struct gpu gpu;

static const struct gpu_shape small = {1, 2, 40, 56, 64, ATTN_F16, false};

static int open_gpu(void **state)
{
	return gpu_open(&gpu, BUILD_FOLDER "/sim/libfashim_kernels.so");
}

static int close_gpu(void **state)
{
	gpu_close(&gpu);
	return 0;
}

static void *download(CUdeviceptr from, size_t bytes)
{
	void *to = malloc(bytes);

	assert_non_null(to);
	assert_int_equal(gpu.driver.cuMemcpyDtoH(to, from, bytes), CUDA_SUCCESS);
	return to;
}

/* ---- operands ------------------------------------------------------------------------------- */

static void shapes_are_told(void **state)
{
	const struct gpu_shape causal = {2, 8, 512, 512, 64, ATTN_BF16, true};
	char text[96];

	assert_string_equal(gpu_shape_text(text, sizeof(text), &small), "B1 H2 Sq40 Sk56 D64 f16");
	assert_string_equal(gpu_shape_text(text, sizeof(text), &causal),
			    "B2 H8 S512 D64 bf16 causal");
	assert_true(gpu_shape_bytes(&small) == 2.0 * 2 * 64 * (40 + 56) * 2);
	assert_true(gpu_shape_flops(&small) == 4.0 * 2 * 40 * 56 * 64);
	assert_true(gpu_shape_flops(&causal) == 2.0 * 16 * 512 * 512 * 64);
	/* three times the stand-in's cache */
	assert_true(gpu.cache_bytes == 1 << 20);
	assert_int_equal(gpu_operand_sets(&gpu, &small), 64);
	assert_int_equal(gpu_operand_sets(&gpu, &causal), 2);
}

static void arguments_describe_the_memory(void **state)
{
	const struct gpu_shape causal = {2, 3, 40, 56, 64, ATTN_F16, true};
	struct gpu_operands operands;
	const struct attn_args *args = &operands.args;

	assert_int_equal(gpu_operands_make(&gpu, &operands, &causal, 1), 0);
	assert_true(args->k.base == args->q.base + 2 * 2 * 3 * 40 * 64);
	assert_true(args->v.base == args->k.base + 2 * 2 * 3 * 56 * 64);
	assert_true(args->o.base == args->v.base + 2 * 2 * 3 * 56 * 64);
	assert_int_equal(args->q.stride[0], 3 * 40 * 64);
	assert_int_equal(args->k.stride[1], 56 * 64);
	assert_int_equal(args->v.stride[2], 64);
	assert_int_equal(args->spec.window_right, 0);
	assert_int_equal(args->spec.window_left, ATTN_NO_WINDOW);
	assert_true(args->spec.scale == 0.125f);
	gpu_operands_free(&gpu, &operands);
	assert_true(operands.memory == 0);
}

static void numbers_are_normal(void **state)
{
	const struct gpu_shape shape = {1, 8, 512, 512, 64, ATTN_F16, false};
	const size_t count = 8 * 512 * 64;
	struct gpu_operands operands;
	uint16_t *all;

	assert_int_equal(gpu_operands_make(&gpu, &operands, &shape, 3), 0);
	all = download(operands.memory, 4 * count * sizeof(*all));
	for (int tensor = 0; tensor < 3; tensor++) {
		double sum[5] = {0};

		for (size_t i = 0; i < count; i++)
			for (int power = 1; power <= 4; power++)
				sum[power] +=
					pow((double)f16_to_float(all[tensor * count + i]), power);
		/* Five standard errors of the moments of 262144 normal numbers. */
		assert_true(fabs(sum[1] / (double)count) < 0.01);
		assert_true(fabs(sum[2] / (double)count - 1) < 0.014);
		assert_true(fabs(sum[3] / (double)count) < 0.038);
		assert_true(fabs(sum[4] / (double)count - 3) < 0.096);
	}
	for (size_t i = 0; i < count; i++)
		assert_true(isnan(f16_to_float(all[3 * count + i])));
	free(all);
	gpu_operands_free(&gpu, &operands);
}

static void a_seed_determines_them(void **state)
{
	const size_t bytes = 2 * 2 * 64 * (40 + 56 + 56);
	static const uint64_t seeds[] = {7, 7, 8};
	struct gpu_operands *sets;
	uint16_t *got[5];

	for (int i = 0; i < 3; i++) {
		struct gpu_operands operands;

		assert_int_equal(gpu_operands_make(&gpu, &operands, &small, seeds[i]), 0);
		got[i] = download(operands.memory, bytes);
		gpu_operands_free(&gpu, &operands);
	}
	sets = gpu_operands_array(&gpu, &small, 2, 7);
	assert_non_null(sets);
	for (int i = 0; i < 2; i++)
		got[3 + i] = download(sets[i].memory, bytes);
	gpu_operands_array_free(&gpu, sets, 2);
	assert_memory_equal(got[0], got[1], bytes);
	assert_memory_not_equal(got[0], got[2], bytes);
	assert_memory_equal(got[0], got[3], bytes);
	assert_memory_not_equal(got[3], got[4], bytes);
	for (int i = 0; i < 5; i++)
		free(got[i]);
}

/* ---- timers --------------------------------------------------------------------------------- */

enum { SETS = 7 };

/* Clears 16 bytes of its own for each set, and counts. */
struct clearing {
	CUdeviceptr memory;
	int calls[SETS], fails_at, total;
};

static int enqueue_clearing(void *subject, int n, CUstream stream)
{
	struct clearing *clearing = subject;

	(void)stream;
	assert_in_range(n, 0, SETS - 1);
	clearing->calls[n]++;
	return ++clearing->total == clearing->fails_at ? -EIO : 0;
}

static void every_set_takes_part(void **state)
{
	struct clearing clearing = {0};
	const struct gpu_work work = {enqueue_clearing, &clearing, SETS};
	struct gpu_timer timer;
	double us = -1;
	int captured;

	assert_int_equal(gpu_timer_make(&timer, &gpu, &work), 0);
	/* Three calls to warm up, three to estimate, and on a slow day not all that there is room
	 * for. */
	captured = clearing.total - 6;
	assert_int_equal(captured, timer.calls);
	assert_in_range(timer.calls, 4, 20);
	for (int i = 0; i < SETS; i++)
		assert_int_equal(clearing.calls[i],
				 timer.calls / SETS + (i < timer.calls % SETS) + 2 * (i < 3));
	assert_in_range(timer.replays, 1, 20);
	assert_int_equal(gpu_timer_round(&timer, &us), 0);
	assert_true(us >= 0);
	assert_int_equal(clearing.total, captured + 6);
	gpu_timer_free(&timer);
}

static void failures_end_it(void **state)
{
	for (int at = 1; at <= 10; at++) {
		struct clearing clearing = {.fails_at = at};
		const struct gpu_work work = {enqueue_clearing, &clearing, SETS};
		double us[2];

		assert_int_equal(gpu_measure(&gpu, &work, 1, 2, us), -EIO);
		assert_int_equal(clearing.total, at);
	}
}

/* Racers that note in which order they ran. */
static char order[32];

struct noter {
	char letter;
	int result;
};

static int note(void *subject, double *us)
{
	const struct noter *noter = subject;
	const size_t length = strlen(order);

	order[length] = noter->letter;
	order[length + 1] = '\0';
	*us = (double)length;
	return noter->result;
}

static void racers_take_turns(void **state)
{
	struct noter noters[] = {{'a', 0}, {'b', 0}, {'c', 0}};
	const struct racer racers[] = {{note, &noters[0]}, {note, &noters[1]}, {note, &noters[2]}};
	double us[9];

	*order = '\0';
	assert_int_equal(race(racers, 3, 3, us, NULL), 0);
	assert_string_equal(order, "abccbaabc");
	for (int r = 0; r < 3; r++)
		for (int n = 0; n < 3; n++)
			assert_true(order[(int)us[r * 3 + n]] == noters[r].letter &&
				    (int)us[r * 3 + n] / 3 == n);
	noters[1].result = -EIO;
	*order = '\0';
	assert_int_equal(race(racers, 3, 3, us, NULL), -EIO);
	assert_string_equal(order, "ab");
}

/* ---- truth ---------------------------------------------------------------------------------- */

/* Puts `value` into element `at` of O. */
static void put(const struct attn_args *args, int64_t at, float value)
{
	const uint16_t bits = float_to_f16(value);

	assert_int_equal(gpu.driver.cuMemcpyHtoD(args->o.base + 2 * (CUdeviceptr)at, &bits, 2),
			 CUDA_SUCCESS);
}

static void truth_sees_every_element(void **state)
{
	const int64_t count = 2 * 40 * 64;
	struct gpu_operands operands;
	struct gpu_truth truth;
	struct gpu_error error;

	assert_int_equal(gpu_operands_make(&gpu, &operands, &small, 5), 0);
	assert_int_equal(gpu_truth_make(&truth, &gpu, &operands.args), 0);
	assert_int_equal(truth.rows, 2 * 40);
	assert_int_equal(gpu_truth_compare(&truth, &error), 0);
	assert_int_equal(error.nonfinite, count);
	for (int64_t i = 0; i < count; i++)
		put(&operands.args, i, (float)truth.values[i]);
	assert_int_equal(gpu_truth_compare(&truth, &error), 0);
	assert_int_equal(error.nonfinite, 0);
	assert_true(error.max > 0 && error.max <= 0x1p-11 && error.rms < error.max);
	for (int64_t i = 0; i < count; i += 1009) {
		put(&operands.args, i, (float)truth.values[i] + 0.25f);
		assert_int_equal(gpu_truth_compare(&truth, &error), 0);
		assert_true(fabs(error.max - 0.25) < 0x1p-10);
		put(&operands.args, i, INFINITY);
		assert_int_equal(gpu_truth_compare(&truth, &error), 0);
		assert_int_equal(error.nonfinite, 1);
		put(&operands.args, i, (float)truth.values[i]);
	}
	assert_int_equal(gpu_truth_spoil(&truth), 0);
	assert_int_equal(gpu_truth_compare(&truth, &error), 0);
	assert_int_equal(error.nonfinite, count);
	gpu_truth_free(&truth);
	gpu_operands_free(&gpu, &operands);
}

static void kernels_come_near_it(void **state)
{
	struct gpu_operands *sets = gpu_operands_array(&gpu, &small, 2, 9);
	struct gpu_error error, most = {0};
	struct gpu_variant variant;
	struct gpu_work work;
	int index;

	assert_non_null(sets);
	index = gpu.kernels.fashim_kernels_select(&sets[0].args, NULL, 0);
	assert_true(index >= 0);
	assert_int_equal(gpu_variant_make(&variant, &gpu, index, sets, 2), 0);
	work = gpu_variant_work(&variant);
	assert_int_equal(work.sets, 2);
	for (int n = 0; n < 2; n++) {
		struct gpu_truth truth;

		assert_int_equal(gpu_truth_make(&truth, &gpu, &sets[n].args), 0);
		assert_int_equal(work.enqueue(work.subject, n, gpu.stream), 0);
		assert_int_equal(gpu_truth_compare(&truth, &error), 0);
		gpu_error_widen(&most, &error);
		gpu_truth_free(&truth);
	}
	assert_int_equal(most.nonfinite, 0);
	assert_true(most.max > 0 && most.max < 1e-3 && most.rms < 2e-4);
	gpu_variant_free(&variant);
	gpu_operands_array_free(&gpu, sets, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes_are_told),
		cmocka_unit_test(arguments_describe_the_memory),
		cmocka_unit_test(numbers_are_normal),
		cmocka_unit_test(a_seed_determines_them),
		cmocka_unit_test(every_set_takes_part),
		cmocka_unit_test(failures_end_it),
		cmocka_unit_test(racers_take_turns),
		cmocka_unit_test(truth_sees_every_element),
		cmocka_unit_test(kernels_come_near_it),
	};

	return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
