/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequences of CTranslate2: cuBLAS's products come by dlopen and dlsym, alpha is the query
 * scale as a half and sums are kept in half precision, the softmax works in place with one length
 * for each row and writes zeros beyond it.
 *
 *     ct2_lengths_16f    strided batches, lengths from padding and causality together
 *     ct2_batch1_gemmex  one sequence and one head: plain GemmEx, rows all of one length
 */
#include "engine.h"

#include <dlfcn.h>

static __half *q, *k, *v, *o, *s;
static int *lengths;
static cublasStatus_t (*gemm_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
				      int, int, const void *, const void *, cudaDataType_t, int,
				      long long, const void *, cudaDataType_t, int, long long,
				      const void *, void *, cudaDataType_t, int, long long, int,
				      cublasComputeType_t, cublasGemmAlgo_t);
static cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
			      const void *, const void *, cudaDataType_t, int, const void *,
			      cudaDataType_t, int, const void *, void *, cudaDataType_t, int,
			      cublasComputeType_t, cublasGemmAlgo_t);

__global__ void softmax_by_length(__half *x, const int *length, int columns)
{
	long long row = blockIdx.x;
	int end = length[row];
	__half *y = x + row * columns;

	softmax_row(
		end, 0, [=](int j) { return __half2float(y[j]); },
		[=](int j, float value) { y[j] = __float2half(value); });
	for (int j = end + (int)threadIdx.x; j < columns; j += THREADS)
		y[j] = __float2half(0);
}

static void open_engine(struct engine *e)
{
	void *library = dlopen("libcublas.so.13", RTLD_NOW);

	if (!library)
		library = dlopen("libcublas.so.12", RTLD_NOW);
	CHECK(!library);
	*(void **)&gemm_batched = dlsym(library, "cublasGemmStridedBatchedEx");
	*(void **)&gemm = dlsym(library, "cublasGemmEx");
	CHECK(!gemm_batched || !gemm);
	q = halves(B * H * THIN);
	k = halves(B * H * THIN);
	v = halves(B * H * THIN);
	o = halves(B * H * THIN);
	s = halves(B * H * WIDE);
	lengths = (int *)room(sizeof(int) * B * H * S);
	(void)e;
}

/* Lengths of sequences (one is padded, differently each time) and, if asked, of their triangles. */
static void send_lengths(struct engine *e, unsigned seed, bool causal)
{
	static int host[B * H * S];

	for (int row = 0; row < B * H * S; row++) {
		int whole = row < H * S ? S : S - 100 - (int)(seed % 90), query = row % S;

		host[row] = causal && query < whole ? query + 1 : whole;
	}
	CHECK(cudaMemcpyAsync(lengths, host, sizeof(host), cudaMemcpyHostToDevice, e->stream));
	CHECK(cudaStreamSynchronize(e->stream));
}

static void chain(struct engine *e, unsigned seed)
{
	bool batched = is(e, "ct2_lengths_16f");
	int heads = batched ? B * H : 1;
	__half scale = __float2half(SCALE), one = __float2half(1), zero = __float2half(0);

	draw(e, q, heads * THIN, seed);
	draw(e, k, heads * THIN, seed + 1);
	draw(e, v, heads * THIN, seed + 2);
	send_lengths(e, seed, batched);
	if (batched)
		CHECK(gemm_batched(e->blas, CUBLAS_OP_T, CUBLAS_OP_N, S, S, D, &scale, k,
				   CUDA_R_16F, D, THIN, q, CUDA_R_16F, D, THIN, &zero, s,
				   CUDA_R_16F, S, WIDE, heads, CUBLAS_COMPUTE_16F,
				   CUBLAS_GEMM_DEFAULT));
	else
		CHECK(gemm(e->blas, CUBLAS_OP_T, CUBLAS_OP_N, S, S, D, &scale, k, CUDA_R_16F, D, q,
			   CUDA_R_16F, D, &zero, s, CUDA_R_16F, S, CUBLAS_COMPUTE_16F,
			   CUBLAS_GEMM_DEFAULT));
	softmax_by_length<<<(unsigned)heads * S, THREADS, 0, e->stream>>>(s, lengths, S);
	CHECK(cudaGetLastError());
	if (batched)
		CHECK(gemm_batched(e->blas, CUBLAS_OP_N, CUBLAS_OP_N, D, S, S, &one, v, CUDA_R_16F,
				   D, THIN, s, CUDA_R_16F, S, WIDE, &zero, o, CUDA_R_16F, D, THIN,
				   heads, CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT));
	else
		CHECK(gemm(e->blas, CUBLAS_OP_N, CUBLAS_OP_N, D, S, S, &one, v, CUDA_R_16F, D, s,
			   CUDA_R_16F, S, &zero, o, CUDA_R_16F, D, CUBLAS_COMPUTE_16F,
			   CUBLAS_GEMM_DEFAULT));
	save(e, "o", o, heads * THIN);
}
