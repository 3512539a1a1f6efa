/* SPDX-License-Identifier: Apache-2.0
 *
 * What tma.cu wants done before it runs:
 *
 *   fashim_repack   an operand whose rows do not start on 16 bytes, which no tensor map describes,
 *                   is copied into rows that do
 *   fashim_ranges   a mask that comes as an additive tensor is read once for all heads: which tiles
 *                   of keys it leaves to a tile of rows at all, and where among them it is zero
 *
 * A tile is left out only if that changes no bit of O: every row of the block has a key that is not
 * masked, and every element of the tile is below MASKED, from where no score brings a key back
 * (fp16's least number is -65504, bf16's and fp32's far below; a score would have to exceed the
 * row's best by as much, where an fp16 product is infinite already). -10000, which some programs
 * use, is not enough for that: such tiles are computed.
 *
 * Measured (H200): see the notebook of tma.cu.
 */
#include "kernels/attention.h"
#include "kernels/cluster.cuh"
#include "kernels/device.cuh"

#define MASKED -60000.0f
#define LIVE   -1000.0f /* a row with an element above is not masked throughout */

extern "C" __global__ void __launch_bounds__(REPACK_THREADS)
	fashim_repack(const struct attn_repack a)
{
	const int64_t line = blockIdx.x;
	const uint16_t *from = (const uint16_t *)a.from + blockIdx.z * a.from_stride[0] +
			       blockIdx.y * a.from_stride[1] + line * a.from_stride[2];
	uint32_t *to = (uint32_t *)((uint16_t *)a.to + blockIdx.z * a.to_stride[0] +
				    blockIdx.y * a.to_stride[1] + line * a.to_stride[2]);

	for (int n = threadIdx.x; 2 * n < a.length; n += REPACK_THREADS) {
		const uint32_t low = from[2 * n];
		const uint32_t high = 2 * n + 1 < a.length ? from[2 * n + 1] : 0;
		to[n] = low | high << 16;
	}
}

#if FASHIM_CLUSTERS
#define RANGES_WARPS (RANGES_THREADS / 32)
#define ROWS_AT_ONCE 4

/* Of 8 elements: bit 0, one is not zero; bit 1, one is not masked; bit 2, one is live. */
template <typename E> static __device__ __forceinline__ uint32_t look_at(uint4 eight, float weight)
{
	const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
	uint32_t seen = 0;

#pragma unroll
	for (int e = 0; e < 8; e++) {
		const uint16_t bits = (uint16_t)(words[e / 2] >> e % 2 * 16);
		const float x = weight * to_float<E>(*(const E *)&bits);
		seen |= (bits & 0x7fff) != 0;
		seen |= (x > MASKED || x != x) << 1;
		seen |= (x > LIVE) << 2;
	}
	return seen;
}

/* To the first block of the cluster. */
static __device__ __forceinline__ void store_to_first(uint32_t *at, uint32_t value)
{
	const uint32_t there = address_in((uint32_t)__cvta_generic_to_shared(at), 0);

	asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(value) : "memory");
}

/* From the first tile that is not masked to the last, and the first run of zero tiles among them. */
static __device__ struct attn_range range_of(const uint32_t *flags, int tiles, bool all_live)
{
	struct attn_range r = {0, tiles, 0, 0};

	if (all_live) {
		while (r.begin < tiles && !(flags[r.begin] & 2))
			r.begin++;
		while (r.end > r.begin && !(flags[r.end - 1] & 2))
			r.end--;
	}
	r.clear_begin = r.begin;
	while (r.clear_begin < r.end && flags[r.clear_begin] & 1)
		r.clear_begin++;
	r.clear_end = r.clear_begin;
	while (r.clear_end < r.end && !(flags[r.clear_end] & 1))
		r.clear_end++;
	return r;
}

/* Grid: RANGES_CLUSTER blocks for each tile of rows, each for its part of the keys; B in z. */
extern "C" __global__ void CLUSTER_OF_8 __launch_bounds__(RANGES_THREADS)
	fashim_ranges(const struct attn_ranges a)
{
	__shared__ uint32_t flags[RANGES_TILES], all_flags[RANGES_TILES];
	__shared__ uint32_t live[RANGES_ROWS / 32], all_live[RANGES_CLUSTER][RANGES_ROWS / 32];
	static_assert(RANGES_CLUSTER == 8, "CLUSTER_OF_8");
	const int rank = blockIdx.x % RANGES_CLUSTER, row_tile = blockIdx.x / RANGES_CLUSTER;
	const int tiles = (a.Sk + a.keys - 1) / a.keys;
	const int share = (tiles + RANGES_CLUSTER - 1) / RANGES_CLUSTER;
	const int first = min(rank * share, tiles), last = min(first + share, tiles);
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const int row0 = row_tile * a.rows, rows = min(a.rows, a.Sq - row0);
	const uint16_t *bias = (const uint16_t *)a.bias.base + blockIdx.z * a.bias.stride[0] +
			       row0 * a.bias.stride[2];

	cluster_here();
	for (int n = threadIdx.x; n < RANGES_TILES; n += RANGES_THREADS)
		flags[n] = 0;
	for (int n = threadIdx.x; n < RANGES_ROWS / 32; n += RANGES_THREADS)
		live[n] = 0;
	__syncthreads();
	for (int column = first * a.keys + lane * 8; column < min(last * a.keys, a.Sk);
	     column += 256)
		for (int r0 = warp * ROWS_AT_ONCE; r0 < rows;
		     r0 += RANGES_WARPS * ROWS_AT_ONCE) {
			uint4 eight[ROWS_AT_ONCE];
#pragma unroll
			for (int r = 0; r < ROWS_AT_ONCE; r++) {
				const uint16_t *at =
					bias + min(r0 + r, rows - 1) * a.bias.stride[2] + column;
				if (column + 8 <= a.Sk) {
					eight[r] = *(const uint4 *)at;
				} else {
					/* past the end: the last element again */
					uint16_t e[8];
#pragma unroll
					for (int n = 0; n < 8; n++)
						e[n] = at[min(n, a.Sk - 1 - column)];
					eight[r] = make_uint4(
						e[0] | (uint32_t)e[1] << 16, e[2] | (uint32_t)e[3] << 16,
						e[4] | (uint32_t)e[5] << 16, e[6] | (uint32_t)e[7] << 16);
				}
			}
			uint32_t seen = 0;
#pragma unroll
			for (int r = 0; r < ROWS_AT_ONCE; r++) {
				const int row = min(r0 + r, rows - 1);
				const uint32_t s = a.bias.dtype == ATTN_F16
							   ? look_at<__half>(eight[r], a.weight)
							   : look_at<__nv_bfloat16>(eight[r], a.weight);
				const unsigned here = __activemask();
				if (__any_sync(here, s & 4) && lane == __ffs(here) - 1)
					atomicOr(&live[row / 32], 1u << row % 32);
				seen |= s & 3;
			}
			uint32_t *const flag = &flags[column / a.keys - first];
			if ((*(volatile uint32_t *)flag & seen) != seen)
				atomicOr(flag, seen);
		}
	__syncthreads();
	cluster_wait(); /* the first block runs: its memory may be written */
	for (int n = threadIdx.x; n < last - first; n += RANGES_THREADS)
		store_to_first(&all_flags[first + n], flags[n]);
	for (int n = threadIdx.x; n < RANGES_ROWS / 32; n += RANGES_THREADS)
		store_to_first(&all_live[rank][n], live[n]);
	cluster_arrive();
	cluster_wait();
	if (rank || threadIdx.x)
		return;
	bool all = true;
	for (int row = 0; row < rows; row++) {
		uint32_t any = 0;
		for (int n = 0; n < RANGES_CLUSTER; n++)
			any |= all_live[n][row / 32];
		all = all && (any >> row % 32 & 1);
	}
	((struct attn_range *)a.out)[blockIdx.z * (gridDim.x / RANGES_CLUSTER) + row_tile] =
		range_of(all_flags, tiles, all);
}
#endif
