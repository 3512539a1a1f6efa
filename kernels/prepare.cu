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

/* Two elements at a time, and what they are compared with: the bias as stored, so that the weight
 * (positive) is in the limits. */
template <typename E> struct two;
template <> struct two<__half> {
	typedef __half2 type;
	static __device__ __forceinline__ type of(float x, bool up)
	{
		const __half one = up ? __float2half_ru(x) : __float2half_rd(x);
		return __halves2half2(one, one);
	}
};
template <> struct two<__nv_bfloat16> {
	typedef __nv_bfloat162 type;
	static __device__ __forceinline__ type of(float x, bool up)
	{
		const __nv_bfloat16 one = up ? __float2bfloat16_ru(x) : __float2bfloat16_rd(x);
		return __halves2bfloat162(one, one);
	}
};

/* Of 8 elements: bit 0, one is not zero; bit 1, one is not masked; bit 2, one is live. */
template <typename E>
static __device__ __forceinline__ uint32_t look_at(uint4 eight, typename two<E>::type masked,
						   typename two<E>::type live)
{
	const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
	uint32_t some = 0, above = 0, lively = 0;

#pragma unroll
	for (int e = 0; e < 4; e++) {
		const typename two<E>::type x = *(const typename two<E>::type *)&words[e];
		some |= words[e] & 0x7fff7fffu;
		above |= ~__hle2_mask(x, masked); /* NaN is not masked */
		lively |= __hgt2_mask(x, live);
	}
	return (some != 0) | (above != 0) << 1 | (lively != 0) << 2;
}

/* To the first block of the cluster. */
static __device__ __forceinline__ void store_to_first(uint32_t *at, uint32_t value)
{
	const uint32_t there = address_in((uint32_t)__cvta_generic_to_shared(at), 0);

	asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(value) : "memory");
}

/* The first of flags[from .. to - 1] where `bit` is `set`, or `to`. By a warp. */
static __device__ int first_tile(const uint32_t *flags, int from, int to, uint32_t bit, bool set)
{
	for (int n = from; n < to; n += 32) {
		const int at = n + (int)(threadIdx.x % 32);
		const uint32_t found = __ballot_sync(
			0xffffffffu, at < to && ((flags[at] & bit) != 0) == set);
		if (found)
			return n + __ffs(found) - 1;
	}
	return to;
}

/* From the first tile that is not masked to the last, and the first run of zero tiles among them.
 * By a warp. */
static __device__ struct attn_range range_of(const uint32_t *flags, int tiles, bool all_live)
{
	struct attn_range r = {0, tiles, 0, 0};

	if (all_live) {
		r.begin = first_tile(flags, 0, tiles, 2, true);
		while (r.end > r.begin && !(flags[r.end - 1] & 2))
			r.end--;
	}
	r.clear_begin = first_tile(flags, r.begin, r.end, 1, false);
	r.clear_end = first_tile(flags, r.clear_begin, r.end, 1, true);
	return r;
}

/* All rows of the tile, keys from tile `first` to `last` - 1: what is seen goes into `flags` of each
 * tile of keys, from 0, and into `live` of each row. */
template <typename E>
static __device__ __forceinline__ void look_at_rows(const struct attn_ranges &a, const E *bias,
						    int rows, int first, int last, uint32_t *flags,
						    uint32_t *live)
{
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const bool positive = a.weight > 0.0f; /* else nothing is masked, all is live */
	const typename two<E>::type masked =
		two<E>::of(positive ? MASKED / a.weight : -INFINITY, false);
	const typename two<E>::type limit =
		two<E>::of(positive ? LIVE / a.weight : -INFINITY, true);
	const uint32_t given = positive ? 0 : 6;

	for (int column = first * a.keys + lane * 8; column < min(last * a.keys, a.Sk);
	     column += 256)
		for (int r0 = warp * ROWS_AT_ONCE; r0 < rows; r0 += RANGES_WARPS * ROWS_AT_ONCE) {
			uint4 eight[ROWS_AT_ONCE];
#pragma unroll
			for (int r = 0; r < ROWS_AT_ONCE; r++) {
				const uint16_t *at = (const uint16_t *)bias + column +
						     min(r0 + r, rows - 1) * a.bias.stride[2];
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
				const uint32_t s = look_at<E>(eight[r], masked, limit) | given;
				const unsigned here = __activemask();
				if (__any_sync(here, s & 4) && lane == __ffs(here) - 1)
					atomicOr(&live[row / 32], 1u << row % 32);
				seen |= s & 3;
			}
			uint32_t *const flag = &flags[column / a.keys - first];
			if ((*(volatile uint32_t *)flag & seen) != seen)
				atomicOr(flag, seen);
		}
}

/* Grid: RANGES_CLUSTER blocks for each tile of rows, each for its part of the keys; B in z. */
extern "C" __global__ void CLUSTER_OF_8 __launch_bounds__(RANGES_THREADS, 2)
	fashim_ranges(const __grid_constant__ struct attn_ranges a)
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
	if (a.bias.dtype == ATTN_F16)
		look_at_rows<__half>(a, (const __half *)bias, rows, first, last, flags, live);
	else
		look_at_rows<__nv_bfloat16>(a, (const __nv_bfloat16 *)bias, rows, first, last,
					    flags, live);
	__syncthreads();
	cluster_wait(); /* the first block runs: its memory may be written */
	for (int n = threadIdx.x; n < last - first; n += RANGES_THREADS)
		store_to_first(&all_flags[first + n], flags[n]);
	for (int n = threadIdx.x; n < RANGES_ROWS / 32; n += RANGES_THREADS)
		store_to_first(&all_live[rank][n], live[n]);
	cluster_arrive();
	cluster_wait();
	if (rank || warp)
		return;
	uint32_t lacking = 0; /* a lane looks at 32 rows: those that no block found live */
	if (lane * 32 < rows) {
		for (int n = 0; n < RANGES_CLUSTER; n++)
			lacking |= all_live[n][lane];
		lacking = ~lacking & (rows - lane * 32 >= 32 ? ~0u : (1u << (rows - lane * 32)) - 1);
	}
	const bool all = !__any_sync(0xffffffffu, lacking != 0);
	const struct attn_range range = range_of(all_flags, tiles, all);
	if (lane == 0)
		((struct attn_range *)a.out)[blockIdx.z * (gridDim.x / RANGES_CLUSTER) + row_tile] =
			range;
}
#endif
