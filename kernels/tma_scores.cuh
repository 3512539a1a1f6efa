/* SPDX-License-Identifier: Apache-2.0
 *
 * From q.k to x in tma.cu, on a tile of 64 rows and 2 N keys that a warpgroup has in registers as
 * the matrix instruction left it: lane 4g+t of a warp has rows g and g + 8, of each 8 keys the two
 * from 2t on. Biases and masks lie in shared memory as tensor maps put them there, swizzled.
 */
#ifndef FASHIM_TMA_SCORES_CUH
#define FASHIM_TMA_SCORES_CUH

#include "kernels/scores.cuh"

namespace tma
{

/* The keys that a lane's two rows see, first and last. */
struct span {
	int low[2], high[2];
};

/* x += weight * bias, for rows of this warp, the first of which is `row` within the tile. step: 1, or
 * 0 where rows share theirs; slab: bytes of 64 columns. */
template <typename T, int N>
static __device__ __forceinline__ void add_bias(float (&s)[N], uint32_t at, int slab, int row,
						int step, float weight)
{
	const int lane = threadIdx.x % 32;
	const int line = (row + lane % 16) * step;
#pragma unroll
	for (int n = 0; n < N / 8; n++) {
		const int piece = 2 * n % 8 + lane / 16;
		uint32_t b[4];
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
			     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
			     : "r"(at + n / 4 * slab + line * 128 + (piece ^ line % 8) * 16));
#pragma unroll
		for (int e = 0; e < 4; e++) {
			s[8 * n + 2 * e] = fmaf(weight, unpack2<T>(b[e]).x, s[8 * n + 2 * e]);
			s[8 * n + 2 * e + 1] =
				fmaf(weight, unpack2<T>(b[e]).y, s[8 * n + 2 * e + 1]);
		}
	}
}

/* As T holds them. */
template <typename T, int N> static __device__ __forceinline__ void round_all(float (&s)[N])
{
#pragma unroll
	for (int n = 0; n < N; n += 2) {
		const float2 two = unpack2<T>(pack2<T>(s[n], s[n + 1]));
		s[n] = two.x;
		s[n + 1] = two.y;
	}
}

/* store_scores() of scores.cuh, but for a factor, which is returned: the exponentials take it in. */
template <typename T, int N>
static __device__ __forceinline__ float store_scores(float (&s)[N], const struct attn_spec &spec)
{
	const float after = __fdividef(spec.scale, spec.alpha);

	if (spec.alpha != 1.0f)
#pragma unroll
		for (int n = 0; n < N; n++)
			s[n] *= spec.alpha;
	if (spec.round_s & ATTN_ROUND_PRODUCT)
		round_all<T>(s);
	if (!(spec.round_s & ATTN_ROUND_SCALED))
		return after;
#pragma unroll
	for (int n = 0; n < N; n++)
		s[n] *= after;
	round_all<T>(s);
	return 1.0f;
}

/* x = value where the mask says so. */
template <int N>
static __device__ __forceinline__ void apply_mask(float (&s)[N], uint32_t at, int row, int step,
						  bool keeps, float value)
{
	const int lane = threadIdx.x % 32;
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int line = (row + lane / 4 + 8 * r) * step;
#pragma unroll
		for (int n = 0; n < N / 4; n++) {
			uint16_t two;
			asm volatile("ld.shared.u16 %0, [%1];"
				     : "=h"(two)
				     : "r"(at + line * 128 + (n / 2 ^ line % 8) * 16 + n % 2 * 8 +
					   lane % 4 * 2));
			if (((two & 0xff) != 0) != keeps)
				s[4 * n + 2 * r] = value;
			if (((two & 0xff00) != 0) != keeps)
				s[4 * n + 2 * r + 1] = value;
		}
	}
}

/* x = tanh of it, between -cap and cap. tanh(y) = 1 - 2 / (1 + e^2y): exact enough, as what counts is
 * cap * tanh. */
template <int N> static __device__ __forceinline__ void soft_cap(float (&s)[N], float cap)
{
	const float to_exponent = 2.0f * LOG2E / cap;
#pragma unroll
	for (int n = 0; n < N; n++)
		s[n] = cap - __fdividef(2.0f * cap, 1.0f + exp2_fast(s[n] * to_exponent));
}

/* x = value for keys outside the rows' spans, -inf for keys from `end` on; the tile's first key is
 * j0. */
template <int N>
static __device__ __forceinline__ void outside(float (&s)[N], const struct span &keys, int j0,
					       float value, int end)
{
	const int j = j0 + 2 * (threadIdx.x % 4);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int low = keys.low[r] - j, high = keys.high[r] - j;
#pragma unroll
		for (int n = 0; n < N / 4; n++)
#pragma unroll
			for (int e = 0; e < 2; e++)
				if (8 * n + e < low || 8 * n + e > high)
					s[4 * n + 2 * r + e] = value;
	}
	if (value != -INFINITY && j0 + 2 * N > end)
#pragma unroll
		for (int n = 0; n < N; n++)
			if (j + n / 4 * 8 + n % 2 >= end)
				s[n] = -INFINITY;
}

} // namespace tma

#endif
