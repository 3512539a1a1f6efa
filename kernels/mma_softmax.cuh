/* SPDX-License-Identifier: Apache-2.0
 *
 * What P of mma.cu is relative to: a reference for each row, which scores may exceed by so much
 * that it rarely changes.
 */
#ifndef FASHIM_MMA_SOFTMAX_CUH
#define FASHIM_MMA_SOFTMAX_CUH

#include "kernels/mma_work.cuh"

/* A reference of a row that has met no key, as an exponent: below any other. */
#define FRESH -1e30f
/* By so many powers of two may P exceed what it is relative to: fp16 holds 2^15. */
#define ROOM 13.0f
/* References beyond this, as exponents, are taken from the scores before these are scaled: products
 * so large are too coarse. */
#define FAR 1048576.0f

/* Where a row of Q lies in shared memory there is room behind it, for one float of each group: the
 * row's offset, which is 0 unless its scores are far from 0. */
template <typename T, int WIDTH>
static __device__ __forceinline__ float *offset_of(T *own, int row, int group)
{
	return (float *)(own + row * (WIDTH + PAD) + WIDTH) + group;
}

/* New references, of the scores to come; what was summed up so far is scaled to match. `slow`: some
 * row of the warp has an offset or none but its first reference. Returns that of now on. `plain`:
 * scores are q.k, and a row of which S overflows becomes NaN by its reference. */
template <typename T, int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ bool refresh(struct work<BLOCKS, WIDTH, KEYS> &u, T *own,
					       int group, bool slow, float exponent,
					       const struct attn_spec &s, bool plain)
{
	const int g = threadIdx.x % 32 / 4;
	float offset[BLOCKS][2];
	bool still = false;

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const float old = u.reference[m][r];
			const float base =
				slow ? *offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, group) : 0.0f;
			float top = u.top[m][r], now = old;

			top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 1));
			top = fmaxf(top, __shfl_xor_sync(WARP_ALL, top, 2));
			offset[m][r] = base;
			if (top != -INFINITY &&
			    (old == FRESH || !(fmaf(top - base, exponent, -old) <= 0.0f))) {
				const bool far = fabsf(top * exponent) > FAR && top != INFINITY;
				offset[m][r] = far ? top : 0.0f;
				now = far ? 0.0f : top * exponent;
				if (plain && row_overflows<T>(s, top, 1.0f))
					now = NAN;
			}
			/* never above 1, but for rows whose sums are 0 */
			const float factor = fminf(
				exp2_fast(fmaf(base - offset[m][r], exponent, old - now)), 1.0f);
			u.reference[m][r] = now;
			u.sum[m][2 * r] *= factor;
			u.sum[m][2 * r + 1] *= factor;
#pragma unroll
			for (int n = 0; n < WIDTH / 8; n++) {
				u.o[m][n][2 * r] *= factor;
				u.o[m][n][2 * r + 1] *= factor;
			}
			still = still || now == FRESH || offset[m][r] != 0.0f;
		}
	still = __any_sync(WARP_ALL, still);
	if (still || slow) {
		__syncwarp(); /* all have read the offsets of before */
#pragma unroll
		for (int m = 0; m < BLOCKS; m++)
#pragma unroll
			for (int r = 0; r < 2; r++) {
				*offset_of<T, WIDTH>(own, 16 * m + 8 * r + g, group) = offset[m][r];
#pragma unroll
				for (int n = 0; n < KEYS / 8; n++) {
					u.s[n / 2][m][n % 2][2 * r] -= offset[m][r];
					u.s[n / 2][m][n % 2][2 * r + 1] -= offset[m][r];
				}
			}
		__syncwarp();
	}
	return still;
}

/* Would P of the tile to come be too large, relative to the references as they are? */
template <int KEYS, int BLOCKS, int WIDTH>
static __device__ __forceinline__ bool is_beyond(const struct work<BLOCKS, WIDTH, KEYS> &u,
						 float exponent)
{
	bool beyond = false;

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int r = 0; r < 2; r++)
			beyond = beyond ||
				 !(fmaf(u.top[m][r], exponent, -u.reference[m][r]) <= ROOM);
	return __any_sync(WARP_ALL, beyond);
}

#endif
