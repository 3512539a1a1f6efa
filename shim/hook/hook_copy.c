/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of linear memory. Those from or to arrays, and batches, are thunks (driver_names.def):
 * opaque.
 */
#include "shim/hook/hook_driver.h"
#include "shim/op/copy_box.h"

/* ---- one dimension -------------------------------------------------------------------------- */

static void copy_to_device(struct op *op, CUstream stream, CUdeviceptr target, const void *host,
			   size_t bytes)
{
	op->kind = OP_COPY;
	op->stream = stream;
	op->copy = (struct op_copy){
		.target = {target, bytes}, .exact = true, .from_host = true, .host = host};
}

static void copy_from_device(struct op *op, CUstream stream, CUdeviceptr source, size_t bytes)
{
	op->kind = OP_COPY;
	op->stream = stream;
	op->copy = (struct op_copy){.source = {source, bytes}, .exact = true, .to_host = true};
}

/* Either side may turn out to be host memory where addresses are unified. */
static void copy_any(struct op *op, CUstream stream, CUdeviceptr target, CUdeviceptr source,
		     size_t bytes)
{
	op->kind = OP_COPY;
	op->stream = stream;
	op->copy = (struct op_copy){
		.source = {source, bytes}, .target = {target, bytes}, .exact = true};
}

/* The asynchronous ones may read host memory later. */
#define COPY_HOOK(function, parameters, arguments, describe, ...)                                  \
	DRIVER_HOOK(function, parameters, arguments, flow_watching(), describe(&op, __VA_ARGS__))
#define COPY_HOOK_ASYNC(function, parameters, arguments, describe, ...)                            \
	DRIVER_HOOK(function, parameters, arguments, flow_watching(), describe(&op, __VA_ARGS__);  \
		    op.copy.later = true)

#define COPY_HTOD(function, per_thread, ...)                                                       \
	COPY_HOOK(function, (CUdeviceptr target, const void *host, size_t bytes),                  \
		  (target, host, bytes), copy_to_device, hook_stream(NULL, per_thread), target,    \
		  host, bytes)
#define COPY_HTOD_ASYNC(function, per_thread, ...)                                                 \
	COPY_HOOK_ASYNC(function,                                                                  \
			(CUdeviceptr target, const void *host, size_t bytes, CUstream stream),     \
			(target, host, bytes, stream), copy_to_device,                             \
			hook_stream(stream, per_thread), target, host, bytes)
#define COPY_DTOH(function, per_thread, ...)                                                       \
	WAIT_HOOK(function, (void *host, CUdeviceptr source, size_t bytes), (host, source, bytes), \
		  copy_from_device(&op, hook_stream(NULL, per_thread), source, bytes))
#define COPY_DTOH_ASYNC(function, per_thread, ...)                                                 \
	DRIVER_HOOK(function, (void *host, CUdeviceptr source, size_t bytes, CUstream stream),     \
		    (host, source, bytes, stream), (flow_fetches(), flow_watching()),              \
		    copy_from_device(&op, hook_stream(stream, per_thread), source, bytes);         \
		    op.copy.later = true)
#define COPY(function, per_thread, ...)                                                            \
	COPY_HOOK(function, (CUdeviceptr target, CUdeviceptr source, size_t bytes),                \
		  (target, source, bytes), copy_any, hook_stream(NULL, per_thread), target,        \
		  source, bytes)
#define COPY_ASYNC(function, per_thread, ...)                                                      \
	COPY_HOOK_ASYNC(function,                                                                  \
			(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream),   \
			(target, source, bytes, stream), copy_any,                                 \
			hook_stream(stream, per_thread), target, source, bytes)
#define COPY_PEER(function, per_thread, ...)                                                       \
	COPY_HOOK(function,                                                                        \
		  (CUdeviceptr target, CUcontext target_context, CUdeviceptr source,               \
		   CUcontext source_context, size_t bytes),                                        \
		  (target, target_context, source, source_context, bytes), copy_any,               \
		  hook_stream(NULL, per_thread), target, source, bytes)
#define COPY_PEER_ASYNC(function, per_thread, ...)                                                 \
	COPY_HOOK_ASYNC(function,                                                                  \
			(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,         \
			 CUcontext source_context, size_t bytes, CUstream stream),                 \
			(target, target_context, source, source_context, bytes, stream), copy_any, \
			hook_stream(stream, per_thread), target, source, bytes)

BOTH(COPY_HTOD, cuMemcpyHtoD_v2, ptds)
BOTH(COPY_HTOD_ASYNC, cuMemcpyHtoDAsync_v2, ptsz)
BOTH(COPY_DTOH, cuMemcpyDtoH_v2, ptds)
BOTH(COPY_DTOH_ASYNC, cuMemcpyDtoHAsync_v2, ptsz)
BOTH(COPY, cuMemcpyDtoD_v2, ptds)
BOTH(COPY_ASYNC, cuMemcpyDtoDAsync_v2, ptsz)
BOTH(COPY, cuMemcpy, ptds)
BOTH(COPY_ASYNC, cuMemcpyAsync, ptsz)
BOTH(COPY_PEER, cuMemcpyPeer, ptds)
BOTH(COPY_PEER_ASYNC, cuMemcpyPeerAsync, ptsz)

/* ---- two and three dimensions --------------------------------------------------------------- */

/* The fillers of copy_box.h, on a stream. */
#define ON(stream_, fill, copy)                                                                    \
	op.stream = stream_;                                                                       \
	fill(&op, copy)

#define COPY_BOX(function, per_thread, structure, fill)                                            \
	DRIVER_HOOK(function, (const structure *copy), (copy), copy &&flow_watching(),             \
		    ON(hook_stream(NULL, per_thread), fill, copy))
#define COPY_BOX_ASYNC(function, per_thread, structure, fill)                                      \
	DRIVER_HOOK(function, (const structure *copy, CUstream stream), (copy, stream),            \
		    copy &&flow_watching(), ON(hook_stream(stream, per_thread), fill, copy);       \
		    op.copy.later = true)

BOTH(COPY_BOX, cuMemcpy2D_v2, ptds, CUDA_MEMCPY2D, copy_box_2d)
BOTH(COPY_BOX, cuMemcpy2DUnaligned_v2, ptds, CUDA_MEMCPY2D, copy_box_2d)
BOTH(COPY_BOX_ASYNC, cuMemcpy2DAsync_v2, ptsz, CUDA_MEMCPY2D, copy_box_2d)
BOTH(COPY_BOX, cuMemcpy3D_v2, ptds, CUDA_MEMCPY3D, copy_box_3d)
BOTH(COPY_BOX_ASYNC, cuMemcpy3DAsync_v2, ptsz, CUDA_MEMCPY3D, copy_box_3d)
BOTH(COPY_BOX, cuMemcpy3DPeer, ptds, CUDA_MEMCPY3D_PEER, copy_box_3d_peer)
BOTH(COPY_BOX_ASYNC, cuMemcpy3DPeerAsync, ptsz, CUDA_MEMCPY3D_PEER, copy_box_3d_peer)
