/* SPDX-License-Identifier: Apache-2.0
 *
 * What every step of the ladder needs and none is about: where an operand lies, which keys a row
 * sees, what its sum is divided by. Everything that a step is about stands in its own file.
 */
#ifndef FASHIM_LADDER_CUH
#define FASHIM_LADDER_CUH

#include "kernels/device.cuh"
#include "kernels/ladder/ladder.h"

#ifdef __CUDACC__
#include <mma.h>
#else
#include "tests/simgpu/cuda_host_wmma.h"
#endif

#define LADDER_D 64 /* the largest D and Dv */

/* What ladder.def says of a step, so that its file cannot say otherwise. */
#define LADDER(number, label, rows_, threads_, shared_, grid, needs, l4, figure, adds)             \
	struct row_##label {                                                                       \
		enum { rows = rows_, threads = threads_, shared = shared_ };                       \
	};
#define LADDER_LIBRARY(number, label, rows_, threads_, shared_, l4, figure, adds)                  \
	LADDER(number, label, rows_, threads_, shared_, 0, 0, l4, figure, adds)
#include "kernels/ladder/ladder.def"
#undef LADDER

/* Ends a step: its kernel fashim_ladder_LABEL is launched with this many rows, threads and bytes
 * of dynamic shared memory per block. */
#define LADDER_STEP(label, rows_, threads_, shared_)                                               \
	static_assert(row_##label::rows == (rows_) && row_##label::threads == (threads_) &&        \
			      row_##label::shared == (shared_),                                    \
		      "as ladder.def has it");                                                     \
	SIM_KERNEL(fashim_ladder_##label)

/* ---- operands ------------------------------------------------------------------------------- */

/* The [rows,columns] of an operand that belong to this block's b and h. */
struct matrix {
	__half *at;
	int64_t row, column; /* strides in elements */
};

static __device__ __forceinline__ struct matrix matrix_of(const struct attn_tensor &t, int b, int h,
							  int H)
{
	return {(__half *)tensor_at(t, b, h, H), t.stride[2], t.stride[3]};
}

static __device__ __forceinline__ float load(const struct matrix &m, int i, int d)
{
	return __half2float(m.at[i * m.row + d * m.column]);
}

static __device__ __forceinline__ void store(const struct matrix &m, int i, int d, float x)
{
	m.at[i * m.row + d * m.column] = __float2half_rn(x);
}

/* Rows first, first + 1, ... of m become those of a tile in shared memory, an element a thread at a
 * time; what lies beyond row `rows` or column `columns` becomes 0. */
template <int LINES, int WIDTH>
static __device__ __forceinline__ void load_tile(__half (&tile)[LINES][WIDTH],
						 const struct matrix &m, int first, int rows,
						 int columns, int thread, int threads)
{
	for (int e = thread; e < LINES * LADDER_D; e += threads) {
		const int r = e / LADDER_D, d = e % LADDER_D;
		const bool there = first + r < rows && d < columns;

		tile[r][d] =
			there ? m.at[(first + r) * m.row + d * m.column] : __float2half_rn(0.0f);
	}
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The keys that row i may see: from keys_begin to keys_end - 1; none if these are not fewer. Both
 * grow with i, so the keys of a tile of rows are from keys_begin(a, first row) to keys_end(a, last
 * row) - 1, of which not every row sees all. */
static __device__ __forceinline__ int keys_begin(const struct attn_args &a, int i)
{
	const int64_t first = (int64_t)i + a.spec.window_shift - a.spec.window_left;

	return a.spec.window_left == ATTN_NO_WINDOW
		       ? 0
		       : (int)min(max(first, (int64_t)0), (int64_t)a.Sk);
}

static __device__ __forceinline__ int keys_end(const struct attn_args &a, int i)
{
	const int64_t last = (int64_t)i + a.spec.window_shift + a.spec.window_right;

	return a.spec.window_right == ATTN_NO_WINDOW
		       ? a.Sk
		       : (int)min(max(last + 1, (int64_t)0), (int64_t)a.Sk);
}

/* What the weighted sum of a row is multiplied by, `sum` being that of its weights. */
static __device__ __forceinline__ float row_factor(const struct attn_args &a, float sum)
{
	if (sum == 0.0f) /* no key */
		return a.spec.empty_row == ATTN_EMPTY_ZERO ? 0.0f : NAN;
	return a.spec.out_scale / sum;
}

/* Over the 32 lanes of a warp, every one of which gets the result. Step 3 is about these. */
static __device__ __forceinline__ float warp_max(float x)
{
#pragma unroll
	for (int distance = 16; distance > 0; distance /= 2)
		x = fmaxf(x, __shfl_xor_sync(WARP_ALL, x, distance));
	return x;
}

static __device__ __forceinline__ float warp_sum(float x)
{
#pragma unroll
	for (int distance = 16; distance > 0; distance /= 2)
		x += __shfl_xor_sync(WARP_ALL, x, distance);
	return x;
}

#endif
