/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two fp32 kernels share: softmax without the roundings that 16-bit operands forgive, the
 * window, the last division. All on accumulators as device.cuh has them: a thread holds of rows
 * i and i+8 the scores of keys j, j+1, j+8, j+9, ... and columns 2t, 2t+1, 2t+8, ... of O.
 */
#ifndef FASHIM_F32_CUH
#define FASHIM_F32_CUH

#include "kernels/again.cuh"
#include "kernels/scores.cuh"

/* P is 2^P_SHIFT too large, and so is its sum: what is left of a small P once it is written in two
 * 16-bit parts is then more, and the exponents of usual weights are the ones that round least. */
#define P_SHIFT 6.0f

namespace f32
{

/* One step of the online softmax: x becomes P, max and sum are brought up to date, factor[r] is
 * what the sums so far are to be multiplied by. exponent[r]: of 2, per unit of x. The maximum is
 * taken off before anything is multiplied, so that equal maxima give a factor of just 1. */
template <int N>
static __device__ __forceinline__ void softmax(float (&x)[2][N], float (&row_max)[2],
					       float (&row_sum)[2], float (&factor)[2],
					       const float (&exponent)[2])
{
	float most[2];

#pragma unroll
	for (int r = 0; r < 2; r++) {
		most[r] = row_max[r];
#pragma unroll
		for (int k = 0; k < N; k++)
			most[r] = fmaxf(most[r], x[r][k]); /* passes NaN by; exp2 brings it back */
	}
#pragma unroll
	for (int lanes = 1; lanes <= 2; lanes *= 2)
#pragma unroll
		for (int r = 0; r < 2; r++)
			most[r] = fmaxf(most[r], __shfl_xor_sync(WARP_ALL, most[r], lanes));
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const float base = most[r] == -INFINITY ? 0.0f : most[r];
		const float old = row_max[r] == -INFINITY ? base : row_max[r];
		float sum[2] = {0.0f, 0.0f};
#pragma unroll
		for (int k = 0; k < N; k++) {
			x[r][k] = exp2_fast(fmaf(x[r][k] - base, exponent[r], P_SHIFT));
			sum[k % 2] += x[r][k];
		}
		factor[r] = exp2_fast((old - base) * exponent[r]);
		row_max[r] = most[r];
		row_sum[r] = row_sum[r] * factor[r] + (sum[0] + sum[1]);
	}
}

/* Scores of rows i and i+8 outside the window, or past the last key of the row; the warp's rows
 * start at `first`, the tile's keys at j0. */
template <int KEYS, bool ANY>
static __device__ __forceinline__ void limit(float (&x)[2][KEYS / 4], const struct attn_args &a,
					     const struct view &w, int first, int j0)
{
	const int i = first + threadIdx.x % 32 / 4, j = j0 + 2 * (threadIdx.x % 4);

	if (w.window &&
	    (first_key(a.spec, first + 15) > j0 || last_key(a.spec, first) < j0 + KEYS - 1)) {
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const int low = first_key(a.spec, i + 8 * r) - j;
			const int high = last_key(a.spec, i + 8 * r) - j;
#pragma unroll
			for (int k = 0; k < KEYS / 4; k++)
				if (key_of(k) < low || key_of(k) > high)
					x[r][k] = a.spec.window_value;
		}
	}
	if (j0 + KEYS > a.Sk) {
#pragma unroll
		for (int k = 0; k < KEYS / 4; k++)
			if (key_of(k) >= a.Sk - j)
				x[0][k] = x[1][k] = -INFINITY;
	}
	if (ANY && a.spec.lengths.base)
#pragma unroll
		for (int r = 0; r < 2; r++)
			cut_row(x[r], a, w, i + 8 * r, j);
}

/* O = out_scale * sums / sum of P for rows i and i+8, rows that are all -inf by their rule. Four
 * lanes write 32 bytes side by side, which is what memory is accessed in. */
template <int WIDTH, bool ANY>
static __device__ __forceinline__ void finish(const float (&o)[WIDTH / 2], float (&sum)[2],
					      const float (&row_max)[2], const struct attn_args &a,
					      const struct view &w, int i)
{
	const int t = threadIdx.x % 4;
	const int64_t across = a.o.stride[3];
	char *const out = matrix_at(a.o, w.b, w.h, a.H);
	const bool pairs = a.o.dtype == ATTN_F32 && across == 1 && a.o.stride[2] % 2 == 0 &&
			   (uint64_t)out % 8 == 0 && a.Dv % 2 == 0;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 1);
		sum[r] += __shfl_xor_sync(WARP_ALL, sum[r], 2);
	}
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float weight = a.spec.out_scale;
		int64_t at = (i + 8 * r) * a.o.stride[2] + 2 * t * across;

		if (i + 8 * r >= a.Sq)
			continue;
		if (ANY)
			weight *= count_sink(sum[r], row_max[r], a, w.b, w.h, i + 8 * r,
					     exp2_fast(P_SHIFT));
		if (a.spec.empty_row == ATTN_EMPTY_AGAIN)
			count_hidden(sum[r],
				     fmaf(a.spec.hidden_value - row_max[r], LOG2E, P_SHIFT), a, w.b,
				     w.h, i + 8 * r);
		weight /= sum[r];
		if (sum[r] == 0.0f)
			weight = a.spec.empty_row == ATTN_EMPTY_NAN ? NAN : 0.0f;
#pragma unroll
		for (int n = 0; n < WIDTH / 8; n++, at += 8 * across) {
			const int left = a.Dv - (8 * n + 2 * t);
			const float low = o[4 * n + 2 * r] * weight;
			const float high = o[4 * n + 2 * r + 1] * weight;

			if (pairs && left > 0) {
				*(float2 *)((float *)out + at) = make_float2(low, high);
			} else {
				if (left > 0)
					store_to(out, at, a.o.dtype, low);
				if (left > 1)
					store_to(out, at + across, a.o.dtype, high);
			}
		}
	}
	if (a.spec.empty_row != ATTN_EMPTY_MEAN || (sum[0] != 0.0f && sum[1] != 0.0f))
		return;
	const float *const v = (const float *)matrix_at(a.v, w.b, w.h, a.H);
#pragma unroll 1
	for (int n = 0; n < WIDTH / 4; n++) {
		const int c = n / 2 * 8 + 2 * t + n % 2;
		float total = 0.0f;

		if (c >= a.Dv)
			continue;
		for (int j = 0; j < a.Sk; j++)
			total += v[j * a.v.stride[2] + c * a.v.stride[3]];
		for (int r = 0; r < 2; r++)
			if (sum[r] == 0.0f && i + 8 * r < a.Sq)
				store_to(out, (i + 8 * r) * a.o.stride[2] + c * across, a.o.dtype,
					 a.spec.out_scale * total / a.Sk);
	}
}

} // namespace f32

#endif
