/* SPDX-License-Identifier: Apache-2.0
 *
 * Step 17: blocks that stay.
 *
 * Adds: as many blocks as the GPU has multiprocessors, each taking tiles of rows in turn, every
 *       gridDim.x-th, instead of a block per tile.
 * Why:  a block begins by waiting for Q and its first keys and ends by writing O, with no product
 *       under way meanwhile. A block that stays starts the copies of its next tile of rows while it
 *       still multiplies for this one.
 * How:  the loop runs over steps, a step being a tile of keys for a tile of rows, whatever tile of
 *       rows that is. One cursor says what is computed, another, one step ahead, what is copied.
 *       A tile of rows that sees no key at all has one step too, which adds nothing: its O must be
 *       written nevertheless.
 * Price: dividing tiles evenly by number is not dividing work evenly, if a window makes some of
 *       them short. And one block of two warps a multiprocessor is all there is at a time, where
 *       the hardware would have placed several: what is won at the seams must outweigh that.
 * L4:   planned only; about 55 us was hoped for, after 65.
 * H200: 16.0 us, after 12.3. Just that: 128 tiles for 132 multiprocessors, so nothing follows that
 *       could be started early, and the two cursors cost a third more instructions.
 *
 * 512 rows of 8 heads are 128 tiles. The L4's 58 multiprocessors take up to three each; a GPU with
 * more than 128 takes one each, and there is no seam to hide.
 */
#include "kernels/ladder/swizzle.cuh"

namespace step17
{

constexpr int ROWS = 32, KEYS = 32, STAGES = 2, THREADS = 32 * ROWS / 16;
typedef struct swizzled<ROWS, KEYS, 2, STAGES> block;

/* A step: keys j to j + KEYS - 1 for the rows from `first` of head h, batch b. */
struct cursor {
	int tile; /* of rows, counted over all heads and batches */
	int b, h, first, j, end;
};

static __device__ __forceinline__ int tiles_of_rows(const struct attn_args &a)
{
	return (a.Sq + ROWS - 1) / ROWS;
}

/* The first step of a tile of rows. */
static __device__ __forceinline__ struct cursor first_step(const struct attn_args &a, int tile)
{
	const int tiles = tiles_of_rows(a);
	struct cursor at;

	at.tile = tile;
	at.b = tile / tiles / a.H;
	at.h = tile / tiles % a.H;
	at.first = tile % tiles * ROWS;
	at.j = keys_begin(a, at.first) / KEYS * KEYS;
	at.end = keys_end(a, min(at.first + ROWS, a.Sq) - 1);
	return at;
}

static __device__ __forceinline__ struct cursor next_step(const struct attn_args &a,
							  struct cursor at)
{
	at.j += KEYS;
	return at.j < at.end ? at : first_step(a, at.tile + gridDim.x);
}

/* Starts the copies for a step, those of Q only if it is the first of its tile of rows. */
static __device__ __forceinline__ void start_step(const struct attn_args &a, block &t,
						  const struct cursor &at, int stage, int queries,
						  bool fresh)
{
	if (fresh)
		start_copies<ROWS, THREADS>(t.q[queries], matrix_of(a.q, at.b, at.h, a.H), at.first,
					    a.Sq);
	start_copies<KEYS, THREADS>(t.k[stage], matrix_of(a.k, at.b, at.h, a.H), at.j, a.Sk);
	start_copies<KEYS, THREADS>(t.v[stage], matrix_of(a.v, at.b, at.h, a.H), at.j, a.Sk);
	copy_commit();
}

extern "C" __global__ void __launch_bounds__(THREADS)
	fashim_ladder_17_persistent(const __grid_constant__ struct attn_args a)
{
	__shared__ block t;
	const int tiles = tiles_of_rows(a) * a.H * a.B, row = threadIdx.x / 32 * 16;
	struct cursor here = first_step(a, blockIdx.x);
	struct warp_sums w;
	bool fresh = true;
	int stage = 0, queries = 0;

	if (here.tile < tiles)
		start_step(a, t, here, stage, queries, true);
	while (here.tile < tiles) {
		const struct cursor ahead = next_step(a, here);
		const bool done = ahead.tile != here.tile;

		copy_wait();
		__syncthreads(); /* this step's tiles are there, the last one's not needed now */
		if (ahead.tile < tiles)
			start_step(a, t, ahead, stage ^ 1, queries ^ done, done);
		if (fresh)
			begin_rows(w, t.q[queries], row);
		attend<KEYS>(a, w, t.k[stage], t.v[stage], 0, here.first + row, here.j);
		if (done)
			end_rows(a, w, matrix_of(a.o, here.b, here.h, a.H), t.q[queries] + row,
				 here.first + row);
		here = ahead;
		fresh = done;
		stage ^= 1;
		queries ^= done;
	}
}
LADDER_STEP(17_persistent, ROWS, THREADS, 0)

} /* namespace step17 */
