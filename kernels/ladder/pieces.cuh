/* SPDX-License-Identifier: Apache-2.0
 *
 * What steps 13 to 15 of the ladder share: rows of 64 halves as eight pieces of 16 bytes, the most
 * a thread can load or store at a time.
 */
#ifndef FASHIM_LADDER_PIECES_CUH
#define FASHIM_LADDER_PIECES_CUH

#include "kernels/ladder/warp_rows.cuh"

#define PIECES (LADDER_D / 8) /* in a row */

/* Rows first .. first + LINES - 1 of an operand to shared memory; what lies beyond row `rows`
 * becomes 0. */
template <int LINES, int THREADS>
static __device__ __forceinline__ void
load_pieces(__half (&tile)[LINES][LINE], const struct matrix &m, int first, int rows, int thread)
{
	constexpr int STEP = THREADS / PIECES; /* rows that the threads take at a time */
	static_assert(THREADS % PIECES == 0 && LINES % STEP == 0, "whole rows, all alike");
	const int top = thread / PIECES, c = thread % PIECES * 8;
	const __half *from = m.at + (first + top) * m.row + c;

#pragma unroll
	for (int r = 0; r < LINES; r += STEP, from += STEP * m.row) {
		uint4 piece = make_uint4(0, 0, 0, 0);

		if (first + top + r < rows)
			piece = *(const uint4 *)from;
		*(uint4 *)&tile[top + r][c] = piece;
	}
}

/* The warp's rows of O, divided by their sums, go to memory: eight lanes a row, so that a warp
 * writes four whole rows at once. */
template <int COUNT, int ROWS, int KEYS, int STAGES>
static __device__ __forceinline__ void
store_pieces(const struct attn_args &a, struct tiles<ROWS, KEYS, STAGES> &t,
	     const struct warp_rows<COUNT> &rows, const struct matrix &o, int warp, int first)
{
	const int lane = threadIdx.x % 32;

#pragma unroll
	for (int n = 0; n < COUNT; n++)
		for (int c = lane; c < LADDER_D; c += 32)
			t.o[warp * COUNT + n][c] *= row_factor(a, rows.sum[n]);
	__syncwarp();
	for (int e = lane; e < COUNT * PIECES; e += 32) {
		const int r = warp * COUNT + e / PIECES, c = e % PIECES * 8;
		uint32_t piece[4];

		if (first + r >= a.Sq)
			continue;
#pragma unroll
		for (int w = 0; w < 4; w++)
			piece[w] = pack2<__half>(t.o[r][c + 2 * w], t.o[r][c + 2 * w + 1]);
		*(uint4 *)(o.at + (first + r) * o.row + c) =
			make_uint4(piece[0], piece[1], piece[2], piece[3]);
	}
}

#endif
