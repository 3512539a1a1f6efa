/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is touched without a parameter that says so: by the host, by another mapping, by a
 * texture, by cuBLAS to work in; and constants that kernels read.
 */
#include "graph_bench.h"

#include <string.h>

enum { GRANULE = 2 << 20 };

/* ---- P that the host reads without a call --------------------------------------------------- */

static const void *pointer(CUdeviceptr address)
{
	return (const void *)(uintptr_t)address;
}

/* p: where the host finds P. */
static void host_sees_p(struct bench *b, int r, const void *p)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	CHECK(cuStreamSynchronize(b->app.stream));
	if (p && late(r))
		app_observe_host(&b->report, "P", r, p, b->scores);
}

static void p_managed(void)
{
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuMemAllocManaged(&b.t.p, b.scores * 2, CU_MEM_ATTACH_GLOBAL));
	for (int r = 0; r < REPETITIONS; r++)
		host_sees_p(&b, r, pointer(b.t.p));
	bench_close(&b);
}

/* From the second half on. */
static void p_managed_late(void)
{
	CUdeviceptr managed;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuMemAllocManaged(&managed, b.scores * 2, CU_MEM_ATTACH_GLOBAL));
	for (int r = 0; r < REPETITIONS; r++) {
		if (r == REPETITIONS / 2)
			b.t.p = managed;
		host_sees_p(&b, r, r < REPETITIONS / 2 ? NULL : pointer(managed));
	}
	bench_close(&b);
}

static void p_mapped(void)
{
	struct bench b;
	void *host;

	bench_open(&b, TOGETHER);
	CHECK(cuMemHostAlloc(&host, b.scores * 2, CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&b.t.p, host, 0));
	for (int r = 0; r < REPETITIONS; r++)
		host_sees_p(&b, r, host);
	bench_close(&b);
}

#define NODE_OF_HOST                                                                               \
	{                                                                                          \
		.type = CU_MEM_LOCATION_TYPE_HOST_NUMA                                             \
	}

/* Memory of the host's from a pool of the program's; where there is no such pool, managed. */
static void p_in_host_pool(void)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = NODE_OF_HOST};
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemoryPool pool;
	struct bench b;

	bench_open(&b, TOGETHER);
	if (cuMemPoolCreate(&pool, &props)) {
		CHECK(cuMemAllocManaged(&b.t.p, b.scores * 2, CU_MEM_ATTACH_GLOBAL));
	} else {
		CHECK(cuMemPoolSetAccess(pool, &access, 1));
		CHECK(cuMemAllocFromPoolAsync(&b.t.p, b.scores * 2, pool, b.app.stream));
	}
	for (int r = 0; r < REPETITIONS; r++)
		host_sees_p(&b, r, pointer(b.t.p));
	bench_close(&b);
}

/* ---- P whose physical memory moves ---------------------------------------------------------- */

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					      .location.type = CU_MEM_LOCATION_TYPE_DEVICE};

static CUdeviceptr reserve(void)
{
	CUdeviceptr at;

	CHECK(cuMemAddressReserve(&at, GRANULE, 0, 0, 0));
	return at;
}

static const CUmemAccessDesc access_of[] = {
	{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
	{.location = NODE_OF_HOST, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
};

static void map(CUdeviceptr at, CUmemGenericAllocationHandle physical)
{
	CHECK(cuMemMap(at, GRANULE, 0, physical, 0));
	CHECK(cuMemSetAccess(at, GRANULE, access_of, 1));
}

static const CUmemAllocationProp on_host = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					    .location = NODE_OF_HOST};

/* Where mapped memory of the device's ends and, if *any can be had, some of the host's begins. */
static CUdeviceptr device_then_host(bool *any)
{
	CUmemGenericAllocationHandle lower, upper;
	CUdeviceptr room;

	CHECK(cuMemAddressReserve(&room, 2 * GRANULE, 0, 0, 0));
	CHECK(cuMemCreate(&lower, GRANULE, &on_device, 0));
	map(room, lower);
	*any = !cuMemCreate(&upper, GRANULE, &on_host, 0);
	if (*any) {
		CHECK(cuMemMap(room + GRANULE, GRANULE, 0, upper, 0));
		CHECK(cuMemSetAccess(room + GRANULE, GRANULE, access_of, 2));
	}
	return room + GRANULE;
}

/* P is mapped memory of the host's, where there is any. */
static void p_on_host_node(void)
{
	CUmemGenericAllocationHandle physical;
	struct bench b;

	bench_open(&b, TOGETHER);
	if (cuMemCreate(&physical, GRANULE, &on_host, 0)) {
		CHECK(cuMemAllocManaged(&b.t.p, b.scores * 2, CU_MEM_ATTACH_GLOBAL));
	} else {
		b.t.p = reserve();
		CHECK(cuMemMap(b.t.p, GRANULE, 0, physical, 0));
		CHECK(cuMemSetAccess(b.t.p, GRANULE, access_of, 2));
	}
	for (int r = 0; r < REPETITIONS; r++)
		host_sees_p(&b, r, pointer(b.t.p));
	bench_close(&b);
}

/* P's memory ends where mapped memory of the host's begins, if there is any, and a fill that would
 * overwrite both is refused. */
static void fill_into_host(void)
{
	struct bench b;
	bool refused;

	bench_open(&b, TOGETHER);
	b.t.p = device_then_host(&refused) - 2 * b.scores;
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (!late(r))
			continue;
		if (refused && !cuMemsetD8Async(b.t.p, 0xff, 2 * b.scores + 4096, b.app.stream))
			app_fail("a fill of the device's memory and the host's", 0);
		observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* A graph's P begins in the device's memory and ends in the host's, where such can be mapped. */
static void graph_p_half_shown(void)
{
	CUgraphExec exec;
	CUdeviceptr border;
	struct bench b;
	bool any;

	open_known(&b);
	border = device_then_host(&any);
	if (any)
		b.t.p = border - b.scores;
	else
		CHECK(cuMemAllocManaged(&b.t.p, b.scores * 2, CU_MEM_ATTACH_GLOBAL));
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	for (int r = 4; r < 21; r++) { /* none copies P: no copy's range may lie in both */
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		CHECK(cuStreamSynchronize(b.app.stream));
		if (r > 17)
			app_observe_host(&b.report, "P", r, pointer(b.t.p + b.scores),
					 b.scores / 2);
	}
	close_known(&b, exec);
}

/* P's memory is mapped elsewhere, and read there. */
static void p_moves(void)
{
	CUmemGenericAllocationHandle physical;
	CUdeviceptr here, there;
	struct bench b;

	bench_open(&b, TOGETHER);
	CHECK(cuMemCreate(&physical, GRANULE, &on_device, 0));
	here = reserve();
	there = reserve();
	map(here, physical);
	b.t.p = here;
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (!late(r))
			continue;
		CHECK(cuStreamSynchronize(b.app.stream));
		CHECK(cuMemUnmap(here, GRANULE));
		map(there, physical);
		app_observe(&b.report, "P", r, there, b.scores);
		CHECK(cuMemUnmap(there, GRANULE));
		map(here, physical);
		observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* ---- P that a kernel reads through a texture ---------------------------------------------- */

/* The texture is of P alone, in an allocation that holds the other tensors as well. */
static void p_in_texture(void)
{
	CUfunction copy_texture;
	CUtexObject texture;
	CUdeviceptr copy;
	struct bench b;

	bench_open(&b, TOGETHER);
	const CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR,
					     .res.linear = {.devPtr = b.t.p,
							    .format = CU_AD_FORMAT_UNSIGNED_INT16,
							    .numChannels = 1,
							    .sizeInBytes = b.scores * 2}};
	const CUDA_TEXTURE_DESC desc = {.flags = CU_TRSF_READ_AS_INTEGER};
	long long n = (long long)b.scores;

	CHECK(cuModuleGetFunction(&copy_texture, b.app.module, "app_copy_texture_f16"));
	CHECK(cuTexObjectCreate(&texture, &resource, &desc, NULL));
	copy = app_alloc(b.scores * 2);
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
		if (!late(r))
			continue;
		app_launch(&b.app, copy_texture, (unsigned)((n + 255) / 256), 256,
			   (void *[]){&copy, &texture, &n});
		app_observe(&b.report, "P", r, copy, b.scores);
	}
	CHECK(cuTexObjectDestroy(texture));
	bench_close(&b);
}

/* ---- constants that change ------------------------------------------------------------------- */

/* A kernel's factor is what the module says, until the program sets it. */
static void constant_set(struct bench *b, int r)
{
	static CUfunction scale;
	static CUdeviceptr factor;
	const float value = 0.25f + 0.5f * (float)(r - 6);
	long long n = (long long)b->scores;
	size_t bytes;

	if (!r)
		CHECK(cuModuleGetFunction(&scale, b->app.module, "app_scale_constant_f16"));
	bench_inputs(b, r);
	if (r == 7)
		CHECK(cuModuleGetGlobal(&factor, &bytes, b->app.module, "app_factor"));
	if (late(r))
		CHECK(cuMemcpyHtoD(factor, &value, sizeof(value)));
	chain_open(b, &b->t);
	app_launch(&b->app, scale, (unsigned)((n + 255) / 256), 256,
		   (void *[]){&b->t.x, &b->t.s, &n});
	app_softmax(&b->app, b->t.p, b->t.x, b->scores / (size_t)b->shape.columns,
		    b->shape.columns);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
}

/* ---- what a kernel is allowed ---------------------------------------------------------------- */

/* Once it was launched with much shared memory, a kernel is not allowed as much any more. */
static void shared_lowered(struct bench *b, int r)
{
	enum { MUCH = 96 << 10 };
	static CUfunction scale;
	const unsigned blocks = (unsigned)((b->scores + 255) / 256);
	long long n = (long long)b->scores;
	float factor = 0.5f;

	if (!r)
		CHECK(cuModuleGetFunction(&scale, b->app.module, "app_scale_f16"));
	bench_inputs(b, r);
	CHECK(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, MUCH));
	chain_open(b, &b->t);
	CHECK(cuLaunchKernel(scale, blocks, 1, 1, 256, 1, 1, MUCH, b->app.stream,
			     (void *[]){&b->t.x, &b->t.s, &factor, &n}, NULL));
	app_softmax(&b->app, b->t.p, b->t.x, b->scores / (size_t)b->shape.columns,
		    b->shape.columns);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	CHECK(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 0));
	observe_p(b, &b->t, r);
}

/* ---- memory that cuBLAS works in ---------------------------------------------------------- */

static void work_in(struct bench *b, CUdeviceptr workspace, size_t bytes)
{
	CHECK(cublasSetWorkspace(b->app.blas, (void *)(uintptr_t)workspace, bytes));
}

/* Back to its own. */
static void work_elsewhere(struct bench *b)
{
	CHECK(cublasSetStream(b->app.blas, b->app.stream));
}

static void multiply(struct bench *b)
{
	const struct app_shape one_head = {1, b->shape.rows, b->shape.rows, b->shape.depth};

	app_scores(&b->app, one_head, b->raw, b->raw, b->spare);
}

/* Once the chain is through, cuBLAS works where its Q was. */
static void workspace_over_q(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	work_in(b, b->t.q, b->n * 2);
	multiply(b);
	work_elsewhere(b);
	observe_p(b, &b->t, r);
}

/* The same of the first half of P; but where the stream was set since, all of P is left alone. */
static void workspace_over_p(struct bench *b, int r)
{
	const size_t half = b->scores / 2;

	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	work_in(b, b->t.p, half * 2);
	if (r == 9)
		work_elsewhere(b);
	multiply(b);
	work_elsewhere(b);
	if (r == 9)
		observe_p(b, &b->t, r);
	else
		app_observe(&b->report, "half of P", r, b->t.p + half * 2, half);
}

/* ---- factors that lie on the device -------------------------------------------------------- */

/* What a product is multiplied by is two of P's numbers, whichever they are. */
static void factor_in_p(struct bench *b, int r)
{
	enum { SIDE = 8 };
	static float result[SIDE * SIDE], zero = 0;
	static CUdeviceptr beta, product;
	const CUdeviceptr alpha = b->t.p + 2 * (CUdeviceptr)b->shape.columns;
	const int depth = b->shape.depth;

	if (!r) {
		beta = app_alloc(sizeof(zero));
		product = app_alloc(sizeof(result));
		app_upload(beta, &zero, sizeof(zero));
	}
	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	CHECK(cublasSetPointerMode(b->app.blas, CUBLAS_POINTER_MODE_DEVICE));
	CHECK(cublasGemmEx(b->app.blas, CUBLAS_OP_T, CUBLAS_OP_N, SIDE, SIDE, depth, (void *)alpha,
			   (void *)b->t.k, CUDA_R_16F, depth, (void *)b->t.q, CUDA_R_16F, depth,
			   (void *)beta, (void *)product, CUDA_R_32F, SIDE, CUBLAS_COMPUTE_32F,
			   CUBLAS_GEMM_DEFAULT));
	CHECK(cublasSetPointerMode(b->app.blas, CUBLAS_POINTER_MODE_HOST));
	CHECK(cuStreamSynchronize(b->app.stream));
	CHECK(cuMemcpyDtoH(result, product, sizeof(result)));
	app_observe_f32(&b->report, "product", r, result, SIDE * SIDE);
}

const struct hazard hazards_memory[] = {
	ONCE(p_managed, "the host reads P in managed memory"),
	ONCE(p_managed_late, "… which is there from some moment on"),
	ONCE(p_mapped, "… in its own"),
	ONCE(p_in_host_pool, "… which comes from a pool"),
	ONCE(p_on_host_node, "… which is mapped"),
	ONCE(fill_into_host, "the host's memory begins where P ends"),
	ONCE(graph_p_half_shown, "… in a graph, and P begins in the device's memory"),
	ONCE(p_moves, "P's physical memory is mapped elsewhere, and read there"),
	ONCE(p_in_texture, "a kernel reads P through a texture"),
	EACH_APART(constant_set, "a kernel's constant is set to something else"),
	EACH_APART(shared_lowered,
		   "a kernel may have less shared memory than when it was launched"),
	EACH(workspace_over_q, "cuBLAS works where Q was, then P is read"),
	EACH(workspace_over_p, "… where half of P was, whose other half is read"),
	EACH_APART(factor_in_p, "cuBLAS multiplies by what lies in P"),
	{0},
};
