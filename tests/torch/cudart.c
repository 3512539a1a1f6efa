/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's runtime as far as PyTorch calls it, over the driver: with the simulated GPU below,
 * programs in PyTorch run on a machine without a GPU, and the shim sees all that they ask of one
 * (offline.py). Kernels are loaded and launched as NVIDIA's runtime does it: libraries, kernels of
 * libraries, cuLaunchKernelEx().
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not there in drivers as old as the one that may be played. */
#pragma weak cuEventElapsedTime_v2
#pragma weak cuStreamGetCaptureInfo_v3

static __thread cudaError_t last;
static __thread int device;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static cudaError_t say(CUresult result)
{
	if (result != CUDA_SUCCESS)
		last = (cudaError_t)result; /* most have the same numbers */
	return (cudaError_t)result;
}

static void begin(void)
{
	cuInit(0);
}

/* Each thread uses the primary context. */
static void enter(void)
{
	static CUcontext primary[16];
	CUcontext now = NULL;

	pthread_once(&once, begin);
	if (cuCtxGetCurrent(&now) == CUDA_SUCCESS && now)
		return;
	if (!primary[device])
		cuDevicePrimaryCtxRetain(&primary[device], device);
	cuCtxSetCurrent(primary[device]);
}

#define CALL(...) (enter(), say(__VA_ARGS__))
#define FORWARD(name, parameters, ...)                                                             \
	cudaError_t name parameters                                                                \
	{                                                                                          \
		return CALL(__VA_ARGS__);                                                          \
	}
#define AT(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

/* ---- kernels ---------------------------------------------------------------------------- */

struct image {
	const void *wrapper;
	CUlibrary library;
};

/* Of a function of the host's, by its address. */
struct entry {
	const void *host;
	const char *name;
	struct image *image;
	CUkernel kernel;
};

static struct entry *table;
static size_t table_size, table_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct entry *place_of(const void *host)
{
	size_t at = ((uintptr_t)host >> 4) * 0x9e3779b97f4a7c15u % table_size;

	while (table[at].host && table[at].host != host)
		at = (at + 1) % table_size;
	return &table[at];
}

static void grow(void)
{
	struct entry *const old = table;
	const size_t size = table_size;

	table_size = size ? 2 * size : 1 << 15;
	table = calloc(table_size, sizeof(*table));
	if (!table)
		abort();
	for (size_t i = 0; i < size; i++)
		if (old[i].host)
			*place_of(old[i].host) = old[i];
	free(old);
}

void **__cudaRegisterFatBinary(void *wrapper);
void **__cudaRegisterFatBinary(void *wrapper)
{
	struct image *image = calloc(1, sizeof(*image));

	if (!image)
		abort();
	image->wrapper = wrapper;
	return (void **)image;
}

void __cudaRegisterFatBinaryEnd(void **image);
void __cudaRegisterFatBinaryEnd(void **image)
{
	(void)image;
}

void __cudaUnregisterFatBinary(void **image);
void __cudaUnregisterFatBinary(void **image)
{
	(void)image;
}

char __cudaInitModule(void **image);
char __cudaInitModule(void **image)
{
	(void)image;
	return 1;
}

void __cudaRegisterFunction(void **image, const char *host, char *function, const char *name,
			    int limit, void *tid, void *bid, void *block, void *grid, int *warp);
void __cudaRegisterFunction(void **image, const char *host, char *function, const char *name,
			    int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
	(void)function, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
	pthread_mutex_lock(&lock);
	if (2 * table_used >= table_size)
		grow();
	table_used++;
	*place_of(host) = (struct entry){host, name, (struct image *)image, NULL};
	pthread_mutex_unlock(&lock);
}

void __cudaRegisterVar(void **image, char *host, char *address, const char *name, int external,
		       size_t size, int constant, int global);
void __cudaRegisterVar(void **image, char *host, char *address, const char *name, int external,
		       size_t size, int constant, int global)
{
	(void)image, (void)host, (void)address, (void)name, (void)external, (void)size,
		(void)constant, (void)global;
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host);
cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host)
{
	CUresult result = CUDA_ERROR_NOT_FOUND;
	struct entry *entry;

	enter();
	pthread_mutex_lock(&lock);
	entry = table_size ? place_of(host) : NULL;
	if (entry && entry->host) {
		result = CUDA_SUCCESS;
		if (!entry->image->library)
			result = cuLibraryLoadData(&entry->image->library, entry->image->wrapper,
						   NULL, NULL, 0, NULL, NULL, 0);
		if (result == CUDA_SUCCESS && !entry->kernel)
			result = cuLibraryGetKernel(&entry->kernel, entry->image->library,
						    entry->name);
		*out = (cudaKernel_t)entry->kernel;
	}
	pthread_mutex_unlock(&lock);
	return say(result);
}

static __thread struct {
	dim3 grid, block;
	size_t shared;
	void *stream;
} pushed[8];
static __thread int pushed_count;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
	pushed[pushed_count].grid = grid;
	pushed[pushed_count].block = block;
	pushed[pushed_count].shared = shared;
	pushed[pushed_count++].stream = stream;
	return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	pushed_count--;
	*grid = pushed[pushed_count].grid;
	*block = pushed[pushed_count].block;
	*shared = pushed[pushed_count].shared;
	*(void **)stream = pushed[pushed_count].stream;
	return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
			       size_t shared, cudaStream_t stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
			       size_t shared, cudaStream_t stream)
{
	const CUlaunchConfig config = {.gridDimX = grid.x,
				       .gridDimY = grid.y,
				       .gridDimZ = grid.z,
				       .blockDimX = block.x,
				       .blockDimY = block.y,
				       .blockDimZ = block.z,
				       .sharedMemBytes = (unsigned)shared,
				       .hStream = stream};

	return CALL(cuLaunchKernelEx(&config, (CUfunction)kernel, args, NULL));
}

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared,
			     cudaStream_t stream)
{
	cudaKernel_t kernel;
	const cudaError_t error = __cudaGetKernel(&kernel, host);

	return error ? error : __cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block, void **args,
					size_t shared, cudaStream_t stream)
{
	return cudaLaunchKernel(host, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *host, void **args)
{
	return cudaLaunchKernel(host, c->gridDim, c->blockDim, args, c->dynamicSmemBytes,
				c->stream);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *host)
{
	cudaKernel_t kernel;
	const cudaError_t error = __cudaGetKernel(&kernel, host);

	memset(out, 0, sizeof(*out));
	out->maxThreadsPerBlock = 1024;
	out->numRegs = 32;
	out->ptxVersion = out->binaryVersion = 90;
	out->maxDynamicSharedSizeBytes = 49152;
	return error;
}

cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute what, int value)
{
	cudaKernel_t kernel;
	const cudaError_t error = __cudaGetKernel(&kernel, host);

	return error ? error
		     : CALL(cuKernelSetAttribute((CUfunction_attribute)what, value,
						 (CUkernel)kernel, device));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host,
							  int threads, size_t shared)
{
	(void)host, (void)shared;
	*blocks = 2048 / threads;
	return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host,
								   int threads, size_t shared,
								   unsigned flags)
{
	(void)flags;
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, threads, shared);
}

/* ---- devices ---------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *count)
{
	pthread_once(&once, begin);
	return say(cuDeviceGetCount(count));
}

cudaError_t cudaGetDevice(int *out)
{
	*out = device;
	return cudaSuccess;
}

cudaError_t cudaSetDevice(int of)
{
	if (of != device)
		cuCtxSetCurrent(NULL);
	device = of;
	enter();
	return cudaSuccess;
}

FORWARD(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr what, int of),
	cuDeviceGetAttribute(value, (CUdevice_attribute)what, of))
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int of)
{
	memset(p, 0, sizeof(*p));
	enter();
	cuDeviceGetName(p->name, sizeof(p->name), of);
	cuDeviceTotalMem(&p->totalGlobalMem, of);
#define ATTRIBUTE(member, name) cuDeviceGetAttribute(&p->member, CU_DEVICE_ATTRIBUTE_##name, of)
	ATTRIBUTE(major, COMPUTE_CAPABILITY_MAJOR);
	ATTRIBUTE(minor, COMPUTE_CAPABILITY_MINOR);
	ATTRIBUTE(multiProcessorCount, MULTIPROCESSOR_COUNT);
	p->warpSize = 32;
	p->sharedMemPerBlock = 49152;
	p->sharedMemPerBlockOptin = 232448;
	p->sharedMemPerMultiprocessor = 233472;
	p->regsPerBlock = p->regsPerMultiprocessor = 65536;
	p->maxThreadsPerBlock = 1024;
	p->maxThreadsPerMultiProcessor = 2048;
	p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
	p->maxThreadsDim[2] = 64;
	p->maxGridSize[0] = 0x7fffffff;
	p->maxGridSize[1] = p->maxGridSize[2] = 65535;
	p->totalConstMem = 65536;
	p->l2CacheSize = 50 << 20;
	p->maxBlocksPerMultiProcessor = 32;
	p->concurrentKernels = p->unifiedAddressing = p->canMapHostMemory = p->cooperativeLaunch =
		1;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int of)
{
	snprintf(out, (size_t)size, "0000:%02x:00.0", of + 1);
	return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int of, int peer)
{
	(void)of, (void)peer;
	*can = 0;
	return cudaSuccess;
}

FORWARD(cudaDeviceSynchronize, (void), cuCtxSynchronize())
cudaError_t cudaDriverGetVersion(int *version)
{
	*version = CUDART_VERSION; /* whichever the simulated driver is of */
	return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
					     unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *how)
{
	CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SUCCESS;

	enter();
	if (cuGetProcAddress(name, out, (int)version, flags, &result) != CUDA_SUCCESS)
		*out = NULL;
	if (how)
		*how = *out ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
	const cudaError_t was = last;

	last = cudaSuccess;
	return was;
}

cudaError_t cudaPeekAtLastError(void)
{
	return last;
}

const char *cudaGetErrorName(cudaError_t error)
{
	const char *name = "cudaErrorUnknown";

	cuGetErrorName((CUresult)error, &name);
	return name;
}

const char *cudaGetErrorString(cudaError_t error)
{
	return cudaGetErrorName(error);
}

/* ---- memory ----------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
	CUdeviceptr at = 0;
	const cudaError_t error = CALL(cuMemAlloc(&at, bytes));

	*out = (void *)(uintptr_t)at;
	return error;
}

cudaError_t cudaFree(void *at)
{
	return at ? CALL(cuMemFree(AT(at))) : (enter(), cudaSuccess);
}

FORWARD(cudaHostAlloc, (void **out, size_t bytes, unsigned flags),
	cuMemHostAlloc(out, bytes, flags))
FORWARD(cudaFreeHost, (void *at), cuMemFreeHost(at))
FORWARD(cudaHostRegister, (void *at, size_t bytes, unsigned flags),
	cuMemHostRegister(at, bytes, flags))
FORWARD(cudaHostUnregister, (void *at), cuMemHostUnregister(at))
FORWARD(cudaMemGetInfo, (size_t * left, size_t *all), cuMemGetInfo(left, all))
static CUresult copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
		     CUstream stream)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return cuMemcpyHtoDAsync(AT(to), from, bytes, stream);
	case cudaMemcpyDeviceToHost:
		return cuMemcpyDtoHAsync(to, AT(from), bytes, stream);
	case cudaMemcpyDeviceToDevice:
		return cuMemcpyDtoDAsync(AT(to), AT(from), bytes, stream);
	default:
		return cuMemcpyAsync(AT(to), AT(from), bytes, stream);
	}
}

FORWARD(cudaMemcpyAsync,
	(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
	copy(to, from, bytes, kind, stream))
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
	const cudaError_t error = CALL(copy(to, from, bytes, kind, NULL));

	return error ? error : CALL(cuStreamSynchronize(NULL));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			      size_t width, size_t height, enum cudaMemcpyKind kind,
			      cudaStream_t stream)
{
	const CUDA_MEMCPY2D all = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
				   .srcDevice = AT(from),
				   .srcPitch = from_pitch,
				   .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
				   .dstDevice = AT(to),
				   .dstPitch = to_pitch,
				   .WidthInBytes = width,
				   .Height = height};

	(void)kind;
	return CALL(cuMemcpy2DAsync(&all, stream));
}

FORWARD(cudaMemset, (void *at, int value, size_t bytes),
	cuMemsetD8(AT(at), (unsigned char)value, bytes))
FORWARD(cudaMemsetAsync, (void *at, int value, size_t bytes, cudaStream_t stream),
	cuMemsetD8Async(AT(at), (unsigned char)value, bytes, stream))
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *at)
{
	CUmemorytype type = 0;

	enter();
	memset(out, 0, sizeof(*out));
	if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, AT(at)) != CUDA_SUCCESS)
		return cudaSuccess; /* not registered */
	out->type = type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
	out->device = device;
	out->devicePointer = (void *)(uintptr_t)at;
	if (type != CU_MEMORYTYPE_DEVICE)
		out->hostPointer = (void *)(uintptr_t)at;
	return cudaSuccess;
}

/* ---- streams, events, graphs ------------------------------------------------------------ */

FORWARD(cudaStreamCreate, (cudaStream_t * out), cuStreamCreate(out, 0))
FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * out, unsigned flags, int priority),
	cuStreamCreateWithPriority(out, flags, priority))
FORWARD(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	enter();
	return (cudaError_t)cuStreamQuery(stream);
}

FORWARD(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))
FORWARD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
	cuStreamWaitEvent(stream, event, flags))
FORWARD(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
	cuStreamGetPriority(stream, priority))
FORWARD(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
	cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status))
FORWARD(cudaStreamGetCaptureInfo,
	(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
	 cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
	 size_t *count),
	cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph,
			       nodes, (const CUgraphEdgeData **)edges, count))
FORWARD(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
	cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))
FORWARD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
	cuStreamEndCapture(stream, graph))
FORWARD(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
	cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * out, unsigned flags), cuEventCreate(out, flags))
FORWARD(cudaEventCreate, (cudaEvent_t * out), cuEventCreate(out, 0))
FORWARD(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))
FORWARD(cudaEventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to),
	cuEventElapsedTime(ms, from, to))
cudaError_t cudaEventQuery(cudaEvent_t event)
{
	enter();
	return (cudaError_t)cuEventQuery(event);
}

FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))
FORWARD(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
	cuEventRecordWithFlags(event, stream, flags))
FORWARD(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))
FORWARD(cudaGraphInstantiateWithFlags,
	(cudaGraphExec_t * out, cudaGraph_t graph, unsigned long long flags),
	cuGraphInstantiateWithFlags(out, graph, flags))
FORWARD(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), cuGraphLaunch(graph, stream))
FORWARD(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t graph), cuGraphExecDestroy(graph))
FORWARD(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
	cuGraphGetNodes(graph, nodes, count))
