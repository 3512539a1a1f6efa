/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two f16 parts of f32_sm90.cu cannot say, by fp32 multiply-adds, a tile at a time:
 *   - An infinity has no second part. S of a tile with one in K, or of a warp with one in Q, is
 *     made from memory again; V with one is read from there.
 *   - One scale for a tile of V would lose its small rows against the large ones, even where P
 *     hides those (what was never written, behind a mask). So a tile is read from memory if its
 *     rows' largest numbers lie further apart than 2^V_RANGE, rows of zeros aside.
 */
#ifndef FASHIM_F32_PLAIN_CUH
#define FASHIM_F32_PLAIN_CUH

#include "kernels/scores.cuh"

namespace f32
{

/* S again, by multiply-adds from memory: for rows i and i+8, keys j, j+1, j+8, ..., times `unit`.
 * Here and below one key after the other, so that there is little code: registers are chosen by
 * comparing all their numbers. */
template <int N>
static __device__ __forceinline__ void plain_scores(float (&x)[2][N], const struct attn_args &a,
						    const struct view &w, int i, int j,
						    const float (&unit)[2])
{
	const float *const q = (const float *)matrix_at(a.q, w.b, w.h, a.H);
	const float *const k = (const float *)matrix_at(a.k, w.b, w.h, a.H);

#pragma unroll 1
	for (int n = 0; n < N; n++) {
		const float *q0 = q + min(i, a.Sq - 1) * a.q.stride[2];
		const float *q1 = q + min(i + 8, a.Sq - 1) * a.q.stride[2];
		const float *at = k + min(j + key_of(n), a.Sk - 1) * a.k.stride[2];
		float low = 0.0f, high = 0.0f;
#pragma unroll 1
		for (int d = 0; d < a.D; d++) {
			low = fmaf(*q0, *at, low);
			high = fmaf(*q1, *at, high);
			q0 += a.q.stride[3];
			q1 += a.q.stride[3];
			at += a.k.stride[3];
		}
#pragma unroll
		for (int m = 0; m < N; m++) {
			x[0][m] = m == n ? low * unit[0] : x[0][m];
			x[1][m] = m == n ? high * unit[1] : x[1][m];
		}
	}
}

/* O += P V, by multiply-adds, V from memory: of keys from j0 on. */
template <int WIDTH, int N>
static __device__ __forceinline__ void plain_values(float (&o)[WIDTH / 2], const float (&p)[2][N],
						    const struct attn_args &a, const struct view &w,
						    int j0)
{
	const int lane = threadIdx.x % 32, c0 = 2 * (lane % 4);
	const int64_t across = a.v.stride[3];
	const float *const v = (const float *)matrix_at(a.v, w.b, w.h, a.H) + c0 * across;

#pragma unroll 1
	for (int n = 0; n < 4 * N; n++) {
		const int j = j0 + 2 * (n % 4) + key_of(n / 4);
		float p0 = p[0][0], p1 = p[1][0];

#pragma unroll
		for (int m = 1; m < N; m++) {
			p0 = m == n / 4 ? p[0][m] : p0;
			p1 = m == n / 4 ? p[1][m] : p1;
		}
		p0 = __shfl_sync(WARP_ALL, p0, lane / 4 * 4 + n % 4);
		p1 = __shfl_sync(WARP_ALL, p1, lane / 4 * 4 + n % 4);
		if (j >= a.Sk)
			continue;
		const float *at = v + j * a.v.stride[2];
#pragma unroll
		for (int c = 0; c < WIDTH / 8; c++, at += 8 * across) {
			const float x = 8 * c + c0 < a.Dv ? at[0] : 0.0f;
			const float y = 8 * c + c0 + 1 < a.Dv ? at[across] : 0.0f;
			o[4 * c] = fmaf(p0, x, o[4 * c]);
			o[4 * c + 1] = fmaf(p0, y, o[4 * c + 1]);
			o[4 * c + 2] = fmaf(p1, x, o[4 * c + 2]);
			o[4 * c + 3] = fmaf(p1, y, o[4 * c + 3]);
		}
	}
}

} // namespace f32

#endif
