/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that the driver or cuBLAS refuses, over P and in the midst of a chain: the program goes on,
 * and all is as if they had not been.
 */
#include "hazards.h"

#include "aten.h"

/* They would have overwritten P, and go beyond the end of its memory, or have no blocks. */
static void refused_over_p(struct bench *b, int r)
{
	const size_t far = (size_t)1 << 40;
	struct aten_pointers1 p = {{(void *)b->t.p}};
	struct aten_fill_functor f = {0x4200};
	long long n = (long long)b->scores;
	int count = (int)n;
	float value = 3;

	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (r == 7 && !cuMemsetD8Async(b->t.p, 0xff, far, b->app.stream))
		app_fail("a fill beyond memory", 0);
	if (r == 9 && !cuMemcpyDtoDAsync(b->t.p, b->raw, far, b->app.stream))
		app_fail("a copy beyond memory", 0);
	if (r == 11 && !cuLaunchKernel(b->app.aten.used ? b->app.aten.fill : b->app.fill, 0, 1, 1,
				       256, 1, 1, 0, b->app.stream,
				       b->app.aten.used ? (void *[]){&count, &f, &p}
							: (void *[]){&b->t.p, &value, &n},
				       NULL))
		app_fail("a launch of no blocks", 0);
	if (late(r))
		observe_p(b, &b->t, r);
}

/* Launches ask for no blocks, or for more than a device has: shared memory, or depth of a block. */
static void refused_launch(struct bench *b, int r)
{
	static const struct {
		unsigned blocks, width, depth, shared;
	} asked[] = {{0, 256, 1, 0}, {1, 256, 1, 256 << 10}, {1, 2, 128, 0}};
	struct aten_pointers1 p = {{(void *)b->t.p}};
	struct aten_fill_functor f = {0x4200};
	long long n = (long long)b->scores;
	int count = (int)n, i = (r - 7) / 2;
	float value = 3;

	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	if (!cuLaunchKernel(b->app.aten.used ? b->app.aten.fill : b->app.fill,
			    asked[i].blocks * (unsigned)((n + 255) / 256), 1, 1, asked[i].width, 1,
			    asked[i].depth, asked[i].shared, b->app.stream,
			    b->app.aten.used ? (void *[]){&count, &f, &p}
					     : (void *[]){&b->t.p, &value, &n},
			    NULL))
		app_fail("a launch of what no device has", i);
	observe_p(b, &b->t, r);
}

/* A copy of what is nobody's memory over P, and a fill of words that begins askew. */
static void refused_address(struct bench *b, int r)
{
	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	if (r == 9 && !cuMemsetD32Async(b->t.p + 1, 0, b->scores / 2 - 1, b->app.stream))
		app_fail("a fill askew", 0);
	if (r != 9 && !cuMemcpyDtoDAsync(b->t.p, 4096, b->scores * 2, b->app.stream))
		app_fail("a copy from nowhere", 0);
	observe_p(b, &b->t, r);
}

/* Products of types that go with no others, into P. */
static void refused_products(struct bench *b, int r)
{
	static const struct {
		cudaDataType a, c;
		int part;
	} kinds[REPETITIONS] = {[7] = {CUDA_R_16BF, CUDA_R_16F, 1},
				[9] = {CUDA_R_32F, CUDA_R_16F, 1},
				[11] = {CUDA_R_16F, CUDA_R_64F, 4}};
	const int rows = b->shape.rows, n = (int)b->scores / rows;
	const float zero = 0;

	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (!late(r))
		return;
	if (!cublasGemmEx(b->app.blas, CUBLAS_OP_N, CUBLAS_OP_N, rows, n / kinds[r].part, 8, &zero,
			  (void *)b->raw, kinds[r].a, rows, (void *)b->raw, CUDA_R_16F, 8, &zero,
			  (void *)b->t.p, kinds[r].c, rows, CUBLAS_COMPUTE_32F,
			  CUBLAS_GEMM_DEFAULT))
		app_fail("a product of types that go with no others", 0);
	observe_p(b, &b->t, r);
}

/* A step of the chain asks for more shared memory than it may have, and P is what it was. */
static void refused_step(struct bench *b, int r)
{
	enum { MUCH = 96 << 10 };
	static CUfunction scale;
	const unsigned blocks = (unsigned)((b->scores + 255) / 256);
	long long n = (long long)b->scores;
	float factor = 0.5f;
	CUresult result;

	if (!r)
		CHECK(cuModuleGetFunction(&scale, b->app.module, "app_scale_f16"));
	if (r == 0 || late(r))
		CHECK(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					 late(r) ? 0 : MUCH));
	bench_inputs(b, r);
	chain_open(b, &b->t);
	result = cuLaunchKernel(scale, blocks, 1, 1, 256, 1, 1, MUCH, b->app.stream,
				(void *[]){&b->t.x, &b->t.s, &factor, &n}, NULL);
	if (late(r) != (result != CUDA_SUCCESS))
		app_fail("a launch with much shared memory", (int)result);
	app_softmax(&b->app, b->t.p, b->t.x, b->scores / (size_t)b->shape.columns,
		    b->shape.columns);
	chain_close(b, &b->t);
	observe_o(b, &b->t, r);
	if (late(r))
		CHECK(cuFuncSetAttribute(scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					 MUCH));
}

/* P's memory is freed as what it is not. */
static void refused_frees(struct bench *b, int r)
{
	void *p = (void *)(uintptr_t)b->t.p;

	bench_inputs(b, r);
	chain(b, &b->t);
	observe_o(b, &b->t, r);
	if (r == 7 && !cuMemFreeHost(p))
		app_fail("freed as the host's", 0);
	if (r == 9 && !cuMemHostUnregister(p))
		app_fail("unregistered", 0);
	if (r == 11 && !cuMemUnmap(b->t.p, 2 << 20))
		app_fail("unmapped", 0);
	if (late(r))
		observe_p(b, &b->t, r);
}

const struct hazard hazards_refused[] = {
	EACH_APART(refused_over_p, "calls that would overwrite P fail"),
	EACH_APART(refused_launch, "… launches"),
	EACH_APART(refused_address, "… and others that begin where they may not"),
	EACH_APART(refused_products, "… of cuBLAS's"),
	EACH_APART(refused_step, "a step of the chain is refused"),
	EACH_APART(refused_frees, "P's memory is freed as what it is not"),
	{0},
};
