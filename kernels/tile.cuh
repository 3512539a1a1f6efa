/* SPDX-License-Identifier: Apache-2.0
 *
 * A rectangle of an operand, from global to shared memory, whatever the operand's layout.
 *
 * Lines in shared memory are padded by 16 bytes, so that ldmatrix meets no bank twice. An operand
 * whose rows are made of aligned pieces of 16 bytes, or of 8 where a kernel knows how (rows of 36
 * numbers), is copied asynchronously (sm_80); one that is
 * transposed is read in such pieces along its columns and turned around; anything else is read
 * element by element, along whichever dimension has the smaller stride.
 */
#ifndef FASHIM_TILE_CUH
#define FASHIM_TILE_CUH

#include "kernels/device.cuh"

#define PAD 8 /* elements of 16 bits; 16 bytes */

/* Elements in 16 bytes. */
template <typename T> constexpr int PIECE = 16 / (int)sizeof(T);

/* How many of n reads to have under way: on sm_75 each holds registers, and these run out. */
static __host__ __device__ constexpr int at_once(int n)
{
	return FASHIM_TURING ? 1 : n;
}

enum { ELEMENTS, PIECES_ACROSS, PIECES_DOWN, HALVES_ACROSS }; /* how an operand can be read */

/* halves: 8 bytes would do, too */
static __device__ __forceinline__ int pieces_of(const struct attn_tensor &t, const void *at,
						bool halves = false)
{
	const int piece = 16 / attn_dtype_size(t.dtype);

	if ((uint64_t)at % 16 == 0 && t.stride[3] == 1 && t.stride[2] % piece == 0)
		return PIECES_ACROSS;
	if ((uint64_t)at % 16 == 0 && t.stride[2] == 1 && t.stride[3] % piece == 0)
		return PIECES_DOWN;
	return halves && (uint64_t)at % 8 == 0 && t.stride[3] == 1 && t.stride[2] % (piece / 2) == 0
		       ? HALVES_ACROSS
		       : ELEMENTS;
}

/* Whole rows per step, in pieces of P elements, each thread in a column of its own; some may have
 * none. As load_tile, below. */
template <typename T, int ROWS, int WIDTH, int THREADS, int P>
static __device__ __forceinline__ void load_across(T *tile, const T *at, int64_t row_stride,
						   int first, int rows, int columns, int thread)
{
	constexpr int LINE = WIDTH + PIECE<T>, PIECES = WIDTH / P, STEP = THREADS / PIECES;
	constexpr bool EVEN = THREADS % PIECES == 0 && ROWS % STEP == 0;
	const int c = thread % PIECES * P, r0 = thread / PIECES;
	const int bytes = (int)sizeof(T) * max(0, min(P, columns - c));
	const T *from = at + (first + r0) * row_stride + c;

	if (!EVEN && r0 >= STEP)
		return;
#pragma unroll(at_once((ROWS + STEP - 1) / STEP))
	for (int r = 0; r < ROWS; r += STEP) {
		bool valid = first + r0 + r < rows && bytes > 0;
		if (EVEN || r0 + r < ROWS)
			copy_piece<P * sizeof(T)>(tile + (r0 + r) * LINE + c, from,
						  valid ? bytes : 0);
		from += STEP * row_stride;
	}
}

/* Reads rows first .. first+ROWS-1, columns 0 .. WIDTH-1 of one head into shared memory; what lies
 * beyond row `rows` or column `columns` becomes 0. `first` is a multiple of 8.
 * `tile` has lines of WIDTH + PIECE<T>. AT_ONCE: elements that a thread has under way, where they
 * are read one by one. HALVES: `pieces` may be HALVES_ACROSS. */
template <typename T, int ROWS, int WIDTH, int THREADS, int AT_ONCE = at_once(4),
	  bool HALVES = false>
static __device__ __forceinline__ void load_tile(T *tile, const T *at, const struct attn_tensor &t,
						 int pieces, int first, int rows, int columns,
						 int thread)
{
	const int64_t row_stride = t.stride[2], column_stride = t.stride[3];
	constexpr int P = PIECE<T>, LINE = WIDTH + P;

	if (pieces == PIECES_ACROSS) {
		load_across<T, ROWS, WIDTH, THREADS, P>(tile, at, row_stride, first, rows, columns,
							thread);
	} else if (HALVES && pieces == HALVES_ACROSS) {
		load_across<T, ROWS, WIDTH, THREADS, P / 2>(tile, at, row_stride, first, rows,
							    columns, thread);
	} else if (pieces == PIECES_DOWN) {
#pragma unroll(at_once(2))
		for (int e = thread; e < ROWS / P * WIDTH; e += THREADS) {
			/* a warp takes 16 columns and two pieces: whole sectors, few conflicts */
			const int c = e / 32 % (WIDTH / 16) * 16 + e % 16;
			const int r = e / (2 * WIDTH) * 2 * P + e / 16 % 2 * P;
			union {
				uint4 all;
				T one[P];
			} u;
			u.all = make_uint4(0, 0, 0, 0);
			if (c < columns) {
				const T *from = at + first + r + c * column_stride;
				if (first + r + P <= rows)
					u.all = *(const uint4 *)from;
				else
#pragma unroll
					for (int k = 0; k < P; k++)
						if (first + r + k < rows)
							u.one[k] = from[k];
			}
#pragma unroll
			for (int k = 0; k < P; k++)
				tile[(r + k) * LINE + c] = u.one[k];
		}
	} else {
		const bool down = row_stride < column_stride;
#pragma unroll(AT_ONCE)
		for (int e = thread; e < ROWS * WIDTH; e += THREADS) {
			int r = down ? e % ROWS : e / WIDTH, c = down ? e / ROWS : e % WIDTH;
			T x = from_float<T>(0.0f);
			if (first + r < rows && c < columns)
				x = at[(first + r) * row_stride + c * column_stride];
			tile[r * LINE + c] = x;
		}
	}
}

#endif
