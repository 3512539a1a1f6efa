/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated cuBLAS: handles, and every GEMM entry point that programs use, in both integer
 * widths. Each is a translation to one of two calls into libcublasLt, as in the real library:
 * products by mixed-type entry points go through the public cublasLtMatmul (so an interposed one
 * sees cuBLAS's own calls too), the others through a private one.
 */
#include "blas_gemm.h"
#include "refuse.h"

#include <cublasLt.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef SIM_CUBLAS_VERSION
#define SIM_CUBLAS_VERSION 130100
#endif
#define WORKSPACE_BYTES (4 << 20)
#define MAGIC		0x5342

/* A handle works with the instance that made it: one that was loaded again is another. */
static uint64_t instance;

static __attribute__((constructor)) void begin_instance(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	instance = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct handle {
	int magic;
	uint64_t instance;
	CUstream stream;
	cublasPointerMode_t pointer_mode;
	cublasMath_t math_mode;
	cublasAtomicsMode_t atomics;
	CUdeviceptr own_workspace;
	void *workspace;
	size_t workspace_bytes;
};

static struct handle *of(cublasHandle_t handle)
{
	struct handle *h = (struct handle *)handle;

	return h && h->magic == MAGIC && h->instance == instance ? h : NULL;
}

#define HANDLE_OR_RETURN(handle)                                                                   \
	struct handle *h = of(handle);                                                             \
	if (!h)                                                                                    \
	return CUBLAS_STATUS_NOT_INITIALIZED

/* The last one that was destroyed is the next one made, at the same address, whatever the allocator
 * does: what is known of a handle must end with it. */
static _Atomic(struct handle *) spare;

static __attribute__((destructor)) void end_instance(void)
{
	free(atomic_exchange(&spare, NULL));
}

static struct handle *blank(void)
{
	struct handle *h = atomic_exchange(&spare, NULL);

	return h ? memset(h, 0, sizeof(*h)) : calloc(1, sizeof(*h));
}

static void spent(struct handle *h)
{
	h->magic = 0;
	free(atomic_exchange(&spare, h));
}

/* Of what a test wants refused, all that the shim calls itself. */
#define REFUSE()                                                                                   \
	do {                                                                                       \
		if (SIM_REFUSED())                                                                 \
			return CUBLAS_STATUS_EXECUTION_FAILED;                                     \
	} while (0)

/* ---- handles ---------------------------------------------------------------------------- */

cublasStatus_t CUBLASWINAPI cublasCreate_v2(cublasHandle_t *out)
{
	const struct blas_driver *d = blas_driver();
	CUcontext ctx = NULL;
	struct handle *h;

	REFUSE();
	if (!out)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!d || d->init(0) || d->ctx_get(&ctx))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!ctx && (d->primary_retain(&ctx, 0) || d->ctx_set(ctx)))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	h = blank();
	if (!h)
		return CUBLAS_STATUS_ALLOC_FAILED;
	/* The vendor's waits for all that the device was given: so does whoever frees. */
	if (d->alloc(&h->own_workspace, 1) || d->release(h->own_workspace) ||
	    d->alloc(&h->own_workspace, WORKSPACE_BYTES)) {
		spent(h);
		return CUBLAS_STATUS_ALLOC_FAILED;
	}
	h->magic = MAGIC;
	h->instance = instance;
	*out = (cublasHandle_t)h;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasDestroy_v2(cublasHandle_t handle)
{
	HANDLE_OR_RETURN(handle);
	blas_driver()->release(h->own_workspace);
	spent(h);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
	if (!version)
		return CUBLAS_STATUS_INVALID_VALUE;
	(void)handle;
	*version = SIM_CUBLAS_VERSION;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasGetProperty(libraryPropertyType type, int *value)
{
	int v = SIM_CUBLAS_VERSION;

	if (!value)
		return CUBLAS_STATUS_INVALID_VALUE;
	*value = type == MAJOR_VERSION	 ? v / 10000
		 : type == MINOR_VERSION ? v / 100 % 100
					 : v % 100;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
	REFUSE();
	HANDLE_OR_RETURN(handle);
	h->stream = (CUstream)stream;
	h->workspace = NULL; /* back to the library's own */
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasSetWorkspace_v2(cublasHandle_t handle, void *p, size_t bytes)
{
	HANDLE_OR_RETURN(handle);
	h->workspace = p;
	h->workspace_bytes = bytes;
	return CUBLAS_STATUS_SUCCESS;
}

#define GETTER(name, type, field)                                                                  \
	cublasStatus_t CUBLASWINAPI name(cublasHandle_t handle, type *out)                         \
	{                                                                                          \
		REFUSE();                                                                          \
		HANDLE_OR_RETURN(handle);                                                          \
		if (!out)                                                                          \
			return CUBLAS_STATUS_INVALID_VALUE;                                        \
		*out = (type)h->field;                                                             \
		return CUBLAS_STATUS_SUCCESS;                                                      \
	}
#define SETTER(name, type, field)                                                                  \
	cublasStatus_t CUBLASWINAPI name(cublasHandle_t handle, type value)                        \
	{                                                                                          \
		REFUSE();                                                                          \
		HANDLE_OR_RETURN(handle);                                                          \
		h->field = value;                                                                  \
		return CUBLAS_STATUS_SUCCESS;                                                      \
	}
GETTER(cublasGetStream_v2, cudaStream_t, stream)
GETTER(cublasGetPointerMode_v2, cublasPointerMode_t, pointer_mode)
SETTER(cublasSetPointerMode_v2, cublasPointerMode_t, pointer_mode)
GETTER(cublasGetMathMode, cublasMath_t, math_mode)
SETTER(cublasSetMathMode, cublasMath_t, math_mode)
GETTER(cublasGetAtomicsMode, cublasAtomicsMode_t, atomics)
SETTER(cublasSetAtomicsMode, cublasAtomicsMode_t, atomics)

const char *CUBLASWINAPI cublasGetStatusName(cublasStatus_t status)
{
	switch (status) {
	case CUBLAS_STATUS_SUCCESS:
		return "CUBLAS_STATUS_SUCCESS";
	case CUBLAS_STATUS_NOT_INITIALIZED:
		return "CUBLAS_STATUS_NOT_INITIALIZED";
	case CUBLAS_STATUS_INVALID_VALUE:
		return "CUBLAS_STATUS_INVALID_VALUE";
	case CUBLAS_STATUS_EXECUTION_FAILED:
		return "CUBLAS_STATUS_EXECUTION_FAILED";
	case CUBLAS_STATUS_NOT_SUPPORTED:
		return "CUBLAS_STATUS_NOT_SUPPORTED";
	default:
		return "CUBLAS_STATUS_INTERNAL_ERROR";
	}
}

const char *CUBLASWINAPI cublasGetStatusString(cublasStatus_t status)
{
	return cublasGetStatusName(status);
}

/* ---- products --------------------------------------------------------------------------- */

/* A product in cuBLAS's words. */
struct call {
	int transa, transb;
	int64_t m, n, k;
	const void *a, *b;
	void *c;
	int atype, btype, ctype;
	int64_t lda, ldb, ldc, stride_a, stride_b, stride_c, batch;
	int by_array;
	int compute;
	int by_lt; /* through the public cublasLtMatmul */
};

static int invalid(const struct call *c)
{
	int64_t rows_a = c->transa == CUBLAS_OP_N ? c->m : c->k;
	int64_t rows_b = c->transb == CUBLAS_OP_N ? c->k : c->n;

	return c->m < 0 || c->n < 0 || c->k < 0 || c->batch < 0 ||
	       c->lda < (rows_a > 1 ? rows_a : 1) || c->ldb < (rows_b > 1 ? rows_b : 1) ||
	       c->ldc < (c->m > 1 ? c->m : 1) || (unsigned)c->transa > CUBLAS_OP_C ||
	       (unsigned)c->transb > CUBLAS_OP_C;
}

static struct gemm_operand operand(const void *base, int type, int64_t ld, int64_t stride,
				   int trans, int by_array)
{
	return (struct gemm_operand){.base = (uintptr_t)base,
				     .row = trans ? ld : 1,
				     .column = trans ? 1 : ld,
				     .batch = stride,
				     .type = type,
				     .by_array = by_array};
}

static cublasStatus_t direct(const struct handle *h, const struct call *c, const void *alpha,
			     const void *beta)
{
	struct gemm_args g = {
		.a = operand(c->a, c->atype, c->lda, c->stride_a, c->transa != CUBLAS_OP_N,
			     c->by_array),
		.b = operand(c->b, c->btype, c->ldb, c->stride_b, c->transb != CUBLAS_OP_N,
			     c->by_array),
		.c = operand(c->c, c->ctype, c->ldc, c->stride_c, 0, c->by_array),
		.m = c->m,
		.n = c->n,
		.k = c->k,
		.batch = c->batch,
		.scale_type = blas_scale_type(c->compute),
	};
	g.d = g.c;
	return cublasLt_for_cublas_gemm(&g, alpha, beta,
					h->pointer_mode == CUBLAS_POINTER_MODE_DEVICE, h->stream);
}

static void layout(cublasLtMatrixLayoutOpaque_t *l, int type, int trans, int64_t rows,
		   int64_t columns, int64_t ld, int64_t stride, int64_t batch)
{
	int32_t count = (int32_t)batch;

	cublasLtMatrixLayoutInit_internal(l, sizeof(*l), (cudaDataType)type,
					  (uint64_t)(trans ? columns : rows),
					  (uint64_t)(trans ? rows : columns), ld);
	cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
					 sizeof(count));
	cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
					 sizeof(stride));
}

static cublasStatus_t through_lt(const struct handle *h, const struct call *c, const void *alpha,
				 const void *beta)
{
	int32_t mode = h->pointer_mode == CUBLAS_POINTER_MODE_DEVICE, ta = c->transa,
		tb = c->transb;
	cublasLtMatmulDescOpaque_t desc;
	cublasLtMatrixLayoutOpaque_t a, b, d;

	cublasLtMatmulDescInit_internal(&desc, sizeof(desc), (cublasComputeType_t)c->compute,
					(cudaDataType)blas_scale_type(c->compute));
	cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode,
				       sizeof(mode));
	cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof(ta));
	cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof(tb));
	layout(&a, c->atype, ta != CUBLAS_OP_N, c->m, c->k, c->lda, c->stride_a, c->batch);
	layout(&b, c->btype, tb != CUBLAS_OP_N, c->k, c->n, c->ldb, c->stride_b, c->batch);
	layout(&d, c->ctype, 0, c->m, c->n, c->ldc, c->stride_c, c->batch);
	return cublasLtMatmul((cublasLtHandle_t)h, &desc, alpha, c->a, &a, c->b, &b, beta, c->c, &d,
			      c->c, &d, NULL, NULL, 0, (cudaStream_t)h->stream);
}

static cublasStatus_t product(cublasHandle_t handle, const struct call *c, const void *alpha,
			      const void *beta)
{
	HANDLE_OR_RETURN(handle);
	if (invalid(c) || !alpha || !beta)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (blas_scale_type(c->compute) < 0)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (!c->m || !c->n || !c->batch)
		return CUBLAS_STATUS_SUCCESS;
	/* Sums of parts, say. */
	if (h->workspace && h->workspace_bytes &&
	    blas_driver()->fill((uintptr_t)h->workspace, 0xa5, h->workspace_bytes, h->stream))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	return c->by_lt && c->k ? through_lt(h, c, alpha, beta) : direct(h, c, alpha, beta);
}

/* The headers declare the __half entry points for C++ alone. */
typedef struct {
	uint16_t bits;
} half;
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define COMMON                                                                                     \
	.transa = ta, .transb = tb, .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc

/* gemm, gemmStridedBatched and gemmBatched of one type, in one integer width */
#define TYPED(GEMM, STRIDED, BATCHED, T, type, compute_type, I)                                    \
	cublasStatus_t CUBLASWINAPI GEMM(                                                          \
		cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k,  \
		const T *alpha, const T *A, I lda, const T *B, I ldb, const T *beta, T *C, I ldc)  \
	{                                                                                          \
		struct call c = {COMMON,	.a = A,	       .b = B,                             \
				 .c = C,	.atype = type, .btype = type,                      \
				 .ctype = type, .batch = 1,    .compute = compute_type};           \
		return product(handle, &c, alpha, beta);                                           \
	}                                                                                          \
	cublasStatus_t CUBLASWINAPI STRIDED(                                                       \
		cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k,  \
		const T *alpha, const T *A, I lda, long long int sa, const T *B, I ldb,            \
		long long int sb, const T *beta, T *C, I ldc, long long int sc, I batch)           \
	{                                                                                          \
		struct call c = {COMMON,	 .a = A,	 .b = B,                           \
				 .c = C,	 .atype = type,	 .btype = type,                    \
				 .ctype = type,	 .stride_a = sa, .stride_b = sb,                   \
				 .stride_c = sc, .batch = batch, .compute = compute_type};         \
		return product(handle, &c, alpha, beta);                                           \
	}                                                                                          \
	cublasStatus_t CUBLASWINAPI BATCHED(cublasHandle_t handle, cublasOperation_t ta,           \
					    cublasOperation_t tb, I m, I n, I k, const T *alpha,   \
					    const T *const A[], I lda, const T *const B[], I ldb,  \
					    const T *beta, T *const C[], I ldc, I batch)           \
	{                                                                                          \
		struct call c = {COMMON,	.a = A,                                            \
				 .b = B,	.c = (void *)(uintptr_t)C,                         \
				 .atype = type, .btype = type,                                     \
				 .ctype = type, .batch = batch,                                    \
				 .by_array = 1, .compute = compute_type};                          \
		return product(handle, &c, alpha, beta);                                           \
	}

TYPED(cublasHgemm, cublasHgemmStridedBatched, cublasHgemmBatched, half, CUDA_R_16F,
      CUBLAS_COMPUTE_16F, int)
TYPED(cublasHgemm_64, cublasHgemmStridedBatched_64, cublasHgemmBatched_64, half, CUDA_R_16F,
      CUBLAS_COMPUTE_16F, int64_t)
TYPED(cublasSgemm_v2, cublasSgemmStridedBatched, cublasSgemmBatched, float, CUDA_R_32F,
      CUBLAS_COMPUTE_32F, int)
TYPED(cublasSgemm_v2_64, cublasSgemmStridedBatched_64, cublasSgemmBatched_64, float, CUDA_R_32F,
      CUBLAS_COMPUTE_32F, int64_t)
TYPED(cublasDgemm_v2, cublasDgemmStridedBatched, cublasDgemmBatched, double, CUDA_R_64F,
      CUBLAS_COMPUTE_64F, int)
TYPED(cublasDgemm_v2_64, cublasDgemmStridedBatched_64, cublasDgemmBatched_64, double, CUDA_R_64F,
      CUBLAS_COMPUTE_64F, int64_t)

#define MIXED(SGEMM_EX, GEMM_EX, STRIDED_EX, BATCHED_EX, I)                                        \
	cublasStatus_t CUBLASWINAPI SGEMM_EX(                                                      \
		cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k,  \
		const float *alpha, const void *A, cudaDataType at, I lda, const void *B,          \
		cudaDataType bt, I ldb, const float *beta, void *C, cudaDataType ct, I ldc)        \
	{                                                                                          \
		struct call c = {COMMON,      .a = A,	   .b = B,                                 \
				 .c = C,      .atype = at, .btype = bt,                            \
				 .ctype = ct, .batch = 1,  .compute = CUBLAS_COMPUTE_32F};         \
		return product(handle, &c, alpha, beta);                                           \
	}                                                                                          \
	cublasStatus_t CUBLASWINAPI GEMM_EX(                                                       \
		cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k,  \
		const void *alpha, const void *A, cudaDataType at, I lda, const void *B,           \
		cudaDataType bt, I ldb, const void *beta, void *C, cudaDataType ct, I ldc,         \
		cublasComputeType_t compute, cublasGemmAlgo_t algo)                                \
	{                                                                                          \
		struct call c = {COMMON,      .a = A,	   .b = B,                                 \
				 .c = C,      .atype = at, .btype = bt,                            \
				 .ctype = ct, .batch = 1,  .compute = compute,                     \
				 .by_lt = 1};                                                      \
		(void)algo;                                                                        \
		return product(handle, &c, alpha, beta);                                           \
	}                                                                                          \
	cublasStatus_t CUBLASWINAPI STRIDED_EX(                                                    \
		cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k,  \
		const void *alpha, const void *A, cudaDataType at, I lda, long long int sa,        \
		const void *B, cudaDataType bt, I ldb, long long int sb, const void *beta,         \
		void *C, cudaDataType ct, I ldc, long long int sc, I batch,                        \
		cublasComputeType_t compute, cublasGemmAlgo_t algo)                                \
	{                                                                                          \
		struct call c = {                                                                  \
			COMMON,		.a = A,		.b = B,		.c = C,                    \
			.atype = at,	.btype = bt,	.ctype = ct,	.stride_a = sa,            \
			.stride_b = sb, .stride_c = sc, .batch = batch, .compute = compute,        \
			.by_lt = 1};                                                               \
		REFUSE();                                                                          \
		(void)algo;                                                                        \
		return product(handle, &c, alpha, beta);                                           \
	}                                                                                          \
	cublasStatus_t CUBLASWINAPI BATCHED_EX(                                                    \
		cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, I m, I n, I k,  \
		const void *alpha, const void *const A[], cudaDataType at, I lda,                  \
		const void *const B[], cudaDataType bt, I ldb, const void *beta, void *const C[],  \
		cudaDataType ct, I ldc, I batch, cublasComputeType_t compute,                      \
		cublasGemmAlgo_t algo)                                                             \
	{                                                                                          \
		struct call c = {COMMON,	.a = A,                                            \
				 .b = B,	.c = (void *)(uintptr_t)C,                         \
				 .atype = at,	.btype = bt,                                       \
				 .ctype = ct,	.batch = batch,                                    \
				 .by_array = 1, .compute = compute};                               \
		(void)algo;                                                                        \
		return product(handle, &c, alpha, beta);                                           \
	}

MIXED(cublasSgemmEx, cublasGemmEx, cublasGemmStridedBatchedEx, cublasGemmBatchedEx, int)
MIXED(cublasSgemmEx_64, cublasGemmEx_64, cublasGemmStridedBatchedEx_64, cublasGemmBatchedEx_64,
      int64_t)
