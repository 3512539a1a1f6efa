/* SPDX-License-Identifier: Apache-2.0
 *
 * What a block of mma.cu is to do, and what its warps work with: sums and scores in registers,
 * which are short, the rest in shared memory.
 */
#ifndef FASHIM_MMA_WORK_CUH
#define FASHIM_MMA_WORK_CUH

#include "kernels/rows_out.cuh"

/* What a warp works with: rows 16m+g and 16m+8+g of its own in [m][..][0..1] and [m][..][2..3]. */
template <int BLOCKS, int WIDTH, int KEYS> struct work {
	float s[KEYS / 16][BLOCKS][2]
	       [4]; /* q.k, x or x less the row's offset: of the tile to come */
	float o[BLOCKS][WIDTH / 8][4];
	float reference[BLOCKS][2]; /* P = 2^(x * exponent - reference) */
	float sum[BLOCKS][4];	    /* of P as rounded, as a column of O that V has all ones for */
	float top[BLOCKS][2];	    /* of s, over this lane's columns only */
};

/* What is the same for all of a block, or of a warp's rows, and is looked up rather than held in
 * registers, which are short. */
enum rows { IN_PAIRS, SIDE_BY_SIDE, APART, FOLDED };
struct beside {
	char *at; /* of the head */
	int rows; /* how to read those */
};
struct block_view {
	struct view w;
	struct beside bias[ATTN_MAX_BIAS], mask, scales;
	float scale;	   /* scale_of() */
	const void *k, *v; /* of the head */
	int k_pieces, v_pieces;
	int begin, end; /* tiles of keys */
};
struct warp_view {
	int first;	      /* row */
	int end;	      /* of its tiles of keys */
	int clean, clean_end; /* those of which x is q.k for all rows and keys; by is_plain() */
};

/* Elements of all rows in aligned pairs, one after the other, or neither; some for several keys. */
static __device__ __forceinline__ struct beside
beside_of(const struct attn_args &a, const struct view &w, const struct attn_tensor &t)
{
	struct beside found = {NULL, APART};

	if (!t.base)
		return found;
	found.at = tensor_at(t, w.b, w.h, a.H);
	if (t.columns)
		found.rows = FOLDED;
	else if (t.stride[3] == 1)
		found.rows =
			a.Sk % 2 == 0 && t.stride[2] % 2 == 0 &&
					(uint64_t)found.at % (2 * attn_dtype_size(t.dtype)) == 0
				? IN_PAIRS
				: SIDE_BY_SIDE;
	return found;
}

static __device__ __forceinline__ struct warp_view
warp_view_of(const struct attn_args &a, const struct view &w, int first, int rows, int keys)
{
	const int last = min(first + rows, a.Sq) - 1;
	struct warp_view own = {first, 0, INT32_MAX, 0};
	int begin;

	if (first >= a.Sq)
		return own;
	key_tiles(a, a.Sk, first, last, keys, &begin, &own.end);
	if (w.plain) {
		own.clean = (min(first_key(a.spec, last), a.Sk) + keys - 1) / keys;
		own.clean_end = (min(last_key(a.spec, first), a.Sk - 1) + 1) / keys;
	}
	return own;
}

/* K and V of so many heads at a time are to stay in the second-level cache; bytes. */
#define SECTION (20 << 20)

/* What the block is to do. Where later rows may see more keys, as with a window, the tiles with the
 * most come first, those of all heads of a section before the next. */
static __device__ __forceinline__ struct view view_in_order(const struct attn_args &a, int rows,
							    bool rising)
{
	struct view w = view_of(a, rows);

	if (!rising)
		return w;
	const int heads = gridDim.y * gridDim.z, tiles = gridDim.x;
	const int64_t bytes = (int64_t)a.Sk * (a.D + a.Dv) * 2;
	const int section = (int)max((int64_t)1, min(SECTION / bytes, (int64_t)heads));
	const int64_t block = blockIdx.x + (int64_t)tiles * (blockIdx.y + gridDim.y * blockIdx.z);
	const int before = (int)(block / ((int64_t)tiles * section)) * section;
	const int rest = (int)(block - (int64_t)before * tiles);
	const int wide = min(section, heads - before), head = before + rest % wide;

	w.first = (tiles - 1 - rest / wide) * rows;
	w.b = head / a.H;
	w.h = head % a.H;
	return w;
}

#endif
