/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver hooks say about copies, fills, launches, memory, capture and the end of things,
 * on the simulated driver.
 */
#include "ops_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

static char host[4096];

static void one_dimensional_copies(void **state)
{
	const struct op *op;

	assert_int_equal(CALL(cuMemcpyHtoD_v2)(device, host, 100), 0);
	op = the_op(OP_COPY, "cuMemcpyHtoD_v2", 2);
	assert_true(op->copy.from_host && !op->copy.to_host && op->copy.exact);
	assert_ptr_equal(op->copy.host, host);
	assert_int_equal(op->copy.target.base, device);
	assert_int_equal(op->copy.target.bytes, 100);
	assert_int_equal(op->copy.source.bytes, 0);
	assert_ptr_equal(op->stream, CU_STREAM_LEGACY);

	begin(state);
	assert_int_equal(CALL(cuMemcpyDtoHAsync_v2_ptsz)(host, device + 8, 50, NULL), 0);
	op = the_op(OP_COPY, "cuMemcpyDtoHAsync_v2_ptsz", 2);
	assert_true(op->copy.to_host && !op->copy.from_host);
	assert_int_equal(op->copy.source.base, device + 8);
	assert_int_equal(op->copy.source.bytes, 50);
	assert_int_equal(op->copy.target.bytes, 0);
	assert_ptr_equal(op->stream, CU_STREAM_PER_THREAD);

	begin(state);
	assert_int_equal(CALL(cuMemcpyDtoDAsync_v2)(device, device + 512, 64, CU_STREAM_PER_THREAD),
			 0);
	op = the_op(OP_COPY, "cuMemcpyDtoDAsync_v2", 2);
	assert_int_equal(op->copy.source.base, device + 512);
	assert_int_equal(op->copy.target.base, device);
	assert_ptr_equal(op->stream, CU_STREAM_PER_THREAD);

	/* Unified addresses: both sides are told, the core finds out which is device memory. */
	begin(state);
	assert_int_equal(CALL(cuMemcpy)(device, (CUdeviceptr)(uintptr_t)host, 16), 0);
	op = the_op(OP_COPY, "cuMemcpy", 2);
	assert_int_equal(op->copy.source.base, (uintptr_t)host);
	assert_int_equal(op->copy.source.bytes, 16);
	assert_int_equal(op->copy.target.bytes, 16);
	assert_false(op->copy.from_host || op->copy.to_host);
}

static void boxes_give_their_smallest_range(void **state)
{
	CUDA_MEMCPY2D flat = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 32,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.dstPitch = 128,
		.dstXInBytes = 4,
		.dstY = 2,
		.WidthInBytes = 32,
		.Height = 3,
	};
	CUDA_MEMCPY3D deep = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = device,
		.srcPitch = 64,
		.srcHeight = 4,
		.srcXInBytes = 8,
		.srcY = 1,
		.srcZ = 1,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = host,
		.dstPitch = 16,
		.dstHeight = 2,
		.WidthInBytes = 16,
		.Height = 2,
		.Depth = 3,
	};
	const struct op *op;

	assert_int_equal(CALL(cuMemcpy2D_v2)(&flat), 0);
	op = the_op(OP_COPY, "cuMemcpy2D_v2", 2);
	assert_true(op->copy.from_host && !op->copy.exact);
	assert_int_equal(op->copy.target.base, device + 2 * 128 + 4);
	assert_int_equal(op->copy.target.bytes, 2 * 128 + 32);

	/* Rows without gaps are one piece. */
	begin(state);
	flat.dstPitch = 32;
	flat.dstXInBytes = 0;
	assert_int_equal(CALL(cuMemcpy2DAsync_v2)(&flat, NULL), 0);
	op = the_op(OP_COPY, "cuMemcpy2DAsync_v2", 2);
	assert_true(op->copy.exact);
	assert_int_equal(op->copy.target.bytes, 96);

	begin(state);
	assert_int_equal(CALL(cuMemcpy3D_v2_ptds)(&deep), 0);
	op = the_op(OP_COPY, "cuMemcpy3D_v2_ptds", 2);
	assert_true(op->copy.to_host && !op->copy.exact);
	assert_int_equal(op->copy.source.base, device + (1 * 4 + 1) * 64 + 8);
	assert_int_equal(op->copy.source.bytes, (2 * 4 + 1) * 64 + 16);
	assert_ptr_equal(op->stream, CU_STREAM_PER_THREAD);

	/* Arrays are not linear memory. */
	begin(state);
	flat.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	CALL(cuMemcpy2D_v2)(&flat);
	assert_int_equal(EVENT(0)->op.kind, OP_OPAQUE);

	begin(state);
	assert_int_not_equal(CALL(cuMemcpy2D_v2)(NULL), 0);
}

static void fills(void **state)
{
	const struct op *op;

	assert_int_equal(CALL(cuMemsetD32Async)(device, 7, 10, NULL), 0);
	op = the_op(OP_FILL, "cuMemsetD32Async", 2);
	assert_int_equal(op->fill.target.base, device);
	assert_int_equal(op->fill.target.bytes, 40);
	assert_true(op->fill.exact);
	assert_ptr_equal(op->stream, CU_STREAM_LEGACY);

	begin(state);
	assert_int_equal(CALL(cuMemsetD2D16_v2_ptds)(device, 64, 7, 5, 3), 0);
	op = the_op(OP_FILL, "cuMemsetD2D16_v2_ptds", 2);
	assert_int_equal(op->fill.target.bytes, 2 * 64 + 10);
	assert_false(op->fill.exact);
	assert_ptr_equal(op->stream, CU_STREAM_PER_THREAD);

	begin(state);
	seen->answer = FLOW_TAKEN;
	memset((void *)(uintptr_t)device, 1, 4);
	assert_int_equal(CALL(cuMemsetD8_v2)(device, 9, 4), 0);
	assert_int_equal(seen->count, 1);
	assert_int_equal(*(char *)(uintptr_t)device, 1);
}

static void nothing_is_told_while_nobody_watches(void **state)
{
	seen->watching = false;
	assert_int_equal(CALL(cuMemsetD8_v2)(device, 9, 4), 0);
	assert_int_equal(CALL(cuMemcpyHtoD_v2)(device, host, 100), 0);
	assert_int_equal(CALL(cuCtxSynchronize)(), 0);
	assert_int_equal(seen->count, 0);
	assert_int_equal(*(char *)(uintptr_t)device, host[0]);
}

static void memory_comes_and_goes(void **state)
{
	CUdeviceptr address;
	const struct op *op;
	void *pinned;

	seen->watching = false; /* told all the same */
	assert_int_equal(CALL(cuMemAlloc_v2)(&address, 12345), 0);
	op = the_op(OP_ALLOC, "cuMemAlloc_v2", 1);
	assert_int_equal(EVENT(0)->when, PROBE_AFTER);
	assert_int_equal(op->alloc.range.base, address);
	assert_int_equal(op->alloc.range.bytes, 12345);
	assert_int_equal(op->alloc.kind, MEMORY_DEVICE);

	begin(state);
	assert_int_equal(CALL(cuMemFree_v2)(address), 0);
	op = the_op(OP_FREE, "cuMemFree_v2", 2);
	assert_int_equal(EVENT(0)->when, PROBE_BEFORE);
	assert_int_equal(op->alloc.range.base, address);

	begin(state);
	assert_int_equal(CALL(cuMemAllocAsync)(&address, 512, CU_STREAM_PER_THREAD), 0);
	op = the_op(OP_ALLOC, "cuMemAllocAsync", 1);
	assert_int_equal(op->alloc.kind, MEMORY_ASYNC);
	assert_ptr_equal(op->stream, CU_STREAM_PER_THREAD);
	begin(state);
	assert_int_equal(CALL(cuMemFreeAsync)(address, CU_STREAM_PER_THREAD), 0);
	assert_false(the_op(OP_FREE, "cuMemFreeAsync", 2)->alloc.at_once);

	begin(state);
	assert_int_equal(CALL(cuMemAllocManaged)(&address, 64, CU_MEM_ATTACH_GLOBAL), 0);
	assert_int_equal(the_op(OP_ALLOC, "cuMemAllocManaged", 1)->alloc.kind, MEMORY_MANAGED);
	assert_int_equal(CALL(cuMemFree_v2)(address), 0);

	begin(state);
	assert_int_equal(CALL(cuMemHostAlloc)(&pinned, 64, 0), 0);
	op = the_op(OP_ALLOC, "cuMemHostAlloc", 1);
	assert_int_equal(op->alloc.kind, MEMORY_HOST);
	assert_int_equal(op->alloc.range.base, (uintptr_t)pinned);
	assert_int_equal(CALL(cuMemFreeHost)(pinned), 0);

	/* An allocation that fails is not told. */
	begin(state);
	assert_int_not_equal(CALL(cuMemAlloc_v2)(&address, 0), 0);
	assert_int_equal(seen->count, 0);
}

static void capture_is_told_before_and_after(void **state)
{
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	assert_int_equal(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), 0);
	assert_int_equal(CALL(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
			 0);
	assert_ptr_equal(the_op(OP_CAPTURE_BEGIN, "cuStreamBeginCapture_v2", 2)->stream, stream);
	begin(state);
	assert_int_equal(CALL(cuStreamEndCapture)(stream, &graph), 0);
	assert_ptr_equal(the_op(OP_CAPTURE_END, "cuStreamEndCapture", 2)->stream, stream);
	assert_int_equal(CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0), 0);
	begin(state);
	assert_int_equal(CALL(cuGraphLaunch)(exec, stream), 0);
	assert_ptr_equal(the_op(OP_GRAPH_LAUNCH, "cuGraphLaunch", 2)->stream, stream);
	begin(state);
	assert_int_equal(CALL(cuStreamSynchronize)(stream), 0);
	the_op(OP_SYNC, "cuStreamSynchronize", 2);
	assert_int_equal(seen->waits, 1);
	assert_int_equal(seen->waited, 1);
	begin(state);
	assert_int_equal(CALL(cuStreamDestroy_v2)(stream), 0);
	assert_ptr_equal(the_op(OP_TEARDOWN, "cuStreamDestroy_v2", 2)->handle, stream);
	assert_int_equal(EVENT(0)->when, PROBE_BEFORE);
}

/* How long the program waits is told, whether anything is watched or not; not how long we do. */
static void waits_are_timed(void **state)
{
	begin(state);
	seen->watching = false;
	assert_int_equal(CALL(cuCtxSynchronize)(), 0);
	assert_int_equal(CALL(cuMemcpyDtoH_v2)(host, device, 8), 0);
	assert_int_equal(seen->waits, 2);
	assert_int_equal(seen->waited, 2);
	assert_int_equal(seen->count, 0);
	assert_int_equal(CALL(cuMemcpyDtoHAsync_v2)(host, device, 8, NULL), 0);
	assert_int_equal(seen->fetches, 1);
	seen->within(1);
	assert_int_equal(CALL(cuCtxSynchronize)(), 0);
	assert_int_equal(CALL(cuMemcpyDtoHAsync_v2)(host, device, 8, NULL), 0);
	seen->within(-1);
	assert_int_equal(seen->waits, 2);
	assert_int_equal(seen->fetches, 1);
	assert_int_equal(seen->count, 0);
}

/* Whoever ends a context by another name is told to end that context. */
static void contexts_end_by_other_names(void **state)
{
	CUcontext context;
	CUgreenCtx green;

	assert_int_equal(CALL(cuGreenCtxCreate)(&green, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM), 0);
	assert_int_equal(CALL(cuCtxFromGreenCtx)(&context, green), 0);
	assert_ptr_not_equal(context, green);
	begin(state);
	assert_int_equal(CALL(cuGreenCtxDestroy)(green), 0);
	assert_ptr_equal(the_op(OP_TEARDOWN, "cuGreenCtxDestroy", 2)->handle, context);
	assert_int_equal(EVENT(0)->when, PROBE_BEFORE);

	assert_int_equal(CALL(cuDevicePrimaryCtxRetain)(&context, 0), 0);
	begin(state);
	assert_int_equal(CALL(cuDevicePrimaryCtxRelease_v2)(0), 0);
	assert_ptr_equal(the_op(OP_TEARDOWN, "cuDevicePrimaryCtxRelease_v2", 2)->handle, context);
	assert_int_equal(EVENT(0)->when, PROBE_BEFORE);
}

/* Which of them make a launch one that nobody else can repeat. */
static void launches_may_be_peculiar(void **state)
{
	static const struct {
		CUlaunchAttribute attribute;
		bool peculiar;
	} cases[] = {
		{{.id = CU_LAUNCH_ATTRIBUTE_IGNORE}, false},
		{{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 1}, false},
		{{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		  .value.programmaticStreamSerializationAllowed = 1},
		 false},
		{{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {1, 1, 1}},
		 false},
		{{.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}},
		 true},
		{{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT}, true},
		{{.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE}, true},
		{{.id = (CUlaunchAttributeID)999}, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		CUlaunchAttribute attributes[2] = {{.id = CU_LAUNCH_ATTRIBUTE_IGNORE}};
		CUlaunchConfig config = {.attrs = attributes, .numAttrs = 2};

		begin(state);
		seen->answer = FLOW_TAKEN;
		attributes[1] = cases[i].attribute;
		assert_int_equal(CALL(cuLaunchKernelEx)(&config, (CUfunction)host, NULL, NULL), 0);
		assert_int_equal(the_op(OP_LAUNCH, "cuLaunchKernelEx", 1)->launch.peculiar,
				 cases[i].peculiar);
	}
}

static void launches_carry_their_attributes(void **state)
{
	CUlaunchAttribute attributes[2] = {
		{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = 1},
		{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1},
	};
	CUlaunchConfig config = {
		.gridDimX = 2,
		.gridDimY = 3,
		.gridDimZ = 4,
		.blockDimX = 5,
		.blockDimY = 6,
		.blockDimZ = 7,
		.sharedMemBytes = 8,
		.attrs = attributes,
		.numAttrs = 2,
	};
	void *params[1] = {host}, *extra[1] = {NULL};
	const struct op_launch *launch;
	const struct op *op;

	seen->answer = FLOW_TAKEN;
	assert_int_equal(CALL(cuLaunchKernelEx_ptsz)(&config, (CUfunction)host, params, extra), 0);
	op = the_op(OP_LAUNCH, "cuLaunchKernelEx_ptsz", 1);
	launch = &op->launch;
	assert_ptr_equal(op->stream, CU_STREAM_PER_THREAD);
	assert_ptr_equal(launch->function, host);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(launch->grid[i], 2 + i);
		assert_int_equal(launch->block[i], 5 + i);
	}
	assert_int_equal(launch->shared_bytes, 8);
	assert_ptr_equal(launch->params, params);
	assert_ptr_equal(launch->extra, extra);
	assert_ptr_equal(launch->attributes, attributes);
	assert_int_equal(launch->attribute_count, 2);
	assert_true(launch->cooperative);

	begin(state);
	seen->answer = FLOW_TAKEN;
	config.attrs = NULL;
	config.hStream = (CUstream)host;
	assert_int_equal(CALL(cuLaunchKernelEx)(&config, (CUfunction)host, params, NULL), 0);
	launch = &the_op(OP_LAUNCH, "cuLaunchKernelEx", 1)->launch;
	assert_int_equal(launch->attribute_count, 0);
	assert_false(launch->cooperative);
	assert_ptr_equal(EVENT(0)->op.stream, host);

	begin(state);
	seen->answer = FLOW_TAKEN;
	assert_int_equal(CALL(cuLaunchCooperativeKernel)((CUfunction)host, 1, 2, 3, 4, 5, 6, 7,
							 NULL, params),
			 0);
	launch = &the_op(OP_LAUNCH, "cuLaunchCooperativeKernel", 1)->launch;
	assert_true(launch->cooperative);
	assert_int_equal(launch->shared_bytes, 7);

	begin(state);
	assert_int_not_equal(CALL(cuLaunchKernelEx)(NULL, NULL, NULL, NULL), 0);
	assert_int_equal(seen->count, 0);
}

static void the_context_is_the_current_one(void **state)
{
	CUcontext current;

	assert_int_equal(CALL(cuCtxGetCurrent)(&current), 0);
	assert_non_null(current);
	assert_int_equal(CALL(cuMemsetD8_v2)(device, 9, 4), 0);
	assert_ptr_equal(EVENT(0)->op.context, current);
}

static void errors_and_errno_pass_through(void **state)
{
	errno = 4242;
	assert_int_not_equal(CALL(cuMemFree_v2)(device + 1), 0);
	assert_int_equal(seen->count, 1);
	assert_int_equal(errno, 4242);
}

/* The way of the CUDA runtime: one dlsym, the rest by cuGetProcAddress. */
static void proc_address_on_a_whole_driver(void **state)
{
	__typeof__(&cuGetProcAddress_v2) get = CALL(cuGetProcAddress_v2);
	static const struct {
		const char *name;
		int version;
		cuuint64_t flags;
		const char *export;
	} wanted[] = {
		{"cuLaunchKernel", 4000, 0, "cuLaunchKernel"},
		{"cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz"},
		{"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
		{"cuMemcpyHtoD", 3020, 0, "cuMemcpyHtoD_v2"},
		{"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
		{"cuMemsetD8Async", 7000, 2, "cuMemsetD8Async_ptsz"},
		{"cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2"},
		{"cuEventCreate", 2000, 0, "cuEventCreate"},
		{"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
		{"cuMemcpyBatchAsync", 13000, 0, "cuMemcpyBatchAsync_v2"},
	};
	CUdriverProcAddressQueryResult status;
	void *function;

	for (unsigned i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		assert_int_equal(
			get(wanted[i].name, &function, wanted[i].version, wanted[i].flags, &status),
			0);
		assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
		assert_non_null(function);
		assert_ptr_equal(function, dlsym(driver, wanted[i].export));
	}
	assert_int_equal(get("cuNoSuchThing", &function, 13000, 0, NULL), 0);
	assert_null(function);
	assert_int_equal(CALL(cuGetProcAddress)("cuNoSuchThing", &function, 13000, 0),
			 CUDA_ERROR_NOT_FOUND);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_dimensional_copies, begin),
		cmocka_unit_test_setup(boxes_give_their_smallest_range, begin),
		cmocka_unit_test_setup(fills, begin),
		cmocka_unit_test_setup(nothing_is_told_while_nobody_watches, begin),
		cmocka_unit_test_setup(memory_comes_and_goes, begin),
		cmocka_unit_test_setup(capture_is_told_before_and_after, begin),
		cmocka_unit_test_setup(waits_are_timed, begin),
		cmocka_unit_test_setup(contexts_end_by_other_names, begin),
		cmocka_unit_test_setup(launches_may_be_peculiar, begin),
		cmocka_unit_test_setup(launches_carry_their_attributes, begin),
		cmocka_unit_test_setup(the_context_is_the_current_one, begin),
		cmocka_unit_test_setup(errors_and_errno_pass_through, begin),
		cmocka_unit_test_setup(proc_address_on_a_whole_driver, begin),
	};

	(void)argc;
	return start_ops(argv) ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
