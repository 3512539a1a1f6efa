/* SPDX-License-Identifier: Apache-2.0
 *
 * Entry points that take a stream and neither launch nor copy. Compiled twice: as they stand, and
 * with CUDA_API_PER_THREAD_DEFAULT_STREAM, which gives them their _ptsz names and makes stream 0
 * the calling thread's own.
 */
#include "sim.h"

#define NAME(handle) sim_stream_name(handle, SIM_STANDARD)

CUresult CUDAAPI cuStreamSynchronize(CUstream handle)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	pthread_mutex_lock(&sim_lock);
	bool capturing = stream->capture != NULL;
	if (capturing)
		sim_capture_break(stream->capture);
	pthread_mutex_unlock(&sim_lock);
	if (capturing)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream == stream->ctx->legacy)
		sim_context_drain(stream->ctx);
	else
		sim_stream_drain(stream);
	return stream->ctx->sticky;
}

CUresult CUDAAPI cuStreamQuery(CUstream handle)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	pthread_mutex_lock(&sim_lock);
	CUresult result =
		stream->done < stream->submitted ? CUDA_ERROR_NOT_READY : stream->ctx->sticky;
	if (stream->capture) {
		sim_capture_break(stream->capture);
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	SIM_ENTER(" stream=%s flags=%u", NAME(handle), flags);
	SIM_STREAM_OR_RETURN(stream, handle);
	if (!sim_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_stream_wait(stream, sim_event(event));
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned int flags)
{
	SIM_ENTER(" stream=%s flags=%u", NAME(handle), flags);
	SIM_STREAM_OR_RETURN(stream, handle);
	if (!sim_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_event_record(sim_event(event), stream, flags & CU_EVENT_RECORD_EXTERNAL);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream handle)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	if (!sim_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_event_record(sim_event(event), stream, false);
}

CUresult CUDAAPI cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	SIM_ANSWER(flags, stream->flags);
}

CUresult CUDAAPI cuStreamGetPriority(CUstream handle, int *priority)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	SIM_ANSWER(priority, stream->priority);
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long *id)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	SIM_ANSWER(id, stream->id);
}

CUresult CUDAAPI cuStreamGetDevice(CUstream handle, CUdevice *device)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	SIM_ANSWER(device, stream->ctx->device);
}

CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext *out)
{
	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	SIM_ANSWER(out, (CUcontext)stream->ctx);
}

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
					unsigned int flags)
{
	SIM_ENTER(" stream=%s bytes=%zu flags=%u", NAME(handle), bytes, flags);
	SIM_STREAM_OR_RETURN(stream, handle);
	return sim_valid(address, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUmemLocation location,
				    unsigned int flags, CUstream handle)
{
	SIM_ENTER(" stream=%s address=0x%llx bytes=%zu to=%d flags=%u", NAME(handle), address,
		  bytes, location.id, flags);
	SIM_STREAM_OR_RETURN(stream, handle);
	return sim_valid(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- host functions --------------------------------------------------------------------- */

struct host_work {
	struct sim_work work;
	CUhostFn function;
	CUstreamCallback callback;
	CUstream stream;
	void *data;
};

static CUresult run_host(struct sim_work *work)
{
	struct host_work *h = (struct host_work *)work;

	if (h->function)
		h->function(h->data);
	else
		h->callback(h->stream, CUDA_SUCCESS, h->data);
	return CUDA_SUCCESS;
}

static CUresult submit_host(struct sim_stream *stream, const struct host_work *what)
{
	struct host_work *h = sim_work_new(sizeof(*h), run_host, CU_GRAPH_NODE_TYPE_HOST);

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	h->function = what->function;
	h->callback = what->callback;
	h->stream = what->stream;
	h->data = what->data;
	return sim_submit(stream, &h->work, false);
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data)
{
	struct host_work what = {.function = function, .data = data};

	SIM_ENTER(" stream=%s", NAME(handle));
	SIM_STREAM_OR_RETURN(stream, handle);
	return function ? submit_host(stream, &what) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data,
				     unsigned int flags)
{
	struct host_work what = {.callback = callback, .stream = handle, .data = data};

	SIM_ENTER(" stream=%s flags=%u", NAME(handle), flags);
	SIM_STREAM_OR_RETURN(stream, handle);
	return callback && !flags ? submit_host(stream, &what) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- stream-ordered allocation ---------------------------------------------------------- */

struct free_work {
	struct sim_work work;
	uint64_t address;
};

static CUresult run_free(struct sim_work *work)
{
	return sim_release(((struct free_work *)work)->address, SIM_ASYNC);
}

static CUresult allocate(CUdeviceptr *out, size_t bytes, CUstream handle, enum sim_memory kind)
{
	uint64_t address = 0;

	SIM_STREAM_OR_RETURN(stream, handle);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture) /* allocation nodes are not simulated */
		return CUDA_ERROR_NOT_SUPPORTED;
	CUresult result = sim_allocate(stream->ctx, bytes, kind, &address);
	if (result == CUDA_SUCCESS)
		*out = address;
	return result;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream handle)
{
	SIM_ENTER(" stream=%s bytes=%zu", NAME(handle), bytes);
	return allocate(out, bytes, handle, SIM_ASYNC);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
					 CUstream handle)
{
	SIM_ENTER(" stream=%s bytes=%zu", NAME(handle), bytes);
	if (!pool)
		return CUDA_ERROR_INVALID_VALUE;
	return allocate(out, bytes, handle, sim_pool_on_host(pool) ? SIM_MANAGED : SIM_ASYNC);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
	struct sim_allocation a;
	struct free_work *work;

	SIM_ENTER(" stream=%s address=0x%llx", NAME(handle), address);
	SIM_STREAM_OR_RETURN(stream, handle);
	if (!sim_find(address, &a) || a.base != address || a.kind > SIM_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return CUDA_ERROR_NOT_SUPPORTED;
	work = sim_work_new(sizeof(*work), run_free, CU_GRAPH_NODE_TYPE_MEM_FREE);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->address = address;
	return sim_submit(stream, &work->work, false);
}
