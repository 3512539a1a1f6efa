/* SPDX-License-Identifier: Apache-2.0
 *
 * cublasLtMatmul with descriptors on the stack, what the library thinks best for them, and no
 * workspace.
 */
#include "shim/gpu/blas_lt.h"

#include <cublasLt.h>
#include <errno.h>

#include "shim/base/half.h"
#include "shim/op/gemm.h"
#include "shim/real/library.h"

/* Aligned as that, an address is as good as any for the library. */
#define ALIGNED 256

struct functions {
	__typeof__(&cublasLtMatmulDescInit_internal) desc_init;
	__typeof__(&cublasLtMatmulDescSetAttribute) desc_set;
	__typeof__(&cublasLtMatrixLayoutInit_internal) layout_init;
	__typeof__(&cublasLtMatrixLayoutSetAttribute) layout_set;
	__typeof__(&cublasLtMatmulPreferenceInit_internal) preference_init;
	__typeof__(&cublasLtMatmulPreferenceSetAttribute) preference_set;
	__typeof__(&cublasLtMatmulAlgoGetHeuristic) find;
	__typeof__(&cublasLtMatmul) run;
};

static bool functions_of(const struct library *library, struct functions *f)
{
#define FIND(member, function)                                                                     \
	(f->member = (__typeof__(f->member))blas_symbol(library, #function)) != NULL
	return FIND(desc_init, cublasLtMatmulDescInit_internal) &&
	       FIND(desc_set, cublasLtMatmulDescSetAttribute) &&
	       FIND(layout_init, cublasLtMatrixLayoutInit_internal) &&
	       FIND(layout_set, cublasLtMatrixLayoutSetAttribute) &&
	       FIND(preference_init, cublasLtMatmulPreferenceInit_internal) &&
	       FIND(preference_set, cublasLtMatmulPreferenceSetAttribute) &&
	       FIND(find, cublasLtMatmulAlgoGetHeuristic) && FIND(run, cublasLtMatmul);
#undef FIND
}

int blas_lt_create(const struct library *library, void **made)
{
	__typeof__(&cublasLtCreate) create =
		(__typeof__(create))blas_symbol(library, "cublasLtCreate");
	struct functions f;

	return create && functions_of(library, &f) &&
			       create((cublasLtHandle_t *)made) == CUBLAS_STATUS_SUCCESS
		       ? 0
		       : -EIO;
}

/* A product in the library's words. */
struct product {
	cublasLtMatmulDescOpaque_t desc;
	cublasLtMatrixLayoutOpaque_t a, b, c;
};

/* `count` matrices of rows x cols as they lie, `stride` elements apart. */
static bool lay(const struct functions *f, cublasLtMatrixLayoutOpaque_t *layout, cudaDataType type,
		int64_t rows, int64_t cols, int64_t ld, int64_t count, int64_t stride)
{
	const int32_t batch = (int32_t)count;

	return !f->layout_init(layout, sizeof(*layout), type, (uint64_t)rows, (uint64_t)cols, ld) &&
	       !f->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)) &&
	       !f->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
			      sizeof(stride));
}

static bool sums_in_half(const struct op_gemm *gemm)
{
	return gemm->compute_type == CUBLAS_COMPUTE_16F ||
	       gemm->compute_type == CUBLAS_COMPUTE_16F_PEDANTIC;
}

/* One run of it, where its entries come in runs. */
static bool describe(const struct functions *f, struct product *product, const struct op_gemm *gemm)
{
	const int32_t transa = gemm->transa, transb = gemm->transb;
	const bool in_runs = gemm->run > 1;
	const int64_t count = in_runs ? gemm->run : gemm->batch;

	return !f->desc_init(&product->desc, sizeof(product->desc),
			     (cublasComputeType_t)gemm->compute_type,
			     sums_in_half(gemm) ? CUDA_R_16F : CUDA_R_32F) &&
	       !f->desc_set(&product->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transa, sizeof(transa)) &&
	       !f->desc_set(&product->desc, CUBLASLT_MATMUL_DESC_TRANSB, &transb, sizeof(transb)) &&
	       lay(f, &product->a, gemm->atype, transa ? gemm->k : gemm->m,
		   transa ? gemm->m : gemm->k, gemm->lda, count,
		   in_runs ? gemm->inner_a : gemm->stride_a) &&
	       lay(f, &product->b, gemm->btype, transb ? gemm->n : gemm->k,
		   transb ? gemm->k : gemm->n, gemm->ldb, count,
		   in_runs ? gemm->inner_b : gemm->stride_b) &&
	       lay(f, &product->c, gemm->ctype, gemm->m, gemm->n, gemm->ldc, count,
		   in_runs ? gemm->inner_c : gemm->stride_c);
}

/* What the library thinks best for operands that are aligned to as many bytes, A, B and C. */
static bool find(const struct functions *f, void *handle, struct product *product,
		 const uint32_t aligned[3], cublasLtMatmulHeuristicResult_t *best)
{
	static const cublasLtMatmulPreferenceAttributes_t attribute[4] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
	cublasLtMatmulPreferenceOpaque_t preference;
	int found = 0;

	if (f->preference_init(&preference, sizeof(preference)))
		return false;
	for (int i = 0; i < 4; i++)
		if (f->preference_set(&preference, attribute[i], &aligned[i < 2 ? i : 2],
				      sizeof(*aligned)))
			return false;
	return !f->find(handle, &product->desc, &product->a, &product->b, &product->c, &product->c,
			&preference, 1, best, &found) &&
	       found > 0;
}

bool blas_lt_takes(void *handle, const struct op_gemm *gemm)
{
	/* Wherever its operands lie, they are aligned to their elements. */
	const uint32_t aligned[3] = {(uint32_t)bytes_of_cuda(gemm->atype),
				     (uint32_t)bytes_of_cuda(gemm->btype),
				     (uint32_t)bytes_of_cuda(gemm->ctype)};
	cublasLtMatmulHeuristicResult_t best;
	struct product product;
	struct functions f;

	return functions_of(gemm->library, &f) && describe(&f, &product, gemm) &&
	       find(&f, handle, &product, aligned, &best);
}

int blas_lt_run(void *handle, const struct op_gemm *gemm, CUstream stream, uint64_t a, uint64_t b,
		uint64_t c)
{
	const float alpha32 = (float)gemm->alpha, beta32 = (float)gemm->beta;
	const uint16_t alpha16 = half_bits(alpha32), beta16 = half_bits(beta32);
	const bool half = sums_in_half(gemm);
	const void *alpha = half ? (const void *)&alpha16 : &alpha32;
	const void *beta = half ? (const void *)&beta16 : &beta32;
	const int64_t count = gemm->run > 1 ? gemm->run : gemm->batch;
	const uint64_t step[3] = {(uint64_t)(gemm->stride_a * bytes_of_cuda(gemm->atype)),
				  (uint64_t)(gemm->stride_b * bytes_of_cuda(gemm->btype)),
				  (uint64_t)(gemm->stride_c * bytes_of_cuda(gemm->ctype))};
	uint64_t at[3] = {a, b, c};
	cublasLtMatmulHeuristicResult_t best;
	struct product product;
	struct functions f;

	if (!functions_of(gemm->library, &f) || !describe(&f, &product, gemm))
		return -EIO;
	for (int64_t done = 0; done < gemm->batch; done += count) {
		uint32_t aligned[3];

		for (int i = 0; i < 3; i++)
			aligned[i] = (uint32_t)((at[i] | ALIGNED) & -(at[i] | ALIGNED));
		if (!find(&f, handle, &product, aligned, &best) ||
		    f.run(handle, &product.desc, alpha, (const void *)at[0], &product.a,
			  (const void *)at[1], &product.b, beta, (const void *)at[2], &product.c,
			  (void *)at[2], &product.c, &best.algo, NULL, 0, (cudaStream_t)stream))
			return -EIO;
		for (int i = 0; i < 3; i++)
			at[i] += step[i];
	}
	return 0;
}
