/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameter blocks made by hand, by the sources of the kernels: what no program that was recorded
 * has, or what only one has.
 */
#include "tests/unit/block.h"

#include <string.h>

#include "shim/op/memory.h"
#include "shim/real/driver.h"

static void test_long_rows(void **state)
{
	static const struct block forward = {
		"_ZN2at6native43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6323cunn_"
		"SoftMaxForwardSmemILi8EN3c104HalfEfS4_NS1_22SoftMaxForwardEpilogueElEEvPT2_PKT0_"
		"T4_",
		{S(0, 96 * 2048 * 2), R(8, 96 * 2048 * 2)},
		{AT(16, 0), AT(20, 0x80000000)}};
	static const struct block backward = {
		"_ZN2at6native43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320cunn_"
		"SoftMaxBackwardILi4EN3c104HalfEffNS1_23SoftMaxBackwardEpilogueEEEvPT0_PKT2_SA_l",
		{S(0, 96 * 2048 * 2), R(8, 96 * 2048 * 4), R(16, 96 * 2048 * 4)},
		{AT(24, 0)}};
	static const struct block spatial = {
		"_ZN2at6native43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6327cunn_"
		"SpatialSoftMaxBackwardIfffNS1_23SoftMaxBackwardEpilogueEEEvPT_PKT1_SA_jjj",
		{S(0, 2 * 64 * 10 * 4), R(8, 2 * 64 * 10 * 4), R(16, 2 * 64 * 10 * 4)},
		{AT(24, 0), AT(32, 0xffffffff)}};
	const uint64_t a = CORE_ARENA, b = CORE_ARENA + 0x100000, c = CORE_ARENA + 0x300000;
	const int64_t columns = 2048;
	const unsigned sizes[3] = {2, 64, 10};

	core_begin();
	driver_resolve();
	check_rows(&forward, 3, (size_t[]){8, 8, 8}, (const void *[]){&a, &b, &columns});
	check_rows(&backward, 4, (size_t[]){8, 8, 8, 8}, (const void *[]){&a, &b, &c, &columns});
	check_rows(&spatial, 6, (size_t[]){8, 8, 8, 4, 4, 4},
		   (const void *[]){&a, &b, &c, &sizes[0], &sizes[1], &sizes[2]});
}

/* Older versions of PyTorch give the same name to a kernel that casts nothing: where the operands'
 * types should stand is padding. A type that its operand's steps do not fit is none. */
static void test_no_casts(void **state)
{
	static const char name[] =
		"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_"
		"13BinaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEEEEvRNS_"
		"18TensorIteratorBaseERKT_EUliE_EEviT1_";
	static const struct {
		unsigned char functor[4]; /* itself, types of the output and of both inputs */
		bool known[3];		  /* the widest number has 16 bytes */
	} cases[] = {{{0x7f, 0, 0, 0}, {false, false, false}},
		     {{0, 6, 6, 5}, {true, true, false}},
		     {{0, 7, 99, 6}, {false, false, true}},
		     {{0, 6, 3, 6}, {true, true, true}}};
	const unsigned size[1] = {32}, strides[3] = {4, 4, 4};
	const uint64_t at[3] = {CORE_ARENA, CORE_ARENA + 0x1000, CORE_ARENA + 0x2000};
	static unsigned char params[FUNCTION_MAX_BYTES];

	core_begin();
	driver_resolve();
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct op op = core_strided(name, 3, 1, size, strides, at, cases[i].functor, 4);
		const struct function *function = function_get(op.launch.function);
		struct access_list list;

		assert_true(function_read_params(function, &op.launch, params));
		assert_true(read_block(function, &op.launch, params, &list));
		assert_int_equal(list.count, 3);
		for (int k = 0; k < 3; k++) {
			assert_true(list.item[k].bounded);
			assert_int_equal(list.item[k].end,
					 at[k] + 31 * 4 + (cases[i].known[k] ? 4 : 16));
		}
	}
}

/* A scatter that is surely whole, in memory of less than two GiB, takes no more than there are
 * places to put it. */
static void test_masked_scatter(void **state)
{
	static const struct block scatter = {
		"_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_28launch_masked_scatter_"
		"kernelERKNS_10TensorBaseES4_S4_S4_ENKUlvE_clEvENKUlvE10_clEvEUlN3c104HalfEblE_"
		"St5arrayIPcLm4EEEEviT0_T1_",
		{R(8, 1000 * 2), S(24, 1000 * 2), R(32, 1000 * 2), R(40, 1000), R(48, 1000 * 8)},
		{AT(0, 0)}};
	const uint64_t source[2] = {CORE_ARENA, 0x527a0010};
	const uint64_t at[4] = {CORE_ARENA + 0x10000, CORE_ARENA + 0x10000, CORE_ARENA + 0x20000,
				CORE_ARENA + 0x30000};
	const int count = 1000;

	core_begin();
	driver_resolve();
	check_rows(&scatter, 3, (size_t[]){4, 16, 32}, (const void *[]){&count, source, at});
}

/* With another address at `where`. */
static void check_refused(const struct block *block, int where, uint64_t address)
{
	const struct function *function = function_get(launch_by_hand.launch.function);
	struct access_list list;

	memcpy(params_by_hand + where, &address, 8);
	if (read_block(function, &launch_by_hand.launch, params_by_hand, &list) || list.count)
		fail_msg("%s: read with %llx at %d", block->name, (unsigned long long)address,
			 where);
}

/* CUB's sort of one row of 100000 longs with as many longs; all by the parameters that its dispatch
 * gives. Buffers in which there is room for a further portion may be those of one. */
#define RADIX_SORT(kernel, behind) "_ZN14at_cuda_detail3cub6detail10radix_sort" kernel behind
#define LONGS_BY		   "INS1_5radix10policy_hubIlN2at4cuda3cub6detail10OpaqueTypeILi8EEEyE10Policy1000E"

static void test_radix(void **state)
{
	static const struct block tile = {
		RADIX_SORT("31DeviceRadixSortSingleTileKernel", LONGS_BY
			   "LNS0_9SortOrderE0ElSB_yNS1_21identity_decomposer_tEEEvPKT1_PSG_"
			   "PKT2_PSK_T3_iiT4_"),
		{R(0, 2000 * 8), S(8, 2000 * 8), R(16, 2000 * 8), S(24, 2000 * 8)},
		{AT(32, 0), AT(36, 1), AT(GRIDX, 2)}};
	static const struct block keys = {
		RADIX_SORT(
			"31DeviceRadixSortSingleTileKernel",
			"INS1_5radix10policy_hubI6__halfNS0_8NullTypeEyE10Policy1000ELNS0_"
			"9SortOrderE0ES6_S7_yNS1_21identity_decomposer_tEEEvPKT1_PSC_PKT2_PSG_T3_"
			"iiT4_"),
		{R(0, 2000 * 2), S(8, 2000 * 2)},
		{AT(32, 0), AT(36, 0x80000000)}};
	static const struct block counts = {
		RADIX_SORT("30DeviceRadixSortHistogramKernel", LONGS_BY
			   "LNS0_9SortOrderE0ElyNS1_21identity_decomposer_tEEEvPT2_PKT1_SG_"
			   "iiT3_"),
		{U(0, 8 * 256 * 8), R(8, 100000 * 8)},
		{AT(16, 0), AT(28, 0), AT(28, 65), AT(24, 0xffffffff)}};
	static const struct block sums = {
		RADIX_SORT("33DeviceRadixSortExclusiveSumKernel", LONGS_BY "yEEvPT0_"),
		{U(0, 8 * 256 * 8)},
		{AT(GRIDX, 17), AT(GRIDX, 0)}};
	static const struct block pass = {
		RADIX_SORT("29DeviceRadixSortOnesweepKernel", LONGS_BY
			   "LNS0_9SortOrderE0ElSB_yiiNS1_21identity_decomposer_tEEEvPT5_SH_"
			   "PT3_PKSI_PT1_PKSM_PT2_PKSQ_T4_iiT6_"),
		{U(0, 8 * 256 * 4), U(8, 4), R(24, 256 * 8), S(32, 100000 * 8), R(40, 100000 * 8),
		 S(48, 100000 * 8), R(56, 100000 * 8)},
		{AT(64, 0), AT(64, 7), AT(16, 0x1000), AT(GRIDX, 100001)}};
	static const struct block places = {
		"_ZN2at6native46_GLOBAL__N__e17e1519_13_SortStable_cu_f7bb90a127"
		"fill_reverse_indices_kernelEPliNS_4cuda6detail10IntDividerIjEE",
		{S(0, 100000 * 8)},
		{AT(8, 0), AT(8, 0xffffffff)}};
	const uint64_t at[7] = {CORE_ARENA,
				CORE_ARENA + 0x8000,
				CORE_ARENA + 0x10000,
				CORE_ARENA + 0x100000,
				CORE_ARENA + 0x200000,
				CORE_ARENA + 0x300000,
				CORE_ARENA + 0x400000};
	const uint64_t n = 100000, few = 2000, none = 0;
	const int items = 100000, bits[3] = {0, 64, 8};
	const unsigned divider[3] = {100000, 1, 17};
	const unsigned char empty = 0x5a;

	core_begin();
	driver_resolve();
	check_rows_in(
		1, &tile, 8, (size_t[]){8, 8, 8, 8, 8, 4, 4, 1},
		(const void *[]){&at[0], &at[3], &at[4], &at[5], &few, &bits[0], &bits[1], &empty});
	check_rows_in(
		1, &keys, 8, (size_t[]){8, 8, 8, 8, 8, 4, 4, 1},
		(const void *[]){&at[0], &at[3], &none, &none, &few, &bits[0], &bits[1], &empty});
	check_rows_in(264, &counts, 6, (size_t[]){8, 8, 8, 4, 4, 1},
		      (const void *[]){&at[0], &at[3], &n, &bits[0], &bits[1], &empty});
	check_rows_in(8, &sums, 1, (size_t[]){8}, (const void *[]){&at[0]});
	check_rows_in(98, &places, 3, (size_t[]){8, 4, 12},
		      (const void *[]){&at[3], &items, divider});
	check_rows_in(8, &pass, 12, (size_t[]){8, 8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 1},
		      (const void *[]){&at[0], &at[1], &none, &at[2], &at[3], &at[4], &at[5],
				       &at[6], &items, &bits[0], &bits[2], &empty});
	memory_add(1ull << 40, 3ull << 30, MEMORY_DEVICE, NULL);
	check_refused(&pass, 32, 1ull << 40);
	memory_remove(1ull << 40, 0);
	check_refused(&pass, 32, 1ull << 41); /* nobody's memory */
}

/* Rows that are too odd for the vectorized layer norm: 96 of 147 halves. */
static void test_odd_norms(void **state)
{
#define NORM "_ZN2at6native53_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_9c5ada8a"
	static const struct block moments = {
		NORM "24RowwiseMomentsCUDAKernelIN3c104HalfEfLb0EEEvlT0_PKT_PS5_S9_",
		{R(16, 96 * 147 * 2), S(24, 96 * 4), S(32, 96 * 4)},
		{AT(0, 0), AT(4, 0x80000000)}};
	static const struct block squares = {NORM
					     "24RowwiseMomentsCUDAKernelIffLb1EEEvlT0_PKT_PS3_S7_",
					     {R(16, 96 * 147 * 4), S(32, 96 * 4)},
					     {AT(0, 0)}};
	static const struct block norm = {
		NORM "26LayerNormForwardCUDAKernelIN3c104HalfEfLb0EEEvlPKT_PKT0_SA_S7_S7_PS5_",
		{R(8, 96 * 147 * 2), R(16, 96 * 4), R(24, 96 * 4), R(32, 147 * 2), R(40, 147 * 2),
		 S(48, 96 * 147 * 2)},
		{AT(0, 0), AT(4, 0x80000000)}};
	static const struct block rms = {
		NORM "26LayerNormForwardCUDAKernelIN3c108BFloat16EfLb1EEEvlPKT_PKT0_SA_S7_S7_PS5_",
		{R(8, 96 * 147 * 2), R(24, 96 * 4), R(32, 147 * 2), S(48, 96 * 147 * 2)},
		{AT(0, 0)}};
#undef NORM
	const uint64_t at[6] = {CORE_ARENA,	      CORE_ARENA + 0x10000, CORE_ARENA + 0x20000,
				CORE_ARENA + 0x30000, CORE_ARENA + 0x40000, CORE_ARENA + 0x50000};
	const int64_t columns = 147;
	const float eps = 1e-5f;

	core_begin();
	driver_resolve();
	for (int i = 0; i < 2; i++)
		check_rows(i ? &squares : &moments, 5, (size_t[]){8, 4, 8, 8, 8},
			   (const void *[]){&columns, &eps, &at[0], &at[1], &at[2]});
	for (int i = 0; i < 2; i++)
		check_rows(
			i ? &rms : &norm, 7, (size_t[]){8, 8, 8, 8, 8, 8, 8},
			(const void *[]){&columns, &at[0], &at[1], &at[2], &at[3], &at[4], &at[5]});
}

/* Six operands: a batch norm of [4,32,16,16] halves, channels apart, with statistics in fp32. */
static void test_many_operands(void **state)
{
	static const char name[] =
		"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZZZNS0_49_"
		"GLOBAL__"
		"N__0edc5583_16_Normalization_cu_5c38458722batch_norm_elementwiseERKNS_6TensorES6_"
		"RKSt8"
		"optionalIS4_ESA_S6_S6_ENKUlvE0_clEvENKUlvE2_clEvEUlN3c104HalfEffffE_EEvRNS_"
		"18TensorIteratorBaseERKT_EUliE_EEviT1_";
	const unsigned size[3] = {256, 32, 4};
	const unsigned strides[18] = {2, 2, 0, 0,     0,     0, 512, 512, 2,
				      2, 4, 4, 16384, 16384, 0, 0,   0,	  0};
	const uint64_t bytes[6] = {65536, 65536, 64, 64, 128, 128};
	const unsigned char functor[7] = {0x80, 5, 5, 5, 5, 6, 6};
	uint64_t at[6];
	const struct function *function;
	struct access_list list;
	struct op op;

	core_begin();
	driver_resolve();
	for (unsigned i = 0; i < 6; i++)
		at[i] = CORE_ARENA + 0x20000 * i;
	op = core_strided(name, 6, 3, size, strides, at, functor, sizeof(functor));
	function = function_get(op.launch.function);
	assert_true(function_read_params(function, &op.launch, params_by_hand));
	assert_true(read_block(function, &op.launch, params_by_hand, &list));
	assert_int_equal(list.count, 6);
	for (int i = 0; i < 6; i++) {
		assert_true(list.item[i].bounded);
		assert_int_equal(list.item[i].begin, at[i]);
		assert_int_equal(list.item[i].mode, i ? ACCESS_READ : ACCESS_WRITE);
		assert_int_equal(list.item[i].end - at[i], bytes[i]);
		assert_int_equal(list.item[i].sure_end - at[i], i ? 0 : bytes[0]);
	}
}

/* exp(x) - 1 of halves, and a comparison of longs with ints, as a model of 2026 launched them. */
static void test_functors(void **state)
{
	static const struct block less_one = {
		"_ZN2at6native29vectorized_elementwise_kernelILi8EZZZNS0_17expm1_kernel_cudaERNS_"
		"18TensorIteratorBaseEENKUlvE_clEvENKUlvE3_clEvEUlN3c108BFloat16EE_St5arrayIPcLm2EE"
		"EEviT0_T1_",
		{S(8, 1000 * 2), R(16, 1000 * 2)},
		{AT(0, 0)}};
	static const char compare[] =
		"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_50_GLOBAL__"
		"N__e50ef81d_17_CompareKernels_cu_8f1b29aa14CompareFunctorIlEEEEvRNS_"
		"18TensorIteratorBaseERKT_EUliE_EEviT1_";
	const unsigned size[2] = {384, 2}, strides[6] = {1, 8, 0, 384, 3072, 4};
	const uint64_t at[3] = {CORE_ARENA, CORE_ARENA + 0x10000, CORE_ARENA + 0x20000};
	const uint64_t bytes[3] = {768, 6144, 8};
	const unsigned char which[7] = {3, 0, 0, 0, 11, 4, 3}; /* less than; bools of longs, ints */
	const int count = 1000;
	const unsigned char empty = 0x5a;
	const struct function *function;
	struct access_list list;
	struct op op;

	core_begin();
	driver_resolve();
	check_rows(&less_one, 3, (size_t[]){4, 1, 16}, (const void *[]){&count, &empty, at});
	op = core_strided(compare, 3, 2, size, strides, at, which, sizeof(which));
	function = function_get(op.launch.function);
	assert_true(function_read_params(function, &op.launch, params_by_hand));
	assert_true(read_block(function, &op.launch, params_by_hand, &list));
	assert_int_equal(list.count, 3);
	for (int i = 0; i < 3; i++) {
		assert_true(list.item[i].bounded);
		assert_int_equal(list.item[i].mode, i ? ACCESS_READ : ACCESS_WRITE);
		assert_int_equal(list.item[i].end - at[i], bytes[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_rows),      cmocka_unit_test(test_no_casts),
		cmocka_unit_test(test_masked_scatter), cmocka_unit_test(test_radix),
		cmocka_unit_test(test_odd_norms),      cmocka_unit_test(test_many_operands),
		cmocka_unit_test(test_functors)};

	return CORE_MAIN("rules_hand", tests);
}
