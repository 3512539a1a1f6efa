/* SPDX-License-Identifier: Apache-2.0
 *
 * The products, in the forms that cuBLAS offers: strided and batched, typed, by arrays of addresses
 * in device memory, by cublasLt.
 */
#include "fuzz.h"

#include <string.h>

static size_t size_of_c(const struct product *p)
{
	return p->wide ? sizeof(float) : width;
}

static CUdeviceptr address(CUdeviceptr base, long long stride, int i, size_t size)
{
	return base + (CUdeviceptr)(stride * i * (long long)size);
}

/* Addresses of A, B and C of each product, in memory that nothing else uses. */
static CUdeviceptr write_arrays(CUstream s, const struct product *p)
{
	uint64_t list[3 * 16];
	CUdeviceptr to;

	if (here->arrays_at + (int)sizeof(list) > (int)ARRAY_BYTES)
		here->arrays_at = 0;
	to = here->arrays + (CUdeviceptr)here->arrays_at;
	here->arrays_at += (int)sizeof(list);
	for (int i = 0; i < p->batch; i++) {
		list[i] = address(p->a, p->stride_a, i, width);
		list[16 + i] = address(p->b, p->stride_b, i, width);
		list[32 + i] = address(p->c, p->stride_c, i, size_of_c(p));
	}
	settle(s);
	OK(cuMemcpyHtoD(to, list, sizeof(list)));
	OK(cuStreamSynchronize(CU_STREAM_LEGACY));
	return to;
}

static cudaDataType type_of_c(const struct product *p)
{
	return p->wide ? CUDA_R_32F : cuda_type();
}

static void layout(cublasLtMatrixLayout_t *l, cudaDataType t, int rows, int columns, int ld,
		   int batch, long long stride)
{
	int64_t apart = stride;

	OK(cublasLtMatrixLayoutCreate(l, t, (uint64_t)rows, (uint64_t)columns, ld));
	OK(cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
					    sizeof(batch)));
	OK(cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
					    sizeof(apart)));
}

static void by_lt(CUstream s, const struct product *p, const void *alpha, const void *beta)
{
	cublasLtPointerMode_t mode = CUBLASLT_POINTER_MODE_DEVICE;
	cublasOperation_t op = CUBLAS_OP_T;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulDesc_t d;

	OK(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	if (p->transposed)
		OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof(op)));
	if (p->device_scalars)
		OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode,
						  sizeof(mode)));
	layout(&a, cuda_type(), p->transposed ? p->k : p->m, p->transposed ? p->m : p->k, p->lda,
	       p->batch, p->stride_a);
	layout(&b, cuda_type(), p->k, p->n, p->ldb, p->batch, p->stride_b);
	layout(&c, type_of_c(p), p->m, p->n, p->ldc, p->batch, p->stride_c);
	OK(cublasLtMatmul(here->lt, d, alpha, (void *)p->a, a, (void *)p->b, b, beta, (void *)p->c,
			  c, (void *)p->c, c, NULL, NULL, 0, (cudaStream_t)s));
	OK(cublasLtMatrixLayoutDestroy(a));
	OK(cublasLtMatrixLayoutDestroy(b));
	OK(cublasLtMatrixLayoutDestroy(c));
	OK(cublasLtMatmulDescDestroy(d));
}

/* Setting the stream took cuBLAS back to memory of its own. What a graph works in is never looked
 * at again. */
static void work_somewhere(cublasHandle_t blas, CUstream s)
{
	CUstreamCaptureStatus status;

	if (!here->working)
		return;
	OK(cuStreamIsCapturing(s ? s : CU_STREAM_LEGACY, &status));
	if (status != CU_STREAM_CAPTURE_STATUS_NONE)
		return;
	OK(cublasSetWorkspace(blas, (void *)here->work, WORK_BYTES));
	occurs("a product that works in the program's memory");
}

static void by_cublas(cublasHandle_t blas, CUstream s, const struct product *p, const void *alpha,
		      const void *beta)
{
	const cublasOperation_t op = p->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	const cudaDataType t = cuda_type(), wide = type_of_c(p);
	void *a = (void *)p->a, *b = (void *)p->b, *c = (void *)p->c;

	OK(cublasSetStream(blas, (cudaStream_t)s));
	work_somewhere(blas, s);
	if (p->form == ARRAYS && p->batch <= 16) {
		CUdeviceptr to = write_arrays(s, p);

		OK(cublasGemmBatchedEx(blas, op, CUBLAS_OP_N, p->m, p->n, p->k, alpha,
				       (const void **)to, t, p->lda, (const void **)(to + 128), t,
				       p->ldb, beta, (void **)(to + 256), wide, p->ldc, p->batch,
				       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	} else if (p->form == TYPED && type == F32) {
		OK(cublasSgemmStridedBatched(blas, op, CUBLAS_OP_N, p->m, p->n, p->k, alpha, a,
					     p->lda, p->stride_a, b, p->ldb, p->stride_b, beta, c,
					     p->ldc, p->stride_c, p->batch));
	} else if (p->form == TYPED && p->batch == 1) {
		OK(cublasGemmEx(blas, op, CUBLAS_OP_N, p->m, p->n, p->k, alpha, a, t, p->lda, b, t,
				p->ldb, beta, c, wide, p->ldc, CUBLAS_COMPUTE_32F,
				CUBLAS_GEMM_DEFAULT));
	} else {
		OK(cublasGemmStridedBatchedEx(blas, op, CUBLAS_OP_N, p->m, p->n, p->k, alpha, a, t,
					      p->lda, p->stride_a, b, t, p->ldb, p->stride_b, beta,
					      c, wide, p->ldc, p->stride_c, p->batch,
					      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	}
}

/* A product for each entry, or for each half of them; now and then somebody looks at what there is
 * of the result. */
static void in_parts(cublasHandle_t blas, CUstream s, const struct product *p, const void *alpha,
		     const void *beta, struct rng *r)
{
	const int parts = p->batch % 2 || chance(r, 30) ? p->batch : 2, looked = below(r, 8);
	CUstreamCaptureStatus captured;
	struct product part = *p;

	OK(cuStreamIsCapturing(s, &captured));
	part.form = STRIDED;
	part.batch = p->batch / parts;
	for (int i = 0; i < parts; i++) {
		by_cublas(blas, s, &part, alpha, beta);
		if (i == looked && i + 1 < parts && captured == CU_STREAM_CAPTURE_STATUS_NONE) {
			occurs("somebody looks between parts of a product");
			observe(s, "a part of a product", part.c, (size_t)p->m * size_of_c(p));
		}
		part.a += (CUdeviceptr)(p->stride_a * part.batch) * width;
		part.b += (CUdeviceptr)(p->stride_b * part.batch) * width;
		part.c += (CUdeviceptr)(p->stride_c * part.batch) * size_of_c(p);
	}
}

static size_t extent(int rows, int columns, int ld, long long stride, int batch)
{
	return ((size_t)(stride * (batch - 1)) + (size_t)ld * (size_t)(columns - 1) +
		(size_t)rows) *
	       width;
}

static int upstream(const struct product *p)
{
	const int rows = p->transposed ? p->k : p->m, columns = p->transposed ? p->m : p->k;
	int depth = depth_of(p->a, extent(rows, columns, p->lda, p->stride_a, p->batch));
	int other = depth_of(p->b, extent(p->k, p->n, p->ldb, p->stride_b, p->batch));

	depth = other > depth ? other : depth;
	if (p->beta != 0) {
		other = depth_of(p->c, extent(p->m, p->n, p->ldc, p->stride_c, p->batch));
		depth = other > depth ? other : depth;
	}
	return depth;
}

/* Where alpha and beta lie on the device: in a place of their own, whose bytes the host sets each
 * time, or where something else lies before and afterwards, as the stream comes to it. */
static CUdeviceptr factors_of(CUstream s, const struct product *p, struct rng *r)
{
	const float both[] = {p->alpha, p->beta};
	CUdeviceptr at = here->scalars;
	unsigned bits[2];

	if (chance(r, 40)) {
		settle(s);
		OK(cuMemcpyHtoD(at, both, sizeof(both)));
		OK(cuStreamSynchronize(CU_STREAM_LEGACY));
		return at;
	}
	at = arena_take(r, sizeof(both), LAST);
	arena_give(at);
	memcpy(bits, both, sizeof(bits));
	trace("factors at %llx", at);
	occurs("factors in the arena");
	if (chance(r, 50)) {
		OK(cuMemsetD32Async(at, bits[0], 1, s));
		OK(cuMemsetD32Async(at + sizeof(float), bits[1], 1, s));
	} else {
		OK(cuCtxSynchronize());
		memcpy(here->pinned, both, sizeof(both));
		OK(cuMemcpyHtoDAsync(at, here->pinned, sizeof(both), s));
	}
	mark(at, sizeof(both), 0);
	return at;
}

void multiply(CUstream s, const struct product *p)
{
	const void *alpha = &p->alpha, *beta = &p->beta;
	struct rng r = rng_of((uint64_t)here->occurrence, 8000 + (uint64_t)here->step);
	cublasHandle_t blas = here->blas;
	const int depth = upstream(p);

	trace("product form=%d %s%d,%d,%d A=%llx/%d+%lld B=%llx/%d+%lld C=%llx/%d+%lld x%d "
	      "alpha=%g beta=%g",
	      p->form, p->transposed ? "T " : "", p->m, p->n, p->k, p->a, p->lda, p->stride_a, p->b,
	      p->ldb, p->stride_b, p->c, p->ldc, p->stride_c, p->batch, (double)p->alpha,
	      (double)p->beta);
	for (int i = 0; i < p->batch; i++)
		for (int j = 0; j < p->n; j++)
			(p->wide ? mark_wide : mark)(address(p->c, p->stride_c, i, size_of_c(p)) +
							     (size_t)(j * p->ldc) * size_of_c(p),
						     (size_t)p->m * size_of_c(p), depth);
	if (here->dry)
		return;
	if (p->device_scalars) {
		alpha = (void *)factors_of(s, p, &r);
		beta = (const char *)alpha + sizeof(float);
	}
	if (here->second && chance(&r, 50)) {
		blas = here->second;
		occurs("a product of a second handle");
	}
	if (p->device_scalars)
		OK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
	if (p->form == LT)
		by_lt(s, p, alpha, beta);
	else if (p->form == PARTS)
		in_parts(blas, s, p, alpha, beta, &r);
	else
		by_cublas(blas, s, p, alpha, beta);
	if (!p->device_scalars)
		return;
	OK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
	if (alpha != (void *)here->scalars && chance(&r, 70)) {
		occurs("factors overwritten behind their product");
		set_bytes(s, (CUdeviceptr)alpha, 0x38, 2 * sizeof(float));
	}
}
