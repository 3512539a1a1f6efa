/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of keys for mma.cu's steady state: whole ones, of rows that start on 16 bytes. load_tile()
 * takes three times the instructions, since it asks for each row whether it is there.
 */
#ifndef FASHIM_MMA_COPIES_CUH
#define FASHIM_MMA_COPIES_CUH

#include "kernels/tile.cuh"

/* Starts copying 16 bytes, or clears them; both addresses on 16 bytes. */
static __device__ __forceinline__ void copy_or_clear(void *to, const void *from, bool there)
{
#ifdef __CUDACC__
	const uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
	asm volatile("{\n"
		     ".reg .pred p;\n"
		     "setp.eq.u32 p, %2, 0;\n"
		     "cp.async.cg.shared.global [%0], [%1], 16, p;\n"
		     "}" ::"r"(at),
		     "l"(__cvta_generic_to_global(from)), "r"((uint32_t)there)
		     : "memory");
#else
	copy_async<16>(to, from, there);
#endif
}

/* Rows `first` to `first` + ROWS - 1, all of which are there, of the operand at `at`, as
 * load_tile() has them: columns up to `columns`, a multiple of a piece, and zeros behind. The rows
 * start on 16 bytes; `stride` and the number of rows are such that can_copy_whole(). */
template <typename T, int ROWS, int WIDTH, int THREADS>
static __device__ __forceinline__ void copy_whole_tile(T *tile, const void *at, int64_t stride,
						       int first, int columns)
{
	constexpr int LINE = WIDTH + PIECE<T>, PIECES = WIDTH / PIECE<T>, STEP = THREADS / PIECES;
	constexpr bool EVEN = THREADS % PIECES == 0 && ROWS % STEP == 0;
	const int r0 = threadIdx.x / PIECES, c = threadIdx.x % PIECES * PIECE<T>;
	const bool there = c < columns;
	/* one multiplication of 32 bits by 32 */
	const T *from =
		(const T *)((const char *)((const T *)at + c) +
			    (uint64_t)(uint32_t)(first + r0) * (uint32_t)(stride * (int)sizeof(T)));

	tile += r0 * LINE + c;
#pragma unroll
	for (int r = 0; r < ROWS; r += STEP) {
		if (EVEN || (r0 < STEP && r0 < ROWS - r))
			copy_or_clear(tile + r * LINE, from, there);
		from += STEP * stride;
	}
}

static __device__ __forceinline__ bool can_copy_whole(const struct attn_tensor &t, int columns)
{
	return t.stride[2] >= 0 && t.stride[2] < 1 << 30 && columns % 8 == 0;
}

#endif
