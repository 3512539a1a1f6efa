/* SPDX-License-Identifier: Apache-2.0
 *
 * The host build of CUDA C: barriers, warps, parameters, conversions, and launches that must fail.
 */
#include "tests/simgpu/sim_kernel.h"
#include "kernels/attention.h"
#include "tests/unit/test_kernels_case.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "tests/cmocka.h"

static const struct sim_kernel *kernel(const char *name)
{
	char symbol[64];
	const struct sim_kernel *k;

	snprintf(symbol, sizeof(symbol), "sim_kernel_%s", name);
	k = dlsym(kernels, symbol);
	assert_non_null(k);
	assert_string_equal(k->name, name);
	return k;
}

static int launch(const char *name, unsigned blocks, unsigned threads, unsigned shared,
		  void **params)
{
	return kernel(name)->run((unsigned[3]){blocks, 1, 1}, (unsigned[3]){threads, 1, 1}, shared,
				 params);
}

static void test_parameters(void **state)
{
	const struct sim_kernel *k = kernel("host_sum");

	assert_int_equal(k->param_count, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(k->param_offset[i], 8 * i);
		assert_int_equal(k->param_size[i], i == 1 ? 1 : 8);
	}
}

static void test_sum(void **state)
{
	float in[1000], out;
	const float *from = in;
	float *to = &out;
	char unused = 0;
	long n = 1000;
	void *params[] = {&from, &unused, &n, &to};

	for (int i = 0; i < 1000; i++)
		in[i] = (float)i;
	for (unsigned threads = 32; threads <= 1024; threads *= 2) {
		out = 0;
		assert_int_equal(launch("host_sum", 3, threads, 0, params), 0);
		assert_int_equal((int)out, 499500);
	}
}

static void test_dimensions(void **state)
{
	int out[6 * 30], *to = out;
	void *params[] = {&to};

	assert_int_equal(kernel("host_mirror")
				 ->run((unsigned[3]){1, 2, 3}, (unsigned[3]){2, 3, 5}, 120, params),
			 0);
	for (int b = 0; b < 6; b++)
		for (int i = 0; i < 30; i++)
			assert_int_equal(out[b * 30 + i], b * 30 + 29 - i);
}

static void test_barriers(void **state)
{
	int out[64] = {0}, *to = out;
	void *params[] = {&to};

	assert_int_equal(launch("host_early_return", 1, 64, 0, params), 0);
	assert_int_equal(out[0], 32);
	memset(out, 0, sizeof(out));
	assert_int_equal(launch("host_deadlock", 1, 64, 0, params), -1);
	for (int i = 0; i < 64; i++)
		assert_int_equal(out[i], 0);
	/* and the next launch is none the worse for it */
	assert_int_equal(launch("host_early_return", 2, 64, 0, params), 0);
	assert_int_equal(out[0], 64);
}

static void test_hand_over(void **state)
{
	int out[96] = {0}, *to = out;
	void *params[] = {&to};

	assert_int_equal(launch("host_hand_over", 1, 64, 0, params), 0);
	for (int n = 0; n < 3; n++)
		for (int lane = 0; lane < 32; lane++)
			assert_int_equal(out[32 * n + lane], 100 * n + 31 - lane);
}

/* Whole numbers, so that sums are exact; both operands without symmetry. */
static void test_wmma(void **state)
{
	_Alignas(32) static float out[512], in[256];
	_Alignas(32) static uint16_t left[256], right[256];
	float *to = out, *sum = in;
	uint16_t *a = left, *b = right;
	void *params[] = {&to, &sum, &a, &b};

	for (int n = 0; n < 256; n++) {
		in[n] = (float)(1000 * n);
		number_store(&left[n], ATTN_F16, n * 7 % 19 - 9);
		number_store(&right[n], ATTN_F16, n * 11 % 23 - 11);
	}
	assert_int_equal(launch("host_wmma", 1, 32, 0, params), 0);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 16; j++) {
			double straight = 1000 * (16 * i + j), turned = 0;

			for (int k = 0; k < 16; k++) {
				double r = number_load(&right[16 * k + j], ATTN_F16);
				straight += number_load(&left[16 * i + k], ATTN_F16) * r;
				turned += number_load(&left[16 * k + i], ATTN_F16) * r;
			}
			assert_int_equal((int)out[16 * i + j], (int)straight);
			assert_int_equal((int)out[256 + 16 * j + i], (int)turned);
		}
}

static void test_impossible(void **state)
{
	int out[64], *to = out;
	void *params[] = {&to};

	assert_int_equal(launch("host_early_return", 1, 1025, 0, params), -1);
	assert_int_equal(launch("host_early_return", 1, 0, 0, params), -1);
	assert_int_equal(launch("host_early_return", 0, 32, 0, params), -1);
	assert_int_equal(launch("host_early_return", 1, 32, 228 * 1024, params), -1);
}

static void test_warp(void **state)
{
	unsigned out[224], *to = out;
	uint32_t in[32][4];
	const void *from = in;
	void *params[] = {&to, &from};

	for (unsigned i = 0; i < 32; i++)
		for (unsigned e = 0; e < 4; e++)
			in[i][e] = 100 * i + e;
	assert_int_equal(launch("host_warp", 1, 32, 0, params), 0);
	for (unsigned i = 0; i < 32; i++) {
		assert_int_equal(out[i], i < 16 ? 0x9249 : 0x49240000);
		assert_int_equal(out[32 + i], i / 8 * 8 + 5);
		assert_int_equal(out[64 + i], i ^ 3);
		assert_int_equal(out[96 + i], i < 2 ? i : i - 2);
		assert_int_equal(out[128 + i], 1);
		assert_int_equal(out[160 + i], 2); /* not there before it is waited for */
		assert_int_equal(out[192 + i], 100 * (31 - i) + 1);
	}
}

static void test_conversions(void **state)
{
	static float half[65536], bfloat[65536];
	static uint16_t back[2 * 65536];
	float *a = half, *b = bfloat;
	uint16_t *c = back;
	void *params[] = {&a, &b, &c};

	assert_int_equal(launch("host_convert", 256, 256, 0, params), 0);
	for (unsigned n = 0; n < 65536; n++) {
		uint16_t bits = (uint16_t)n;
		double h = number_load(&bits, ATTN_F16), f = number_load(&bits, ATTN_BF16);

		assert_true(isnan(h) ? isnan(half[n]) : h == half[n]);
		assert_true(isnan(f) ? isnan(bfloat[n]) : f == bfloat[n]);
		if (!isnan(h))
			assert_int_equal(back[n], n);
		if (!isnan(f))
			assert_int_equal(back[65536 + n], n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parameters),  cmocka_unit_test(test_sum),
		cmocka_unit_test(test_dimensions),  cmocka_unit_test(test_barriers),
		cmocka_unit_test(test_impossible),  cmocka_unit_test(test_warp),
		cmocka_unit_test(test_conversions), cmocka_unit_test(test_hand_over),
		cmocka_unit_test(test_wmma),
	};

	return cmocka_run_group_tests(tests, kernels_open_host, NULL);
}
