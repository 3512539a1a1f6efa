/* SPDX-License-Identifier: Apache-2.0
 *
 * What is made of the program's masks for the attention kernels: slopes, complements, flags.
 */
#include "kernels/attention.h"
#include "kernels/complement.h"
#include "tests/unit/test_kernels_launch.h"

#include <math.h>
#include <string.h>
#include "tests/cmocka.h"

/* ---- slopes ---------------------------------------------------------------------------------- */

/* From an array, in each type, and from none; as many heads as ALiBi's second progression needs. */
static void test_slopes(void **state)
{
	enum { SEQUENCES = 2, HEADS = 6, KEYS = SLOPES_THREADS + 44, APART = 3 };
	static const float usual[HEADS] = {0x1p-2f, 0x1p-4f, 0x1p-6f, 0x1p-8f, 0x1p-1f, 0x1p-3f};
	static float from[SEQUENCES * HEADS * APART], to[SEQUENCES][HEADS][KEYS];

	for (int dtype = ATTN_F16; dtype <= ATTN_F32 + 1; dtype++) {
		const bool computed = dtype > ATTN_F32;
		struct slopes_args args = {.out = (uint64_t)(uintptr_t)to,
					   .B = computed ? 1 : SEQUENCES,
					   .H = HEADS,
					   .Sk = KEYS,
					   .origin = KEYS - 9,
					   .first = 4,
					   .most = 8};

		args.slopes = (struct attn_tensor){.stride = {HEADS * APART, APART, 0, 0},
						   .dtype = dtype};
		if (!computed)
			args.slopes.base = (uint64_t)(uintptr_t)from;
		for (int n = 0; n < SEQUENCES * HEADS && !computed; n++)
			number_store((char *)from + n * APART * attn_dtype_size(dtype), dtype,
				     n * 0.125);
		memset(to, 0, sizeof(to));
		launch_grid("fashim_slopes", (unsigned[3]){2, HEADS, (unsigned)args.B},
			    SLOPES_THREADS, &args, sizeof(args));
		for (int n = 0; n < args.B * HEADS; n++)
			for (int j = 0; j < KEYS; j++)
				assert_true(to[n / HEADS][n % HEADS][j] ==
					    (computed ? usual[n] : (float)n * 0.125f) *
						    (float)(j - KEYS + 9));
	}
}

/* ---- complements of masks ---------------------------------------------------------------------
 */

/* What a mask of any number hides by, in the type in which it is added. */
static void test_complement(void **state)
{
	enum { COUNT = 700 };
	static unsigned char from[4 * COUNT], to[4 * (COUNT + 1)];
	static const double mask[4] = {1, 0, 0.5, 0x1p-9};

	for (int in = ATTN_F16; in <= ATTN_F32; in++)
		for (int out = ATTN_F16; out <= ATTN_F32; out++) {
			const double weight = out == ATTN_BF16 ? -9984 : -10000;
			/* 1 - 2^-9 rounds to 1 in bf16 only; the product, to the type */
			const double expected[4] = {0, weight, weight / 2,
						    out == ATTN_F32   ? -10000 * (1 - 0x1p-9)
						    : out == ATTN_F16 ? -9984
								      : weight};
			struct complement_args args = {.in = (uint64_t)(uintptr_t)from,
						       .out = (uint64_t)(uintptr_t)to,
						       .count = COUNT,
						       .in_dtype = in,
						       .out_dtype = out,
						       .weight = (float)weight};

			for (int n = 0; n < COUNT; n++)
				number_store(from + n * attn_dtype_size(in), in, mask[n % 4]);
			memset(to, 0x55, sizeof(to));
			launch("fashim_complement", 2, COMPLEMENT_THREADS, &args, sizeof(args));
			for (int n = 0; n < COUNT; n++)
				assert_true(number_load(to + n * attn_dtype_size(out), out) ==
					    expected[n % 4]);
			assert_int_equal(to[COUNT * attn_dtype_size(out)], 0x55);
		}
}

/* Numbers of any type, the halves of a long one apart; and numbers that are not to be too low. */
static void test_flags(void **state)
{
	enum { COUNT = 70 };
	static const int types[] = {ATTN_BOOL, ATTN_I32,  ATTN_F64, ATTN_F32,
				    ATTN_F16,  ATTN_BF16, ATTN_ONE, ATTN_I8};
	static int64_t from[COUNT];
	static float to[COUNT];

	for (int t = 0; t < 8; t++)
		for (int flags = COMPLEMENT_KEEPS; flags <= COMPLEMENT_HIDES; flags++) {
			const int width = attn_dtype_size(types[t]);
			struct complement_args args = {.in = (uint64_t)(uintptr_t)from,
						       .out = (uint64_t)(uintptr_t)to,
						       .count = COUNT,
						       .in_dtype = types[t],
						       .out_dtype = ATTN_F32,
						       .weight = -65504,
						       .flags = flags};

			memset(from, 0, sizeof(from));
			for (int n = 0; n < COUNT; n += 3) /* each time another byte of it */
				((unsigned char *)from)[n * width + n % width] = 1;
			for (int n = 1; n < COUNT && types[t] >= ATTN_ONE; n += 3)
				((unsigned char *)from)[n] = types[t] == ATTN_ONE ? 3 : 0xff;
			launch("fashim_complement", 2, COMPLEMENT_THREADS, &args, sizeof(args));
			for (int n = 0; n < COUNT; n++)
				assert_true(
					to[n] ==
					((n % 3 == 0) == (flags == COMPLEMENT_KEEPS) ? 0 : -65504));
		}
}

/* A window beside them: what either hides, for each query, of flags that lie by strides. */
static void test_flags_beyond(void **state)
{
	enum { BATCHES = 2, HEADS = 3, QUERIES = 5, KEYS = 7, ROW = 9 };
	static unsigned char from[BATCHES * QUERIES * ROW]; /* [B,1,Sq,Sk], then [1,H,1,Sk] */
	float to[BATCHES * HEADS * QUERIES * KEYS + 1];
	struct complement_args args = {.in = (uint64_t)(uintptr_t)from,
				       .out = (uint64_t)(uintptr_t)to,
				       .in_dtype = ATTN_BOOL,
				       .out_dtype = ATTN_F32,
				       .weight = -65504,
				       .flags = COMPLEMENT_KEEPS,
				       .rows = QUERIES,
				       .keys = KEYS,
				       .first = 2 - 3, /* a shift of 2, three keys more */
				       .last = 2};

	for (int n = 0; n < BATCHES * QUERIES * ROW; n++)
		from[n] = n * 7 % 5 < 3;
	for (int each = 0; each < 2; each++) {
		const int64_t stride[2][4] = {{QUERIES * ROW, 0, ROW, 1}, {0, ROW, 0, 1}};
		const int heads = each ? HEADS : 1, batches = each ? 1 : BATCHES;

		memcpy(args.stride, stride[each], sizeof(args.stride));
		args.heads = heads;
		args.count = batches * heads * QUERIES * KEYS;
		to[args.count] = 7;
		launch("fashim_complement", 2, COMPLEMENT_THREADS, &args, sizeof(args));
		for (int n = 0; n < args.count; n++) {
			const int j = n % KEYS, i = n / KEYS % QUERIES, z = n / KEYS / QUERIES;
			const bool shown = j <= i + 2 && j >= i - 1 &&
					   from[each ? z * ROW + j : (z * QUERIES + i) * ROW + j];

			assert_true(to[n] == (shown ? 0 : -65504));
		}
		assert_true(to[args.count] == 7);
	}
}

static void test_floor(void **state)
{
	static const float from[4] = {-INFINITY, 3, NAN, -0x1.fffffep127f};
	float to[5] = {0, 0, 0, 0, 7};
	struct complement_args args = {.in = (uint64_t)(uintptr_t)from,
				       .out = (uint64_t)(uintptr_t)to,
				       .count = 4,
				       .in_dtype = ATTN_F32,
				       .out_dtype = ATTN_F32,
				       .weight = -0x1.fffffep127f,
				       .flags = COMPLEMENT_FLOORS};

	launch("fashim_complement", 1, COMPLEMENT_THREADS, &args, sizeof(args));
	assert_true(to[0] == from[3] && to[1] == 3 && isnan(to[2]) && to[3] == from[3]);
	assert_true(to[4] == 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slopes), cmocka_unit_test(test_complement),
		cmocka_unit_test(test_flags),  cmocka_unit_test(test_flags_beyond),
		cmocka_unit_test(test_floor),
	};

	return cmocka_run_group_tests(tests, kernels_open, NULL);
}
