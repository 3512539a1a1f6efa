/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches kept ready: the same call is encoded once, any other byte makes it another call.
 */
#include "tests/cmocka.h"

#include <stdbool.h>
#include <string.h>

#include "shim/gpu/prepared.h"

static unsigned encoded;
static bool refuse;

/* A map tells which address it was made of, and when. */
static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
		       const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
		       const cuuint32_t *steps, CUtensorMapInterleave interleave,
		       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
		       CUtensorMapFloatOOBfill fill)
{
	(void)type, (void)rank, (void)sizes, (void)strides, (void)box, (void)steps;
	(void)interleave, (void)swizzle, (void)promotion, (void)fill;
	encoded++;
	memset(map, 0, sizeof(*map));
	memcpy(map, &address, sizeof(address));
	return refuse ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static const struct attn_device device = {
	.multiprocessors = 4, .cache_bytes = 1 << 20, .encode = encode};

static const struct attn_variant mapped = {.dtype = ATTN_F16,
					   .max_d = 64,
					   .rows_per_block = 128,
					   .threads = 128,
					   .needs = ATTN_NEEDS_ARCH | ATTN_NEEDS_MAPS,
					   .keys = 128};
static const struct attn_variant plain = {
	.dtype = ATTN_F16, .max_d = 64, .rows_per_block = 64, .threads = 128, .grid_x_factor = 1};

#define MAPS 3 /* Q, K, V */

static struct attn_tensor tensor(uint64_t base)
{
	return (struct attn_tensor){
		.base = base, .stride = {4 * 256 * 64, 256 * 64, 64, 1}, .dtype = ATTN_F16};
}

static struct attn_args call(uint64_t base)
{
	struct attn_args args;

	memset(&args, 0, sizeof(args));
	args.q = tensor(base);
	args.k = tensor(base + 0x100000);
	args.v = tensor(base + 0x200000);
	args.o = tensor(base + 0x300000);
	args.B = 2;
	args.H = 4;
	args.Sq = args.Sk = 256;
	args.D = args.Dv = 64;
	args.spec.scale = 0.125f;
	args.spec.window_left = args.spec.window_right = ATTN_NO_WINDOW;
	return args;
}

static int begin(void **state)
{
	prepared_forget();
	encoded = 0;
	refuse = false;
	return 0;
}

static void test_same(void **state)
{
	const struct attn_args one = call(0x10000000), other = call(0x20000000);
	const struct attn_launch *launch;
	uint64_t address;

	for (int i = 0; i < 3; i++) {
		launch = prepared_launch(&mapped, &one, &device, 0);
		assert_non_null(launch);
		assert_memory_equal(&launch->parameter.mapped.attn, &one, sizeof(one));
		memcpy(&address, &launch->parameter.mapped.map[ATTN_MAP_K], 8);
		assert_int_equal(address, one.k.base);
		launch = prepared_launch(&mapped, &other, &device, 0);
		memcpy(&address, &launch->parameter.mapped.map[ATTN_MAP_K], 8);
		assert_int_equal(address, other.k.base);
	}
	assert_int_equal(encoded, 2 * MAPS);
}

static void test_other(void **state)
{
	const struct attn_device larger = {
		.multiprocessors = 8, .cache_bytes = 1 << 20, .encode = encode};
	const struct attn_variant taller = {.dtype = ATTN_F16,
					    .max_d = 64,
					    .rows_per_block = 192,
					    .threads = 128,
					    .needs = ATTN_NEEDS_ARCH | ATTN_NEEDS_MAPS,
					    .keys = 128};
	const struct attn_args one = call(0x10000000);
	struct attn_args args = one;

	prepared_launch(&mapped, &one, &device, 0);
#define ANOTHER(variant, what, where, scratch)                                                     \
	do {                                                                                       \
		prepared_launch(&mapped, &one, &device, 0);                                        \
		encoded = 0;                                                                       \
		prepared_launch(variant, what, where, scratch);                                    \
		assert_int_equal(encoded, MAPS);                                                   \
	} while (0)
	args.spec.scale = 0.25f;
	ANOTHER(&mapped, &args, &device, 0);
	args = one;
	args.o.stride[2] = 128;
	ANOTHER(&mapped, &args, &device, 0);
	args = one;
	args.Sk = 255;
	ANOTHER(&mapped, &args, &device, 0);
	ANOTHER(&taller, &one, &device, 0);
	ANOTHER(&mapped, &one, &larger, 0);
	ANOTHER(&mapped, &one, &device, 0x30000000);
#undef ANOTHER
	prepared_forget();
	encoded = 0;
	prepared_launch(&mapped, &one, &device, 0);
	assert_int_equal(encoded, MAPS);
}

/* More calls than are kept: each is still launched as itself. */
static void test_many(void **state)
{
	for (int turn = 0; turn < 2; turn++)
		for (uint64_t i = 1; i <= 1000; i++) {
			const struct attn_args args = call(i << 22);
			const struct attn_launch *launch =
				prepared_launch(&mapped, &args, &device, 0);

			assert_memory_equal(&launch->parameter.mapped.attn, &args, sizeof(args));
		}
}

static void test_refused(void **state)
{
	const struct attn_args args = call(0x10000000);

	refuse = true;
	assert_null(prepared_launch(&mapped, &args, &device, 0));
	refuse = false;
	assert_non_null(prepared_launch(&mapped, &args, &device, 0));
}

static void test_without_maps(void **state)
{
	const struct attn_args args = call(0x10000000);
	const struct attn_launch *launch = prepared_launch(&plain, &args, &device, 0);

	assert_memory_equal(&launch->parameter.args, &args, sizeof(args));
	assert_int_equal(launch->grid[0], 4);
	assert_int_equal(encoded, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_same, begin),
		cmocka_unit_test_setup(test_other, begin),
		cmocka_unit_test_setup(test_many, begin),
		cmocka_unit_test_setup(test_refused, begin),
		cmocka_unit_test_setup(test_without_maps, begin),
	};

	return cmocka_run_group_tests_name("prepared", tests, NULL, NULL);
}
