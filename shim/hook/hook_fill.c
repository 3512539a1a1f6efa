/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory set to a value.
 */
#include "shim/hook/hook_driver.h"
#include "shim/op/copy_box.h"

/* One that is not aligned is refused. */
#define FILL_HOOK(function, per_thread, parameters, arguments, on, pitch, bytes, rows)             \
	DRIVER_HOOK(function, parameters, arguments, flow_watching(),                              \
		    op.stream = hook_stream(on, per_thread);                                       \
		    fill_box(&op, target, pitch, bytes, rows);                                     \
		    op.fill.exact &= target % sizeof(value) == 0)
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
