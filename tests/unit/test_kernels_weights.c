/* SPDX-License-Identifier: Apache-2.0
 *
 * The softmaxes of tma.cu and split.cu, which this machine cannot run as a whole, against double
 * precision and against what a chain of kernels loses that stores P in 16 bits.
 */
#include "tests/simgpu/sim_kernel.h"
#include "tests/unit/test_kernels_case.h"

#include <dlfcn.h>
#include <math.h>
#include "tests/cmocka.h"

#define ROWS 16
#define MOST 16384 /* keys */

static float x[ROWS * MOST], v[MOST], out[ROWS], overflow;

static void run(const char *name, int keys, int bf16)
{
	const float *x_at = x, *v_at = v;
	float *out_at = out;
	void *params[6] = {&x_at, &v_at, &keys, &bf16, &overflow, &out_at};
	const struct sim_kernel *kernel = dlsym(kernels, name);

	assert_non_null(kernel);
	assert_int_equal(kernel->run((unsigned[3]){1, 1, 1}, (unsigned[3]){32, 1, 1}, 0, params),
			 0);
}

/* A row in double precision, P rounded to `dtype` as the chain stores it; ATTN_F64: not. */
static double answer(int i, int keys, int dtype)
{
	double most = -INFINITY, sum = 0, o = 0;

	for (int j = 0; j < keys; j++)
		most = fmax(most, x[i * keys + j]);
	for (int j = 0; j < keys; j++)
		sum += exp(x[i * keys + j] - most);
	for (int j = 0; j < keys; j++)
		o += number_round(exp(x[i * keys + j] - most) / sum, dtype) * v[j];
	return o;
}

/* Rows in which no weight is lost that the chain keeps: within `share` of it, plus what rounding P
 * in any other place may do. */
static void check(int keys, const char *what)
{
	static const char *const names[] = {"sim_kernel_host_tma_rows",
					    "sim_kernel_host_split_rows"};

	for (int n = 0; n < 2; n++)
		for (int bf16 = 0; bf16 < 2; bf16++) {
			const int dtype = bf16 ? ATTN_BF16 : ATTN_F16;
			const double step = bf16 ? 0x1p-8 : 0x1p-11;

			run(names[n], keys, bf16);
			for (int i = 0; i < ROWS; i++) {
				const double want = answer(i, keys, ATTN_F64);
				const double chain = fabs(answer(i, keys, dtype) - want);
				const double error = fabs(out[i] - want);

				if (!(error <= 2 * chain + step))
					fail_msg("%s, %s, %d keys, row %d: off by %g, the chain by "
						 "%g",
						 what, names[n] + 16, keys, i, error, chain);
			}
		}
}

/* Some keys of the first tile, or of the first box, hold 2^-near each, all others 2^-far; V tells
 * them apart. Row 0 has just these, others are a little higher each. */
static void fill_tail(int keys, int peaks, double near, double far)
{
	for (int j = 0; j < keys; j++) {
		/* tma.cu begins with the last keys, split.cu with the first */
		const int place = j < keys / 2 ? j : keys - 1 - j;
		const int peak = place % 10 == 5 && place / 10 < peaks;

		v[j] = peak ? -1.0f : 1.0f;
		for (int i = 0; i < ROWS; i++)
			x[i * keys + j] = (float)((i / 8.0 - (peak ? near : far)) * M_LN2);
	}
}

static void test_tails(void **state)
{
	static const double near[] = {7.9, 5.9, 2.1, 0.1, -3.0};

	for (int keys = 512; keys <= MOST; keys *= 4)
		for (size_t n = 0; n < sizeof(near) / sizeof(near[0]); n++)
			for (int drop = 13; drop <= 24; drop++) {
				fill_tail(keys, 4, near[n], near[n] + drop + 0.2);
				check(keys, "tail");
			}
}

/* Nothing stands out: all weights alike, and small where the reference is 0. */
static void test_flat(void **state)
{
	for (int level = -40; level <= 40; level += 5) {
		for (int j = 0; j < 1024; j++) {
			v[j] = j % 3 ? 1.0f : -1.0f;
			for (int i = 0; i < ROWS; i++)
				x[i * 1024 + j] = (float)(level - i / 4.0);
		}
		check(1024, "flat");
	}
}

/* Logits of any size, and ever larger ones from either end. */
static void test_steep(void **state)
{
	for (double size = 0.5; size < 2e4; size *= 6)
		for (int slope = -1; slope <= 1; slope++) {
			for (int j = 0; j < 1024; j++) {
				v[j] = (float)number_normal();
				for (int i = 0; i < ROWS; i++)
					x[i * 1024 + j] = (float)(size * (number_normal() +
									  slope * j / 256.0));
			}
			check(1024, "steep");
		}
}

/* Keys that are hidden, whole tiles of them too; what is infinite or no number. */
static void test_kinds(void **state)
{
	for (int hidden = 0; hidden < 4; hidden++) {
		for (int j = 0; j < 512; j++) {
			v[j] = (float)number_normal();
			for (int i = 0; i < ROWS; i++)
				x[i * 512 + j] = (j / 128 + i) % 4 < hidden
							 ? -INFINITY
							 : (float)number_normal();
		}
		check(512, "hidden keys");
	}
	for (int n = 0; n < 2; n++) {
		const char *const name =
			n ? "sim_kernel_host_split_rows" : "sim_kernel_host_tma_rows";

		for (int i = 0; i < ROWS * 512; i++)
			x[i] = (float)number_normal();
		x[3 * 512 + 300] = INFINITY;
		x[4 * 512 + 10] = NAN;
		x[5 * 512 + 500] = NAN;
		run(name, 512, 0);
		for (int i = 0; i < ROWS; i++)
			assert_int_equal(isnan(out[i]) != 0, i >= 3 && i <= 5);
	}
}

/* Of every four rows the second and third have one score that is beyond the limit, or just below:
 * in the tile that comes first, or later, where the others' scores are a reference already. */
static void test_overflow(void **state)
{
	static const float others[] = {0, -300, 5000};
	const float limit = 8222;

	for (int n = 0; n < 24; n++) {
		const int key = n / 6 * 128 + 77, bf16 = n % 2;

		for (int i = 0; i < ROWS * 512; i++)
			x[i] = others[n % 3] + (float)number_normal();
		for (int i = 0; i < ROWS; i++)
			if (i % 4 == 1 || i % 4 == 2)
				x[i * 512 + key] = i % 4 == 1 ? limit + 16 : limit - 16;
		for (int split = 0; split < 2; split++) {
			overflow = limit;
			run(split ? "sim_kernel_host_split_rows" : "sim_kernel_host_tma_rows", 512,
			    bf16);
			overflow = 0;
			for (int i = 0; i < ROWS; i++)
				assert_int_equal(isnan(out[i]) != 0, i % 4 == 1 && !bf16);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tails),	 cmocka_unit_test(test_flat),
		cmocka_unit_test(test_steep),	 cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_overflow),
	};

	return cmocka_run_group_tests(tests, kernels_open_host, NULL);
}
