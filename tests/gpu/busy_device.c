/* SPDX-License-Identifier: Apache-2.0
 *
 *     busy_device IMAGE
 *
 * Which calls of the driver wait for a kernel that is running? One spins on a stream of its own
 * until the host lets it go, meanwhile another call is made, on another stream where it has one.
 * After LATEST_MS the kernel is let go in any case. Prints a line for each call: its name, the
 * milliseconds that it took, and "waits" where it came back no earlier. Calls that the shim makes
 * while it has its lock must not (tests/faults/faults.c): whoever lets the kernel go may be a
 * thread that wants the lock. IMAGE: kernels as the shim loads them.
 */
#include <pthread.h>

#include "driver_app.h"

#define LATEST_MS 200

static const char text[] =
	".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry spin(.param .u64 flag)\n{\n"
	".reg .pred %p; .reg .u32 %r; .reg .u64 %a;\n"
	"ld.param.u64 %a, [flag];\n"
	"again: ld.volatile.global.u32 %r, [%a];\nsetp.eq.u32 %p, %r, 0;\n@%p bra again;\nret;\n}\n"
	".visible .entry other(.param .u64 flag)\n{\nret;\n}\n"
	".visible .entry third(.param .u64 flag)\n{\nret;\n}\n";

static volatile unsigned *flag; /* mapped */
static CUdeviceptr flag_device, memory, spare[2];
static CUfunction spin, other;
static CUstream busy, stream, fresh;
static CUmodule module, late;
static CUevent event;
static CUmemoryPool pool;
static CUgraph graph;
static CUgraphExec exec;
static void *host, *spare_host;
static char pageable[1 << 20];
static const void *image;
static CUfunction found[64];
static cublasHandle_t blas;

static void *let_go(void *unused)
{
	usleep(LATEST_MS * 1000);
	*flag = 1;
	return unused;
}

static CUresult launch(CUfunction function)
{
	void *params[] = {&flag_device};

	return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

#define CALL(name, ...)                                                                            \
	static int name(void)                                                                      \
	{                                                                                          \
		return (int)(__VA_ARGS__);                                                         \
	}
CALL(event_query, cuEventQuery(event) == CUDA_ERROR_NOT_READY ? 0 : 0)
CALL(event_create, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
CALL(event_record, cuEventRecord(event, stream))
CALL(stream_wait, cuStreamWaitEvent(stream, event, 0))
CALL(event_destroy, cuEventDestroy(event))
CALL(launch_known, launch(other))
static int launch_queue_full(void) /* what waits for the kernel itself */
{
	void *params[] = {&flag_device};

	for (int i = 0; i < 5000; i++)
		CHECK(cuLaunchKernel(other, 1, 1, 1, 32, 1, 1, 0, busy, params, NULL));
	return 0;
}
CALL(copy_device, cuMemcpyDtoDAsync(memory, memory + 65536, 65536, stream))
CALL(copy_2d, cuMemcpy2DAsync(&(CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
					       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
					       .srcDevice = memory,
					       .dstDevice = memory + 524288,
					       .srcPitch = 256,
					       .dstPitch = 128,
					       .WidthInBytes = 128,
					       .Height = 100},
			      stream))
CALL(copy_to_pinned, cuMemcpyDtoHAsync(host, memory, 65536, stream))
CALL(copy_from_pinned, cuMemcpyHtoDAsync(memory, host, 65536, stream))
CALL(copy_to_pageable, cuMemcpyDtoHAsync(pageable, memory, 65536, stream))
CALL(copy_from_pageable, cuMemcpyHtoDAsync(memory, pageable, 1 << 20, stream))
CALL(set_d8, cuMemsetD8Async(memory, 0, 65536, stream))
CALL(set_d32, cuMemsetD32Async(memory, 0, 16384, stream))
CALL(address_range, cuMemGetAddressRange(&spare[1], &(size_t){0}, memory + 100))
CALL(mem_info, cuMemGetInfo(&(size_t){0}, &(size_t){0}))
CALL(alloc_small, cuMemAlloc(&spare[0], 256 << 10))
CALL(alloc_large, cuMemAlloc(&spare[1], 256 << 20))
CALL(free_small, cuMemFree(spare[0]))
CALL(free_large, cuMemFree(spare[1]))
static int pool_create(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	cuuint64_t keep = UINT64_MAX;
	const CUresult made = cuMemPoolCreate(&pool, &props);

	return made ? (int)made
		    : (int)cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}
CALL(pool_alloc_small, cuMemAllocFromPoolAsync(&spare[0], 256 << 10, pool, stream))
CALL(pool_alloc_large, cuMemAllocFromPoolAsync(&spare[1], 256 << 20, pool, stream))
CALL(pool_free_small, cuMemFreeAsync(spare[0], stream))
CALL(pool_free_large, cuMemFreeAsync(spare[1], stream))
CALL(pool_alloc_again, cuMemAllocFromPoolAsync(&spare[1], 200 << 20, pool, stream))
CALL(pool_free_again, cuMemFreeAsync(spare[1], stream))
CALL(pool_trim, cuMemPoolTrimTo(pool, 0))
CALL(pool_destroy, cuMemPoolDestroy(pool))
CALL(alloc_host, cuMemAllocHost(&spare_host, 4 << 20))
CALL(free_host, cuMemFreeHost(spare_host))
CALL(load_image, cuModuleLoadData(&late, image))
static int get_functions(void)
{
	unsigned count = 0;

	CHECK(cuModuleGetFunctionCount(&count, late));
	return count ? (int)cuModuleEnumerateFunctions(found, count < 64 ? count : 64, late) : 1;
}
CALL(set_attribute,
     cuFuncSetAttribute(found[0], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 32768))
CALL(load_function, cuFuncLoad(found[0]))
CALL(launch_lazy, cuModuleGetFunction(&found[1], module, "third") || launch(found[1]))
CALL(unload_image, cuModuleUnload(late))
CALL(stream_create, cuStreamCreate(&fresh, CU_STREAM_NON_BLOCKING))
CALL(stream_destroy, cuStreamDestroy(fresh))
static int graph_capture(void)
{
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(launch(other));
	return (int)cuStreamEndCapture(stream, &graph);
}
CALL(graph_instantiate, cuGraphInstantiateWithFlags(&exec, graph, 0))
CALL(graph_launch, cuGraphLaunch(exec, stream))
CALL(graph_exec_destroy, cuGraphExecDestroy(exec))
CALL(graph_destroy, cuGraphDestroy(graph))
CALL(blas_create, cublasCreate(&blas))
CALL(blas_destroy, cublasDestroy(blas))

static const struct {
	const char *name;
	int (*call)(void);
} calls[] = {
#define ROW(call)                                                                                  \
	{                                                                                          \
#call, call                                                                        \
	}
	ROW(event_create),
	ROW(event_record),
	ROW(stream_wait),
	ROW(event_query),
	ROW(event_destroy),
	ROW(launch_known),
	ROW(launch_queue_full),
	ROW(copy_device),
	ROW(copy_2d),
	ROW(copy_to_pinned),
	ROW(copy_from_pinned),
	ROW(copy_to_pageable),
	ROW(copy_from_pageable),
	ROW(set_d8),
	ROW(set_d32),
	ROW(address_range),
	ROW(mem_info),
	ROW(alloc_small),
	ROW(alloc_large),
	ROW(free_small),
	ROW(free_large),
	ROW(pool_create),
	ROW(pool_alloc_small),
	ROW(pool_alloc_large),
	ROW(pool_free_small),
	ROW(pool_free_large),
	ROW(pool_alloc_again),
	ROW(pool_free_again),
	ROW(pool_trim),
	ROW(pool_destroy),
	ROW(alloc_host),
	ROW(free_host),
	ROW(load_image),
	ROW(get_functions),
	ROW(set_attribute),
	ROW(load_function),
	ROW(launch_lazy),
	ROW(unload_image),
	ROW(stream_create),
	ROW(stream_destroy),
	ROW(graph_capture),
	ROW(graph_instantiate),
	ROW(graph_launch),
	ROW(graph_exec_destroy),
	ROW(graph_destroy),
	ROW(blas_create),
	ROW(blas_destroy),
};

static void try(int i)
{
	void *params[] = {&flag_device};
	pthread_t thread;
	double took;
	int status;

	*flag = 0;
	CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, busy, params, NULL));
	usleep(20000);
	CHECK(pthread_create(&thread, NULL, let_go, NULL));
	took = now_ms();
	status = calls[i].call();
	took = now_ms() - took;
	CHECK(pthread_join(thread, NULL));
	CHECK(cuCtxSynchronize());
	printf("%-20s %8.3f ms%s", calls[i].name, took, took > LATEST_MS * 0.9 ? "  waits" : "");
	printf(status ? "  (status %d)\n" : "\n", status);
	fflush(stdout);
}

static void *whole_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	void *bytes = malloc(64 << 20);

	if (!file || !bytes || !fread(bytes, 1, 64 << 20, file)) {
		printf("%s: cannot be read\n", path);
		exit(2);
	}
	fclose(file);
	return bytes;
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	int version = 0;
	char name[128];

	if (argc != 2)
		return 64;
	image = whole_file(argv[1]);
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDeviceGetName(name, sizeof(name), device));
	CHECK(cuDriverGetVersion(&version));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&flag_device, (void *)(uintptr_t)flag, 0));
	CHECK(cuMemAlloc(&memory, 1 << 20));
	CHECK(cuMemAllocHost(&host, 1 << 20));
	CHECK(cuModuleLoadData(&module, text));
	CHECK(cuModuleGetFunction(&spin, module, "spin"));
	CHECK(cuModuleGetFunction(&other, module, "other"));
	CHECK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	*flag = 1;
	CHECK(launch(other));
	CHECK(launch(spin));
	CHECK(cuCtxSynchronize());
	printf("%s, CUDA %d\n", name, version);
	for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		try((int)i);
	return 0;
}
