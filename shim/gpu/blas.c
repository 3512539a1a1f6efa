/* SPDX-License-Identifier: Apache-2.0
 *
 * One private handle per library instance and context (ahead.h). Every entry point's product can be
 * said as cublasGemmStridedBatchedEx, or, where there is libcublasLt alone, as cublasLtMatmul.
 */
#include "shim/gpu/blas.h"

#include <cublas_v2.h>
#include <errno.h>
#include <stdlib.h>

#include "shim/base/half.h"
#include "shim/base/hash.h"
#include "shim/gpu/ahead.h"
#include "shim/gpu/blas_lt.h"
#include "shim/op/gemm.h"
#include "shim/real/library.h"

#define ASKED 64

struct blas_handle {
	void *handle;
	bool lt;	       /* of libcublasLt: libcublas was not there when it was made */
	uint64_t asked[ASKED]; /* lt: numbers of products, odd where it can run them */
};

static int create(const void *library, struct blas_handle *made)
{
	__typeof__(&cublasCreate_v2) create_full =
		(__typeof__(create_full))blas_symbol(library, "cublasCreate_v2");

	made->lt = !create_full;
	if (made->lt)
		return blas_lt_create(library, &made->handle);
	return create_full((cublasHandle_t *)&made->handle) == CUBLAS_STATUS_SUCCESS ? 0 : -EIO;
}

/* Without the flow lock, that is: who has the loader's may be waiting for it. */
static int create_handle(const void *library, void **made)
{
	struct blas_handle *handle = calloc(1, sizeof(*handle));
	int error;

	if (!handle)
		return -ENOMEM;
	library_keep(library);
	error = create(library, handle);
	if (error)
		free(handle);
	else
		*made = handle;
	return error;
}

/* The same for products that differ in where their operands lie, and in their scalars. */
static uint64_t number_of(const struct op_gemm *gemm)
{
	const int64_t words[] = {gemm->transa,	 gemm->transb,	 gemm->m,	gemm->n,
				 gemm->k,	 gemm->atype,	 gemm->btype,	gemm->ctype,
				 gemm->lda,	 gemm->ldb,	 gemm->ldc,	gemm->stride_a,
				 gemm->stride_b, gemm->stride_c, gemm->batch,	gemm->run,
				 gemm->inner_a,	 gemm->inner_b,	 gemm->inner_c, gemm->compute_type};

	return hash_bytes(0x61736b6564, words, sizeof(words)) | 1;
}

/* Asked once for each kind of product, as long as no other takes its place. */
static bool takes(struct blas_handle *ours, const struct op_gemm *gemm)
{
	const uint64_t number = number_of(gemm);
	uint64_t *asked = &ours->asked[number / 2 % ASKED];

	if ((*asked | 1) != number)
		*asked = blas_lt_takes(ours->handle, gemm) ? number : number - 1;
	return *asked == number;
}

int blas_prepare(const struct op_gemm *gemm, CUcontext context)
{
	struct blas_handle *ours;
	void *made;
	const int error = ahead_get(&made, context, gemm->library, create_handle);

	if (error)
		return error;
	ours = made;
	return !ours->lt || takes(ours, gemm) ? 0 : -EIO;
}

static uint64_t bytes_between(int64_t stride, cudaDataType type)
{
	return (uint64_t)(stride * bytes_of_cuda(type));
}

int blas_run(const struct op_gemm *gemm, CUcontext context, CUstream stream, uint64_t a, uint64_t b,
	     uint64_t c)
{
	__typeof__(&cublasGemmStridedBatchedEx) run;
	__typeof__(&cublasSetStream_v2) set_stream;
	__typeof__(&cublasSetMathMode) set_math_mode;
	const float alpha32 = (float)gemm->alpha, beta32 = (float)gemm->beta;
	const uint16_t alpha16 = half_bits(alpha32), beta16 = half_bits(beta32);
	bool half = gemm->compute_type == CUBLAS_COMPUTE_16F ||
		    gemm->compute_type == CUBLAS_COMPUTE_16F_PEDANTIC;
	const bool in_runs = gemm->run > 1;
	const int64_t count = in_runs ? gemm->run : gemm->batch;
	const uint64_t step_a = bytes_between(gemm->stride_a, gemm->atype);
	const uint64_t step_b = bytes_between(gemm->stride_b, gemm->btype);
	const uint64_t step_c = bytes_between(gemm->stride_c, gemm->ctype);
	const struct blas_handle *ours;
	cublasHandle_t handle;
	void *made;

	if (ahead_get(&made, context, gemm->library, create_handle))
		return -EIO;
	ours = made;
	if (ours->lt)
		return blas_lt_run(ours->handle, gemm, stream, a, b, c);
	handle = ours->handle;
	run = (__typeof__(run))blas_symbol(gemm->library, "cublasGemmStridedBatchedEx");
	set_stream = (__typeof__(set_stream))blas_symbol(gemm->library, "cublasSetStream_v2");
	set_math_mode = (__typeof__(set_math_mode))blas_symbol(gemm->library, "cublasSetMathMode");
	if (!run || !set_stream || !set_math_mode)
		return -EIO;
	if (set_stream(handle, (cudaStream_t)stream) != CUBLAS_STATUS_SUCCESS ||
	    set_math_mode(handle, (cublasMath_t)gemm->math_mode) != CUBLAS_STATUS_SUCCESS)
		return -EIO;
	for (int64_t done = 0; done < gemm->batch; done += count) {
		const uint64_t runs = (uint64_t)(done / count);

		if (run(handle, (cublasOperation_t)gemm->transa, (cublasOperation_t)gemm->transb,
			(int)gemm->m, (int)gemm->n, (int)gemm->k,
			half ? (const void *)&alpha16 : (const void *)&alpha32,
			(const void *)(a + runs * step_a), gemm->atype, (int)gemm->lda,
			in_runs ? gemm->inner_a : gemm->stride_a, (const void *)(b + runs * step_b),
			gemm->btype, (int)gemm->ldb, in_runs ? gemm->inner_b : gemm->stride_b,
			half ? (const void *)&beta16 : (const void *)&beta32,
			(void *)(c + runs * step_c), gemm->ctype, (int)gemm->ldc,
			in_runs ? gemm->inner_c : gemm->stride_c, (int)count,
			(cublasComputeType_t)gemm->compute_type,
			(cublasGemmAlgo_t)gemm->algo) != CUBLAS_STATUS_SUCCESS)
			return -EIO;
	}
	return 0;
}
