/* SPDX-License-Identifier: Apache-2.0
 *
 * Initialisation and contexts of the simulated driver.
 *
 * Contexts are never freed, only marked: a late call with a dead handle gets the error the real
 * driver would give. Each thread has its own stack of current contexts. SIMGPU_DEVICES=n (up to 8)
 * shows more than one device, SIMGPU_ARCH=90 chooses the compute capability times ten.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 8
#define STACK_DEPTH 32

static enum { COLD, READY, FORKED, EXITED } state;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_context *contexts;
static struct sim_context *primary[MAX_DEVICES], *ended[MAX_DEVICES];
static unsigned primary_flags[MAX_DEVICES];
static unsigned next_id = 1;
int sim_devices = 1;
int sim_arch = 90;
static __thread struct sim_context *stack[STACK_DEPTH];
static __thread int depth;

static void at_exit(void)
{
	state = EXITED;
}

static void after_fork(void)
{
	state = FORKED;
}

static void start(void)
{
	const char *text = getenv("SIMGPU_DEVICES");

	if (text && atoi(text) >= 1 && atoi(text) <= MAX_DEVICES)
		sim_devices = atoi(text);
	text = getenv("SIMGPU_ARCH");
	if (text && atoi(text) > 0)
		sim_arch = atoi(text);
	text = getenv("SIMGPU_ASYNC");
	sim_async = text && atoi(text) > 0;
	if (sim_async && atoi(text) > 1)
		sim_jitter = (unsigned)atoi(text);
	pthread_atfork(NULL, NULL, after_fork);
	atexit(at_exit);
	state = READY;
}

CUresult sim_ready(void)
{
	struct sim_context *ctx;

	if (state == READY) {
		ctx = sim_current();
		return ctx ? ctx->sticky : CUDA_SUCCESS;
	}
	return state == EXITED ? CUDA_ERROR_DEINITIALIZED : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult sim_refusal(int refused)
{
	struct sim_context *ctx = sim_current();

	if (refused < 0 && ctx)
		ctx->sticky = (CUresult)-refused;
	return (CUresult)abs(refused);
}

struct sim_context *sim_current(void)
{
	return depth && stack[depth - 1]->magic ? stack[depth - 1] : NULL;
}

struct sim_context *sim_context(CUcontext handle)
{
	struct sim_context *wanted = (struct sim_context *)handle, *ctx;

	pthread_mutex_lock(&context_lock);
	for (ctx = contexts; ctx && ctx != wanted; ctx = ctx->next)
		;
	pthread_mutex_unlock(&context_lock);
	return ctx && ctx->magic == SIM_CONTEXT ? ctx : NULL;
}

static struct sim_context *new_context(int device, unsigned flags)
{
	struct sim_context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	ctx->magic = SIM_CONTEXT;
	ctx->device = device;
	ctx->flags = flags;
	pthread_mutex_lock(&context_lock);
	ctx->id = next_id++;
	ctx->next = contexts;
	contexts = ctx;
	pthread_mutex_unlock(&context_lock);
	ctx->legacy = sim_stream_new(ctx, 0, 0);
	if (ctx->legacy)
		strcpy(ctx->legacy->name, "legacy");
	return ctx;
}

static void end_context(struct sim_context *ctx)
{
	sim_context_drain(ctx);
	sim_release_context(ctx);
	sim_modules_end(ctx);
	ctx->magic = 0;
	ctx->sticky = CUDA_SUCCESS;
	while (depth && stack[depth - 1] == ctx)
		depth--;
}

/* The next one has the same handle, as the driver's has. */
static void end_primary(CUdevice device)
{
	end_context(primary[device]);
	ended[device] = primary[device];
	primary[device] = NULL;
}

CUresult CUDAAPI cuInit(unsigned int flags)
{
	SIM_LOG(" flags=%u", flags);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (state == FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_once(&once, start);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	SIM_ENTER_CONTEXT(" flags=%u", flags);
	return sim_context(peer) && sim_context(peer) != ctx ? CUDA_SUCCESS
							     : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	pthread_mutex_lock(&sim_lock);
	struct sim_context *ctx = primary[device];
	if (ctx)
		ctx->retained++;
	pthread_mutex_unlock(&sim_lock);
	if (!ctx) {
		ctx = ended[device];
		if (!ctx)
			ctx = new_context(device, primary_flags[device]);
		if (!ctx)
			return CUDA_ERROR_OUT_OF_MEMORY;
		ctx->magic = SIM_CONTEXT;
		ctx->primary = true;
		ctx->retained = 1;
		primary[device] = ctx;
	}
	*out = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	CHECK_DEVICE(device);
	if (primary[device]) {
		end_primary(device);
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	CHECK_DEVICE(device);
	if (!primary[device])
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--primary[device]->retained == 0) {
		end_primary(device);
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
	SIM_ENTER(" device=%d flags=%u", device, flags);
	CHECK_DEVICE(device);
	primary_flags[device] = flags;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	SIM_ENTER(" device=%d", device);
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	*flags = primary_flags[device];
	*active = primary[device] != NULL;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
			     CUdevice device)
{
	SIM_ENTER(" flags=%u device=%d", flags, device);
	if (!out || (params && params->numExecAffinityParams))
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct sim_context *ctx = new_context(device, flags);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = ctx;
	*out = (CUcontext)ctx;
	return CUDA_SUCCESS;
}

#undef cuCtxCreate
CUresult CUDAAPI cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device);

CUresult CUDAAPI cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice device)
{
	SIM_LOG(" flags=%u device=%d", flags, device);
	return cuCtxCreate_v4(out, NULL, flags, device);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
	SIM_LOG(" flags=%u device=%d", flags, device);
	return cuCtxCreate_v4(out, NULL, flags, device);
}

CUresult CUDAAPI cuCtxDestroy(CUcontext handle)
{
	SIM_ENTER(" ctx=%p", (void *)handle);
	struct sim_context *ctx = sim_context(handle);
	if (!ctx || ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	end_context(ctx);
	return CUDA_SUCCESS;
}

/* A green context is a name for a context that has the whole device. */
CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc resources, CUdevice device,
				  unsigned int flags)
{
	SIM_ENTER(" device=%d flags=%u", device, flags);
	struct sim_context **green = malloc(sizeof(*green));
	(void)resources;
	if (!out || device < 0 || device >= sim_devices || !green)
		return free(green), CUDA_ERROR_INVALID_VALUE;
	*green = new_context(device, 0);
	*out = (CUgreenCtx)green;
	return *green ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx green)
{
	SIM_ENTER(" green=%p", (void *)green);
	if (!green)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_ANSWER(out, (CUcontext) * (struct sim_context **)green);
}

CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx green)
{
	SIM_ENTER(" green=%p", (void *)green);
	if (!green)
		return CUDA_ERROR_INVALID_VALUE;
	end_context(*(struct sim_context **)green);
	free(green);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext handle)
{
	SIM_ENTER(" ctx=%u", sim_context(handle) ? sim_context(handle)->id : 0);
	if (!sim_context(handle) || depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_CONTEXT;
	stack[depth++] = sim_context(handle);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *out)
{
	SIM_ENTER(" ");
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (out)
		*out = (CUcontext)stack[depth];
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext handle)
{
	SIM_ENTER(" ctx=%u", sim_context(handle) ? sim_context(handle)->id : 0);
	if (!handle) {
		if (depth)
			depth--;
		return CUDA_SUCCESS;
	}
	if (!sim_context(handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!depth)
		depth = 1;
	stack[depth - 1] = sim_context(handle);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out)
{
	SIM_ENTER(" ");
	SIM_ANSWER(out, (CUcontext)sim_current());
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
	SIM_ENTER_CONTEXT(" ");
	SIM_ANSWER(device, ctx->device);
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
	SIM_ENTER_CONTEXT(" ");
	SIM_ANSWER(flags, ctx->flags);
}

CUresult CUDAAPI cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	SIM_ENTER(" ");
	struct sim_context *ctx = handle ? sim_context(handle) : sim_current();
	if (!ctx || !id)
		return ctx ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*id = ctx->id;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	SIM_ENTER(" ");
	if (!version || (handle && !sim_context(handle)))
		return CUDA_ERROR_INVALID_CONTEXT;
	*version = 3020;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit)
{
	SIM_ENTER_CONTEXT(" limit=%d", limit);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	*value = limit == CU_LIMIT_STACK_SIZE ? 1024 : 8 << 20;
	return ctx->magic ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	SIM_ENTER(" ");
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
	SIM_ENTER_CONTEXT(" ctx=%u", sim_current() ? sim_current()->id : 0);
	CUresult permitted = sim_capture_permits();
	if (permitted != CUDA_SUCCESS)
		return permitted;
	sim_context_drain(ctx);
	return ctx->sticky;
}
