/* SPDX-License-Identifier: Apache-2.0
 *
 * Device pointer mode: alpha and beta of both products lie in device memory, and alpha changes from
 * chain to chain. Whoever reads it once and keeps it computes something else.
 */
#include "engine.h"

static __half *q, *k, *v, *o, *s, *p;
static float *scalars; /* alpha, 1, 0 */

__global__ void row_softmax(__half *to, const __half *from, int columns)
{
	const __half *x = from + (long long)blockIdx.x * columns;
	__half *y = to + (long long)blockIdx.x * columns;

	softmax_row(
		columns, 0, [=](int j) { return __half2float(x[j]); },
		[=](int j, float value) { y[j] = __float2half(value); });
}

static void open_engine(struct engine *e)
{
	q = halves(B * H * THIN);
	k = halves(B * H * THIN);
	v = halves(B * H * THIN);
	o = halves(B * H * THIN);
	s = halves(B * H * WIDE);
	p = halves(B * H * WIDE);
	scalars = floats(3);
	CHECK(cublasSetPointerMode(e->blas, CUBLAS_POINTER_MODE_DEVICE));
}

static void chain(struct engine *e, unsigned seed)
{
	float host[3] = {SCALE * (1 + (float)(seed % 50) / 20), 1, 0};

	draw(e, q, B * H * THIN, seed);
	draw(e, k, B * H * THIN, seed + 1);
	draw(e, v, B * H * THIN, seed + 2);
	CHECK(cudaMemcpyAsync(scalars, host, sizeof(host), cudaMemcpyHostToDevice, e->stream));
	CHECK(cublasGemmStridedBatchedEx(e->blas, CUBLAS_OP_T, CUBLAS_OP_N, S, S, D, scalars, k,
					 CUDA_R_16F, D, THIN, q, CUDA_R_16F, D, THIN, scalars + 2,
					 s, CUDA_R_16F, S, WIDE, B * H, CUBLAS_COMPUTE_32F,
					 CUBLAS_GEMM_DEFAULT));
	row_softmax<<<B * H * S, THREADS, 0, e->stream>>>(p, s, S);
	CHECK(cudaGetLastError());
	CHECK(cublasGemmStridedBatchedEx(e->blas, CUBLAS_OP_N, CUBLAS_OP_N, D, S, S, scalars + 1, v,
					 CUDA_R_16F, D, THIN, p, CUDA_R_16F, S, WIDE, scalars + 2,
					 o, CUDA_R_16F, D, THIN, B * H, CUBLAS_COMPUTE_32F,
					 CUBLAS_GEMM_DEFAULT));
	save(e, "o", o, B * H * THIN);
}
