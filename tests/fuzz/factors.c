/* SPDX-License-Identifier: Apache-2.0
 *
 * Products that read of a tensor what is neither A nor B: their factors, the bias of cublasLt's; or
 * that leave the memory in which cuBLAS may work.
 */
#include "fuzz.h"

/* Two numbers in fp32, whatever their bits say, as alpha and beta. */
static void factors_within(struct happening *h)
{
	const CUdeviceptr at = (h->at + 3) & ~(CUdeviceptr)3;
	CUdeviceptr to = here->spare + below(&h->rng, 16) * 256;
	const size_t bytes = 64 * width;
	cublasHandle_t blas = here->second && chance(&h->rng, 30) ? here->second : here->blas;

	if (!is_ours(at, 8) || depth_of(at, 8))
		return;
	fill_numbers(h->stream, to, 2, 64);
	OK(cublasSetStream(blas, (cudaStream_t)h->stream));
	OK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
	trace("factors at %llx, within a tensor", at);
	OK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 1, (void *)at, (void *)here->ones,
			cuda_type(), 8, (void *)here->ones, cuda_type(), 1, (void *)(at + 4),
			(void *)to, cuda_type(), 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	OK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
	occurs("factors within a tensor");
	observe(h->stream, "product with its factors there", to, bytes);
}

static void bias_within(struct happening *h)
{
	const size_t n = h->bytes / width < 32 ? h->bytes / width : 32;
	const cublasLtEpilogue_t epilogue =
		chance(&h->rng, 50) ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_RELU_BIAS;
	const float one = 1, zero = 0;
	CUdeviceptr to = here->spare + below(&h->rng, 16) * 256;
	cublasLtMatrixLayout_t a, b, c;
	cublasLtMatmulDesc_t d;
	void *bias = (void *)h->at;

	OK(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
					  sizeof(epilogue)));
	OK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
					  sizeof(bias)));
	OK(cublasLtMatrixLayoutCreate(&a, cuda_type(), n, 1, (int64_t)n));
	OK(cublasLtMatrixLayoutCreate(&b, cuda_type(), 1, 1, 1));
	OK(cublasLtMatrixLayoutCreate(&c, cuda_type(), n, 1, (int64_t)n));
	trace("bias at %llx n=%zu", h->at, n);
	OK(cublasLtMatmul(here->lt, d, &one, (void *)here->ones, a, (void *)here->ones, b, &zero,
			  (void *)to, c, (void *)to, c, NULL, NULL, 0, (cudaStream_t)h->stream));
	OK(cublasLtMatrixLayoutDestroy(a));
	OK(cublasLtMatrixLayoutDestroy(b));
	OK(cublasLtMatrixLayoutDestroy(c));
	OK(cublasLtMatmulDescDestroy(d));
	mark(to, n * width, depth_of(h->at, n * width));
	occurs("a bias within a tensor");
	observe(h->stream, "product with a bias", to, n * width);
}

/* cuBLAS may work in memory of the program's from now on; or there lies something else again. */
static void workspace(struct happening *h)
{
	if (h->chain->manner == PAIRED) /* its partner's stream may work there */
		return;
	here->working = !here->working;
	trace("cuBLAS works in %llx: %d", here->work, here->working);
	if (here->working)
		return;
	random_numbers(h->stream, here->work, next(&h->rng), WORK_BYTES / width);
	occurs("memory back from cuBLAS");
	if (chance(&h->rng, 40))
		observe(h->stream, "back from cuBLAS", here->work, WORK_BYTES);
}

const struct event_kind factors[] = {
	{"factors within", factors_within, SCORES_PART, 3},
	{"an input's factors", factors_within, INPUT_PART, 1},
	{"bias within", bias_within, SCORES_PART, 3},
	{"bias within an input", bias_within, INPUT_PART, 1},
	{"workspace", workspace, NOTHING, 7},
	{NULL, NULL, NOTHING, 0},
};
