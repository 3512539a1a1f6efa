/* SPDX-License-Identifier: Apache-2.0
 *
 * How f32_sm90.cu reads operands and splits them: numbers of fp32, scaled by a power of 2, as sums
 * of two f16 parts in the layout of shared memory that the matrix instructions read (hopper.cuh).
 *
 * Rows that lie on 16 bytes are read straight into registers. What lies any other way, K stored
 * [D,Sk] among it, is copied number by number into rows of fp32 in shared memory first, without
 * waiting, along whichever dimension has the smaller stride; there every thread finds 8 numbers of
 * a row side by side. Columns past those of the operand, and rows past its last, are zeros.
 */
#ifndef FASHIM_F32_PARTS_CUH
#define FASHIM_F32_PARTS_CUH

#include "kernels/f32_variants.h"
#include "kernels/hopper.cuh"

namespace f32
{

/* ---- splitting ------------------------------------------------------------------------------ */

/* Powers of 2: `to` makes of `largest` a number from 2^13 on, less than 2^14; `back` undoes it.
 * What is below 2^-113, or infinite, is scaled as far as floats go. */
struct scaling {
	float to, back;

	__device__ __forceinline__ explicit scaling(float largest)
	{
		const uint32_t exponent = max(__float_as_uint(largest) >> 23 & 255, 14u);
		to = __uint_as_float((127 + 13 + 127 - exponent) << 23);
		back = __uint_as_float((exponent - 13) << 23);
	}
};

/* Two numbers as two parts each. */
static __device__ __forceinline__ void split(float x, float y, uint32_t &high, uint32_t &low)
{
	const __half2 h = __floats2half2_rn(x, y);
	const float2 f = __half22float2(h);

	high = *reinterpret_cast<const uint32_t *>(&h);
	low = pack2<__half>(x - f.x, y - f.y);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Starts copying a number to shared memory, or clears it. */
static __device__ __forceinline__ void copy_number(float *to, const float *from, bool there)
{
#ifdef __CUDACC__
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
			     (uint32_t)__cvta_generic_to_shared(to)),
		     "l"(__cvta_generic_to_global(from)), "r"(there ? 4 : 0)
		     : "memory");
#else
	sim_copy_async(to, from, there ? 4 : 0, there ? 0 : 4);
#endif
}

/* Starts copying LINES lines of WIDTH numbers, from `first` on of the operand's `lines`, to lines
 * of LINE numbers; by the 128 threads of a warpgroup. */
template <int WIDTH, int LINES, int LINE>
static __device__ __forceinline__ void
stage(float *to, const float *at, const struct attn_tensor &t, int first, int lines, int columns)
{
	const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
	const int64_t down = t.stride[2], across = t.stride[3];

	at += first * down;
	lines -= first;
	if (across == 1 && down % 4 == 0 && (uint64_t)at % 16 == 0) {
		constexpr int PIECES = WIDTH <= 64 ? WIDTH / 4 : WIDTH <= 128 ? 32 : 64;
		constexpr int STEP = 128 / PIECES;
		const int c = thread % PIECES * 4, bytes = 4 * max(0, min(4, columns - c));
		const float *from = at + thread / PIECES * down + c;
		to += thread / PIECES * LINE + c;
		if (c < WIDTH)
#pragma unroll 4
			for (int line = thread / PIECES; line < LINES; line += STEP) {
				copy16(to, from, line < lines ? bytes : 0);
				from += STEP * down;
				to += STEP * LINE;
			}
	} else if (llabs(across) <= llabs(down)) {
		/* a warp takes a line */
		const float *from = at + warp * down + lane * across;
		to += warp * LINE + lane;
#pragma unroll 2
		for (int line = warp; line < LINES; line += 4) {
			const float *next = from;
#pragma unroll
			for (int c = 0; c < WIDTH; c += 32, next += 32 * across)
				copy_number(to + c, next, line < lines && c + lane < columns);
			from += 4 * down;
			to += 4 * LINE;
		}
	} else {
		/* a warp takes 8 lines of 4 columns: whole sectors, and no bank twice */
		const int own = lane % 8, c0 = warp * 4 + lane / 8;
		const float *from = at + own * down + c0 * across;
		to += own * LINE + c0;
#pragma unroll 1
		for (int c = c0; c < WIDTH; c += 16) {
			const float *next = from;
#pragma unroll
			for (int line = 0; line < LINES; line += 8, next += 8 * down)
				copy_number(to + line * LINE, next,
					    line + own < lines && c < columns);
			from += 16 * across;
			to += 16;
		}
	}
}

/* A thread's share of LINES lines of WIDTH numbers, among the 128 of a warpgroup: 8 numbers of
 * every STEP-th line. Where WIDTH is no power of 2, some have none. */
template <int WIDTH, int LINES> struct share {
	static constexpr int PIECES = WIDTH <= 32 ? 4 : WIDTH <= 64 ? 8 : WIDTH <= 128 ? 16 : 32;
	static constexpr int STEP = 128 / PIECES, COUNT = LINES / STEP;
	static_assert(LINES % STEP == 0, "whole lines per step");
	float x[COUNT][8];

	static __device__ __forceinline__ int line(void)
	{
		return threadIdx.x % 128 / PIECES;
	}
	static __device__ __forceinline__ int piece(void)
	{
		return threadIdx.x % PIECES;
	}
	__device__ __forceinline__ void take(int n, const float4 &low, const float4 &high)
	{
		const float eight[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
		for (int e = 0; e < 8; e++)
			x[n][e] = eight[e];
	}
	/* Reads from line `first` on of those at `at`, of which there are `lines`, on 16 bytes each
	 * and as many columns of each, a multiple of 4. */
	__device__ __forceinline__ void load(const float *at, int64_t stride, int first, int lines,
					     int columns)
	{
		const float *from = at + (first + line()) * stride + 8 * piece();
		const int left = columns - 8 * piece();
#pragma unroll
		for (int n = 0; n < COUNT; n++, from += STEP * stride) {
			float4 low = make_float4(0.0f, 0.0f, 0.0f, 0.0f), high = low;
			const bool there = first + line() + n * STEP < lines;
			if (there && left > 0)
				low = *(const float4 *)from;
			if (there && left > 4)
				high = *(const float4 *)(from + 4);
			take(n, low, high);
		}
	}
	/* Reads what stage() has copied to lines of LINE numbers. */
	template <int LINE> __device__ __forceinline__ void load_staged(const float *at)
	{
		const bool idle = PIECES * 8 > WIDTH && piece() * 8 >= WIDTH;
#pragma unroll
		for (int n = 0; n < COUNT; n++) {
			const float *const from = at + (line() + n * STEP) * LINE + 8 * piece();
			float4 low = make_float4(0.0f, 0.0f, 0.0f, 0.0f), high = low;
			if (!idle) {
				low = *(const float4 *)from;
				high = *(const float4 *)(from + 4);
			}
			take(n, low, high);
		}
	}
	/* The largest of the thread's numbers in its n-th line, and in all. */
	__device__ __forceinline__ float largest(int n) const
	{
		float most = fabsf(x[n][0]);
#pragma unroll
		for (int e = 1; e < 8; e++)
			most = fmaxf(most, fabsf(x[n][e]));
		return most;
	}
	/* Of a warp's lines the largest number, and one less than what is the largest in the line
	 * where that is smallest, lines of zeros aside: the leading 16 bits of each, without sign.
	 */
	__device__ __forceinline__ void extremes(uint32_t &most, uint32_t &least) const
	{
		static_assert(COUNT % 2 == 0, "pairs of lines");
		most = 0;
		least = ~0u;
#pragma unroll
		for (int n = 0; n < COUNT; n += 2) {
			uint32_t two = __byte_perm(__float_as_uint(largest(n)),
						   __float_as_uint(largest(n + 1)), 0x7632);
#pragma unroll
			for (int lanes = 1; lanes < PIECES; lanes *= 2)
				two = larger<__nv_bfloat16>(two,
							    __shfl_xor_sync(WARP_ALL, two, lanes));
			most = max(most, max(two & 0xffff, two >> 16));
			least = min(least, min((two & 0xffff) - 1, (two >> 16) - 1));
		}
		most = __reduce_max_sync(WARP_ALL, most);
		least = __reduce_min_sync(WARP_ALL, least);
	}
	/* Writes the n-th line, scaled and split, into slabs of `lines` lines at `to`; the second
	 * parts `apart` bytes further on. */
	__device__ __forceinline__ void put(int n, float scale, unsigned char *to, int lines,
					    int apart) const
	{
		unsigned char *const at = to + slab_at(line() + n * STEP, piece(), lines);
		uint32_t high[4], low[4];

		if (PIECES * 8 > WIDTH && piece() * 8 >= WIDTH)
			return;
#pragma unroll
		for (int e = 0; e < 4; e++)
			split(x[n][2 * e] * scale, x[n][2 * e + 1] * scale, high[e], low[e]);
		*(uint4 *)at = make_uint4(high[0], high[1], high[2], high[3]);
		*(uint4 *)(at + apart) = make_uint4(low[0], low[1], low[2], low[3]);
	}
	/* All lines, each by its own scale, which goes to back[line], negative where the line has
	 * an infinity. Returns whether any of the thread's has. */
	__device__ __forceinline__ bool put_by_line(unsigned char *to, int lines, int apart,
						    float *back) const
	{
		bool odd = false;

#pragma unroll
		for (int n = 0; n < COUNT; n++) {
			float most = largest(n);
#pragma unroll
			for (int lanes = 1; lanes < PIECES; lanes *= 2)
				most = fmaxf(most, __shfl_xor_sync(WARP_ALL, most, lanes));
			const struct scaling s(most);
			const bool infinite = most == INFINITY;
			put(n, s.to, to, lines, apart);
			if (piece() == 0)
				back[line() + n * STEP] = infinite ? -s.back : s.back;
			odd = odd || infinite;
		}
		return odd;
	}
};

} // namespace f32

#endif
