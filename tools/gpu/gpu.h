/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU for the commands that measure: the driver and libfashim_kernels.so, both opened by name at
 * run time, so that the command itself starts on any machine; one context and one stream.
 *
 * Calls are written as usual, behind the table that they come from: gpu->driver.cuMemAlloc(...),
 * gpu->kernels.fashim_kernels_launch(...).
 */
#ifndef FASHIM_GPU_H
#define FASHIM_GPU_H

#include "kernels/bench_abi.h"

#include <cuda.h>
#include <stdbool.h>

#define GPU_DRIVER_CALLS(CALL)                                                                     \
	CALL(cuInit)                                                                               \
	CALL(cuDriverGetVersion)                                                                   \
	CALL(cuDeviceGet)                                                                          \
	CALL(cuDeviceGetName)                                                                      \
	CALL(cuDeviceGetUuid)                                                                      \
	CALL(cuDeviceGetPCIBusId)                                                                  \
	CALL(cuDeviceGetAttribute)                                                                 \
	CALL(cuDevicePrimaryCtxRetain)                                                             \
	CALL(cuDevicePrimaryCtxRelease)                                                            \
	CALL(cuCtxSetCurrent)                                                                      \
	CALL(cuGetErrorString)                                                                     \
	CALL(cuStreamCreate)                                                                       \
	CALL(cuStreamDestroy)                                                                      \
	CALL(cuStreamSynchronize)                                                                  \
	CALL(cuStreamBeginCapture)                                                                 \
	CALL(cuStreamEndCapture)                                                                   \
	CALL(cuEventCreate)                                                                        \
	CALL(cuEventDestroy)                                                                       \
	CALL(cuEventRecord)                                                                        \
	CALL(cuEventSynchronize)                                                                   \
	CALL(cuEventElapsedTime)                                                                   \
	CALL(cuGraphInstantiateWithFlags)                                                          \
	CALL(cuGraphLaunch)                                                                        \
	CALL(cuGraphDestroy)                                                                       \
	CALL(cuGraphExecDestroy)                                                                   \
	CALL(cuGraphGetNodes)                                                                      \
	CALL(cuGraphNodeGetType)                                                                   \
	CALL(cuGraphKernelNodeGetParams)                                                           \
	CALL(cuMemAlloc)                                                                           \
	CALL(cuMemFree)                                                                            \
	CALL(cuMemcpyHtoD)                                                                         \
	CALL(cuMemcpyDtoH)                                                                         \
	CALL(cuMemsetD8)                                                                           \
	CALL(cuLaunchKernel)

/* Entry points that older drivers lack; NULL there. */
#define GPU_DRIVER_EXTRAS(CALL)                                                                    \
	CALL(cuFuncGetName)                                                                        \
	CALL(cuKernelGetName)

#define GPU_KERNEL_CALLS(CALL)                                                                     \
	CALL(fashim_kernels_open)                                                                  \
	CALL(fashim_kernels_error)                                                                 \
	CALL(fashim_kernels_layout)                                                                \
	CALL(fashim_kernels_name)                                                                  \
	CALL(fashim_kernels_present)                                                               \
	CALL(fashim_kernels_select)                                                                \
	CALL(fashim_kernels_prepare)                                                               \
	CALL(fashim_kernels_launch)                                                                \
	CALL(fashim_kernels_free)                                                                  \
	CALL(fashim_kernels_resources)                                                             \
	CALL(fashim_kernels_function)                                                              \
	CALL(fashim_kernels_reference)

#define GPU_MEMBER(name) __typeof__(name) *name;

struct gpu {
	struct gpu_driver {
		GPU_DRIVER_CALLS(GPU_MEMBER)
		GPU_DRIVER_EXTRAS(GPU_MEMBER)
	} driver;
	struct gpu_kernels {
		GPU_KERNEL_CALLS(GPU_MEMBER)
	} kernels;
	CUdevice device;
	CUcontext context;
	CUstream stream; /* all work goes here; in order with the null stream */
	int arch;	 /* compute capability * 10 */
	int multiprocessors;
	int64_t cache_bytes; /* second level */
	int cuda_version;    /* of the driver, 13000 for 13.0 */
	char name[128];
	char uuid[48];	 /* "GPU-…" */
	char bus_id[24]; /* "0000:01:00.0" */
	char *library;	 /* path of libfashim_kernels.so */
};

/* Opens device 0 (CUDA_VISIBLE_DEVICES chooses) and makes its primary context current on this
 * thread. library: libfashim_kernels.so; NULL: the one beside the command or in ../lib/fashim. 0;
 * -ENODEV without driver or GPU, -ENOENT without the library, -EIO; each with one line on stderr.
 * For gpu_close() in any case. */
int gpu_open(struct gpu *gpu, const char *library);
void gpu_close(struct gpu *gpu);

/* 0 for CUDA_SUCCESS; else one line on stderr of what failed and why, and -EIO (-ENOMEM where
 * memory was short). */
int gpu_check(const struct gpu *gpu, CUresult result, const char *what);

/* The same for what a call of libfashim_kernels.so gave, 0 or -errno. */
int gpu_check_kernels(const struct gpu *gpu, int result);

/* Is it the CPU stand-in of the tests? Its times mean nothing. */
bool gpu_is_simulated(const struct gpu *gpu);

#endif
