/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that go by the names and take the parameters of those that engines in C++ put between
 * their products, and compute the same in a plain way. A block of 32 threads a row.
 */
#include "tests/apps/kernels.cuh"
#include "tests/apps/warp.cuh"

/* store(j, softmax of score(j)) */
template <typename Score, typename Store>
static __device__ void engine_row(int columns, float more, Score score, Store store)
{
	float most = -INFINITY, sum = 0;

	for (int j = threadIdx.x; j < columns; j += 32)
		most = fmaxf(most, score(j));
	most = most_of_warp(most);
	for (int j = threadIdx.x; j < columns; j += 32)
		sum += expf(score(j) - most);
	sum = sum_of_warp(sum) + more;
	for (int j = threadIdx.x; j < columns; j += 32)
		store(j, expf(score(j) - most) / sum);
}

/* ---- FasterTransformer ------------------------------------------------------------------------
 */

static __device__ float halved(float x)
{
	return __half2float(__float2half_rn(x));
}

#define FT_PAIRS                                                                                   \
	_ZN17fastertransformer20softmax_kernel_h2_v2I6__halfLi4ELi4EEEvPT_PKS2_S5_S5_iiiiS2_
#define FT_WIDE _ZN17fastertransformer14softmax_kernelI6__halffLi4EEEvPT_PKT0_PKS2_S8_iiiif

/* score(what the product says, what the mask shows) */
template <typename From, typename Score>
static __device__ void masked_rows(__half *to, const From *from, const __half *mask, int heads,
				   int queries, int keys, Score score)
{
	const int b = blockIdx.y, h = blockIdx.z;

	for (int i = blockIdx.x; i < queries; i += gridDim.x) {
		const long long row = ((long long)(b * heads + h) * queries + i) * keys;
		const __half *shown = mask + (long long)(b * queries + i) * keys;

		engine_row(
			keys, 1e-6f,
			[=](int j) { return score(from[row + j], __half2float(shown[j])); },
			[=](int j, float p) { to[row + j] = __float2half_rn(p); });
	}
}

/* Sums in half precision: (1 - mask) * -10000 swallows most of a score. */
extern "C" __global__ void FT_PAIRS(__half *to, const __half *from, const __half *mask,
				    const __half *slopes, int batch, int heads, int queries,
				    int keys, __half scale)
{
	const float factor = __half2float(scale);

	(void)slopes, (void)batch;
	masked_rows(to, from, mask, heads, queries, keys, [=](__half s, float shown) {
		return halved(halved(__half2float(s) * factor) +
			      halved(halved(1.0f - shown) * -10000.0f));
	});
}
NAMED_KERNEL(FT_PAIRS)

/* Scores in fp32. */
extern "C" __global__ void FT_WIDE(__half *to, const float *from, const __half *mask,
				   const __half *slopes, int batch, int heads, int queries,
				   int keys, float scale)
{
	(void)slopes, (void)batch;
	masked_rows(to, from, mask, heads, queries, keys,
		    [=](float s, float shown) { return s * scale + (1.0f - shown) * -10000.0f; });
}
NAMED_KERNEL(FT_WIDE)

/* ---- ggml ------------------------------------------------------------------------------------ */

struct soft_max_params {
	long long heads;
	unsigned log2;
	long long columns, rows_x, rows_y, size[4], mask_stride[3], mask_size[2];
	float scale, slope, m0, m1;
};

#define GGML_SOFTMAX  _Z12soft_max_f32ILb1ELi0ELi0EfEvPKfPKT2_S1_Pf15soft_max_params
#define GGML_CONVERT  _Z13convert_unaryIf6__halfEvPKvPT0_lll5uint3lll
#define GGML_FOUR     _Z23convert_unary_cont_vec4If6__halfEvPKvPT0_l
#define GGML_POINTERS _Z22k_compute_batched_ptrsPKvS0_PcPS0_PPvlllmmmmmmll
#define GGML_SOFTCAP  _Z11softcap_f32PKfPfffi

extern "C" __global__ void GGML_SOFTMAX(const float *x, const float *mask, const float *sinks,
					float *to, struct soft_max_params p)
{
	const int row = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
	const float *from = x + (long long)row * p.columns;
	float *y = to + (long long)row * p.columns;
	const float *add = mask ? mask + (blockIdx.x * p.mask_stride[0] +
					  blockIdx.y % p.mask_size[0] * p.mask_stride[1] +
					  blockIdx.z % p.mask_size[1] * p.mask_stride[2]) /
						   4
				: mask;

	(void)sinks;
	engine_row((int)p.columns, 0,
		   [=](int j) { return from[j] * p.scale + (add ? add[j] : 0.0f); },
		   [=](int j, float value) { y[j] = value; });
}
NAMED_KERNEL(GGML_SOFTMAX)

struct three {
	unsigned x, y, z;
};

extern "C" __global__ void GGML_CONVERT(const void *from, __half *to, long long columns,
					long long rows, long long rest, struct three third,
					long long s1, long long s2, long long s3)
{
	const float *x = (const float *)from;

	if (INDEX >= columns)
		return;
	for (long long i = blockIdx.y; i < rows; i += gridDim.y)
		for (long long n = blockIdx.z; n < rest; n += gridDim.z)
			to[(n * rows + i) * columns + INDEX] = __float2half_rn(
				x[n / third.z * s3 + n % third.z * s2 + i * s1 + INDEX]);
}
NAMED_KERNEL(GGML_CONVERT)

extern "C" __global__ void GGML_FOUR(const void *from, __half *to, long long quarters)
{
	const float *x = (const float *)from;

	for (int k = 0; INDEX < quarters && k < 4; k++)
		to[4 * INDEX + k] = __float2half_rn(x[4 * INDEX + k]);
}
NAMED_KERNEL(GGML_FOUR)

extern "C" __global__ void GGML_SOFTCAP(const float *x, float *to, float scale, float cap, int n)
{
	if (INDEX < n)
		to[INDEX] = tanhf(scale * x[INDEX]) * cap;
}
NAMED_KERNEL(GGML_SOFTCAP)

extern "C" __global__ void
GGML_POINTERS(const void *a, const void *b, char *c, const void **from, void **to,
	      long long entries, long long outer, long long all, unsigned long long a2,
	      unsigned long long a3, unsigned long long b2, unsigned long long b3,
	      unsigned long long c2, unsigned long long c3, long long shared2, long long shared3)
{
	const long long o = INDEX, i = (long long)blockIdx.y * blockDim.y + threadIdx.y;

	if (o >= outer || i >= entries)
		return;
	from[i + o * entries] = (const char *)a + i / shared2 * a2 + o / shared3 * a3;
	from[all + i + o * entries] = (const char *)b + i * b2 + o * b3;
	to[i + o * entries] = c + i * c2 + o * c3;
}
NAMED_KERNEL(GGML_POINTERS)
