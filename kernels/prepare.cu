/* SPDX-License-Identifier: Apache-2.0
 *
 * What tma.cu wants done before it runs:
 *
 *   fashim_repack   an operand whose rows do not start on 16 bytes, which no tensor map describes,
 *                   is copied into rows that do
 *   fashim_ranges   a mask, boolean or as an additive tensor, is read once for all heads: which
 *                   tiles of keys it leaves to a tile of rows at all, where among them it is zero,
 *                   and from which key to which each row is open
 *
 * Where every row of a tile is zero in one span of keys and masked elsewhere, as causal masks,
 * padding and windows are, that says it all: tma.cu compares indices there and does not read the
 * mask again. One element off that pattern, and the tile of rows is computed from the tensor.
 *
 * A key is left out only if that changes no bit of O: every row of the block has a key that is not
 * masked, and every element that is left out is ATTN_MASKED or less, as is what a boolean mask puts
 * in its place: from there no score brings a key back. Where another bias is added, too (slopes), it
 * must be of moderate size for all keys and heads: that is looked at as well.
 *
 * Measured (H200): see the notebook of tma.cu.
 */
#include "kernels/attention.h"
#include "kernels/cluster.cuh"
#include "kernels/device.cuh"

#define LIVE	 -1000.0f /* a row with an element above is not masked throughout */
#define MODERATE 4096.0f  /* what another bias may be: far less than what is between the two */

#define REPACK_PIECE 8 /* elements: 16 bytes */

/* Elements from[0] to from[7], which lie on two bytes, of which `left` are there: in words, if the
 * last of these is there as a whole. */
static __device__ uint4 repack_piece(const uint16_t *from, int left)
{
	const int odd = (int)((uintptr_t)from / 2 % 2);
	const uint32_t *words = (const uint32_t *)(from - odd);
	uint32_t w[5] = {0, 0, 0, 0, 0};

	if (left >= REPACK_PIECE + odd) {
#pragma unroll
		for (int n = 0; n < 4; n++)
			w[n] = words[n];
		if (odd)
			w[4] = words[4];
#pragma unroll
		for (int n = 0; n < 4 && odd; n++)
			w[n] = w[n] >> 16 | w[n + 1] << 16;
	} else {
#pragma unroll
		for (int n = 0; n < REPACK_PIECE; n++)
			if (n < left)
				w[n / 2] |= (uint32_t)from[n] << n % 2 * 16;
	}
	return make_uint4(w[0], w[1], w[2], w[3]);
}

extern "C" __global__ void __launch_bounds__(REPACK_THREADS)
	fashim_repack(const struct attn_repack a)
{
	const int pieces = (a.length + REPACK_PIECE - 1) / REPACK_PIECE;
	const int first = blockIdx.x * REPACK_LINES, lines = min(REPACK_LINES, a.lines - first);
	const uint16_t *const from = (const uint16_t *)a.from + blockIdx.z * a.from_stride[0] +
				     blockIdx.y * a.from_stride[1];
	uint16_t *const to =
		(uint16_t *)a.to + blockIdx.z * a.to_stride[0] + blockIdx.y * a.to_stride[1];

	for (int n = threadIdx.x; n < lines * pieces; n += REPACK_THREADS) {
		const int64_t line = first + n / pieces;
		const int at = n % pieces * REPACK_PIECE;

		*(uint4 *)(to + line * a.to_stride[2] + at) =
			repack_piece(from + line * a.from_stride[2] + at, a.length - at);
	}
}

#if FASHIM_CLUSTERS
#define RANGES_WARPS   (RANGES_THREADS / 32)
#define PIECES_AT_ONCE 4   /* of 8 elements: loads that a lane has under way */
#define PIECES_OF_WARP 256 /* elements in the pieces of a warp's lanes */

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

/* What 8 elements, or a row, or a tile of keys has. */
#define NOT_ZERO   1
#define NOT_MASKED 2
#define IS_LIVE	   4
#define NEITHER	   8 /* zero nor masked */

/* What some row lacks. */
#define NO_SPAN 1
#define NO_LIFE 2

template <typename E> struct limits {
	typename two<E>::type masked, live;
	bool none_masked; /* then all is live */

	/* With a weight that is not positive none is masked. */
	__device__ __forceinline__ limits(const struct attn_ranges &a)
	{
		none_masked = !(a.weight > 0.0f);
		masked = two<E>::of(none_masked ? -INFINITY : ATTN_MASKED / a.weight, false);
		live = two<E>::of(none_masked ? -INFINITY : LIVE / a.weight, true);
	}
};
template <> struct limits<uint8_t> {
	bool keeps;

	__device__ __forceinline__ limits(const struct attn_ranges &a) : keeps(a.mask_keeps != 0)
	{
	}
};

/* Eight elements. */
template <typename E> struct piece {
	typedef uint4 type;
};
template <> struct piece<uint8_t> {
	typedef uint2 type;
};

/* What 8 elements have, and in `zeros` a bit for each that is zero. Nearly always all of them are
 * zero, or all masked. */
template <typename E>
static __device__ __forceinline__ uint32_t look_at(uint4 eight, const struct limits<E> &limits,
						   uint32_t *zeros)
{
	const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
	uint32_t some = 0, above = 0, lively = 0, neither = 0;

	*zeros = 0xff;
	if (!((eight.x | eight.y | eight.z | eight.w) & 0x7fff7fffu))
		return NOT_MASKED | IS_LIVE;
#pragma unroll
	for (int e = 0; e < 4; e++)
		/* NaN is not masked */
		above |= ~__hle2_mask(*(const typename two<E>::type *)&words[e], limits.masked);
	*zeros = 0;
	if (!above && !limits.none_masked)
		return NOT_ZERO;
#pragma unroll
	for (int e = 0; e < 4; e++) {
		const typename two<E>::type x = *(const typename two<E>::type *)&words[e];
		/* the top bits of the halves: are any others set? */
		const uint32_t nonzero = ((words[e] & 0x7fff7fffu) + 0x7fff7fffu) & 0x80008000u;
		const uint32_t open = limits.none_masked ? ~0u : ~__hle2_mask(x, limits.masked);
		some |= nonzero >> (15 - 2 * e);
		neither |= nonzero & open;
		lively |= __hgt2_mask(x, limits.live);
	}
	*zeros = ~(some | some >> 15) & 0xff;
	return NOT_ZERO | NOT_MASKED | (lively || limits.none_masked ? IS_LIVE : 0) |
	       (neither ? NEITHER : 0);
}

/* A bit for each byte of a mask that shows its key. */
static __device__ __forceinline__ uint32_t shown(uint32_t four, bool keeps)
{
	const uint32_t set = (((four & 0x7f7f7f7fu) + 0x7f7f7f7fu) | four) & 0x80808080u;

	return ((keeps ? set : set ^ 0x80808080u) >> 7) * 0x01020408u >> 24;
}

/* The same of a boolean mask: what hides a key counts as masked, what shows it as zero. */
template <typename E>
static __device__ __forceinline__ uint32_t look_at(uint2 eight, const struct limits<E> &limits,
						   uint32_t *zeros)
{
	*zeros = shown(eight.x, limits.keeps) | shown(eight.y, limits.keeps) << 4;
	return (*zeros ? NOT_MASKED | IS_LIVE : 0) | (*zeros != 0xff ? NOT_ZERO : 0);
}

/* What a lane, or a warp, has seen of a row. */
struct seen {
	int first, last, zeros; /* key, key, count */
	uint32_t what;
};

/* The 8 elements from `column` on, of which `exist` are there. `flag`: of their tile of keys. */
template <typename E>
static __device__ __forceinline__ void see(struct seen &seen, uint32_t *flag,
					   typename piece<E>::type eight,
					   const struct limits<E> &limits, int column,
					   uint32_t exist)
{
	uint32_t zeros;
	const uint32_t what = look_at<E>(eight, limits, &zeros);
	const uint32_t of_tile = what & (NOT_ZERO | NOT_MASKED);

	zeros &= exist;
	if (zeros) {
		seen.first = min(seen.first, column + __ffs(zeros) - 1);
		seen.last = column + 31 - __clz(zeros);
		seen.zeros += __popc(zeros);
	}
	seen.what |= what;
	if ((*(volatile uint32_t *)flag & of_tile) != of_tile)
		atomicOr(flag, of_tile);
}

/* The last elements of a row, less than 8, and the last one again. */
template <typename E> static __device__ typename piece<E>::type last_piece(const E *at, int count)
{
	union {
		E e[8];
		typename piece<E>::type all;
	} eight;

#pragma unroll
	for (int n = 0; n < 8; n++)
		eight.e[n] = at[min(n, count - 1)];
	return eight.all;
}

/* All of row i, by a warp; what tiles of keys have goes into `flags` too. */
template <typename E>
static __device__ __forceinline__ struct seen look_at_row(const struct attn_ranges &a,
							  int i, uint32_t *flags)
{
	const E *const row = (const E *)a.bias.base + blockIdx.z * a.bias.stride[0] +
			     i * a.bias.stride[2];
	const int lane = threadIdx.x % 32, whole = a.Sk / 8 * 8;
	const uint32_t per_key = 0xffffffffu / a.keys + 1; /* to divide by multiplying */
	const struct limits<E> limits(a);
	struct seen seen = {INT32_MAX, -1, 0, 0};

	for (int from = lane * 8; from < whole; from += PIECES_AT_ONCE * PIECES_OF_WARP) {
		typename piece<E>::type eight[PIECES_AT_ONCE];
#pragma unroll
		for (int n = 0; n < PIECES_AT_ONCE; n++)
			if (from + n * PIECES_OF_WARP < whole)
				eight[n] = *(const typename piece<E>::type *)(row + from +
									      n * PIECES_OF_WARP);
#pragma unroll
		for (int n = 0; n < PIECES_AT_ONCE; n++) {
			const int column = from + n * PIECES_OF_WARP;
			if (column < whole)
				see<E>(seen, &flags[__umulhi(column, per_key)], eight[n], limits,
				       column, 0xff);
		}
	}
	if (whole < a.Sk && lane == 0)
		see<E>(seen, &flags[whole / a.keys], last_piece<E>(row + whole, a.Sk - whole),
		       limits, whole, (1u << (a.Sk - whole)) - 1);
	__syncwarp();
	seen.first = __reduce_min_sync(0xffffffffu, seen.first);
	seen.last = __reduce_max_sync(0xffffffffu, seen.last);
	seen.zeros = __reduce_add_sync(0xffffffffu, seen.zeros);
	seen.what = __reduce_or_sync(0xffffffffu, seen.what);
	return seen;
}

/* Is all of the other bias moderate, as far as this warp, one of `count`, looks? NaN is not. */
template <typename E>
static __device__ __forceinline__ bool is_moderate(const struct attn_ranges &a, int warp, int count)
{
	bool moderate = true;

	/* where batches share the mask, what is found holds for all of them */
	const int first = gridDim.z > 1 ? blockIdx.z * a.H : 0;
	const int heads = gridDim.z > 1 ? a.H : a.B * a.H;
	for (int n = warp; n < heads; n += count) {
		const int head = first + n;
		const E *const row = (const E *)a.other.base + head / a.H * a.other.stride[0] +
				     head % a.H * a.other.stride[1];
#pragma unroll 8
		for (int j = threadIdx.x % 32; j < a.Sk; j += 32)
			moderate = moderate &&
				   fabsf(a.other_weight * to_float<E>(row[j])) <= MODERATE;
	}
	return moderate;
}

/* *at |= bits, in the first block of the cluster. */
static __device__ __forceinline__ void or_in_first(uint32_t *at, uint32_t bits)
{
	const uint32_t there = address_in((uint32_t)__cvta_generic_to_shared(at), 0);

	asm volatile("red.relaxed.cluster.shared::cluster.or.b32 [%0], %1;" ::"r"(there), "r"(bits)
		     : "memory");
}

/* The first of flags[from .. to - 1] where `bit` is `set`, or `to`. By a warp. */
static __device__ int first_tile(const uint32_t *flags, int from, int to, uint32_t bit, bool set)
{
	for (int n = from; n < to; n += 32) {
		const int at = n + (int)(threadIdx.x % 32);
		const uint32_t found =
			__ballot_sync(0xffffffffu, at < to && ((flags[at] & bit) != 0) == set);
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
		r.begin = first_tile(flags, 0, tiles, NOT_MASKED, true);
		while (r.end > r.begin && !(flags[r.end - 1] & NOT_MASKED))
			r.end--;
	}
	r.clear_begin = first_tile(flags, r.begin, r.end, NOT_ZERO, false);
	r.clear_end = first_tile(flags, r.clear_begin, r.end, NOT_ZERO, true);
	return r;
}

/* Grid: RANGES_CLUSTER blocks for each tile of rows, a warp for each row; B in z. */
extern "C" __global__ void CLUSTER_OF_8 __launch_bounds__(RANGES_THREADS, 2)
	fashim_ranges(const __grid_constant__ struct attn_ranges a)
{
	__shared__ uint32_t flags[RANGES_TILES], lacking;
	static_assert(RANGES_CLUSTER == 8, "CLUSTER_OF_8");
	const int rank = blockIdx.x % RANGES_CLUSTER, row_tile = blockIdx.x / RANGES_CLUSTER;
	const int row_tiles = gridDim.x / RANGES_CLUSTER;
	const int tiles = (a.Sk + a.keys - 1) / a.keys;
	const int row0 = row_tile * a.rows, rows = min(a.rows, a.Sq - row0);
	const int me = threadIdx.x, lane = me % 32;
	struct attn_range *const ranges = (struct attn_range *)a.out;
	struct attn_span *const spans = (struct attn_span *)(ranges + gridDim.z * row_tiles);

	for (int n = me; n < tiles; n += RANGES_THREADS)
		flags[n] = 0;
	if (me == 0)
		lacking = 0;
	__syncthreads();
	cluster_arrive();
	for (int r = rank + RANGES_CLUSTER * (me / 32); r < rows;
	     r += RANGES_CLUSTER * RANGES_WARPS) {
		const int row = row0 + r;
		const struct seen seen =
			a.bias.dtype == ATTN_BOOL  ? look_at_row<uint8_t>(a, row, flags)
			: a.bias.dtype == ATTN_F16 ? look_at_row<__half>(a, row, flags)
						   : look_at_row<__nv_bfloat16>(a, row, flags);
		const bool spanned = !(seen.what & NEITHER) && seen.zeros > 0 &&
				     seen.zeros == seen.last - seen.first + 1;
		const uint32_t lacks =
			(spanned ? 0 : NO_SPAN) | (seen.what & IS_LIVE ? 0 : NO_LIFE);

		if (lane == 0 && lacks)
			atomicOr(&lacking, lacks);
		if (lane == 0)
			spans[(int64_t)blockIdx.z * a.Sq + row] = {seen.first, seen.last};
	}
	if (a.other.base) {
		const int warp = rank * RANGES_WARPS + me / 32;
		const int count = RANGES_CLUSTER * RANGES_WARPS;

		if (!(a.bias.dtype == ATTN_F16 ? is_moderate<__half>(a, warp, count)
					       : is_moderate<__nv_bfloat16>(a, warp, count)))
			atomicOr(&lacking, NO_SPAN | NO_LIFE);
	}
	__syncthreads();
	cluster_wait(); /* the first block's flags are ready for those of the others */
	for (int n = me; rank && n < tiles; n += RANGES_THREADS)
		if (flags[n])
			or_in_first(&flags[n], flags[n]);
	if (rank && me == 0 && lacking)
		or_in_first(&lacking, lacking);
	__syncthreads();
	cluster_arrive();
	cluster_wait();
	if (rank || me >= 32)
		return;
	struct attn_range range = range_of(flags, tiles, !(lacking & NO_LIFE));
	if (!(lacking & NO_SPAN)) {
		range.clear_begin = range.begin;
		range.clear_end = range.end;
	}
	if (lane == 0)
		ranges[blockIdx.z * row_tiles + row_tile] = range;
}
#endif
