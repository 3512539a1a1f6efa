/* SPDX-License-Identifier: Apache-2.0
 *
 * Borrowing the calling thread for driver calls of our own.
 */
#include "shim/real/driver_context.h"

#include <errno.h>

#include "shim/real/driver.h"

bool driver_enter(struct driver_context *here, CUcontext context)
{
	CUcontext current = NULL;

	here->pushed = false;
	if (driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return false;
	if (current != context) {
		if (driver.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
			return false;
		here->pushed = true;
	}
	here->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	here->relaxed = driver.cuThreadExchangeStreamCaptureMode(&here->mode) == CUDA_SUCCESS;
	return true;
}

/* What is the thread's own is put back even if that is refused once. */
void driver_leave(struct driver_context *here)
{
	CUcontext popped;

	if (here->relaxed && driver.cuThreadExchangeStreamCaptureMode(&here->mode) != CUDA_SUCCESS)
		driver.cuThreadExchangeStreamCaptureMode(&here->mode);
	if (here->pushed && driver.cuCtxPopCurrent_v2(&popped) != CUDA_SUCCESS)
		driver.cuCtxPopCurrent_v2(&popped);
}

bool driver_may_capture(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool queue_same(struct queue a, struct queue b)
{
	return a.stream == b.stream && a.context == b.context;
}

/* What is on the queue now, as an event that outlives its own destruction where it is waited for.
 */
static CUevent mark(struct queue queue)
{
	struct driver_context here;
	CUevent event = NULL;

	if (!driver_enter(&here, queue.context))
		return NULL;
	if (driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		event = NULL;
	if (event && driver.cuEventRecord(event, queue.stream) != CUDA_SUCCESS) {
		driver.cuEventDestroy_v2(event);
		event = NULL;
	}
	driver_leave(&here);
	return event;
}

int driver_order(struct queue earlier, struct queue later)
{
	struct driver_context here;
	CUevent event;
	int error = -EIO;

	if (queue_same(earlier, later))
		return 0;
	event = mark(earlier);
	if (!event)
		return -EIO;
	if (driver_enter(&here, later.context)) {
		if (driver.cuStreamWaitEvent(later.stream, event, 0) == CUDA_SUCCESS)
			error = 0;
		driver_leave(&here);
	}
	driver.cuEventDestroy_v2(event);
	return error;
}

int driver_await(struct queue queue)
{
	struct driver_context here;
	CUresult result = CUDA_ERROR_UNKNOWN;

	for (int attempt = 0; attempt < 2 && result != CUDA_SUCCESS; attempt++) {
		if (!driver_enter(&here, queue.context))
			continue;
		result = driver.cuStreamSynchronize(queue.stream);
		driver_leave(&here);
	}
	return result == CUDA_SUCCESS ? 0 : -EIO;
}

bool driver_context_lives(void)
{
	size_t free_bytes, total;

	return driver.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS;
}
