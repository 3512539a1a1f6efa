/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequence of Marian's batched products: arrays of addresses built on the host and copied
 * before each call, the legacy default stream, scale in alpha as a half, sums in half precision;
 * the mask is added by one kernel and the softmax taken by another.
 */
#include "engine.h"

static __half *q, *k, *v, *o, *s, *z, *p, *mask;
static const void **arrays; /* A, B, C: B*H addresses each */

__global__ void add_mask(__half *to, const __half *from, const __half *add, long long count)
{
	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		to[i] = __float2half(__half2float(from[i]) +
				     __half2float(add[i / ((long long)H * S * S) * S + i % S]));
}

__global__ void row_softmax(__half *to, const __half *from, int columns)
{
	const __half *x = from + (long long)blockIdx.x * columns;
	__half *y = to + (long long)blockIdx.x * columns;

	softmax_row(
		columns, 0, [=](int j) { return __half2float(x[j]); },
		[=](int j, float value) { y[j] = __float2half(value); });
}

/* Hides keys past a length of each sequence's own. */
__global__ void make_mask(__half *m, int first, int second)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < B * S)
		m[i] = __float2half(i % S < (i < S ? first : second) ? 0.0f : -60000.0f);
}

static void open_engine(struct engine *e)
{
	CHECK(cudaStreamDestroy(e->stream));
	e->stream = NULL;
	CHECK(cublasSetStream(e->blas, NULL));
	q = halves(B * H * THIN);
	k = halves(B * H * THIN);
	v = halves(B * H * THIN);
	o = halves(B * H * THIN);
	s = halves(B * H * WIDE);
	z = halves(B * H * WIDE);
	p = halves(B * H * WIDE);
	mask = halves(B * S);
	arrays = (const void **)room(sizeof(*arrays) * 3 * B * H);
}

/* C[h] = alpha A[h] B[h] for all heads. */
static void product_by_arrays(struct engine *e, bool first, const __half *a, const __half *b,
			      __half *c)
{
	const void *host[3 * B * H];
	long long sb = first ? THIN : WIDE, sc = first ? WIDE : THIN;
	__half alpha = __float2half(first ? SCALE : 1), zero = __float2half(0);

	for (int h = 0; h < B * H; h++) {
		host[h] = a + h * THIN;
		host[B * H + h] = b + h * sb;
		host[2 * B * H + h] = c + h * sc;
	}
	CHECK(cudaMemcpy(arrays, host, sizeof(host), cudaMemcpyHostToDevice));
	CHECK(cublasGemmBatchedEx(e->blas, first ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
				  first ? S : D, S, first ? D : S, &alpha, arrays, CUDA_R_16F, D,
				  arrays + B * H, CUDA_R_16F, first ? D : S, &zero,
				  (void **)(arrays + 2 * B * H), CUDA_R_16F, first ? S : D, B * H,
				  CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT));
	CHECK(cudaStreamSynchronize(NULL));
}

static void chain(struct engine *e, unsigned seed)
{
	draw(e, q, B * H * THIN, seed);
	draw(e, k, B * H * THIN, seed + 1);
	draw(e, v, B * H * THIN, seed + 2);
	make_mask<<<blocks(B * S), THREADS>>>(mask, S, S - 50 - (int)(seed % 90));
	product_by_arrays(e, true, k, q, s);
	add_mask<<<blocks(B * H * WIDE), THREADS>>>(z, s, mask, B * H * WIDE);
	row_softmax<<<B * H * S, THREADS>>>(p, z, S);
	CHECK(cudaGetLastError());
	product_by_arrays(e, false, v, p, o);
	save(e, "o", o, B * H * THIN);
}
