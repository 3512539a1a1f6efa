/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of the test programs need to compile for a GPU and for the host.
 */
#ifndef FASHIM_APP_KERNELS_CUH
#define FASHIM_APP_KERNELS_CUH

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif
#include "tests/simgpu/cuda_host.h"
#ifndef __CUDACC__
#include "tests/simgpu/cuda_host_texture.h"
#endif

/* One that the driver finds by its name. */
#ifdef __CUDACC__
#define CONSTANT __constant__
#else
#define CONSTANT __attribute__((visibility("default")))
#endif

#define INDEX ((long long)blockIdx.x * blockDim.x + threadIdx.x)

#endif
