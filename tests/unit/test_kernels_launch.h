/* SPDX-License-Identifier: Apache-2.0
 *
 * One launch of a kernel of the host build that takes its arguments as one struct.
 */
#ifndef FASHIM_TEST_KERNELS_LAUNCH_H
#define FASHIM_TEST_KERNELS_LAUNCH_H

#include "tests/simgpu/sim_kernel.h"
#include "tests/unit/test_kernels_case.h"

#include <dlfcn.h>
#include <stdio.h>
#include "tests/cmocka.h"

static inline void launch_grid(const char *name, const unsigned grid[3], unsigned threads,
			       void *args, size_t size)
{
	char symbol[64];
	const struct sim_kernel *k;
	void *params[1] = {args};

	snprintf(symbol, sizeof(symbol), "sim_kernel_%s", name);
	k = dlsym(kernels, symbol);
	assert_non_null(k);
	assert_int_equal(k->param_size[0], size);
	assert_int_equal(k->run(grid, (unsigned[3]){threads, 1, 1}, 0, params), 0);
}

static inline void launch(const char *name, unsigned blocks, unsigned threads, void *args,
			  size_t size)
{
	launch_grid(name, (unsigned[3]){blocks, 1, 1}, threads, args, size);
}

#endif
