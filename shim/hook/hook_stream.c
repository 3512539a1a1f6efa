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

#define CAPTURE_BEGIN(function, parameters, arguments, per_thread)                                 \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		DRIVER_HOOK_BODY(                                                                  \
			function, arguments, flow_active(),                                        \
			stream_op(&op, OP_CAPTURE_BEGIN, hook_stream(stream, per_thread)));        \
	}

CAPTURE_BEGIN(cuStreamBeginCapture, (CUstream stream), (stream), LEGACY)
CAPTURE_BEGIN(cuStreamBeginCapture_ptsz, (CUstream stream), (stream), PER_THREAD)
CAPTURE_BEGIN(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), (stream, mode),
	      LEGACY)
CAPTURE_BEGIN(cuStreamBeginCapture_v2_ptsz, (CUstream stream, CUstreamCaptureMode mode),
	      (stream, mode), PER_THREAD)

#define TO_GRAPH_PARAMETERS                                                                        \
	(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,                          \
	 const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
#define TO_GRAPH_ARGUMENTS (stream, graph, dependencies, edges, count, mode)
CAPTURE_BEGIN(cuStreamBeginCaptureToGraph, TO_GRAPH_PARAMETERS, TO_GRAPH_ARGUMENTS, LEGACY)
CAPTURE_BEGIN(cuStreamBeginCaptureToGraph_ptsz, TO_GRAPH_PARAMETERS, TO_GRAPH_ARGUMENTS, PER_THREAD)

#define CAPTURE_END(function, per_thread)                                                          \
	EXPORT CUresult function(CUstream stream, CUgraph *graph)                                  \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (stream, graph), flow_active(),                         \
				 stream_op(&op, OP_CAPTURE_END, hook_stream(stream, per_thread));  \
				 op.handle = graph);                                               \
	}
CAPTURE_END(cuStreamEndCapture, LEGACY)
CAPTURE_END(cuStreamEndCapture_ptsz, PER_THREAD)

#define GRAPH_LAUNCH(function, per_thread)                                                         \
	EXPORT CUresult function(CUgraphExec graph, CUstream stream)                               \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (graph, stream), flow_active(),                         \
				 stream_op(&op, OP_GRAPH_LAUNCH, hook_stream(stream, per_thread)); \
				 op.handle = graph);                                               \
	}
GRAPH_LAUNCH(cuGraphLaunch, LEGACY)
GRAPH_LAUNCH(cuGraphLaunch_ptsz, PER_THREAD)

#define INSTANTIATE(function, parameters, arguments)                                               \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		__typeof__(&function) real = REAL(function);                                       \
		CUresult result;                                                                   \
                                                                                                   \
		if (unlikely(!real))                                                               \
			return CUDA_ERROR_NOT_INITIALIZED;                                         \
		result = real arguments;                                                           \
		if (result == CUDA_SUCCESS && !hook_bypassed())                                    \
			flow_graph_instantiated(graph, *exec);                                     \
		return result;                                                                     \
	}
INSTANTIATE(cuGraphInstantiate,
	    (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t size),
	    (exec, graph, node, text, size))
INSTANTIATE(cuGraphInstantiate_v2,
	    (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t size),
	    (exec, graph, node, text, size))
INSTANTIATE(cuGraphInstantiateWithFlags,
	    (CUgraphExec * exec, CUgraph graph, unsigned long long flags), (exec, graph, flags))
INSTANTIATE(cuGraphInstantiateWithParams,
	    (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	    (exec, graph, params))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
	    (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	    (exec, graph, params))

#define DESTROY(function, type)                                                                    \
	EXPORT CUresult function(type handle)                                                      \
	{                                                                                          \
		__typeof__(&function) real = REAL(function);                                       \
                                                                                                   \
		if (unlikely(!real))                                                               \
			return CUDA_ERROR_NOT_INITIALIZED;                                         \
		/* First: the handle may be given out again as soon as it is free. */              \
		if (!hook_bypassed())                                                              \
			flow_graph_gone(handle);                                                   \
		return real(handle);                                                               \
	}
DESTROY(cuGraphDestroy, CUgraph)
DESTROY(cuGraphExecDestroy, CUgraphExec)

/* ---- waiting -------------------------------------------------------------------------------- */

#define STREAM_WAIT(function, per_thread)                                                          \
	EXPORT CUresult function(CUstream stream)                                                  \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (stream), flow_watching(),                              \
				 stream_op(&op, OP_SYNC, hook_stream(stream, per_thread)));        \
	}
STREAM_WAIT(cuStreamSynchronize, LEGACY)
STREAM_WAIT(cuStreamSynchronize_ptsz, PER_THREAD)

EXPORT CUresult cuCtxSynchronize(void)
{
	DRIVER_HOOK_BODY(cuCtxSynchronize, (), flow_watching(),
			 stream_op(&op, OP_SYNC, CU_STREAM_LEGACY));
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext context)
{
	DRIVER_HOOK_BODY(cuCtxSynchronize_v2, (context), flow_watching(),
			 stream_op(&op, OP_SYNC, CU_STREAM_LEGACY));
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
	DRIVER_HOOK_BODY(cuEventSynchronize, (event), flow_watching(),
			 stream_op(&op, OP_SYNC, CU_STREAM_LEGACY));
}

/* ---- asking, and being told ---------------------------------------------------------------------
 *
 * What a stream was given before has been given to it, whatever of it is still with us. */

#define STREAM_CALL(function, parameters, arguments, per_thread)                                   \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, arguments, flow_watching(),                             \
				 stream_op(&op, OP_SYNC, hook_stream(stream, per_thread)));        \
	}
STREAM_CALL(cuStreamQuery, (CUstream stream), (stream), LEGACY)
STREAM_CALL(cuStreamQuery_ptsz, (CUstream stream), (stream), PER_THREAD)
STREAM_CALL(cuEventRecord, (CUevent event, CUstream stream), (event, stream), LEGACY)
STREAM_CALL(cuEventRecord_ptsz, (CUevent event, CUstream stream), (event, stream), PER_THREAD)
STREAM_CALL(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned flags),
	    (event, stream, flags), LEGACY)
STREAM_CALL(cuEventRecordWithFlags_ptsz, (CUevent event, CUstream stream, unsigned flags),
	    (event, stream, flags), PER_THREAD)
STREAM_CALL(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags),
	    (stream, event, flags), LEGACY)
STREAM_CALL(cuStreamWaitEvent_ptsz, (CUstream stream, CUevent event, unsigned flags),
	    (stream, event, flags), PER_THREAD)

/* A function of the program's own calls no driver and sees no memory of the device's. What else it
 * may write can be written unseen at any time, and is saved beforehand (snapshot.h). */
STREAM_CALL(cuLaunchHostFunc, (CUstream stream, CUhostFn host, void *data), (stream, host, data),
	    LEGACY)
STREAM_CALL(cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn host, void *data),
	    (stream, host, data), PER_THREAD)
STREAM_CALL(cuStreamAddCallback,
	    (CUstream stream, CUstreamCallback host, void *data, unsigned flags),
	    (stream, host, data, flags), LEGACY)
STREAM_CALL(cuStreamAddCallback_ptsz,
	    (CUstream stream, CUstreamCallback host, void *data, unsigned flags),
	    (stream, host, data, flags), PER_THREAD)

EXPORT CUresult cuEventQuery(CUevent event)
{
	DRIVER_HOOK_BODY(cuEventQuery, (event), flow_watching(),
			 stream_op(&op, OP_SYNC, CU_STREAM_LEGACY));
}

/* ---- the end -------------------------------------------------------------------------------- */

static void teardown(struct op *op, void *handle)
{
	op->kind = OP_TEARDOWN;
	op->stream = CU_STREAM_LEGACY;
	op->handle = handle;
}

#define TEARDOWN(function, type)                                                                   \
	EXPORT CUresult function(type handle)                                                      \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (handle), flow_active(), teardown(&op, handle));        \
	}
TEARDOWN(cuCtxDestroy, CUcontext)
TEARDOWN(cuCtxDestroy_v2, CUcontext)
TEARDOWN(cuCtxDetach, CUcontext)
TEARDOWN(cuGreenCtxDestroy, CUgreenCtx)
TEARDOWN(cuStreamDestroy, CUstream)
TEARDOWN(cuStreamDestroy_v2, CUstream)
TEARDOWN(cuMemPoolDestroy, CUmemoryPool)

/* The primary context has no handle here: NULL, any context may go. */
#define TEARDOWN_PRIMARY(function)                                                                 \
	EXPORT CUresult function(CUdevice device)                                                  \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (device), flow_active(), teardown(&op, NULL));          \
	}
TEARDOWN_PRIMARY(cuDevicePrimaryCtxRelease)
TEARDOWN_PRIMARY(cuDevicePrimaryCtxRelease_v2)
TEARDOWN_PRIMARY(cuDevicePrimaryCtxReset)
TEARDOWN_PRIMARY(cuDevicePrimaryCtxReset_v2)
