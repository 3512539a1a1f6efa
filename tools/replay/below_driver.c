/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver that succeeds and notes it, and the kernels that it knows (below.h).
 */
#include "tools/replay/below.h"

#include <string.h>

#include "shim/real/driver.h"
#include "shim/rules/function.h"

#define MAX_FUNCTIONS 8192

/* Stand-ins take what the real ones take. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

__thread int hook_depth;
struct driver_calls driver;

static struct played {
	char *name;
	unsigned count;
	size_t offset[FUNCTION_MAX_PARAMS], size[FUNCTION_MAX_PARAMS];
} functions[MAX_FUNCTIONS];
static unsigned function_count = 1; /* 0 is no handle */

/* ---- kernels */

CUfunction below_function(const char *name, unsigned params, const size_t *offset,
			  const size_t *size)
{
	struct played *played;

	for (unsigned i = 1; i < function_count; i++)
		if (strcmp(functions[i].name, name) == 0 && functions[i].count == params &&
		    memcmp(functions[i].offset, offset, params * sizeof(*offset)) == 0 &&
		    memcmp(functions[i].size, size, params * sizeof(*size)) == 0)
			return (CUfunction)(uintptr_t)i;
	if (function_count == MAX_FUNCTIONS || params > FUNCTION_MAX_PARAMS)
		return NULL;
	played = &functions[function_count];
	played->name = strdup(name);
	played->count = params;
	memcpy(played->offset, offset, params * sizeof(*offset));
	memcpy(played->size, size, params * sizeof(*size));
	return (CUfunction)(uintptr_t)function_count++;
}

bool below_layout(CUfunction handle, unsigned *params, const size_t **offset, const size_t **size)
{
	const uintptr_t index = (uintptr_t)handle;

	if (!index || index >= function_count)
		return false;
	*params = functions[index].count;
	*offset = functions[index].offset;
	*size = functions[index].size;
	return true;
}

static CUresult function_name(const char **name, CUfunction function)
{
	*name = functions[(uintptr_t)function].name;
	return CUDA_SUCCESS;
}

static CUresult param_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
	const struct played *played = &functions[(uintptr_t)function];

	if (index >= played->count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = played->offset[index];
	*size = played->size[index];
	return CUDA_SUCCESS;
}

/* ---- the driver */

static CUresult no(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static CUresult get_current(CUcontext *context)
{
	*context = BELOW_CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
	return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream)
{
	const bool back = source >= BELOW_SCRATCH && target < BELOW_SCRATCH;

	below_note((struct act){.kind = back ? ACT_WRITE_BACK : ACT_COPY,
				.a = source,
				.b = target,
				.bytes = bytes,
				.stream = stream});
	return CUDA_SUCCESS;
}

static CUresult copy_rows(const CUDA_MEMCPY2D *rows, CUstream stream)
{
	if (below.no_rows)
		return CUDA_ERROR_INVALID_VALUE;
	below_note((struct act){.kind = ACT_COPY,
				.a = rows->srcDevice,
				.b = rows->dstDevice,
				.bytes = rows->WidthInBytes,
				.rows = rows->Height,
				.pitch = rows->srcPitch,
				.stream = stream});
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
	below.waits++;
	return CUDA_SUCCESS;
}

static CUresult event_synchronize(CUevent event)
{
	below.waits++;
	return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags)
{
	*event = (CUevent)0x10;
	return below.no_order ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	below.marks++;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	return below.unfinished ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult memory_info(size_t *left, size_t *total)
{
	*left = *total = (size_t)1 << 40;
	return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream stream, CUevent event, unsigned flags)
{
	below_note((struct act){.kind = ACT_ORDER, .stream = stream});
	return CUDA_SUCCESS;
}

static CUresult memset32(CUdeviceptr target, unsigned word, size_t count, CUstream stream)
{
	below_note((struct act){
		.kind = ACT_FILL, .a = target, .b = word, .bytes = 4 * count, .stream = stream});
	return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
		       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
		       void **extra)
{
	struct act act = {.kind = ACT_LAUNCH, .function = function, .stream = stream};

	if (functions[(uintptr_t)function].count > 0 && functions[(uintptr_t)function].size[0] == 8)
		memcpy(&act.a, params[0], 8);
	if (functions[(uintptr_t)function].count > 1 && functions[(uintptr_t)function].size[1] == 8)
		memcpy(&act.b, params[1], 8);
	below_note(act);
	return below.no_rerun ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

int driver_resolve(void)
{
	if (driver.cuCtxGetCurrent)
		return 0;
	driver.cuCtxGetCurrent = get_current;
	driver.cuThreadExchangeStreamCaptureMode = exchange;
	driver.cuFuncGetName = function_name;
	driver.cuFuncGetParamInfo = param_info;
	driver.cuMemcpyDtoDAsync_v2 = copy;
	driver.cuMemcpy2DAsync_v2 = copy_rows;
	driver.cuEventCreate = event_create;
	driver.cuStreamSynchronize = synchronize;
	driver.cuEventSynchronize = event_synchronize;
	driver.cuEventRecord = event_record;
	driver.cuEventDestroy_v2 = event_destroy;
	driver.cuEventQuery = event_query;
	driver.cuMemGetInfo_v2 = memory_info;
	driver.cuStreamWaitEvent = stream_wait;
	driver.cuMemsetD32Async = memset32;
	driver.cuLaunchKernel = launch;
	driver.cuStreamIsCapturing = is_capturing;
	/* Whatever else there must be says no. */
#define DRIVER(name, since)                                                                        \
	if (!driver.name)                                                                          \
		driver.name = (__typeof__(driver.name))(void *)no;
#define DRIVER_NEWER(name, since, older) DRIVER(name, since)
#define DRIVER_OPTIONAL(name, since, lost)
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_NEWER
#undef DRIVER_OPTIONAL
	return 0;
}

const char *driver_lacks(unsigned i)
{
	return NULL;
}
