/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tile of rows a block of tma.cu does next, and which tiles of keys that sees. Blocks stay for
 * the whole call and take tiles by a fixed rule: no counter in memory that would have to be cleared.
 */
#ifndef FASHIM_TMA_WORK_CUH
#define FASHIM_TMA_WORK_CUH

#include "kernels/scores.cuh"
#include "kernels/tma_scores.cuh"
#include "kernels/tma_variants.h"

namespace tma
{

struct work {
	int first;  /* row */
	int h, b;
	int begin, end; /* tiles of keys */
	int clear_begin, clear_end; /* of which these have no bias to add */
};

/* Tells the compiler that all lanes have the same number, if a whole warp is here. What stages and
 * addresses follow from is then computed once for a warp; without it the kernel loses a seventh. */
template <bool WARP> static __device__ __forceinline__ int same(int x)
{
	return WARP ? __shfl_sync(WARP_ALL, x, 0) : x;
}

/* Tile `n` of all. Heads are taken `section` at a time. With a window, tiles are unlike amounts of
 * work: those of a section come heaviest first, or lightest first in every other section, the last
 * heaviest first; and every other round goes backwards through the blocks. So neighbouring rounds
 * add up to the same for all blocks. */
template <int ROWS, int KEYS, int KIND, bool WARP>
static __device__ __forceinline__ bool work_at(struct work &w, const struct attn_mapped &m,
					       int round)
{
	const struct attn_args &a = m.attn;
	const int tiles = (a.Sq + ROWS - 1) / ROWS, heads = a.B * a.H;
	const bool ranged = KIND != TMA_PLAIN && m.ranges;
	const bool windowed = a.spec.window_right != ATTN_NO_WINDOW || ranged;
	const int blocks = gridDim.x;
	const int n = round * blocks +
		      (windowed && (round & 1) ? blocks - 1 - (int)blockIdx.x : (int)blockIdx.x);
	int head, tile;

	if (n >= tiles * heads)
		return false;
	if (windowed) {
		const int part = m.section * tiles, section = n / part, rest = n % part;
		const int here = min(m.section, heads - section * m.section);

		head = section * m.section + rest % here;
		tile = rest / here;
		if (((heads - 1) / m.section - section) % 2 == 0)
			tile = tiles - 1 - tile;
	} else {
		head = n / tiles;
		tile = n % tiles;
	}
	w.b = head / a.H;
	w.h = head % a.H;
	w.first = tile * ROWS;
	const int last = min(w.first + ROWS, a.Sq) - 1;
	int low = 0, high = a.Sk - 1;
	if (a.spec.window_value == -INFINITY) {
		low = min(first_key(a.spec, w.first), a.Sk);
		high = min(last_key(a.spec, last), high);
	}
	w.begin = low / KEYS;
	w.end = high < low ? w.begin : high / KEYS + 1;
	w.clear_begin = w.clear_end = 0;
	if (ranged) { /* there is no window then */
		const int4 range = __ldg((const int4 *)m.ranges + w.b * m.range_step[0] +
					 tile * m.range_step[1]);
		w.begin = same<WARP>(range.x);
		w.end = same<WARP>(range.y);
		w.clear_begin = same<WARP>(range.z);
		w.clear_end = same<WARP>(range.w);
	}
	return true;
}

/* Has the look at the mask told of these rows which keys they see? Then it need not be read. */
static __device__ __forceinline__ bool is_spanned(const struct work &w)
{
	return w.clear_end - w.clear_begin == w.end - w.begin;
}

/* What a lane's rows i and i + 8 see by the window. */
static __device__ __forceinline__ struct span window_of(const struct attn_args &a, int i)
{
	struct span keys;

#pragma unroll
	for (int r = 0; r < 2; r++) {
		keys.low[r] = first_key(a.spec, i + 8 * r);
		keys.high[r] = min(last_key(a.spec, i + 8 * r), a.Sk - 1);
	}
	return keys;
}

/* The same where the look at a mask may have told. */
static __device__ __forceinline__ struct span span_of(const struct attn_mapped &m,
						      const struct work &w, int i)
{
	struct span keys;

	if (!is_spanned(w))
		return window_of(m.attn, i);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		const int2 seen = __ldg((const int2 *)m.spans + w.b * m.span_step[0] +
					min(i + 8 * r, m.attn.Sq - 1) * m.span_step[1]);
		keys.low[r] = seen.x;
		keys.high[r] = seen.y;
	}
	return keys;
}

} // namespace tma

#endif
