/* SPDX-License-Identifier: Apache-2.0
 *
 * How few.cu brings K and V into the registers of mma.sync's right operands, without any lane
 * touching what another one read.
 *
 * A lane's share of a tile (KEYS keys of K or V) is eight pieces of 16 bytes, or sixteen of 8, in
 * WORDS registers. Pieces lie across (columns of a key) or down (neighbouring keys of a
 * column), where the operand is transposed. The order of keys, and of the terms of a sum, is free,
 * and chosen so that every register comes out of a piece (lane = 4g + t; PER = KEYS/4 keys belong
 * to a t):
 *
 *   scores   column c of the w-th 8 keys is key PER (c/2) + 2w + c%2: a lane's scores are those of
 *            the neighbours PER t .. PER t + PER-1
 *   q.k      of each 32 columns, a lane's are 8t .. 8t+7: terms 2t,2t+1 of the m-th product are
 *            columns 8t+4m+{0,1}, and terms 2t+8,2t+9 are 8t+4m+{2,3}
 *   p.v      column g of the i-th product of each 64 columns is column 8g+i
 *
 * Pieces of K that lie down make matrices of 8x8 that are turned by movmatrix; pieces of V that lie
 * across are turned by interleaving the words of two keys; the others fit as they are.
 *
 * Pieces wait in a queue in shared memory, of which each lane has its own places: no barrier.
 */
#ifndef FASHIM_FEW_OPERANDS_CUH
#define FASHIM_FEW_OPERANDS_CUH

#include "kernels/device.cuh"
#include "kernels/few_variants.h"

namespace few
{

constexpr int WORDS = 32; /* registers of a tile of K or V */

/* How a width is worked on: KEYS keys at a time. */
template <int WIDTH> struct geometry {
	static constexpr int KEYS = FEW_TILE(WIDTH), PER = KEYS / 4, TILES = KEYS / 8;
	static constexpr int HALVES = WIDTH / 64;
	static_assert(WIDTH / 32 * 4 * TILES == WORDS, "a slot of the queue holds a tile");
};

enum arrangement { ELEMENTS, ACROSS, DOWN };

static __device__ __forceinline__ arrangement arrangement_of(const attn_tensor &t, const void *at,
							     int columns)
{
	if ((uint64_t)at % 16)
		return ELEMENTS;
	if (t.stride[3] == 1 && t.stride[2] % 8 == 0 && columns % 8 == 0)
		return ACROSS;
	return t.stride[2] == 1 && t.stride[3] % 8 == 0 ? DOWN : ELEMENTS;
}

/* The first key and column of a lane's share, and visit(n, j, c, word, step) for each of its
 * pieces: the n-th starts j keys and c columns further on; its words are word, word+step, ... */
template <int WIDTH> struct pieces_of_k {
	typedef geometry<WIDTH> G;

	static __device__ __forceinline__ int key(bool down)
	{
		const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
		return down ? G::PER * t : g / 2 * G::PER + g % 2;
	}
	static __device__ __forceinline__ int column(bool down)
	{
		const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
		return down ? g / 2 * 8 + g % 2 : 8 * t;
	}
	template <typename F> static __device__ __forceinline__ void across(F visit)
	{
#pragma unroll
		for (int w = 0; w < G::TILES; w++)
#pragma unroll
			for (int c = 0; c < WIDTH / 32; c++)
				visit(w * (WIDTH / 32) + c, 2 * w, 32 * c, 4 * c * G::TILES + w,
				      G::TILES);
	}
	template <typename F> static __device__ __forceinline__ void down(F visit)
	{
#pragma unroll
		for (int c = 0; c < WIDTH / 32; c++)
#pragma unroll
			for (int x = 0; x < 4; x++)
				visit(4 * c + x, 0, 32 * c + 2 * x, (4 * c + x) * G::TILES, 1);
	}
};

template <int WIDTH> struct pieces_of_v {
	typedef geometry<WIDTH> G;

	static __device__ __forceinline__ int key(bool)
	{
		return G::PER * (threadIdx.x % 4);
	}
	static __device__ __forceinline__ int column(bool)
	{
		return threadIdx.x % 32 / 4 * 8;
	}
	template <typename F> static __device__ __forceinline__ void across(F visit)
	{
#pragma unroll
		for (int h = 0; h < G::HALVES; h++)
#pragma unroll
			for (int n = 0; n < G::PER; n++)
				visit(h * G::PER + n, n, 64 * h, (h * G::PER + n) * 4, 1);
	}
	template <typename F> static __device__ __forceinline__ void down(F visit)
	{
#pragma unroll
		for (int h = 0; h < G::HALVES; h++)
#pragma unroll
			for (int i = 0; i < 8; i++)
				visit(h * 8 + i, 0, 64 * h + i, (h * 8 + i) * (G::PER / 2), 1);
	}
};

/* One operand as a warp sees it. */
template <typename T> struct source {
	const T *at;
	int64_t row, column; /* strides */
	int keys, columns;
	bool down;
};

/* Starts copying a lane's share of the tile at key j to its places from `slot` on: those of piece n
 * are 32 pieces behind those of piece n-1. Whole pieces; zeros beyond the end. */
template <template <int> class PIECES, int WIDTH, typename T>
static __device__ __forceinline__ void ask(unsigned char *slot, const source<T> &s, int j)
{
	typedef geometry<WIDTH> G;
	const int c = PIECES<WIDTH>::column(s.down);

	j += PIECES<WIDTH>::key(s.down);
	const T *const at = s.at + j * s.row + c * s.column;
	if (s.down)
		PIECES<WIDTH>::down([&](int n, int, int dc, int, int) {
			copy_async<2 * G::PER>(slot + n * (32 * 2 * G::PER) +
						       threadIdx.x % 32 * (2 * G::PER),
					       at + dc * s.column, c + dc < s.columns);
		});
	else
		PIECES<WIDTH>::across([&](int n, int dj, int dc, int, int) {
			copy_async<16>(slot + n * 512 + threadIdx.x % 32 * 16, at + dj * s.row + dc,
				       j + dj < s.keys && c + dc < s.columns);
		});
}

/* What came. */
template <template <int> class PIECES, int WIDTH>
static __device__ __forceinline__ void take(uint32_t (&word)[WORDS], const unsigned char *slot,
					    bool down)
{
	constexpr int PER = geometry<WIDTH>::PER;

	if (down)
		PIECES<WIDTH>::down([&](int n, int, int, int first, int step) {
			const uint32_t *const from =
				(const uint32_t *)slot + (n * 32 + threadIdx.x % 32) * (PER / 2);
			uint32_t x[4];
			if (PER == 8)
				*(uint4 *)x = *(const uint4 *)from;
			else
				*(uint2 *)x = *(const uint2 *)from;
#pragma unroll
			for (int w = 0; w < PER / 2; w++)
				word[first + w * step] = x[w];
		});
	else
		PIECES<WIDTH>::across([&](int n, int, int, int first, int step) {
			const uint4 x = *(const uint4 *)(slot + n * 512 + threadIdx.x % 32 * 16);
			word[first] = x.x;
			word[first + step] = x.y;
			word[first + 2 * step] = x.z;
			word[first + 3 * step] = x.w;
		});
}

/* The same for any arrangement, element by element, at once. */
template <template <int> class PIECES, int WIDTH, typename T>
static __device__ __forceinline__ void read(uint32_t (&word)[WORDS], const source<T> &s, int j)
{
	constexpr int PER = geometry<WIDTH>::PER;
	const int c = PIECES<WIDTH>::column(s.down);

	j += PIECES<WIDTH>::key(s.down);
	auto element = [&](int dj, int dc) -> uint32_t {
		return j + dj < s.keys && c + dc < s.columns
			       ? *(const uint16_t *)(s.at + (j + dj) * s.row + (c + dc) * s.column)
			       : 0;
	};
	if (s.down)
		PIECES<WIDTH>::down([&](int, int, int dc, int first, int step) {
#pragma unroll
			for (int w = 0; w < PER / 2; w++)
				word[first + w * step] = element(2 * w, dc) | element(2 * w + 1, dc)
										      << 16;
		});
	else
		PIECES<WIDTH>::across([&](int, int dj, int dc, int first, int step) {
#pragma unroll
			for (int w = 0; w < 4; w++)
				word[first + w * step] =
					element(dj, dc + 2 * w) | element(dj, dc + 2 * w + 1) << 16;
		});
}

/* The matrix of 8x8 of which each lane holds columns 2t,2t+1 of row g, transposed. */
static __device__ __forceinline__ uint32_t turned(uint32_t word)
{
#ifdef __CUDACC__
	asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(word));
	return word;
#else
	const int lane = threadIdx.x % 32, from = lane % 4 * 8 + lane / 8, half = lane / 4 % 2 * 16;
	const uint32_t low = __shfl_sync(WARP_ALL, word, from);
	const uint32_t high = __shfl_sync(WARP_ALL, word, from + 4);

	return (low >> half & 0xffff) | (high >> half & 0xffff) << 16;
#endif
}

/* V's words as if they lay down. */
template <int WIDTH> static __device__ __forceinline__ void turn_v(uint32_t (&v)[WORDS])
{
	typedef geometry<WIDTH> G;
	uint32_t word[WORDS];

#pragma unroll
	for (int n = 0; n < WORDS; n++)
		word[n] = v[n];
#pragma unroll
	for (int h = 0; h < G::HALVES; h++)
#pragma unroll
		for (int x = 0; x < 4; x++)
#pragma unroll
			for (int n = 0; n < G::PER / 2; n++) {
				const uint32_t even = word[(h * G::PER + 2 * n) * 4 + x];
				const uint32_t odd = word[(h * G::PER + 2 * n + 1) * 4 + x];
				uint32_t *const to = &v[(h * 8 + 2 * x) * (G::PER / 2) + n];

				to[0] = (even & 0xffff) | odd << 16;
				to[G::PER / 2] = even >> 16 | (odd & 0xffff0000);
			}
}

/* Columns c..c+7 of row i of Q. */
template <typename T>
static __device__ __forceinline__ uint4 load_query(const T *at, const attn_tensor &t, int i, int c,
						   int columns)
{
	union {
		uint4 all;
		T one[8];
	} u;

	u.all = make_uint4(0, 0, 0, 0);
	at += i * t.stride[2] + c * t.stride[3];
	if (t.stride[3] == 1 && (uint64_t)at % 16 == 0 && c + 8 <= columns) {
		u.all = *(const uint4 *)at;
	} else {
#pragma unroll
		for (int k = 0; k < 8; k++)
			if (c + k < columns)
				u.one[k] = at[k * t.stride[3]];
	}
	return u.all;
}

} /* namespace few */

#endif
