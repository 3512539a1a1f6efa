/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated driver keeps the rules that programs and a shim rely on: names and versions,
 * address ranges, argument forms, capture states, contexts.
 */
#include "tests/cmocka.h"
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUcontext context;
static CUmodule module;
static CUfunction scale;

static void *name(const char *symbol)
{
	return dlsym(RTLD_DEFAULT, symbol);
}

static int open_device(void **state)
{
	char path[4096];

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return -1;
	snprintf(path, sizeof(path), "%s/apps/sim/demo.kernels", BUILD_FOLDER);
	return cuModuleLoad(&module, path) || cuModuleGetFunction(&scale, module, "app_scale_f16");
}

static void every_name_has_its_own_address(void **state)
{
	static void *seen[2000];
	unsigned count = 0;
	char word[256];
	FILE *f = fopen(BUILD_FOLDER "/tests/simgpu/names", "r");

	assert_non_null(f);
	while (fscanf(f, "%*s %*s %255s", word) == 1) {
		if (strncmp(word, "cu", 2))
			continue;
		void *p = name(word);
		if (!p)
			fail_msg("%s is not exported", word);
		for (unsigned i = 0; i < count; i++)
			if (seen[i] == p)
				fail_msg("%s shares its address", word);
		assert_true(count < 2000);
		seen[count++] = p;
	}
	fclose(f);
	assert_true(count > 500);
}

static void *ask(const char *symbol, int version, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *p = (void *)1;

	assert_int_equal(cuGetProcAddress_v2(symbol, &p, version, flags, &status), CUDA_SUCCESS);
	assert_int_equal(status == CU_GET_PROC_ADDRESS_SUCCESS, p != NULL);
	return p;
}

static void asked_names_are_exports_of_that_abi(void **state)
{
	assert_ptr_equal(ask("cuMemAlloc", 2000, 0), name("cuMemAlloc"));
	assert_ptr_equal(ask("cuMemAlloc", 3020, 0), name("cuMemAlloc_v2"));
	assert_ptr_equal(ask("cuMemAlloc", 13000, 2), name("cuMemAlloc_v2"));
	assert_ptr_equal(ask("cuCtxCreate", 11030, 0), name("cuCtxCreate_v2"));
	assert_ptr_equal(ask("cuCtxCreate", 13000, 0), name("cuCtxCreate_v4"));
	assert_ptr_equal(ask("cuLaunchKernel", 7000, 2), name("cuLaunchKernel_ptsz"));
	assert_ptr_equal(ask("cuLaunchKernel", 4000, 1), name("cuLaunchKernel"));
	assert_ptr_equal(ask("cuMemcpyHtoD", 7000, 2), name("cuMemcpyHtoD_v2_ptds"));
	assert_ptr_equal(ask("cuGetProcAddress", 11030, 0), name("cuGetProcAddress"));
	assert_ptr_equal(ask("cuGetProcAddress", 12000, 0), name("cuGetProcAddress_v2"));
	assert_ptr_equal(ask("cuEventElapsedTime", 12080, 0), name("cuEventElapsedTime_v2"));
}

static void missing_names_are_reported_as_each_arity_does(void **state)
{
	CUresult (*old)(const char *, void **, int, cuuint64_t) = name("cuGetProcAddress");
	CUdriverProcAddressQueryResult status;
	void *p = (void *)1;

	assert_int_equal(old("cuNoSuchThing", &p, 13000, 0), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(old("cuMemAlloc", &p, 3020, 0), CUDA_SUCCESS);
	assert_ptr_equal(p, name("cuMemAlloc_v2"));
	assert_null(ask("", 0, 0));
	assert_null(ask("cuMemAlloc_v2", 13000, 0));
	assert_int_equal(cuGetProcAddress_v2("cuLaunchKernelEx", &p, 11000, 0, &status), 0);
	assert_null(p);
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_int_equal(cuGetProcAddress_v2("cuMemFree", &p, 13000, 0, NULL), CUDA_SUCCESS);
	assert_int_equal(cuGetProcAddress_v2("cuMemFree", &p, 13000, 3, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuGetProcAddress_v2(NULL, &p, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void unknown_functions_say_so(void **state)
{
	CUresult (*no)(void) = name("cuTexRefCreate");

	assert_int_equal(no(), CUDA_ERROR_NOT_SUPPORTED);
}

static void allocations_have_exact_ranges(void **state)
{
	CUdeviceptr p, base, again;
	unsigned char bytes[1000];
	size_t size;

	assert_int_equal(cuMemAlloc(&p, 1000), CUDA_SUCCESS);
	assert_int_equal(p % 512, 0);
	assert_int_equal(cuMemGetAddressRange(&base, &size, p + 999), CUDA_SUCCESS);
	assert_int_equal(base, p);
	assert_int_equal(size, 1000);
	assert_int_equal(cuMemGetAddressRange(&base, &size, p + 1000), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuMemcpyDtoH(bytes, p, 1000), CUDA_SUCCESS);
	assert_int_equal(bytes[0], 0xff);
	assert_int_equal(cuMemcpyDtoH(bytes, p + 1, 1000), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyHtoD(p - 1, bytes, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemsetD32(p + 998, 0, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree(p + 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree(p), CUDA_SUCCESS);
	assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemcpyDtoH(bytes, p, 1), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemAlloc(&again, 1000), CUDA_SUCCESS);
	assert_int_equal(again, p);
	assert_int_equal(cuMemFree(again), CUDA_SUCCESS);
}

static void pitched_copies_leave_the_rest(void **state)
{
	unsigned char host[6 * 16], want[6 * 16];
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = host,
			   .srcPitch = 4,
			   .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			   .dstPitch = 16,
			   .dstXInBytes = 3,
			   .dstY = 1,
			   .WidthInBytes = 4,
			   .Height = 5};
	CUdeviceptr p;

	assert_int_equal(cuMemAlloc(&p, sizeof(host)), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD8(p, 7, sizeof(host)), CUDA_SUCCESS);
	memset(want, 7, sizeof(want));
	for (int i = 0; i < 20; i++)
		want[(1 + i / 4) * 16 + 3 + i % 4] = host[i] = (unsigned char)(100 + i);
	c.dstDevice = p;
	assert_int_equal(cuMemcpy2D(&c), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(host, p, sizeof(host)), CUDA_SUCCESS);
	assert_memory_equal(host, want, sizeof(host));
	c.Height = 6;
	assert_int_equal(cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
	cuMemFree(p);
}

static void mapped_memory_is_one_memory(void **state)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t size = 2 << 20;
	unsigned value = 0;
	CUdeviceptr p;

	assert_int_equal(cuMemAddressReserve(&p, 2 * size, 0, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemCreate(&handle, size, &prop, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(p, size, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(p + size, size, 0, handle, 0), CUDA_SUCCESS);
	assert_int_equal(cuMemMap(p, size, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemSetAccess(p, 2 * size, &access, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD32(p + 64, 0x1234, 1), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(&value, p + size + 64, 4), CUDA_SUCCESS);
	assert_int_equal(value, 0x1234);
	assert_int_equal(cuMemUnmap(p, size), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(&value, p, 4), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemUnmap(p + size, size), CUDA_SUCCESS);
	assert_int_equal(cuMemRelease(handle), CUDA_SUCCESS);
	assert_int_equal(cuMemAddressFree(p, 2 * size), CUDA_SUCCESS);
}

static void images_are_told_apart(void **state)
{
	static const char ptx[] = ".version 8.0\n.target sm_80\n", noise[64] = "noise";
	char path[4096];
	CUmodule m;
	FILE *f;

	snprintf(path, sizeof(path), "%s/apps/sim/demo.kernels", BUILD_FOLDER);
	assert_non_null(f = fopen(path, "rb"));
	char *bytes = calloc(1, 1 << 20);
	assert_true(fread(bytes, 1, 1 << 20, f) > 0);
	fclose(f);
	assert_int_equal(cuModuleLoadData(&m, bytes), CUDA_SUCCESS);
	free(bytes);
	CUfunction found;
	assert_int_equal(cuModuleGetFunction(&found, m, "app_copy_f16"), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&found, m, "app_copy"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
	assert_int_equal(cuModuleLoadData(&m, noise), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(cuModuleLoad(&m, BUILD_FOLDER "/no-such-file"), CUDA_ERROR_FILE_NOT_FOUND);
	assert_int_equal(cuModuleLoadData(&m, ptx), CUDA_SUCCESS); /* fashim's own */
	assert_int_equal(cuModuleGetFunction(&found, m, "fashim_drift"), CUDA_SUCCESS);
}

/* SIMGPU_RUN=none */
static void strangers_kernels_do_nothing(void **state)
{
	static const uint32_t fat_binary[16] = {0xba55ed50};
	static const char own[] = ".version 8.0 // of the host build\n";
	size_t offset, size;
	CUfunction function;
	CUmodule m;

	setenv("SIMGPU_RUN", "none", 1);
	assert_int_equal(cuModuleLoadData(&m, fat_binary), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&function, m, "whatever"), CUDA_SUCCESS);
	assert_int_equal(cuFuncGetParamInfo(function, 0, &offset, &size), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), 0);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
	assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
	assert_int_equal(cuModuleLoadData(&m, own), CUDA_SUCCESS);
	assert_int_equal(cuModuleGetFunction(&function, m, "whatever"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleUnload(m), CUDA_SUCCESS);
	unsetenv("SIMGPU_RUN");
}

static void functions_and_kernels_are_two_kinds(void **state)
{
	CUlibrary library;
	CUkernel kernel;
	CUfunction function;
	const char *text;
	char path[4096];
	size_t offset, size;

	snprintf(path, sizeof(path), "%s/apps/sim/demo.kernels", BUILD_FOLDER);
	assert_int_equal(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0), 0);
	assert_int_equal(cuLibraryGetKernel(&kernel, library, "app_scale_f16"), CUDA_SUCCESS);
	assert_int_equal(cuKernelGetFunction(&function, kernel), CUDA_SUCCESS);
	assert_int_equal(cuKernelGetName(&text, kernel), CUDA_SUCCESS);
	assert_string_equal(text, "app_scale_f16");
	assert_int_equal(cuFuncGetName(&text, function), CUDA_SUCCESS);
	assert_int_equal(cuFuncGetName(&text, (CUfunction)kernel), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuKernelGetName(&text, (CUkernel)function), CUDA_ERROR_INVALID_HANDLE);
	const size_t where[] = {0, 8, 16, 24}, long_is[] = {8, 8, 4, 8};
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(cuKernelGetParamInfo(kernel, i, &offset, &size), CUDA_SUCCESS);
		assert_int_equal(offset, where[i]);
		assert_int_equal(size, long_is[i]);
		assert_int_equal(cuFuncGetParamInfo(function, i, &offset, &size), CUDA_SUCCESS);
	}
	assert_int_equal(cuFuncGetParamInfo(function, 4, &offset, &size), CUDA_ERROR_INVALID_VALUE);
}

/* Both argument forms, launched with either handle, do the same; limits are refused. */
static void launches_take_both_forms(void **state)
{
	unsigned short in[300], out[300];
	float factor = 2;
	long long n = 300;
	CUdeviceptr p;

	for (int i = 0; i < 300; i++)
		in[i] = 0x3c00; /* 1 */
	assert_int_equal(cuMemAlloc(&p, 1200), CUDA_SUCCESS);
	CUdeviceptr to = p + 600;
	assert_int_equal(cuMemcpyHtoD(p, in, 600), CUDA_SUCCESS);
	void *params[] = {&to, &p, &factor, &n};
	assert_int_equal(cuLaunchKernel(scale, 2, 1, 1, 256, 1, 1, 0, NULL, params, NULL), 0);
	assert_int_equal(cuMemcpyDtoH(out, to, 600), CUDA_SUCCESS);
	assert_int_equal(out[299], 0x4000);
	struct {
		CUdeviceptr to, from;
		float factor;
		long long n;
	} block = {to, p, 4, 300};
	size_t size = sizeof(block);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, &block,
			 CU_LAUNCH_PARAM_END};
	CUlaunchConfig config = {.gridDimX = 2,
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 256,
				 .blockDimY = 1,
				 .blockDimZ = 1};
	assert_int_equal(cuLaunchKernelEx(&config, scale, NULL, extra), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(out, to, 600), CUDA_SUCCESS);
	assert_int_equal(out[299], 0x4400);
	size = 20;
	assert_int_equal(cuLaunchKernelEx(&config, scale, NULL, extra), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(scale, 0, 1, 1, 256, 1, 1, 0, NULL, params, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(scale, 1, 1, 1, 1025, 1, 1, 0, NULL, params, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuLaunchKernel(scale, 2, 1, 1, 256, 1, 1, 100000, NULL, params, NULL),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(
		cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000),
		CUDA_SUCCESS);
	assert_int_equal(cuLaunchKernel(scale, 2, 1, 1, 256, 1, 1, 100000, NULL, params, NULL),
			 CUDA_SUCCESS);
	cuMemFree(p);
}

static void captured_work_runs_at_each_launch(void **state)
{
	CUstreamCaptureStatus status;
	CUstream stream, other;
	CUevent event;
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr p;
	unsigned value[2];

	assert_int_equal(cuMemAlloc(&p, 8), CUDA_SUCCESS);
	cuMemsetD32(p, 0, 2);
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
	cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	assert_int_equal(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
			 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuMemsetD32Async(p, 5, 1, stream), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(event, stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamIsCapturing(other, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_int_equal(cuMemcpyDtoDAsync(p + 4, p, 4, other), CUDA_SUCCESS);
	assert_int_equal(cuEventRecord(event, other), CUDA_SUCCESS);
	assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	assert_int_equal(cuStreamIsCapturing(other, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_int_equal(cuMemcpyDtoH(value, p, 8), CUDA_SUCCESS);
	assert_int_equal(value[1], 0);
	assert_int_equal(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		cuMemsetD32(p, 0, 2);
		assert_int_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
		assert_int_equal(cuMemcpyDtoH(value, p, 8), CUDA_SUCCESS);
		assert_int_equal(value[1], 5);
	}
	assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	cuMemFree(p);
}

/* Fills two words, the second after the first. */
static CUgraph two_fills(CUstream stream, CUdeviceptr p, unsigned first, unsigned second)
{
	CUgraph graph;

	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
	assert_int_equal(cuMemsetD32Async(p, first, 1, stream), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD32Async(p, second, 1, stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	return graph;
}

static unsigned launched(CUgraph graph, CUdeviceptr p)
{
	CUgraphExec exec;
	unsigned value;

	assert_int_equal(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
	assert_int_equal(cuGraphLaunch(exec, NULL), CUDA_SUCCESS);
	assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(&value, p, 4), CUDA_SUCCESS);
	return value;
}

static void graphs_can_be_changed(void **state)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph graph, other, clone;
	CUgraphNode from, to, node, inner;
	CUgraphExec exec;
	CUstream stream;
	CUdeviceptr p;
	unsigned value;
	size_t count = 1;

	assert_int_equal(cuMemAlloc(&p, 8), CUDA_SUCCESS);
	cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	graph = two_fills(stream, p, 1, 2);
	other = two_fills(stream, p, 3, 4);
	assert_int_equal(cuGraphGetEdges(graph, &from, &to, NULL, &count), CUDA_SUCCESS);
	assert_int_equal(count, 1);
	assert_int_equal(launched(graph, p), 2);
	/* a copy: without its second node, then with another graph behind the first */
	assert_int_equal(cuGraphClone(&clone, graph), CUDA_SUCCESS);
	assert_int_equal(cuGraphNodeFindInClone(&node, to, clone), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroyNode(node), CUDA_SUCCESS);
	assert_int_equal(launched(clone, p), 1);
	assert_int_equal(cuGraphNodeFindInClone(&node, from, clone), CUDA_SUCCESS);
	assert_int_equal(cuGraphAddChildGraphNode(&inner, clone, NULL, 0, other), CUDA_SUCCESS);
	assert_int_equal(launched(clone, p), 1); /* nothing says that it comes last */
	assert_int_equal(cuGraphAddDependencies(clone, &node, &inner, NULL, 1), CUDA_SUCCESS);
	assert_int_equal(cuGraphAddDependencies(clone, &node, &inner, NULL, 1),
			 CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(launched(clone, p), 4);
	assert_int_equal(launched(graph, p), 2);
	/* the executable graph: what nodes do may change, not which there are */
	assert_int_equal(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
	assert_int_equal(cuGraphExecUpdate(exec, clone, &info),
			 CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	assert_int_equal(cuGraphExecUpdate(exec, other, &info), CUDA_SUCCESS);
	assert_int_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyDtoH(&value, p, 4), CUDA_SUCCESS);
	assert_int_equal(value, 4);
	cuGraphExecDestroy(exec);
	cuGraphDestroy(clone);
	cuGraphDestroy(other);
	cuGraphDestroy(graph);
	cuMemFree(p);
}

static void what_capture_forbids_breaks_it(void **state)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status;
	CUgraph graph = (CUgraph)1;
	CUstream stream;
	CUdeviceptr p;

	cuStreamCreate(&stream, CU_STREAM_DEFAULT);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	assert_int_equal(cuMemAlloc(&p, 16), CUDA_SUCCESS);
	cuThreadExchangeStreamCaptureMode(&mode);
	assert_int_equal(cuMemsetD8Async(p, 0, 16, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
	assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	cuMemFree(p);
}

static void contexts_stack_by_thread(void **state)
{
	CUcontext other, now;
	CUdeviceptr p;

	assert_int_equal(cuCtxCreate_v4(&other, NULL, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuCtxGetCurrent(&now), CUDA_SUCCESS);
	assert_ptr_equal(now, other);
	assert_int_equal(cuMemAlloc(&p, 64), CUDA_SUCCESS);
	assert_int_equal(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_CONTEXT, p + 63), 0);
	assert_ptr_equal(now, other);
	assert_int_equal(cuCtxPopCurrent(&now), CUDA_SUCCESS);
	assert_ptr_equal(now, other);
	assert_int_equal(cuCtxGetCurrent(&now), CUDA_SUCCESS);
	assert_ptr_equal(now, context);
	assert_int_equal(cuCtxDestroy(other), CUDA_SUCCESS);
	assert_int_equal(cuCtxSetCurrent(other), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(cuPointerGetAttribute(&now, CU_POINTER_ATTRIBUTE_CONTEXT, p),
			 CUDA_ERROR_INVALID_VALUE);
}

/* The exported name without its version, as cuGetProcAddress is asked. */
static void *entry(const char *symbol, int version)
{
	char base[128];
	void *address = NULL;
	size_t length = strlen(symbol);

	if (length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v')
		length -= 3;
	snprintf(base, sizeof(base), "%.*s", (int)length, symbol);
	cuGetProcAddress_v2(base, &address, version, 0, NULL);
	return address;
}

/* The versions in the shim's table of driver calls are those of the toolkit's headers: a function
 * is there from then on, and not before. */
static void since_when_functions_are_there(void **state)
{
	static const struct {
		const char *name;
		int since;
	} rows[] = {
#define DRIVER(name, since)		   {#name, since},
#define DRIVER_NEWER(name, since, older)   {#name, since},
#define DRIVER_OPTIONAL(name, since, lost) {#name, since},
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_NEWER
#undef DRIVER_OPTIONAL
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (entry(rows[i].name, rows[i].since) != name(rows[i].name))
			fail_msg("%s is not there since %d", rows[i].name, rows[i].since);
		if (entry(rows[i].name, rows[i].since - 1) == name(rows[i].name))
			fail_msg("%s is there before %d", rows[i].name, rows[i].since);
	}
}

/* Run by itself with SIMGPU_DRIVER: what is newer is in neither place, what is older in both. */
static int as_old_driver(int wanted)
{
	int version = 0;

	if (cuInit(0) || cuDriverGetVersion(&version) || version != wanted)
		return 1;
	if (!name("cuGetProcAddress_v2") || !name("cuKernelGetFunction") || !name("cuLaunchKernel"))
		return 2;
	if (!name("cuFuncGetName") != (wanted < 12030) ||
	    !name("cuFuncGetParamInfo") != (wanted < 12040) ||
	    !name("cuKernelGetLibrary") != (wanted < 12050) ||
	    !name("cuEventElapsedTime_v2") != (wanted < 12080) ||
	    !name("cuCtxGetDevice_v2") != (wanted < 13000))
		return 3;
	if (entry("cuFuncGetName", 13000) != name("cuFuncGetName") ||
	    entry("cuKernelGetLibrary", 13000) != name("cuKernelGetLibrary") ||
	    entry("cuMemAlloc", 13000) != name("cuMemAlloc_v2"))
		return 4;
	return entry("cuEventElapsedTime", 13000) !=
			       name(wanted < 12080 ? "cuEventElapsedTime" : "cuEventElapsedTime_v2")
		       ? 5
		       : 0;
}

static void older_drivers_lack_what_came_later(void **state)
{
	static const char *const versions[] = {"12.2", "12.4", "12.8", "13.0"};

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		char command[256];
		int status;

		snprintf(command, sizeof(command), "SIMGPU_DRIVER=%s /proc/%d/exe %s", versions[i],
			 (int)getpid(), versions[i]);
		status = system(command);
		if (status)
			fail_msg("%s: %s ends with %#x", versions[i], command, (unsigned)status);
	}
}

int main(int argc, char **argv)
{
	int major, minor;

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_name_has_its_own_address),
		cmocka_unit_test(asked_names_are_exports_of_that_abi),
		cmocka_unit_test(missing_names_are_reported_as_each_arity_does),
		cmocka_unit_test(unknown_functions_say_so),
		cmocka_unit_test(allocations_have_exact_ranges),
		cmocka_unit_test(pitched_copies_leave_the_rest),
		cmocka_unit_test(mapped_memory_is_one_memory),
		cmocka_unit_test(images_are_told_apart),
		cmocka_unit_test(strangers_kernels_do_nothing),
		cmocka_unit_test(functions_and_kernels_are_two_kinds),
		cmocka_unit_test(launches_take_both_forms),
		cmocka_unit_test(captured_work_runs_at_each_launch),
		cmocka_unit_test(graphs_can_be_changed),
		cmocka_unit_test(what_capture_forbids_breaks_it),
		cmocka_unit_test(contexts_stack_by_thread),
		cmocka_unit_test(since_when_functions_are_there),
		cmocka_unit_test(older_drivers_lack_what_came_later),
	};

	if (argc > 1)
		return sscanf(argv[1], "%d.%d", &major, &minor) != 2 ||
		       as_old_driver(major * 1000 + minor * 10);
	return cmocka_run_group_tests(tests, open_device, NULL);
}
