/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory set to a value.
 */
#include "shim/hook/hook_driver.h"

static void fill(struct op *op, CUstream stream, CUdeviceptr target, size_t pitch, size_t width,
		 size_t height)
{
	op->kind = OP_FILL;
	op->stream = stream;
	op->fill.target.base = target;
	op->fill.target.bytes = width && height ? (height - 1) * pitch + width : 0;
	op->fill.exact = height <= 1 || pitch == width;
}

#define FILL(function, element, per_thread)                                                        \
	EXPORT CUresult function(CUdeviceptr target, element value, size_t count)                  \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (target, value, count), flow_watching(),                \
				 fill(&op, hook_stream(NULL, per_thread), target, 0,               \
				      count * sizeof(element), 1));                                \
	}
#define FILL_ASYNC(function, element, per_thread)                                                  \
	EXPORT CUresult function(CUdeviceptr target, element value, size_t count, CUstream stream) \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (target, value, count, stream), flow_watching(),        \
				 fill(&op, hook_stream(stream, per_thread), target, 0,             \
				      count * sizeof(element), 1));                                \
	}
#define FILL_2D(function, element, per_thread)                                                     \
	EXPORT CUresult function(CUdeviceptr target, size_t pitch, element value, size_t width,    \
				 size_t height)                                                    \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (target, pitch, value, width, height), flow_watching(), \
				 fill(&op, hook_stream(NULL, per_thread), target, pitch,           \
				      width * sizeof(element), height));                           \
	}
#define FILL_2D_ASYNC(function, element, per_thread)                                               \
	EXPORT CUresult function(CUdeviceptr target, size_t pitch, element value, size_t width,    \
				 size_t height, CUstream stream)                                   \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (target, pitch, value, width, height, stream),          \
				 flow_watching(),                                                  \
				 fill(&op, hook_stream(stream, per_thread), target, pitch,         \
				      width * sizeof(element), height));                           \
	}

FILL(cuMemsetD8_v2, unsigned char, LEGACY)
FILL(cuMemsetD8_v2_ptds, unsigned char, PER_THREAD)
FILL(cuMemsetD16_v2, unsigned short, LEGACY)
FILL(cuMemsetD16_v2_ptds, unsigned short, PER_THREAD)
FILL(cuMemsetD32_v2, unsigned, LEGACY)
FILL(cuMemsetD32_v2_ptds, unsigned, PER_THREAD)
FILL_ASYNC(cuMemsetD8Async, unsigned char, LEGACY)
FILL_ASYNC(cuMemsetD8Async_ptsz, unsigned char, PER_THREAD)
FILL_ASYNC(cuMemsetD16Async, unsigned short, LEGACY)
FILL_ASYNC(cuMemsetD16Async_ptsz, unsigned short, PER_THREAD)
FILL_ASYNC(cuMemsetD32Async, unsigned, LEGACY)
FILL_ASYNC(cuMemsetD32Async_ptsz, unsigned, PER_THREAD)
FILL_2D(cuMemsetD2D8_v2, unsigned char, LEGACY)
FILL_2D(cuMemsetD2D8_v2_ptds, unsigned char, PER_THREAD)
FILL_2D(cuMemsetD2D16_v2, unsigned short, LEGACY)
FILL_2D(cuMemsetD2D16_v2_ptds, unsigned short, PER_THREAD)
FILL_2D(cuMemsetD2D32_v2, unsigned, LEGACY)
FILL_2D(cuMemsetD2D32_v2_ptds, unsigned, PER_THREAD)
FILL_2D_ASYNC(cuMemsetD2D8Async, unsigned char, LEGACY)
FILL_2D_ASYNC(cuMemsetD2D8Async_ptsz, unsigned char, PER_THREAD)
FILL_2D_ASYNC(cuMemsetD2D16Async, unsigned short, LEGACY)
FILL_2D_ASYNC(cuMemsetD2D16Async_ptsz, unsigned short, PER_THREAD)
FILL_2D_ASYNC(cuMemsetD2D32Async, unsigned, LEGACY)
FILL_2D_ASYNC(cuMemsetD2D32Async_ptsz, unsigned, PER_THREAD)
