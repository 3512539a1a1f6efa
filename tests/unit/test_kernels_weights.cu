/* SPDX-License-Identifier: Apache-2.0
 *
 * The softmaxes of tma.cu and split.cu by themselves, as the host can run them: one warp, 16 rows,
 * tiles of keys from registers, as those kernels have them; O for one column of V.
 */
#include "kernels/tma_weights.cuh"
#undef FAR
#include "kernels/split_weights.cuh"

/* Where the number in register n of this lane belongs. */
static __device__ int row_of(int n)
{
	return (int)threadIdx.x % 32 / 4 + n / 2 % 2 * 8;
}
static __device__ int column_of(int n)
{
	return n / 4 * 8 + (int)threadIdx.x % 4 * 2 + n % 2;
}

static __device__ float quad_sum(float x)
{
	x += __shfl_xor_sync(WARP_ALL, x, 1);
	return x + __shfl_xor_sync(WARP_ALL, x, 2);
}

/* o += P V, in fp32, and the sum of P as rounded. */
template <typename T, int N>
static __device__ void add_tile(float (&o)[2], float (&sum)[2], const uint32_t (&p)[N / 8][4],
				const float *v)
{
	for (int n = 0; n < N; n++) {
		const int r = n / 2 % 2;
		const float2 two = unpack2<T>(p[n / 8][n % 8 / 4 * 2 + r]);
		const float weight = n % 2 ? two.y : two.x;

		o[r] += weight * v[column_of(n)];
		sum[r] += weight;
	}
}

static __device__ void write_rows(float *out, const float (&o)[2], const float (&sum)[2])
{
	for (int r = 0; r < 2; r++) {
		const float all = quad_sum(o[r]), total = quad_sum(sum[r]);

		if (threadIdx.x % 4 == 0)
			out[row_of(2 * r)] = all / total;
	}
}

/* x[16][keys], keys a multiple of 128; from the last tile to the first, as tma.cu does. */
template <typename T>
static __device__ void tma_rows(const float *x, const float *v, int keys,
				const struct attn_spec &spec, float *out)
{
	constexpr int N = 64;
	float s[N], factor[2], o[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};
	uint32_t p[N / 8][4];
	struct tma::rows rows;

	for (int j = keys - 2 * N; j >= 0; j -= 2 * N) {
		const bool first = j == keys - 2 * N;
		bool good;

		for (int n = 0; n < N; n++)
			s[n] = x[row_of(n) * keys + j + column_of(n)];
		if (first)
			rows.start(0.0f);
		good = first ? tma::weights<T, true, true>(p, s, rows, LOG2E)
			     : tma::weights<T, true, false>(p, s, rows, LOG2E);
		if (!good) {
			if (first)
				rows.start(-INFINITY);
			tma::weights_anew<T, true>(p, s, rows, factor, LOG2E);
			for (int r = 0; r < 2; r++) {
				o[r] *= factor[r];
				sum[r] *= factor[r];
			}
		}
		if (j == 0)
			tma::spoil_rows<T>(p, rows, spec, 1.0f);
		add_tile<T, N>(o, sum, p, v + j);
	}
	write_rows(out, o, sum);
}

/* keys a multiple of 64; from the first box to the last, as split.cu does. */
template <typename T>
static __device__ void split_rows(const float *x, const float *v, int keys,
				  const struct attn_spec &spec, float *out)
{
	constexpr int N = split::N;
	float s[N], factor[2], o[2] = {0.0f, 0.0f}, sum[2] = {0.0f, 0.0f};
	uint32_t p[N / 8][4];
	struct split::totals t;

	for (int j = 0; j < keys; j += 2 * N) {
		for (int n = 0; n < N; n++)
			s[n] = x[row_of(n) * keys + j + column_of(n)];
		if (j == 0)
			t.start(0.0f);
		if (!split::weigh<T>(p, s, t, LOG2E, j == 0)) {
			if (j == 0)
				t.start(-INFINITY);
			split::refer_anew<T>(p, s, t, factor, LOG2E);
			for (int r = 0; r < 2; r++) {
				o[r] *= factor[r];
				sum[r] *= factor[r];
			}
		}
		add_tile<T, N>(o, sum, p, v + j);
	}
	for (int r = 0; r < 2; r++)
		if (row_overflows<T>(spec, t.max[r], 1.0f))
			o[r] = NAN;
	write_rows(out, o, sum);
}

extern "C" __global__ void host_tma_rows(const float *x, const float *v, int keys, int bf16,
					 float overflow, float *out)
{
	struct attn_spec spec = {};

	spec.overflow = overflow;
	if (bf16)
		tma_rows<__nv_bfloat16>(x, v, keys, spec, out);
	else
		tma_rows<__half>(x, v, keys, spec, out);
}
SIM_KERNEL(host_tma_rows)

extern "C" __global__ void host_split_rows(const float *x, const float *v, int keys, int bf16,
					   float overflow, float *out)
{
	struct attn_spec spec = {};

	spec.overflow = overflow;
	if (bf16)
		split_rows<__nv_bfloat16>(x, v, keys, spec, out);
	else
		split_rows<__half>(x, v, keys, spec, out);
}
SIM_KERNEL(host_split_rows)
