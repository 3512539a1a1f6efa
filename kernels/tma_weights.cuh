/* SPDX-License-Identifier: Apache-2.0
 *
 * The softmax of tma.cu: from a tile of x in registers to P, 16 bits, ready to be multiplied by V.
 *
 * The usual online softmax finds the maximum of each tile before it can begin with exponentials, and
 * then scales O. Here a row keeps the reference it has as long as that will do, and whether it did is
 * seen from P itself: no maximum, no exchange between lanes, no scaling, in nearly every tile. A row
 * begins with 0, which serves scores of moderate size as they are. This alone took D 64, 4096 keys,
 * from 468 to 523 TFLOP/s.
 */
#ifndef FASHIM_TMA_WEIGHTS_CUH
#define FASHIM_TMA_WEIGHTS_CUH

#include "kernels/device.cuh"
#include "kernels/scores.cuh"

namespace tma
{

/* The larger half, as a sum so that NaN stays NaN: within a factor of 2. */
template <typename T> static __device__ __forceinline__ float largest(uint32_t two)
{
	return unpack2<T>(two).x + unpack2<T>(two).y;
}

/* What a thread knows of its two rows. P = 2^(x * exponent - folded) with folded = exponent times
 * a reference: a maximum of the row, but not always the latest. A reference that is too small by
 * less than 14 powers of two does no harm: P is rounded relative to its size, fp16 holds 2^15, and
 * what all of a row has too much cancels when O is divided by the sum. */
struct rows {
	float reference[2]; /* -inf: no key seen yet */
	float folded[2];    /* NaN: the fast way will not do */
	float sum[2];	    /* of a thread's P as rounded; not in use where a column of ones sums */

	/* A row starts with 0 for its reference. */
	__device__ __forceinline__ void start(float first)
	{
		reference[0] = reference[1] = first;
		folded[0] = folded[1] = sum[0] = sum[1] = 0.0f;
	}
};

/* Of a thread's P, or of their sum: beyond this one may be near to what fp16 does not hold. */
#define P_LIMIT 16384.0f
/* Of a row's P in its first tile, the largest is to be this: fp16 rounds away what is 2^-25, and if
 * that is no more than the program's own P loses, which is divided by the sum, a long tail of small
 * weights counts as much as it does there. The test is on the maximum: many small P have a large
 * sum. */
#define P_LEAST 1.0f
/* Beyond this the rounding of `folded` would tell: weights_anew() does without it, weights() not. */
#define FAR 4096.0f

/* Does a row of this warp have no P as large as P_LEAST? */
template <typename T, int N>
static __device__ __forceinline__ bool is_faint(const uint32_t (&p)[N][4])
{
	bool faint = false;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		uint32_t most = 0;
#pragma unroll
		for (int n = 0; n < 2 * N; n++)
			most = larger<T>(most, p[n / 2][n % 2 * 2 + r]);
		most = larger<T>(most, __shfl_xor_sync(WARP_ALL, most, 1));
		most = larger<T>(most, __shfl_xor_sync(WARP_ALL, most, 2));
		faint = faint || larger_half<T>(most) < P_LEAST;
	}
	return faint;
}

/* P of a tile, by the reference as it is. False if that cannot serve. x is left alone. FIRST: it is
 * the row's first tile. */
template <typename T, bool ONES, bool FIRST, int N>
static __device__ __forceinline__ bool weights(uint32_t (&p)[N / 8][4], const float (&x)[N],
					       struct rows &rows, float exponent)
{
	float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
	uint32_t most[2] = {0, 0};

#pragma unroll
	for (int n = 0; n < N; n += 4)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float low = exp2_fast(fmaf(x[n + 2 * r], exponent, -rows.folded[r]));
			const float high =
				exp2_fast(fmaf(x[n + 2 * r + 1], exponent, -rows.folded[r]));
			const uint32_t two = pack2<T>(low, high);
			if (ONES) {
				most[r] = larger<T>(most[r], two);
			} else {
				sum[2 * r] += unpack2<T>(two).x;
				sum[2 * r + 1] += unpack2<T>(two).y;
			}
			p[n / 8][n % 8 / 2 + r] = two;
		}
	const float top0 = ONES ? largest<T>(most[0]) : sum[0] + sum[1];
	const float top1 = ONES ? largest<T>(most[1]) : sum[2] + sum[3];
	const bool faint = FIRST && is_faint<T>(p);
	if (__any_sync(WARP_ALL, !(top0 + top1 <= P_LIMIT) || faint))
		return false;
	if (!ONES) {
		rows.sum[0] += top0;
		rows.sum[1] += top1;
	}
	return true;
}

/* The same with a new reference: `factor` is what sums so far must be multiplied by. */
template <typename T, bool ONES, int N>
static __device__ __forceinline__ void weights_anew(uint32_t (&p)[N / 8][4], const float (&x)[N],
						    struct rows &rows, float (&factor)[2],
						    float exponent)
{
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float even = fmaxf(rows.reference[r], x[2 * r]), odd = x[2 * r + 1];
#pragma unroll
		for (int n = 4; n < N; n += 4) {
			even = fmaxf(even, x[n + 2 * r]);
			odd = fmaxf(odd, x[n + 2 * r + 1]);
		}
		float top = fmaxf(even, odd);
		top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 1));
		top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 2));
		const float base = top == -INFINITY ? 0.0f : top;
		float total = 0.0f;

		factor[r] = rows.reference[r] == -INFINITY
				    ? 0.0f
				    : exp2_fast((rows.reference[r] - base) * exponent);
#pragma unroll
		for (int n = 0; n < N; n += 4) {
			const float low = exp2_fast((x[n + 2 * r] - base) * exponent);
			const float high = exp2_fast((x[n + 2 * r + 1] - base) * exponent);
			const uint32_t two = pack2<T>(low, high);
			if (!ONES)
				total += unpack2<T>(two).x + unpack2<T>(two).y;
			p[n / 8][n % 8 / 2 + r] = two;
		}
		if (!ONES)
			rows.sum[r] = fmaf(rows.sum[r], factor[r], total);
		rows.reference[r] = top;
		rows.folded[r] = top * exponent;
		if (!(fabsf(rows.folded[r]) <= FAR))
			rows.folded[r] = NAN;
	}
}

/* Where S of a row overflows, its P of the last tile becomes NaN, and all of its O with it: that takes
 * no register that lives on, as its O would. */
template <typename T, int N>
static __device__ __forceinline__ void spoil_rows(uint32_t (&p)[N][4], const struct rows &rows,
						  const struct attn_spec &spec, float unit)
{
#pragma unroll
	for (int r = 0; r < 2; r++)
		if (row_overflows<T>(spec, rows.reference[r], unit))
			p[0][r] = 0x7fff7fff;
}

} // namespace tma

#endif
