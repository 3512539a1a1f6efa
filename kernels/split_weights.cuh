/* SPDX-License-Identifier: Apache-2.0
 *
 * The softmax of split.cu: from a box of x in registers to P, 16 bits, ready to be multiplied by V.
 * A row keeps its reference as long as that serves, as in tma_weights.cuh.
 */
#ifndef FASHIM_SPLIT_WEIGHTS_CUH
#define FASHIM_SPLIT_WEIGHTS_CUH

#include "kernels/device.cuh"
#include "kernels/scores.cuh"
#include "kernels/split_variants.h"

namespace split
{

constexpr int KEYS = SPLIT_KEYS;
constexpr int N = KEYS / 2; /* scores of a box in a thread: of two rows */

/* The two rows of a thread, so far: P = 2^(x * exponent - folded), where folded = exponent times a
 * reference. That is a maximum of the row, or 0 as long as this serves: a reference that is off by
 * a few powers of two does no harm, as P is rounded relative to its size, and what all of a row has
 * too much cancels when O is divided by the sum. */
struct totals {
	float max[2];	 /* the reference; -inf: no key seen yet */
	float folded[2]; /* NaN: only a new reference will do */
	float sum[2];

	__device__ __forceinline__ void start(float reference)
	{
		max[0] = max[1] = reference;
		folded[0] = folded[1] = sum[0] = sum[1] = 0.0f;
	}
};

/* Beyond this the sum of a thread's P may hide one that fp16 does not hold. */
#define SUM_LIMIT 16384.0f
/* Of a row's P in its first box, the largest is to be this: fp16 then rounds away no more of a long
 * tail of small weights than the program's own does (tma_weights.cuh). */
#define FIRST_LEAST 1.0f
/* Beyond this the rounding of `folded` is more than that of P. */
#define FAR 4096.0f

static __device__ __forceinline__ float over_quad_max(float x)
{
	x = fmaxf(x, __shfl_xor_sync(WARP_ALL, x, 1));
	return fmaxf(x, __shfl_xor_sync(WARP_ALL, x, 2));
}
/* P of one box as left operands, by the reference as it is. False if that cannot serve. first: the
 * box is the rows' first. */
template <typename T>
static __device__ __forceinline__ bool weigh(uint32_t (&p)[KEYS / 16][4], const float (&s)[N],
					     totals &t, float exponent, bool first)
{
	float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
	uint32_t most[2] = {0, 0};

#pragma unroll
	for (int n = 0; n < N; n += 2) {
		const int r = n / 2 % 2;
		uint32_t &word = p[n / 8][n % 8 / 2];

		word = pack2<T>(exp2_fast(fmaf(s[n], exponent, -t.folded[r])),
				exp2_fast(fmaf(s[n + 1], exponent, -t.folded[r])));
		const float2 rounded = unpack2<T>(word);
		sum[2 * r] += rounded.x;
		sum[2 * r + 1] += rounded.y;
	}
	sum[0] += sum[1];
	sum[2] += sum[3];
	if (first)
#pragma unroll
		for (int r = 0; r < 2; r++) {
#pragma unroll
			for (int n = 2 * r; n < N; n += 4)
				most[r] = larger<T>(most[r], p[n / 8][n % 8 / 2]);
			most[r] = larger<T>(most[r], __shfl_xor_sync(WARP_ALL, most[r], 1));
			most[r] = larger<T>(most[r], __shfl_xor_sync(WARP_ALL, most[r], 2));
		}
	const bool faint =
		first && fminf(larger_half<T>(most[0]), larger_half<T>(most[1])) < FIRST_LEAST;
	if (__any_sync(WARP_ALL, !(sum[0] + sum[2] <= SUM_LIMIT) || faint))
		return false;
	t.sum[0] += sum[0];
	t.sum[1] += sum[2];
	return true;
}

/* A new reference for a box, and its P: `factor` is what sums so far are to be multiplied by. */
template <typename T>
static __device__ __forceinline__ void refer_anew(uint32_t (&p)[KEYS / 16][4], const float (&s)[N],
						  totals &t, float (&factor)[2], float exponent)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float even = t.max[r], odd = -INFINITY, total = 0.0f;
#pragma unroll
		for (int n = 2 * r; n < N; n += 4) {
			even = fmaxf(even, s[n]); /* passes NaN by; exp2 has it again */
			odd = fmaxf(odd, s[n + 1]);
		}
		const float max = over_quad_max(fmaxf(even, odd));
		const float base = max == -INFINITY ? 0.0f : max;

		factor[r] = t.max[r] == -INFINITY ? 0.0f : exp2_fast((t.max[r] - base) * exponent);
#pragma unroll
		for (int n = 2 * r; n < N; n += 4) {
			uint32_t &word = p[n / 8][n % 8 / 2];

			word = pack2<T>(exp2_fast((s[n] - base) * exponent),
					exp2_fast((s[n + 1] - base) * exponent));
			const float2 rounded = unpack2<T>(word);
			total += rounded.x + rounded.y;
		}
		t.sum[r] = fmaf(t.sum[r], factor[r], total);
		t.max[r] = max;
		t.folded[r] = max * exponent;
		if (!(fabsf(t.folded[r]) <= FAR))
			t.folded[r] = NAN;
	}
}

} // namespace split

#endif
