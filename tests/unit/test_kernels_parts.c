/* SPDX-License-Identifier: Apache-2.0
 *
 * When decode.cu and few.cu are chosen, and in how many parts.
 */
#include "kernels/attention.h"
#include "kernels/decode_variants.h"
#include "kernels/few_variants.h"
#include "kernels/launch.h"
#include "tests/unit/test_kernels_case.h"

#include "tests/cmocka.h"

static bool is_decode(const struct attn_variant *v)
{
	return v->family == ATTN_DECODE;
}

static bool is_few(const struct attn_variant *v)
{
	return v->family == ATTN_FEW;
}

static const struct attn_variant *chosen(int arch, int dtype, int batch, int heads, int queries,
					 int length, int D)
{
	struct attn_args a = {.B = batch, .H = heads, .Sq = queries, .Sk = length, .D = D, .Dv = D};

	a.q.dtype = a.k.dtype = a.v.dtype = a.o.dtype = dtype;
	a.k.stride[1] = a.v.stride[1] = (int64_t)length * D;
	return attn_select(&a, arch, NULL);
}

/* As many parts as make 128 blocks, none without keys of its own. */
static void check_parts(const struct attn_variant *v, int tiles, int length, int step)
{
	const int parts = v->grid_x_factor, fewer = is_decode(v) && parts == 4 ? 1 : parts / 2;

	assert_int_equal(v->min_arch, parts > 1 ? 90 : 80);
	assert_true(parts == 1 || fewer * step < length);
	assert_true(parts == 1 || tiles * fewer < 128);
	assert_true(parts == 8 || tiles * parts >= 128 || parts * step >= length);
}

static void test_choice(void **state)
{
	static const int keys[] = {1, 7, 64, 197, 500, 2049, 4096};
	const struct attn_variant *v;

	for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++)
		for (int D = 1; D <= 256; D++)
			for (int heads = 1; heads < 2000; heads *= 3)
				for (size_t k = 0; k < sizeof(keys) / sizeof(*keys); k++) {
					const int length = keys[k];

					v = chosen(90, dtype, 1, heads, 1, length, D);
					assert_true(v && is_decode(v) && v->dtype == dtype);
					assert_true(v->max_d >= D &&
						    (v->max_d == 64 || v->max_d / 2 < D));
					check_parts(v, heads, length,
						    DECODE_KEYS(v->max_d, attn_dtype_size(dtype)));
					v = chosen(80, dtype, 1, heads, 1, length, D);
					assert_true(v && is_decode(v) && v->grid_x_factor == 1);
					if (D > 128 || dtype == ATTN_F32)
						continue;
					v = chosen(90, dtype, 1, heads, 16, length, D);
					assert_true(v && is_few(v) && v->dtype == dtype);
					check_parts(v, heads, length, FEW_KEYS(v->max_d));
				}
	/* as measured */
	assert_int_equal(chosen(90, ATTN_F16, 1, 32, 1, 4096, 128)->grid_x_factor, 4);
	assert_int_equal(chosen(90, ATTN_F16, 1, 32, 1, 32768, 128)->grid_x_factor, 4);
	assert_int_equal(chosen(90, ATTN_F16, 16, 8, 1, 2048, 64)->grid_x_factor, 1);
	assert_int_equal(chosen(90, ATTN_F16, 1, 8, 1, 4096, 64)->grid_x_factor, 8);
	assert_int_equal(chosen(90, ATTN_F16, 1, 16, 1, 1024, 64)->grid_x_factor, 4);
	assert_int_equal(chosen(90, ATTN_F16, 1, 32, 2, 1024, 128)->grid_x_factor, 4);
	assert_int_equal(chosen(90, ATTN_F16, 2, 32, 2, 2048, 64)->grid_x_factor, 1);
	assert_int_equal(chosen(90, ATTN_F16, 16, 8, 4, 2048, 64)->grid_x_factor, 1);
	assert_int_equal(chosen(90, ATTN_F16, 1, 32, 16, 4096, 128)->grid_x_factor, 4);

	/* of fp32, wherever a program multiplies by vectors */
	assert_true(is_decode(chosen(90, ATTN_F32, 1, 8, 2, 500, 64)));
	assert_true(is_decode(chosen(80, ATTN_F32, 1, 8, 2, 500, 256)));
	assert_true(is_decode(chosen(90, ATTN_F32, 1, 8, 4, 500, 64)));
	assert_int_equal(chosen(90, ATTN_F32, 1, 8, 5, 500, 64)->family, ATTN_F32_ANY);
	assert_null(chosen(75, ATTN_F32, 1, 8, 1, 500, 64));

	assert_true(is_decode(chosen(90, ATTN_F16, 1, 8, 2, 500, 64)));
	assert_true(is_few(chosen(90, ATTN_F16, 1, 8, 3, 500, 64)));
	assert_true(is_decode(chosen(90, ATTN_F16, 1, 8, 4, 500, 256)));
	assert_int_equal(chosen(90, ATTN_F16, 1, 8, 5, 500, 256)->family, ATTN_WMMA);
	assert_int_equal(chosen(90, ATTN_F16, 1, 8, 17, 500, 64)->family, ATTN_MMA);
	assert_int_equal(chosen(75, ATTN_F16, 1, 8, 1, 500, 64)->family, ATTN_WMMA);
	assert_null(chosen(90, ATTN_F16, 1, 8, 1, 500, 257));
}

/* Heads that share K and V: a tile holds rows of as many as fit. */
static void test_choice_shared(void **state)
{
	struct attn_args a = {.B = 1, .H = 4, .Sq = 1, .Sk = 4096, .D = 64, .Dv = 64};

	assert_true(is_decode(attn_select(&a, 90, NULL)));
	a.H = 5;
	assert_true(is_few(attn_select(&a, 90, NULL)));
	a.q.dtype = a.k.dtype = a.v.dtype = a.o.dtype = ATTN_F32; /* there is no tile of fp32 */
	assert_true(is_decode(attn_select(&a, 90, NULL)));
	a.q.dtype = a.k.dtype = a.v.dtype = a.o.dtype = ATTN_F16;
	a.H = 160;
	assert_int_equal(attn_select(&a, 90, NULL)->grid_x_factor, 8);
	a.B = 13; /* 130 tiles */
	assert_int_equal(attn_select(&a, 90, NULL)->grid_x_factor, 1);
}

/* decode.cu has one factor for each key: where one stands for several, as for an image's rows,
 * others take the call. */
static void test_scales_folded(void **state)
{
	struct attn_args a = {.B = 1, .H = 4, .Sq = 1, .Sk = 64, .D = 64, .Dv = 64};
	const struct attn_variant *v;

	a.spec.scales =
		(struct attn_tensor){.base = 256, .stride = {0, 0, 64, 1}, .dtype = ATTN_F16};
	assert_true(is_decode(attn_select(&a, 90, NULL)));
	a.spec.scales.columns = 8;
	for (int dtype = ATTN_F16; dtype <= ATTN_F32; dtype++) {
		a.q.dtype = a.k.dtype = a.v.dtype = a.o.dtype = dtype;
		v = attn_select(&a, 90, NULL);
		assert_true(v && !is_decode(v) && !is_few(v));
	}
}

/* Clusters of decode.cu and rounded_decode.cu are balanced: no others were measured. */
static void test_policy(void **state)
{
	for (int n = 0; n < attn_variant_total; n++) {
		const struct attn_variant *v = &attn_variants[n];

		assert_int_equal(attn_launch_policy(v),
				 (is_decode(v) || v->family == ATTN_ROUNDED_DECODE) &&
						 v->grid_x_factor > 1
					 ? CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING
					 : CU_CLUSTER_SCHEDULING_POLICY_DEFAULT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_choice_shared),
		cmocka_unit_test(test_scales_folded),
		cmocka_unit_test(test_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
