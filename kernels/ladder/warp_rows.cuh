/* SPDX-License-Identifier: Apache-2.0
 *
 * What steps 11 to 15 of the ladder share: the softmax of a tile of scores by warps; and the loop
 * that steps 11 and 12 have in common.
 *
 * Each warp has rows of its own, one after another, with the lanes side by side along the keys. A
 * row's maximum and sum are then in every lane of its warp, and stay there in registers from tile
 * to tile.
 */
#ifndef FASHIM_LADDER_WARP_ROWS_CUH
#define FASHIM_LADDER_WARP_ROWS_CUH

#include "kernels/ladder/tiles.cuh"

/* Warp w has rows w * COUNT to w * COUNT + COUNT - 1 of the tile. */
template <int COUNT> struct warp_rows {
	float max[COUNT], sum[COUNT];

	__device__ __forceinline__ warp_rows()
	{
#pragma unroll
		for (int n = 0; n < COUNT; n++) {
			max[n] = -INFINITY;
			sum[n] = 0.0f;
		}
	}
};

/* The warp's rows of S become P, its rows of O are rescaled. `first` and `j0`: row and key of
 * S[0][0] among all. */
template <int COUNT, int ROWS, int KEYS, int STAGES>
static __device__ __forceinline__ void
softmax_rows(const struct attn_args &a, struct tiles<ROWS, KEYS, STAGES> &t,
	     struct warp_rows<COUNT> &rows, int warp, int first, int j0)
{
	const int lane = threadIdx.x % 32;

#pragma unroll
	for (int n = 0; n < COUNT; n++) {
		const int r = warp * COUNT + n;
		const int begin = keys_begin(a, first + r) - j0, end = keys_end(a, first + r) - j0;
		float x[KEYS / 32], max = rows.max[n], sum = 0.0f;

#pragma unroll
		for (int e = 0; e < KEYS / 32; e++) {
			const int k = lane + 32 * e;
			x[e] = k >= begin && k < end ? a.spec.scale * t.s[r][k] : -INFINITY;
			max = fmaxf(max, x[e]);
		}
		max = warp_max(max);
		const float base = max == -INFINITY ? 0.0f : max; /* -inf: nothing seen so far */
		const float keep = __expf(rows.max[n] - base);
#pragma unroll
		for (int e = 0; e < KEYS / 32; e++) {
			const float weight = __expf(x[e] - base);
			t.p[r][lane + 32 * e] = __float2half_rn(weight);
			sum += weight;
		}
		rows.max[n] = max;
		rows.sum[n] = rows.sum[n] * keep + warp_sum(sum);
#pragma unroll
		for (int c = lane; c < LADDER_D; c += 32)
			t.o[r][c] *= keep;
	}
}

/* The warp's rows of O, divided by their sums, go to memory, an element a lane at a time. */
template <int COUNT, int ROWS, int KEYS, int STAGES>
static __device__ __forceinline__ void
store_rows(const struct attn_args &a, const struct tiles<ROWS, KEYS, STAGES> &t,
	   const struct warp_rows<COUNT> &rows, const struct matrix &o, int warp, int first)
{
#pragma unroll
	for (int n = 0; n < COUNT; n++) {
		const int r = warp * COUNT + n;
		const float factor = row_factor(a, rows.sum[n]);

		for (int c = threadIdx.x % 32; c < a.Dv; c += 32)
			if (first + r < a.Sq)
				store(o, first + r, c, t.o[r][c] * factor);
	}
}

/* All of steps 11 and 12, for any size of tiles; the block's threads are WARPS warps. */
template <int WARPS, int ROWS, int KEYS>
static __device__ __forceinline__ void attend_by_warps(const struct attn_args &a,
						       struct tiles<ROWS, KEYS, 1> &t)
{
	constexpr int THREADS = 32 * WARPS;
	const int first = blockIdx.x * ROWS, last = min(first + ROWS, a.Sq) - 1;
	const int me = threadIdx.x, warp = me / 32, h = blockIdx.y, b = blockIdx.z;
	const struct matrix q = matrix_of(a.q, b, h, a.H), k = matrix_of(a.k, b, h, a.H);
	const struct matrix v = matrix_of(a.v, b, h, a.H), o = matrix_of(a.o, b, h, a.H);
	struct warp_rows<ROWS / WARPS> rows;

	load_tile(t.q, q, first, a.Sq, a.D, me, THREADS);
	clear_sums<THREADS>(t, me);
	for (int j = keys_begin(a, first) / KEYS * KEYS; j < keys_end(a, last); j += KEYS) {
		__syncthreads(); /* nobody needs the last tile any more */
		load_tile(t.k[0], k, j, a.Sk, a.D, me, THREADS);
		load_tile(t.v[0], v, j, a.Sk, a.Dv, me, THREADS);
		__syncthreads(); /* K and V are there */
		multiply_scores<WARPS>(t, 0, warp);
		__syncthreads(); /* S is there */
		softmax_rows(a, t, rows, warp, first, j);
		__syncthreads(); /* P is there */
		multiply_values<WARPS>(t, 0, warp);
	}
	__syncthreads();
	store_rows(a, t, rows, o, warp, first);
}

#endif
