/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands in shared memory as slabs 128 bytes wide, line after line, whose 16-byte pieces are
 * swapped so that no two lines of eight meet in a bank: piece c of line r lies at c ^ r % 8. This
 * is what Hopper's matrix instructions read (hopper.cuh), and ldmatrix as well.
 */
#ifndef FASHIM_SLABS_CUH
#define FASHIM_SLABS_CUH

#include "kernels/tile.cuh"

#ifdef __CUDACC__
#define SLABS_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#else
#define SLABS_SHARED(name) unsigned char *const name = (unsigned char *)sim_current->block->shared
#endif

/* Where piece `piece` (16 bytes) of line `line` lies in slabs of `lines` lines; in bytes. */
static __device__ __forceinline__ int slab_at(int line, int piece, int lines)
{
	return piece / 8 * lines * 128 + line * 128 + (piece % 8 ^ line % 8) * 16;
}

/* The same for the pieces 2d and 2d+1, from where the line's piece 0 or 1 lies. */
static __device__ __forceinline__ int slab_moved(int at, int d, int lines)
{
	return (at ^ d % 4 * 32) + d / 4 * lines * 128;
}

/* load_tile() of tile.cuh into slabs: 16-bit elements of rows first .. first+LINES-1, columns 0 ..
 * WIDTH-1; zeros beyond row `rows` and column `columns`. */
template <typename T, int LINES, int WIDTH, int THREADS>
static __device__ __forceinline__ void
load_slabs(unsigned char *tile, const T *at, int64_t row_stride, int64_t column_stride, int pieces,
	   int first, int rows, int columns, int thread)
{
	constexpr int PIECES = WIDTH / 8, STEP = THREADS / PIECES;
	static_assert(THREADS % PIECES == 0 && LINES % STEP == 0, "whole lines per step");

	if (pieces == PIECES_ACROSS) {
		const int c = thread % PIECES, r0 = thread / PIECES;
		const int bytes = 2 * max(0, min(8, columns - 8 * c));
		const T *from = at + (first + r0) * row_stride + 8 * c;
#pragma unroll
		for (int r = 0; r < LINES; r += STEP, from += STEP * row_stride)
			copy16(tile + slab_at(r0 + r, c, LINES), from,
			       first + r0 + r < rows ? bytes : 0);
		return;
	}
	const bool down = pieces == PIECES_DOWN;
#pragma unroll 1
	for (int e = thread; e < LINES / 8 * WIDTH; e += THREADS) {
		/* eight rows of a column, a warp's columns side by side */
		const int c = e % WIDTH, r = e / WIDTH * 8, there = min(rows - first - r, 8);
		const T *const from = at + (first + r) * row_stride + c * column_stride;
		union {
			uint4 all;
			T one[8];
		} u;

		u.all = make_uint4(0, 0, 0, 0);
		if (c < columns && down && there == 8)
			u.all = *(const uint4 *)from;
		else if (c < columns)
#pragma unroll
			for (int k = 0; k < 8; k++)
				if (k < there)
					u.one[k] = from[k * row_stride];
#pragma unroll
		for (int k = 0; k < 8; k++)
			*(T *)(tile + slab_at(r + k, c / 8, LINES) + c % 8 * 2) = u.one[k];
	}
}

#endif
