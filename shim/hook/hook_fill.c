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

#define FILL_HOOK(function, per_thread, parameters, arguments, stream, pitch, bytes, rows)         \
	DRIVER_HOOK(function, parameters, arguments, flow_watching(),                              \
		    fill(&op, hook_stream(stream, per_thread), target, pitch, bytes, rows))
#define FILL(function, per_thread, element)                                                        \
	FILL_HOOK(function, per_thread, (CUdeviceptr target, element value, size_t count),         \
		  (target, value, count), NULL, 0, count * sizeof(element), 1)
#define FILL_ASYNC(function, per_thread, element)                                                  \
	FILL_HOOK(function, per_thread,                                                            \
		  (CUdeviceptr target, element value, size_t count, CUstream stream),              \
		  (target, value, count, stream), stream, 0, count * sizeof(element), 1)
#define FILL_2D(function, per_thread, element)                                                     \
	FILL_HOOK(function, per_thread,                                                            \
		  (CUdeviceptr target, size_t pitch, element value, size_t width, size_t height),  \
		  (target, pitch, value, width, height), NULL, pitch, width * sizeof(element),     \
		  height)
#define FILL_2D_ASYNC(function, per_thread, element)                                               \
	FILL_HOOK(function, per_thread,                                                            \
		  (CUdeviceptr target, size_t pitch, element value, size_t width, size_t height,   \
		   CUstream stream),                                                               \
		  (target, pitch, value, width, height, stream), stream, pitch,                    \
		  width * sizeof(element), height)

BOTH(FILL, cuMemsetD8_v2, ptds, unsigned char)
BOTH(FILL, cuMemsetD16_v2, ptds, unsigned short)
BOTH(FILL, cuMemsetD32_v2, ptds, unsigned)
BOTH(FILL_ASYNC, cuMemsetD8Async, ptsz, unsigned char)
BOTH(FILL_ASYNC, cuMemsetD16Async, ptsz, unsigned short)
BOTH(FILL_ASYNC, cuMemsetD32Async, ptsz, unsigned)
BOTH(FILL_2D, cuMemsetD2D8_v2, ptds, unsigned char)
BOTH(FILL_2D, cuMemsetD2D16_v2, ptds, unsigned short)
BOTH(FILL_2D, cuMemsetD2D32_v2, ptds, unsigned)
BOTH(FILL_2D_ASYNC, cuMemsetD2D8Async, ptsz, unsigned char)
BOTH(FILL_2D_ASYNC, cuMemsetD2D16Async, ptsz, unsigned short)
BOTH(FILL_2D_ASYNC, cuMemsetD2D32Async, ptsz, unsigned)
