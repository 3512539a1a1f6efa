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

static bool prefer(const struct functions *f, cublasLtMatmulPreferenceOpaque_t *preference,
		   const uint64_t address[3])
{
	static const cublasLtMatmulPreferenceAttributes_t attribute[4] = {
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
		CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};

	if (f->preference_init(preference, sizeof(*preference)))
		return false;
	for (int i = 0; i < 4; i++) {
		const uint64_t at = address[i < 2 ? i : 2] | ALIGNED;
		const uint32_t aligned = (uint32_t)(at & -at);

		if (f->preference_set(preference, attribute[i], &aligned, sizeof(aligned)))
			return false;
	}
	return true;
}

int blas_lt_run(void *handle, const struct op_gemm *gemm, CUstream stream, uint64_t a, uint64_t b,
		uint64_t c)
{
	const bool half = gemm->compute_type == CUBLAS_COMPUTE_16F ||
			  gemm->compute_type == CUBLAS_COMPUTE_16F_PEDANTIC;
	const float alpha32 = (float)gemm->alpha, beta32 = (float)gemm->beta;
	const uint16_t alpha16 = half_bits(alpha32), beta16 = half_bits(beta32);
	const void *alpha = half ? (const void *)&alpha16 : &alpha32;
	const void *beta = half ? (const void *)&beta16 : &beta32;
	const int32_t transa = gemm->transa, transb = gemm->transb;
	const int64_t count = gemm->run > 1 ? gemm->run : gemm->batch;
	const bool in_runs = gemm->run > 1;
	const uint64_t start[3] = {a, b, c};
	const uint64_t step[3] = {(uint64_t)(gemm->stride_a * bytes_of_cuda(gemm->atype)),
				  (uint64_t)(gemm->stride_b * bytes_of_cuda(gemm->btype)),
				  (uint64_t)(gemm->stride_c * bytes_of_cuda(gemm->ctype))};
	cublasLtMatmulPreferenceOpaque_t preference;
	cublasLtMatrixLayoutOpaque_t layout[3];
	cublasLtMatmulHeuristicResult_t best;
	cublasLtMatmulDescOpaque_t desc;
	struct functions f;
	int found = 0;

	if (!functions_of(gemm->library, &f) ||
	    f.desc_init(&desc, sizeof(desc), (cublasComputeType_t)gemm->compute_type,
			half ? CUDA_R_16F : CUDA_R_32F) ||
	    f.desc_set(&desc, CUBLASLT_MATMUL_DESC_TRANSA, &transa, sizeof(transa)) ||
	    f.desc_set(&desc, CUBLASLT_MATMUL_DESC_TRANSB, &transb, sizeof(transb)) ||
	    !lay(&f, &layout[0], gemm->atype, transa ? gemm->k : gemm->m,
		 transa ? gemm->m : gemm->k, gemm->lda, count,
		 in_runs ? gemm->inner_a : gemm->stride_a) ||
	    !lay(&f, &layout[1], gemm->btype, transb ? gemm->n : gemm->k,
		 transb ? gemm->k : gemm->n, gemm->ldb, count,
		 in_runs ? gemm->inner_b : gemm->stride_b) ||
	    !lay(&f, &layout[2], gemm->ctype, gemm->m, gemm->n, gemm->ldc, count,
		 in_runs ? gemm->inner_c : gemm->stride_c))
		return -EIO;
	for (int64_t done = 0; done < gemm->batch; done += count) {
		const uint64_t runs = (uint64_t)(done / count);
		const uint64_t at[3] = {start[0] + runs * step[0], start[1] + runs * step[1],
					start[2] + runs * step[2]};

		if (!prefer(&f, &preference, at) ||
		    f.find(handle, &desc, &layout[0], &layout[1], &layout[2], &layout[2],
			   &preference, 1, &best, &found) ||
		    found < 1 ||
		    f.run(handle, &desc, alpha, (const void *)at[0], &layout[0],
			  (const void *)at[1], &layout[1], beta, (const void *)at[2], &layout[2],
			  (void *)at[2], &layout[2], &best.algo, NULL, 0, (cudaStream_t)stream))
			return -EIO;
	}
	return 0;
}
