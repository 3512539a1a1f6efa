/* SPDX-License-Identifier: Apache-2.0
 *
 * A program without the CUDA runtime: linked to libcuda and to cuBLAS directly.
 *
 *     linked_driver OUT [CHAINS]
 *
 * Built with the address sanitizer, too (linked_driver_asan), its runtime within.
 */
#include "driver_app.h"

#ifdef __SANITIZE_ADDRESS__
const char *__asan_default_options(void);

/* The driver wants addresses that the sanitizer would keep empty, and never gives all back. */
const char *__asan_default_options(void)
{
	return "protect_shadow_gap=0:detect_leaks=0";
}
#endif

int main(int argc, char **argv)
{
	static const struct api api = {
#define LINKED(name) .name = name,
		DRIVER_FUNCTIONS(LINKED) BLAS_FUNCTIONS(LINKED)
#undef LINKED
	};

	return single_chain_program(&api, argc, argv);
}
