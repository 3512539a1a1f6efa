/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequences of ggml without its fused attention: Q comes as fp32 and is converted, scores are
 * fp32, one kernel scales, adds an fp32 mask and takes the softmax, P is converted to fp16, V is
 * kept transposed, the second product keeps its sums in half precision and its result is converted
 * back.
 *
 *     ggml_prefill_mha       strided batches
 *     ggml_prefill_gqa_ptrs  four heads of keys for eight of queries: arrays of addresses that a
 *                            kernel fills
 */
#include "engine.h"

enum { HK = 4, GROUP = H / HK };

static float *q32, *s, *p32, *o32, *mask;
static __half *q, *k, *v, *p, *o;
static const void **arrays; /* K, Q, S, V, P, O: B*H addresses each */

__global__ void soft_max(const float *x, const float *shown, float *to, int columns, float scale)
{
	long long row = blockIdx.x;
	const float *add = shown + row % S * columns, *from = x + row * columns;
	float *y = to + row * columns;

	softmax_row(
		columns, 0, [=](int j) { return from[j] * scale + add[j]; },
		[=](int j, float value) { y[j] = value; });
}

/* The mask of a prefill after `past` tokens of the cache. */
__global__ void make_mask(float *m, long long count, int past)
{
	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		m[i] = i % S <= i / S + past ? 0 : -INFINITY;
}

__global__ void fill_arrays(const void **to, const __half *keys, const __half *queries,
			    float *scores, const __half *values, const __half *weights, __half *out,
			    long long thin, long long wide)
{
	int i = (int)threadIdx.x, all = (int)blockDim.x, shared = i / GROUP;

	to[i] = keys + shared * thin;
	to[all + i] = queries + i * thin;
	to[2 * all + i] = scores + i * wide;
	to[3 * all + i] = values + shared * thin;
	to[4 * all + i] = weights + i * wide;
	to[5 * all + i] = out + i * thin;
}

static void open_engine(struct engine *e)
{
	(void)e;
	q32 = floats(B * H * THIN);
	q = halves(B * H * THIN);
	k = halves(B * H * THIN);
	v = halves(B * H * THIN);
	s = floats(B * H * WIDE);
	p32 = floats(B * H * WIDE);
	p = halves(B * H * WIDE);
	o = halves(B * H * THIN);
	o32 = floats(B * H * THIN);
	mask = floats(WIDE);
	arrays = (const void **)room(sizeof(*arrays) * 6 * B * H);
}

static void by_arrays(struct engine *e, bool first)
{
	const void **a = arrays + (first ? 0 : 3) * B * H, **b = a + B * H;
	void **c = (void **)(b + B * H);
	__half one = __float2half(1), zero = __float2half(0);

	if (first)
		CHECK(cublasGemmBatchedEx(e->blas, CUBLAS_OP_T, CUBLAS_OP_N, S, S, D, &ONE, a,
					  CUDA_R_16F, D, b, CUDA_R_16F, D, &ZERO, c, CUDA_R_32F, S,
					  B * H, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	else
		CHECK(cublasGemmBatchedEx(e->blas, CUBLAS_OP_T, CUBLAS_OP_N, D, S, S, &one, a,
					  CUDA_R_16F, S, b, CUDA_R_16F, S, &zero, c, CUDA_R_16F, D,
					  B * H, CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT));
}

static void chain(struct engine *e, unsigned seed)
{
	bool arrayed = is(e, "ggml_prefill_gqa_ptrs");
	struct product first = scores_of(q, k, s, 1), second = values_of(p, v, o);

	first.c_type = CUDA_R_32F;
	second.ta = CUBLAS_OP_T; /* V^T [D,S] */
	second.lda = S;
	second.compute = CUBLAS_COMPUTE_16F;
	draw(e, q32, B * H * THIN, seed);
	draw(e, k, B * H * THIN, seed + 1);
	draw(e, v, B * H * THIN, seed + 2);
	make_mask<<<blocks(WIDE), THREADS, 0, e->stream>>>(mask, WIDE, (int)(seed % 70));
	convert<<<blocks(B * H * THIN), THREADS, 0, e->stream>>>(q, q32, B * H * THIN);
	if (arrayed) {
		fill_arrays<<<1, B * H, 0, e->stream>>>(arrays, k, q, s, v, p, o, THIN, WIDE);
		by_arrays(e, true);
	} else {
		multiply(e, &first);
	}
	soft_max<<<B * H * S, THREADS, 0, e->stream>>>(s, mask, p32, S, SCALE);
	convert<<<blocks(B * H * WIDE), THREADS, 0, e->stream>>>(p, p32, B * H * WIDE);
	CHECK(cudaGetLastError());
	if (arrayed)
		by_arrays(e, false);
	else
		multiply(e, &second);
	convert<<<blocks(B * H * THIN), THREADS, 0, e->stream>>>(o32, o, B * H * THIN);
	save(e, "o", o32, B * H * THIN);
}
