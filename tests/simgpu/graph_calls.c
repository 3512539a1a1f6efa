/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture and graph entry points that take a stream, compiled twice like stream_calls.c.
 */
#include "sim.h"

#define NAME(handle) sim_stream_name(handle, SIM_STANDARD)

CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
	SIM_ENTER(" stream=%s mode=%d", NAME(handle), mode);
	SIM_STREAM_OR_RETURN(stream, handle);
	return sim_capture_begin(stream, mode, NULL);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph,
					     const CUgraphNode *before,
					     const CUgraphEdgeData *edges, size_t count,
					     CUstreamCaptureMode mode)
{
	SIM_ENTER(" stream=%s mode=%d", NAME(handle), mode);
	SIM_STREAM_OR_RETURN(stream, handle);
	(void)edges;
	if (!graph || count > SIM_LAST)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_capture_begin(stream, mode, graph);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		stream->last[stream->last_count++] = (struct sim_node *)before[i];
	return result;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph *out)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	return out ? sim_capture_end(stream, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream == stream->ctx->legacy) {
		pthread_mutex_lock(&sim_lock);
		bool implicit = sim_capture_in_context(stream->ctx, false);
		pthread_mutex_unlock(&sim_lock);
		if (implicit)
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	*status = sim_capture_status(stream, NULL, NULL, NULL, NULL);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status,
					cuuint64_t *id, CUgraph *graph,
					const CUgraphNode **dependencies,
					const CUgraphEdgeData **edges, size_t *count)
{
	static __thread CUgraphNode last[SIM_LAST];
	unsigned long long number = 0;
	size_t most = 0;

	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = sim_capture_status(stream, &number, graph, last, &most);
	if (id)
		*id = number;
	if (dependencies)
		*dependencies = last;
	if (edges)
		*edges = NULL;
	if (count)
		*count = most;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
	SIM_ENTER(" stream=%s exec=%p", NAME(handle), (void *)exec);
	SIM_STREAM_OR_RETURN(stream, handle);
	return sim_graph_launch(exec, stream);
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream handle)
{
	SIM_ENTER(" stream=%s exec=%p", NAME(handle), (void *)exec);
	SIM_STREAM_OR_RETURN(stream, handle);
	return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
					      CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	SIM_ENTER(" graph=%p", (void *)graph);
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_graph_instantiate(out, graph, params->flags);
	params->hErrNode_out = NULL;
	params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
						    : CUDA_GRAPH_INSTANTIATE_ERROR;
	return result;
}
