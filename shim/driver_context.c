/* SPDX-License-Identifier: Apache-2.0
 *
 * Borrowing the calling thread for driver calls of our own.
 */
#include "driver_context.h"

#include "resolve.h"

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
	driver.cuThreadExchangeStreamCaptureMode(&here->mode);
	return true;
}

void driver_leave(struct driver_context *here)
{
	CUcontext popped;

	driver.cuThreadExchangeStreamCaptureMode(&here->mode);
	if (here->pushed)
		driver.cuCtxPopCurrent_v2(&popped);
}

void driver_order(CUstream earlier, CUstream later)
{
	CUevent event;

	if (earlier == later ||
	    driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return;
	if (driver.cuEventRecord(event, earlier) == CUDA_SUCCESS)
		driver.cuStreamWaitEvent(later, event, 0);
	driver.cuEventDestroy_v2(event);
}

bool driver_context_lives(void)
{
	size_t free_bytes, total;

	return driver.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS;
}
