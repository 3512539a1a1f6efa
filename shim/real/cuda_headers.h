/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.h of toolkits from 12.4 on: what newer ones declare and the shim names is declared here for
 * older ones. Whether a driver has it is another matter (driver_calls.def). `make toolkits`
 * compiles the shim against each.
 */
#ifndef FASHIM_CUDA_HEADERS_H
#define FASHIM_CUDA_HEADERS_H

#include <cuda.h>

#if CUDA_VERSION < 12050
CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *library, CUkernel kernel);
#define CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ((CUlaunchAttributeID)14)
#endif
#if CUDA_VERSION < 12080
CUresult CUDAAPI cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end);
#endif

#endif
