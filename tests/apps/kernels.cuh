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

#define INDEX ((long long)blockIdx.x * blockDim.x + threadIdx.x)

#endif
