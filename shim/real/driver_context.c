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

CUevent driver_mark(struct queue queue, CUevent again)
{
	struct driver_context here;
	CUevent event = again;
	bool made = false;

	if (driver_enter(&here, queue.context)) {
		if (!event && driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
			event = NULL;
		made = event && driver.cuEventRecord(event, queue.stream) == CUDA_SUCCESS;
		driver_leave(&here);
	}
	if (event && !made)
		driver.cuEventDestroy_v2(event);
	return made ? event : NULL;
}

int driver_follow(CUevent event, struct queue later)
{
	struct driver_context here;
	int error = -EIO;

	if (driver_enter(&here, later.context)) {
		if (driver.cuStreamWaitEvent(later.stream, event, 0) == CUDA_SUCCESS)
			error = 0;
		driver_leave(&here);
	}
	return error;
}

int driver_order(struct queue earlier, struct queue later)
{
	CUevent event;
	int error;

	if (queue_same(earlier, later))
		return 0;
	event = driver_mark(earlier, NULL);
	if (!event)
		return -EIO;
	error = driver_follow(event, later);
	driver.cuEventDestroy_v2(event);
	return error;
}

int driver_await(struct queue queue, CUevent event)
{
	struct driver_context here;
	CUresult result = CUDA_ERROR_UNKNOWN;

	for (int attempt = 0; attempt < 2 && result != CUDA_SUCCESS; attempt++) {
		if (!driver_enter(&here, queue.context))
			continue;
		result = event ? driver.cuEventSynchronize(event)
			       : driver.cuStreamSynchronize(queue.stream);
		driver_leave(&here);
	}
	return result == CUDA_SUCCESS ? 0 : -EIO;
}

/* Whether an error means that nothing can be computed there any more. */
static bool is_over(CUresult result)
{
	static const CUresult over[] = {
		CUDA_ERROR_NOT_INITIALIZED,
		CUDA_ERROR_DEINITIALIZED,
		CUDA_ERROR_INVALID_CONTEXT,
		CUDA_ERROR_CONTEXT_IS_DESTROYED,
		CUDA_ERROR_ECC_UNCORRECTABLE,
		CUDA_ERROR_NVLINK_UNCORRECTABLE,
		CUDA_ERROR_ILLEGAL_ADDRESS,
		CUDA_ERROR_LAUNCH_TIMEOUT,
		CUDA_ERROR_ASSERT,
		CUDA_ERROR_HARDWARE_STACK_ERROR,
		CUDA_ERROR_ILLEGAL_INSTRUCTION,
		CUDA_ERROR_MISALIGNED_ADDRESS,
		CUDA_ERROR_INVALID_ADDRESS_SPACE,
		CUDA_ERROR_INVALID_PC,
		CUDA_ERROR_LAUNCH_FAILED,
	};

	for (size_t i = 0; i < sizeof(over) / sizeof(*over); i++)
		if (result == over[i])
			return true;
	return false;
}

bool driver_context_lives(CUcontext context)
{
	CUcontext current = NULL;
	size_t free_bytes, total;
	CUresult result = driver.cuCtxGetCurrent(&current);
	const bool pushes = result == CUDA_SUCCESS && current != context;

	if (pushes)
		result = driver.cuCtxPushCurrent_v2(context);
	if (result != CUDA_SUCCESS)
		return !is_over(result);
	result = driver.cuMemGetInfo_v2(&free_bytes, &total);
	if (pushes && driver.cuCtxPopCurrent_v2(&current) != CUDA_SUCCESS)
		driver.cuCtxPopCurrent_v2(&current);
	return !is_over(result);
}

bool driver_captures(struct queue queue)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	const CUresult result = driver.cuStreamIsCapturing(queue.stream, &status);

	if (result != CUDA_SUCCESS)
		return result != CUDA_ERROR_INVALID_HANDLE && !is_over(result);
	return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}
