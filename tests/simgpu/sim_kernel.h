/* SPDX-License-Identifier: Apache-2.0
 *
 * How a kernel that was compiled for the host is found and run.
 *
 * A .cu file built for the host becomes part of an ordinary shared object. Each kernel in it that
 * SIM_KERNEL(name) names (a no-op for nvcc) is exported as `const struct sim_kernel
 * sim_kernel_<name>`. The simulated driver loads the object, looks the symbol up and calls run.
 */
#ifndef FASHIM_SIM_KERNEL_H
#define FASHIM_SIM_KERNEL_H

#include <stddef.h>

/* The same of its parameters where nobody asks the driver: sim_layout_<name>. */
#define SIM_PARAMS 64
struct sim_layout {
	unsigned count;
	unsigned short offset[SIM_PARAMS], size[SIM_PARAMS];
};

struct sim_kernel {
	const char *name;
	unsigned param_count;
	const size_t *param_offset; /* as cuFuncGetParamInfo gives them */
	const size_t *param_size;
	/* Runs the whole grid to its end. params[i] points at parameter i. 0, or -1 where the
	 * launch is not possible (too many threads or bytes). */
	int (*run)(const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
		   void **params);
};

#endif
