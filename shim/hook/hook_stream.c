/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and what lives with them: capture, graph launches, waiting, and the end of contexts and
 * streams.
 */
#include "shim/hook/hook_driver.h"

static void stream_op(struct op *op, enum op_kind kind, CUstream stream)
{
	op->kind = kind;
	op->stream = stream;
}

#define CAPTURE_BEGIN(function, per_thread, parameters, arguments)                                 \
	DRIVER_HOOK(function, parameters, arguments, flow_active(),                                \
		    stream_op(&op, OP_CAPTURE_BEGIN, hook_stream(stream, per_thread)))

BOTH(CAPTURE_BEGIN, cuStreamBeginCapture, ptsz, (CUstream stream), (stream))
BOTH(CAPTURE_BEGIN, cuStreamBeginCapture_v2, ptsz, (CUstream stream, CUstreamCaptureMode mode),
     (stream, mode))
BOTH(CAPTURE_BEGIN, cuStreamBeginCaptureToGraph, ptsz,
     (CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
      size_t count, CUstreamCaptureMode mode),
     (stream, graph, dependencies, edges, count, mode))

#define CAPTURE_END(function, per_thread, ...)                                                     \
	DRIVER_HOOK(function, (CUstream stream, CUgraph * graph), (stream, graph), flow_active(),  \
		    stream_op(&op, OP_CAPTURE_END, hook_stream(stream, per_thread));               \
		    op.handle = graph)
BOTH(CAPTURE_END, cuStreamEndCapture, ptsz)

/* The program learns what its own nodes are to come behind, or says what the stream goes on from. A
 * call that asks for neither the graph nor its last nodes learns nothing of the kind. */
#define CAPTURE_ASKED(function, per_thread, parameters, arguments, asks)                           \
	NOTED_BEFORE(function, parameters, arguments,                                              \
		     if (asks) flow_capture_asked(hook_stream(stream, per_thread), #function))
BOTH(CAPTURE_ASKED, cuStreamGetCaptureInfo_v2, ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
      const CUgraphNode **last, size_t *count),
     (stream, status, id, graph, last, count), graph || last)
BOTH(CAPTURE_ASKED, cuStreamGetCaptureInfo_v3, ptsz,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
      const CUgraphNode **last, const CUgraphEdgeData **edges, size_t *count),
     (stream, status, id, graph, last, edges, count), graph || last)
BOTH(CAPTURE_ASKED, cuStreamUpdateCaptureDependencies, ptsz,
     (CUstream stream, CUgraphNode *last, size_t count, unsigned flags),
     (stream, last, count, flags), true)
BOTH(CAPTURE_ASKED, cuStreamUpdateCaptureDependencies_v2, ptsz,
     (CUstream stream, CUgraphNode *last, const CUgraphEdgeData *edges, size_t count,
      unsigned flags),
     (stream, last, edges, count, flags), true)

#define GRAPH_LAUNCH(function, per_thread, ...)                                                    \
	DRIVER_HOOK(function, (CUgraphExec graph, CUstream stream), (graph, stream),               \
		    flow_watching_graphs(),                                                        \
		    stream_op(&op, OP_GRAPH_LAUNCH, hook_stream(stream, per_thread));              \
		    op.handle = graph)
BOTH(GRAPH_LAUNCH, cuGraphLaunch, ptsz)

/* ---- waiting -------------------------------------------------------------------------------- */

#define SYNC(function, parameters, arguments, wanted, on)                                          \
	DRIVER_HOOK(function, parameters, arguments, wanted, stream_op(&op, OP_SYNC, on))
#define STREAM_WAIT(function, per_thread, parameters, arguments)                                   \
	WAIT_HOOK(function, parameters, arguments,                                                 \
		  stream_op(&op, OP_SYNC, hook_stream(stream, per_thread)))
#define DEVICE_WAIT(function, parameters, arguments)                                               \
	WAIT_HOOK(function, parameters, arguments, stream_op(&op, OP_SYNC, CU_STREAM_LEGACY))

BOTH(STREAM_WAIT, cuStreamSynchronize, ptsz, (CUstream stream), (stream))
DEVICE_WAIT(cuCtxSynchronize, (void), ())
DEVICE_WAIT(cuCtxSynchronize_v2, (CUcontext context), (context))
DEVICE_WAIT(cuEventSynchronize, (CUevent event), (event))

/* ---- asking, and being told ---------------------------------------------------------------------
 *
 * What a stream was given before has been given to it, whatever of it is still with us. */

#define STREAM_CALL(function, per_thread, parameters, arguments)                                   \
	SYNC(function, parameters, arguments, flow_watching(), hook_stream(stream, per_thread))
#define DEVICE_CALL(function, parameters, arguments)                                               \
	SYNC(function, parameters, arguments, flow_watching(), CU_STREAM_LEGACY)

BOTH(STREAM_CALL, cuStreamQuery, ptsz, (CUstream stream), (stream))
BOTH(STREAM_CALL, cuEventRecord, ptsz, (CUevent event, CUstream stream), (event, stream))
BOTH(STREAM_CALL, cuEventRecordWithFlags, ptsz, (CUevent event, CUstream stream, unsigned flags),
     (event, stream, flags))
BOTH(STREAM_CALL, cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned flags),
     (stream, event, flags))
DEVICE_CALL(cuEventQuery, (CUevent event), (event))
DEVICE_CALL(cuCtxRecordEvent, (CUcontext context, CUevent event), (context, event))
DEVICE_CALL(cuCtxWaitEvent, (CUcontext context, CUevent event), (context, event))
DEVICE_CALL(cuGreenCtxRecordEvent, (CUgreenCtx context, CUevent event), (context, event))
DEVICE_CALL(cuGreenCtxWaitEvent, (CUgreenCtx context, CUevent event), (context, event))

/* A function of the program's own calls no driver and sees no memory of the device's. What else it
 * may write can be written unseen at any time, and is saved beforehand (snapshot.h). */
BOTH(STREAM_CALL, cuLaunchHostFunc, ptsz, (CUstream stream, CUhostFn host, void *data),
     (stream, host, data))
BOTH(STREAM_CALL, cuStreamAddCallback, ptsz,
     (CUstream stream, CUstreamCallback host, void *data, unsigned flags),
     (stream, host, data, flags))

/* ---- the end -------------------------------------------------------------------------------- */

static void teardown(struct op *op, void *handle)
{
	op->kind = OP_TEARDOWN;
	op->stream = CU_STREAM_LEGACY;
	op->handle = handle;
}

#define TEARDOWN(function, type)                                                                   \
	DRIVER_HOOK(function, (type handle), (handle), flow_active(), teardown(&op, handle))
TEARDOWN(cuCtxDestroy, CUcontext)
TEARDOWN(cuCtxDestroy_v2, CUcontext)
TEARDOWN(cuCtxDetach, CUcontext)
TEARDOWN(cuStreamDestroy, CUstream)
TEARDOWN(cuStreamDestroy_v2, CUstream)
TEARDOWN(cuMemPoolDestroy, CUmemoryPool)

/* The context behind a green one; NULL: nobody says. */
static CUcontext behind_green(CUgreenCtx green)
{
	__typeof__(&cuCtxFromGreenCtx) get = REAL(cuCtxFromGreenCtx);
	CUcontext context;

	return get && get(&context, green) == CUDA_SUCCESS ? context : NULL;
}

DRIVER_HOOK(cuGreenCtxDestroy, (CUgreenCtx green), (green), flow_active(),
	    teardown(&op, behind_green(green)))

/* The device's primary context, which need not be the current one. NULL: there is none, or nobody
 * says. */
static CUcontext primary_of(CUdevice device)
{
	__typeof__(&cuDevicePrimaryCtxGetState) get = REAL(cuDevicePrimaryCtxGetState);
	__typeof__(&cuDevicePrimaryCtxRetain) retain = REAL(cuDevicePrimaryCtxRetain);
	__typeof__(&cuDevicePrimaryCtxRelease_v2) release = REAL(cuDevicePrimaryCtxRelease_v2);
	CUcontext context;
	unsigned flags;
	int active;

	if (!get || !retain || !release || get(device, &flags, &active) != CUDA_SUCCESS ||
	    !active || retain(&context, device) != CUDA_SUCCESS)
		return NULL;
	release(device);
	return context;
}

#define TEARDOWN_PRIMARY(function)                                                                 \
	DRIVER_HOOK(function, (CUdevice device), (device), flow_active(),                          \
		    teardown(&op, primary_of(device)))
TEARDOWN_PRIMARY(cuDevicePrimaryCtxRelease)
TEARDOWN_PRIMARY(cuDevicePrimaryCtxRelease_v2)
TEARDOWN_PRIMARY(cuDevicePrimaryCtxReset)
TEARDOWN_PRIMARY(cuDevicePrimaryCtxReset_v2)
