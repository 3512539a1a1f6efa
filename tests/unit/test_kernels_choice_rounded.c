/* SPDX-License-Identifier: Apache-2.0
 *
 * Which variant is chosen for a call whose scores or P are rounded as the program rounds them.
 */
#include "tests/unit/test_kernels_calls.h"
#include "tests/unit/test_kernels_case.h"

/* Is a variant of rounded.cu chosen that keeps x, where there is any? */
static bool keeps_x(const struct attn_args *a)
{
	const struct attn_variant *v = attn_select(a, 90, NULL);

	assert_non_null(v);
	assert_int_equal(v->family, ATTN_ROUNDED);
	return v->needs & ATTN_NEEDS_SHORT;
}

/* What rounded.cu would not compute as it is asked for. */
static void test_select_rounded(void **state)
{
	struct attn_args a = packed_call(64, 512);

	(void)state;
	a.spec.round_s = ATTN_ROUND_PRODUCT | ATTN_ROUND_WEIGHTS;
	a.spec.round_p = ATTN_F16;
	a.spec.alpha = 1;
	assert_true(keeps_x(&a)); /* in 16 bits, but for a factor */
	a.spec.mask =
		(struct attn_tensor){.base = 4096, .stride = {0, 0, a.Sk, 1}, .dtype = ATTN_BOOL};
	a.spec.mask_value = -INFINITY;
	assert_true(keeps_x(&a));
	a.spec.mask_value = INFINITY; /* the factor is no longer left to the exponential */
	assert_false(keeps_x(&a));
	a.spec.mask_value = -65504.0f;
	assert_false(keeps_x(&a));
}

/* Scores rounded alone: the same families as for other calls, of these never what is for plain ones
 * nor what rounds P as well. */
static void test_select_scores(void **state)
{
	static const struct {
		enum call_kind kind;
		int heads, queries, keys, D, family;
	} calls[] = {
		{KIND_PLAIN, 16, 2048, 2048, 64, ATTN_TMA},
		{KIND_CAUSAL, 32, 2048, 2048, 128, ATTN_TMA},
		{KIND_BIAS, 16, 2048, 2048, 64, ATTN_TMA},
		{KIND_MASK, 16, 2048, 2048, 128, ATTN_TMA},
		{KIND_BIASES, 16, 2048, 2048, 64, ATTN_TMA},
		{KIND_WIDE_BIASES, 16, 2048, 2048, 64, ATTN_SM90},
		{KIND_SINKS, 64, 2048, 2048, 64, ATTN_SM90},
		{KIND_PLAIN, 8, 256, 512, 64, ATTN_SPLIT},
		{KIND_PLAIN, 32, 1, 4096, 128, ATTN_DECODE},
		{KIND_BIAS, 32, 16, 4096, 64, ATTN_FEW},
		{KIND_PLAIN, 16, 2048, 2048, 256, ATTN_TMA},
	};
	uint8_t *available = all_available();

	(void)state;
	for (size_t n = 0; n < sizeof(calls) / sizeof(calls[0]); n++)
		for (int arch = 80; arch <= 90; arch += 10) {
			struct attn_args a =
				call_of(calls[n].kind, ATTN_BF16, calls[n].heads, calls[n].queries,
					calls[n].keys, calls[n].D, 0, 0);
			const struct attn_variant *v;

			a.spec.round_s = ATTN_ROUND_PRODUCT;
			v = attn_select_from(&a, arch, NULL, arch == 90 ? available : NULL);
			assert_non_null(v);
			assert_false(v->needs & ATTN_NEEDS_PLAIN);
			assert_int_not_equal(v->family, ATTN_ROUNDED);
			assert_int_not_equal(v->family, ATTN_ROUNDED_DECODE);
			assert_int_not_equal(v->family, ATTN_TWICE);
			if (arch == 90)
				assert_int_equal(v->family, calls[n].family);
		}
	free(available);
}

/* Where twice.cu takes a call whose P is rounded, and what it leaves to rounded.cu. */
static void test_select_twice(void **state)
{
	uint8_t *available = all_available();
	const struct attn_args whole = call_of(KIND_ROUNDED, ATTN_BF16, 32, 2048, 2048, 128, 0, 0);

	(void)state;
#define FAMILY(family_, ...)                                                                       \
	do {                                                                                       \
		struct attn_args a = whole;                                                        \
		__VA_ARGS__;                                                                       \
		const struct attn_variant *v = attn_select_from(&a, 90, NULL, available);          \
		assert_non_null(v);                                                                \
		assert_int_equal(v->family, family_);                                              \
	} while (0)
	FAMILY(ATTN_TWICE, );
	FAMILY(ATTN_TWICE, a.spec.window_right = 0);
	FAMILY(ATTN_TWICE, a.spec.bias[0] = ((struct attn_tensor){
				   .base = 4096, .stride = {0, 0, 2048, 1}, .dtype = ATTN_BF16}));
	FAMILY(ATTN_TWICE, a.spec.bias[0] = ((struct attn_tensor){
				   .base = 4096, .stride = {0, 2048, 0, 1}, .dtype = ATTN_BF16});
	       a.spec.bias[1] = a.spec.bias[0]);
	FAMILY(ATTN_TMA, a.spec.round_s = ATTN_ROUND_PRODUCT);
	FAMILY(ATTN_ROUNDED, a.Sq = 64);
	FAMILY(ATTN_TWICE, a.Sk = 65);
	FAMILY(ATTN_ROUNDED, a.Sk = 64);
	FAMILY(ATTN_ROUNDED, a.H = 4; a.Sk = 511); /* too few blocks */
	FAMILY(ATTN_TWICE, a.H = 4; a.Sk = 512);
	FAMILY(ATTN_ROUNDED, a.D = a.Dv = 136);
	FAMILY(ATTN_ROUNDED, a.q.stride[2] = a.q.stride[2] + 1);
	FAMILY(ATTN_ROUNDED, a.spec.window_right = 0; a.spec.window_value = -65504.0f);
	FAMILY(ATTN_ROUNDED, a.spec.window_right = 0; a.spec.empty_row = ATTN_EMPTY_MEAN);
	FAMILY(ATTN_ROUNDED, a.spec.softcap = 50.0f; a.spec.round_s |= ATTN_ROUND_CAPPED);
	FAMILY(ATTN_ROUNDED, a.spec.bias[0] = ((struct attn_tensor){
				     .base = 4096, .stride = {0, 0, 2048, 1}, .dtype = ATTN_F32}));
	FAMILY(ATTN_ROUNDED, a.spec.mask = ((struct attn_tensor){
				     .base = 4096, .stride = {0, 0, 2048, 1}, .dtype = ATTN_BOOL}));
	FAMILY(ATTN_ROUNDED, a.spec.sinks = ((struct attn_tensor){
				     .base = 4096, .stride = {0, 1, 0, 0}, .dtype = ATTN_BF16}));
	FAMILY(ATTN_ROUNDED, memset(available, 0, (size_t)attn_variant_total));
#undef FAMILY
	free(available);
}

/* Where P is rounded, tiles of rows are few, and keys many, clusters share these. */
static void test_select_parted(void **state)
{
	static const struct {
		int heads, queries, keys, D;
		const char *name[2]; /* with biases, too */
	} calls[] = {
		{2, 256, 4096, 128, {"rounded_bf16_d128_r64_p8", "rounded_bf16_d128_r64_p8"}},
		{8, 100, 1024, 32, {"rounded_bf16_d64_r16_p4", "rounded_bf16_d64_r16_p4"}},
		{6, 32, 1500, 64, {"rounded_bf16_d64_r16_p4", "rounded_bf16_d64_r64_p8"}},
		{2, 512, 512, 64, {"twice_bf16_d64", "twice_bf16_d64_two"}},
		{32, 2048, 2048, 64, {"twice_bf16_d64", "twice_bf16_d64_two"}},
		{2, 256, 4096, 192, {"rounded_bf16_d256_r16", "rounded_bf16_d256_r16"}},
	};
	uint8_t *available = all_available();

	(void)state;
	for (size_t n = 0; n < 2 * sizeof(calls) / sizeof(calls[0]); n++) {
		const enum call_kind kind = n % 2 ? KIND_ROUNDED_BIASES : KIND_ROUNDED;
		const struct attn_args a =
			call_of(kind, ATTN_BF16, calls[n / 2].heads, calls[n / 2].queries,
				calls[n / 2].keys, calls[n / 2].D, 0, 0);

		assert_string_equal(attn_select_from(&a, 90, NULL, available)->name,
				    calls[n / 2].name[n % 2]);
		assert_int_equal(attn_select(&a, 80, NULL)->grid_x_factor, 1);
	}
	free(available);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_select_rounded),
		cmocka_unit_test(test_select_scores),
		cmocka_unit_test(test_select_twice),
		cmocka_unit_test(test_select_parted),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
