/* SPDX-License-Identifier: Apache-2.0
 *
 * Which variant is chosen for a call.
 */
#include "tests/simgpu/sim_kernel.h"
#include "tests/unit/test_kernels_calls.h"
#include "tests/unit/test_kernels_case.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/cmocka.h"

static void test_variants(void **state)
{
	char symbol[128];

	assert_true(attn_variant_count > 0);
	for (int n = 0; n < attn_variant_count; n++) {
		const struct attn_variant *v = &attn_variants[n];
		const struct sim_kernel *k;

		snprintf(symbol, sizeof(symbol), "sim_kernel_%s", v->symbol);
		k = dlsym(kernels, symbol);
		assert_non_null(k);
		assert_string_equal(k->name, v->symbol);
		assert_true(v->threads % 32 == 0 && v->threads <= 1024);
		assert_true(v->shared_bytes <= attn_shared_of(80));
		for (int m = 0; m < n; m++)
			assert_string_not_equal(attn_variants[m].name, v->name);
	}
}

static void test_select(void **state)
{
	static const int arches[] = {75, 80, 86, 89, 90, 100, 120};
	struct attn_args a;
	const struct attn_variant *v, *few;

	for (size_t i = 0; i < sizeof(arches) / sizeof(arches[0]); i++)
		for (int D = 1; D <= 257; D++)
			for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
				int heads = 1 + D % 50;
				int possible = D <= 256 && (dtype == ATTN_F16 || arches[i] >= 80);

				a = call(dtype, 1, heads, 64 * (1 + D % 7), D, (D + 100) % 256 + 1);
				v = attn_select(&a, arches[i], NULL);
				assert_int_equal(v != NULL, possible);
				if (!v)
					continue;
				assert_true(v->dtype == dtype && v->max_d >= a.D &&
					    v->max_d >= a.Dv);
				assert_true(v->min_arch <= arches[i]);
				assert_true(arches[i] >= 80 || v->shared_bytes <= 64 * 1024);
			}
	/* more work, larger tiles; a whole sentence does not go to a handful of blocks */
	a = call(ATTN_F16, 1, 8, 512, 64, 64);
	few = attn_select(&a, 90, NULL);
	assert_true(512 / few->rows_per_block * 8 >= 128);
	a = call(ATTN_F16, 16, 16, 4096, 64, 64);
	v = attn_select(&a, 90, NULL);
	assert_true(v->rows_per_block > few->rows_per_block);

	assert_ptr_equal(attn_select(&a, 90, few->name), few);
	assert_null(attn_select(&a, 70, few->name));
	assert_null(attn_select(&a, 90, "no such kernel"));
	a = call(ATTN_BF16, 1, 8, 512, 64, 64);
	assert_null(attn_select(&a, 90, few->name));

	/* operands of several dtypes, and what no kernel takes */
	a = call(ATTN_F16, 1, 8, 512, 64, 64);
	a.k.dtype = ATTN_BF16;
	assert_null(attn_select(&a, 90, NULL));
	a = call(ATTN_F16, 1, 8, 512, 64, 64);
	a.o.dtype = ATTN_F32;
	assert_non_null(attn_select(&a, 90, NULL));
	a.o.dtype = ATTN_F64;
	assert_null(attn_select(&a, 90, NULL));
	a = call(ATTN_F16, 1, 8, 0, 64, 64);
	assert_null(attn_select(&a, 90, NULL));
	a = call(ATTN_F16, 1, 65536, 64, 64, 64);
	assert_null(attn_select(&a, 90, NULL));
	a = call(ATTN_F16, 1, 8, 64, 64, 64);
	a.spec.bias[1].base = 1;
	a.spec.bias[1].dtype = ATTN_F64;
	assert_null(attn_select(&a, 90, NULL));
}

/* How many rows Hopper's kernels take at a time, with a bias that rows share or do not. */
static void test_select_rows(void **state)
{
	static const struct {
		int heads, length, causal, bias, rows_share, rows;
	} calls[] = {
		{32, 4096, 0, 0, 0, 192}, {32, 4096, 1, 0, 0, 192}, {64, 1024, 1, 0, 0, 128},
		{32, 4096, 0, 1, 0, 192}, {64, 1024, 0, 1, 0, 128}, {128, 512, 0, 1, 0, 128},
		{128, 512, 0, 1, 1, 192}, {128, 512, 0, 0, 0, 192},
	};
	uint8_t *available = all_available();

	for (size_t n = 0; n < sizeof(calls) / sizeof(calls[0]); n++) {
		struct attn_args a = packed_call(calls[n].heads, calls[n].length);
		const struct attn_variant *v;

		if (calls[n].causal)
			a.spec.window_right = 0;
		if (calls[n].bias)
			a.spec.bias[0] = (struct attn_tensor){
				.base = 4096,
				.stride = {0, 0, calls[n].rows_share ? 0 : a.Sk, 1},
				.dtype = ATTN_F16};
		v = attn_select_from(&a, 90, NULL, available);
		assert_non_null(v);
		assert_int_equal(v->family, ATTN_TMA);
		assert_int_equal(v->rows_per_block, calls[n].rows);
	}
	free(available);
}

/* Tiles of the portable kernels where queries are few: windows of images take the least rows that
 * hold them, at the width that holds their heads. */
static void test_select_windows(void **state)
{
	static const struct {
		int batch, heads, length, D;
		const char *plain, *biased;
	} calls[] = {
		{512, 4, 49, 32, "mma_f16_d32_r64", "mma_f16_d32_r64_any"},
		{512, 4, 64, 24, "mma_f16_d32_r64", "mma_f16_d32_r64_any"},
		{64, 12, 144, 40, "mma_f16_d48_r64", "mma_f16_d48_r64_any"},
		{64, 12, 196, 64, "mma_f16_d64_r128", "mma_f16_d64_r64_any"},
		{4, 16, 2048, 32, "mma_f16_d32_r128", "mma_f16_d32_r64_any"},
		{4, 16, 2048, 128, "mma_f16_d128_r128", "mma_f16_d128_r64_any"},
		{4, 16, 2048, 160, "mma_f16_d160_r64", "mma_f16_d160_r64_any"},
		{1, 8, 512, 64, "mma_f16_d64_r32_any", "mma_f16_d64_r32_any"},
	};

	for (size_t n = 0; n < sizeof(calls) / sizeof(calls[0]); n++) {
		const int64_t D = calls[n].D, length = calls[n].length;
		struct attn_args a =
			call(ATTN_F16, calls[n].batch, calls[n].heads, (int)length, (int)D, (int)D);
		struct attn_tensor *const t[] = {&a.q, &a.k, &a.v, &a.o};

		for (int i = 0; i < 4; i++)
			*t[i] = (struct attn_tensor){
				.base = 4096,
				.stride = {calls[n].heads * length * D, length * D, D, 1},
				.dtype = ATTN_F16};
		a.spec.scale = 0.125f;
		a.spec.round_x = ATTN_F32;
		a.spec.window_left = a.spec.window_right = ATTN_NO_WINDOW;
		a.spec.window_value = -INFINITY;
		assert_string_equal(attn_select(&a, 80, NULL)->name, calls[n].plain);
		a.spec.bias[0] = (struct attn_tensor){
			.base = 4096, .stride = {0, 0, length, 1}, .dtype = ATTN_F16};
		assert_string_equal(attn_select(&a, 80, NULL)->name, calls[n].biased);
	}
}

/* Keys that are hidden before softmax and after it: by few families, and beside nothing else that
 * leaves keys out or counts as one. */
static void test_again(void **state)
{
	const struct attn_args whole = call_of(0, ATTN_F16, 2, 512, 512, 64, 0, 0);

	(void)state;
#define TAKEN(taken, ...)                                                                          \
	do {                                                                                       \
		struct attn_args a = whole;                                                        \
		a.spec.empty_row = ATTN_EMPTY_AGAIN;                                               \
		a.spec.mask_value = -INFINITY;                                                     \
		a.spec.mask = (struct attn_tensor){                                                \
			.base = 4096, .stride = {0, 0, 512, 1}, .dtype = ATTN_BOOL};               \
		__VA_ARGS__;                                                                       \
		const struct attn_variant *v = attn_select_from(&a, 90, NULL, NULL);               \
		assert_int_equal(v != NULL, taken);                                                \
		assert_true(!taken || v->family == ATTN_MMA);                                      \
	} while (0)
	TAKEN(1, );
	TAKEN(0, a.spec.mask.base = 0);
	TAKEN(0, a.spec.mask_value = -65504);
	TAKEN(0, a.spec.window_right = 0);
	TAKEN(0, a.spec.window_left = 10);
	TAKEN(0, a.spec.bias[0] = a.spec.mask; a.spec.bias[0].dtype = ATTN_F16;
	      a.spec.late_biases = ATTN_MAX_BIAS);
	TAKEN(0, a.spec.sinks = ((struct attn_tensor){
			 .base = 4096, .stride = {0, 1, 0, 0}, .dtype = ATTN_F16}));
	TAKEN(0, a.spec.lengths = ((struct attn_tensor){
			 .base = 4096, .stride = {1, 0, 0, 0}, .dtype = ATTN_I32}));
#undef TAKEN
}

/* Two biases in 16 bits, as BLOOM has slopes and a mask, at whichever width and however K lies. */
static void test_select_two(void **state)
{
	uint8_t *available = all_available();

	(void)state;
	for (int n = 0; n < 6; n++) {
		const int D = 64 + n / 2 * 32, down = n % 2;
		struct attn_args a = call_of(KIND_BIASES, ATTN_F16, 32, 1024, 1024, D, down, 0);
		char name[32];

		snprintf(name, sizeof(name), "tma_f16_d%d%s_two", D, down ? "_down" : "");
		assert_string_equal(attn_select_from(&a, 90, NULL, available)->name, name);
		a.spec.bias[1].base += 2; /* no tensor map describes it */
		assert_false(attn_select_from(&a, 90, NULL, available)->needs & ATTN_NEEDS_TWO);
		a.spec.bias[1].base = 0;
		assert_false(attn_select_from(&a, 90, NULL, available)->needs & ATTN_NEEDS_TWO);
	}
	free(available);
}

/* Nothing is compiled that no call is given to: a variant that is always dearer than another that
 * takes the same costs every build, and every program's image, for nothing. */
static void test_each_is_chosen(void **state)
{
	static const int arches[] = {75, 80, 89, 90},
			 widths[] = {32, 40, 64, 80, 96, 128, 160, 192, 256};
	static const int heads[] = {1, 4, 8, 16, 32, 64, 256, 1024};
	static const int lengths[] = {1, 2, 4, 16, 49, 64, 128, 197, 512, 2048, 4096};
	const size_t total = (size_t)attn_variant_total;
	uint8_t *available = malloc(total), *chosen = calloc(total, 1);
	int idle = 0;

	(void)state;
	memset(available, 1, total);
#define EACH(n, of) for (size_t n = 0; n < sizeof(of) / sizeof(of[0]); n++)
	EACH(arch, arches)
	EACH(d, widths)
	EACH(h, heads)
	EACH(q, lengths) EACH(k, lengths) for (int kind = 0; kind < KIND_COUNT * 3 * 4; kind++)
	{
		const int how = kind / KIND_COUNT, dtype = how / 4;
		const struct attn_args a =
			call_of((enum call_kind)(kind % KIND_COUNT), dtype, heads[h], lengths[q],
				lengths[k], widths[d], how & 1, how >> 1 & 1);
		const struct attn_variant *v = attn_select_from(
			&a, arches[arch], NULL, arches[arch] == 90 ? available : NULL);

		if (v)
			chosen[v - attn_variants] = 1;
	}
#undef EACH
	for (size_t n = 0; n < total; n++)
		if (!chosen[n] && attn_variants[n].family != ATTN_LADDER) {
			printf("never chosen: %s\n", attn_variants[n].name);
			idle++;
		}
	free(available);
	free(chosen);
	assert_int_equal(idle, 0);
}

/* What is chosen with Hopper's variants for contiguous operands. */
static const struct attn_variant *chosen_of_all(int batch, int heads, int queries, int D, bool bias)
{
	static uint8_t available[ATTN_VARIANTS_MOST];
	struct attn_args a = {
		.B = batch, .H = heads, .Sq = queries, .Sk = queries, .D = D, .Dv = D};
	const struct attn_tensor t = {
		.base = 4096, .stride = {(int64_t)heads * queries * D, (int64_t)queries * D, D, 1}};

	memset(available, 1, sizeof(available));
	a.q = a.k = a.v = a.o = t;
	a.spec.scale = 1.0f;
	a.spec.window_left = a.spec.window_right = ATTN_NO_WINDOW;
	if (bias)
		a.spec.bias[0] = (struct attn_tensor){.base = 4096, .stride = {queries, 0, 0, 1}};
	return attn_select_from(&a, 90, NULL, available);
}

static void test_select_split(void **state)
{
	/* as measured */
	assert_string_equal(chosen_of_all(1, 8, 512, 64, false)->name, "split_f16_d64_p2");
	assert_string_equal(chosen_of_all(1, 12, 512, 64, false)->name, "split_f16_d64_p2");
	assert_string_equal(chosen_of_all(8, 12, 128, 64, false)->name, "split_f16_d64_p1");
	assert_string_equal(chosen_of_all(1, 12, 128, 64, false)->name, "split_f16_d64_p1");
	assert_string_equal(chosen_of_all(1, 8, 512, 64, true)->name, "split_f16_d64_p2_any");
	/* 100 blocks of 128 rows, or 64 of those with a bias */
	assert_int_equal(chosen_of_all(1, 99, 128, 64, false)->family, ATTN_SPLIT);
	assert_int_equal(chosen_of_all(1, 100, 128, 64, false)->family, ATTN_TMA);
	assert_int_equal(chosen_of_all(1, 25, 512, 64, false)->family, ATTN_TMA);
	assert_int_equal(chosen_of_all(1, 63, 128, 64, true)->family, ATTN_SPLIT);
	assert_int_equal(chosen_of_all(1, 64, 128, 64, true)->family, ATTN_TMA);
	/* those for D 128 only where all blocks run at once */
	assert_string_equal(chosen_of_all(1, 8, 512, 128, false)->name, "split_f16_d128_p2");
	assert_int_equal(chosen_of_all(1, 9, 512, 128, false)->family, ATTN_TMA);
	/* any number of queries, but for few of them where the call is not plain */
	assert_int_equal(chosen_of_all(1, 8, 16, 64, true)->family, ATTN_FEW);
	assert_int_equal(chosen_of_all(1, 8, 16, 64, false)->family, ATTN_SPLIT);
	assert_int_equal(chosen_of_all(32, 16, 4, 64, false)->family, ATTN_SPLIT);
	assert_int_equal(chosen_of_all(4, 32, 8, 128, false)->family, ATTN_TMA);
	assert_int_equal(chosen_of_all(1, 8, 17, 64, false)->family, ATTN_SPLIT);
	assert_int_equal(chosen_of_all(8, 192, 32, 64, false)->family, ATTN_SPLIT);
	assert_int_equal(chosen_of_all(8, 192, 33, 64, false)->family, ATTN_MMA);
	assert_string_equal(chosen_of_all(8, 192, 32, 48, true)->name, "mma_f16_d48_r64_any");
	assert_string_equal(chosen_of_all(4, 16, 32, 128, true)->name, "mma_f16_d128_r64_any");
	assert_int_equal(chosen_of_all(1, 8, 17, 256, false)->family, ATTN_MMA);
}

/* What a GPU without variants of its own is given: of plain calls the narrowest that fills it. */
static const char *chosen_portable(int arch, int heads, int queries, int D, bool bias, int offset)
{
	struct attn_args a = {.B = 1, .H = heads, .Sq = queries, .Sk = queries, .D = D, .Dv = D};
	const struct attn_tensor t = {
		.base = 4096, .stride = {(int64_t)heads * queries * D, (int64_t)queries * D, D, 1}};

	a.q = a.k = a.v = a.o = t;
	a.q.base += (uint64_t)offset;
	a.spec.scale = 1.0f;
	a.spec.window_left = a.spec.window_right = ATTN_NO_WINDOW;
	a.spec.window_value = -INFINITY;
	if (bias)
		a.spec.bias[0] = (struct attn_tensor){.base = 4096, .stride = {queries, 0, 0, 1}};
	return attn_select(&a, arch, NULL)->name;
}

static void test_select_portable(void **state)
{
	assert_string_equal(chosen_portable(80, 16, 2048, 64, false, 0), "mma_f16_d64_r128");
	assert_string_equal(chosen_portable(89, 16, 2048, 40, false, 0), "mma_f16_d48_r128");
	assert_string_equal(chosen_portable(90, 16, 2048, 80, false, 0), "mma_f16_d80_r128");
	assert_string_equal(chosen_portable(80, 16, 2048, 160, false, 0), "mma_f16_d160_r64");
	assert_string_equal(chosen_portable(75, 16, 2048, 64, false, 0), "wmma_f16_d64_r128");
	/* wide ones by how much shared memory there is, for a block and for two */
	assert_int_equal(attn_shared_of(80), 163 * 1024);
	assert_int_equal(attn_shared_of(86), 99 * 1024);
	assert_int_equal(attn_shared_of(101), 99 * 1024); /* not known */
	assert_int_equal(attn_shared_of(70), 64 * 1024);
	assert_string_equal(chosen_portable(75, 16, 2048, 256, false, 0), "wmma_f16_d256_r32");
	assert_string_equal(chosen_portable(80, 16, 2048, 192, false, 0), "mma_f16_d192_r128");
	assert_string_equal(chosen_portable(89, 16, 2048, 192, false, 0), "mma_f16_d192_r112");
	assert_string_equal(chosen_portable(80, 8, 1024, 192, false, 0), "mma_f16_d192_r64");
	assert_string_equal(chosen_portable(80, 16, 2048, 256, false, 0), "mma_f16_d256_r64");
	assert_string_equal(chosen_portable(86, 16, 2048, 256, false, 0), "mma_f16_d256_r112");
	assert_string_equal(chosen_portable(120, 16, 2048, 256, false, 0), "mma_f16_d256_r112");
	assert_string_equal(chosen_portable(86, 8, 64, 256, false, 0), "mma_f16_d256_r64");
	assert_string_equal(chosen_portable(80, 16, 2048, 256, true, 0), "wmma_f16_d256_r64");
	assert_string_equal(chosen_portable(80, 16, 2048, 256, false, 2), "wmma_f16_d256_r64");
	/* a bias, or rows that do not start on 16 bytes */
	assert_string_equal(chosen_portable(80, 16, 2048, 64, true, 0), "mma_f16_d64_r64_any");
	assert_string_equal(chosen_portable(80, 16, 2048, 64, false, 2), "mma_f16_d64_r64_any");
	/* few blocks */
	assert_string_equal(chosen_portable(80, 8, 1024, 64, false, 0), "mma_f16_d64_r64");
	assert_string_equal(chosen_portable(80, 8, 512, 64, false, 0), "mma_f16_d64_r32_any");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variants),     cmocka_unit_test(test_select),
		cmocka_unit_test(test_select_rows),  cmocka_unit_test(test_select_windows),
		cmocka_unit_test(test_select_two),   cmocka_unit_test(test_each_is_chosen),
		cmocka_unit_test(test_select_split), cmocka_unit_test(test_select_portable),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
