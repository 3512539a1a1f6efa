/* SPDX-License-Identifier: Apache-2.0
 *
 * A program without the CUDA runtime: linked to libcuda and to cuBLAS directly.
 *
 *     linked_driver OUT [CHAINS]
 */
#include "driver_app.h"

int main(int argc, char **argv)
{
	static const struct api api = {
#define LINKED(name) .name = name,
		DRIVER_FUNCTIONS(LINKED) BLAS_FUNCTIONS(LINKED)
#undef LINKED
	};

	return single_chain_program(&api, argc, argv);
}
