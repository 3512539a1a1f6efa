/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel names as they stand in logs of real programs, whole and cut, and as people get to see
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tools/read/kernel_name.h"

static const char *const names[][2] = {
	{"_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_15CUDAFunctor_"
	 "addIN3c104HalfEEESt5arrayIPc",
	 "at::native::vectorized_elementwise_kernel<CUDAFunctor_add>"},
	{"_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_49_GLOBAL__N__d2ba64fb_16_"
	 "TensorCompare",
	 "at::native::vectorized_elementwise_kernel<TensorCompare>"},
	{"_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implIZZZNS0_23direct_copy_"
	 "kernel_",
	 "at::native::elementwise_kernel<direct_copy_kernel_>"},
	{"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c104HalfENS0_14func_wrapper_tIS4_"
	 "NS0_13M",
	 "at::native::reduce_kernel<ReduceOp>"},
	{"_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c19CatArrayBatchedCopyINS1_"
	 "10OpaqueTypeIL",
	 "at::native::CatArrayBatchedCopy"},
	{"_ZN3cub43CUB_300102_SM_750_800_860_890_900_1000_"
	 "12006detail6reduce36DeviceFixedSizeSegmentedRed",
	 "cub::detail::reduce::DeviceFixedSizeSegmentedRed"},
	{"_Z2k1PKffPK6__halfPfi writes something else", "k1 writes something else"},
	{"cublasGemmStridedBatchedEx", "cublasGemmStridedBatchedEx"},
	{"two functions explain the data", "two functions explain the data"},
	{"_Z", "_Z"},
	{"_ZN", "_ZN"},
	{"_ZN9", "_ZN9"},
	{"_ZN99999999999999999999x", "x"},
	{"_ZN2", "_ZN2"},
	{"_ZTV3abc", "_ZTV3abc"},
	{"_ZN12_GLOBAL__N_1", "_ZN12_GLOBAL__N_1"},
	{"_ZN12_GLOBAL__N_15sumupE", "sumup"},
	{"_ZN1aIL", "a"},
	{"", ""},
};

static void names_are_readable(void **state)
{
	char text[200];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_string_equal(kernel_name(names[i][0], text, sizeof(text)), names[i][1]);
}

/* Cut anywhere, or given little room, it stays within both. */
static void every_cut_is_survived(void **state)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		for (size_t length = 0; length <= strlen(names[i][0]); length++) {
			char *cut = strndup(names[i][0], length);

			assert_non_null(cut);
			for (size_t room = 1; room < 40; room += 3) {
				char *text = malloc(room);

				assert_non_null(text);
				assert_true(strlen(kernel_name(cut, text, room)) < room);
				free(text);
			}
			free(cut);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_readable),
		cmocka_unit_test(every_cut_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
