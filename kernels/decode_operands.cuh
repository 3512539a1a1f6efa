/* SPDX-License-Identifier: Apache-2.0
 *
 * How decode.cu has K, V and Q in registers: what a lane holds of a tile, how that is loaded for any
 * layout and type, and products with it.
 */
#ifndef FASHIM_DECODE_OPERANDS_CUH
#define FASHIM_DECODE_OPERANDS_CUH

#include "kernels/decode_variants.h"
#include "kernels/scores.cuh"

namespace decode
{

constexpr int WARPS = DECODE_THREADS / 32;
constexpr int PIECES = DECODE_PIECES; /* of 16 bytes, that a lane holds of K and of V at a time */

/* What these are: COLUMNS of KEYS, of which a line of a piece or two lies along memory, those of a
 * key (ACROSS) or those of a column (DOWN). Of 16 bits 8 x 8, of 32 bits 4 x 8, or 8 x 4 where a
 * row would take more lanes than there are. */
template <typename T, int WIDTH> struct held {
	static constexpr int PIECE = 16 / sizeof(T);
	static constexpr int COLUMNS = WIDTH / 32 > PIECE ? WIDTH / 32 : PIECE;
	static constexpr int KEYS = PIECES * PIECE / COLUMNS;
	static constexpr int ACROSS_LINE = COLUMNS / PIECE, DOWN_LINE = KEYS / PIECE;
};

/* What scores are summed in over lanes, weights and weighted V over tiles of keys. */
template <typename T> struct summed {
	typedef float type;
};
template <> struct summed<float> {
	typedef double type;
};

enum arrangement { ELEMENTS, ACROSS, DOWN }; /* line r holds row r, the same, or column r */

template <typename T>
static __device__ __forceinline__ arrangement arrangement_of(const attn_tensor &t, const T *at,
							     int columns)
{
	constexpr int PIECE = 16 / sizeof(T);

	if ((uint64_t)at % 16)
		return ELEMENTS;
	if (t.stride[3] == 1 && t.stride[2] % PIECE == 0 && columns % PIECE == 0)
		return ACROSS;
	return t.stride[2] == 1 && t.stride[3] % PIECE == 0 ? DOWN : ELEMENTS;
}

/* As matrix_at, of Q, K or V, whose size is known. */
template <typename T>
static __device__ __forceinline__ const T *head_of(const attn_tensor &t, int b, int h, int H)
{
	const T *const at = t.by_array ? ((T *const *)t.base)[(int64_t)b * H + h]
				       : (T *)t.base + b * t.stride[0] + h * t.stride[1];

	return (const T *)in_global((char *)at);
}

/* The first `count` lines, of LINE pieces, `next` elements apart; a line has `length` elements. */
template <int LINE, typename T>
static __device__ __forceinline__ void load_lines(uint4 (&piece)[PIECES], const T *at, int64_t next,
						  int count, int length)
{
#pragma unroll
	for (int n = 0; n < PIECES; n++) {
		const int first = n % LINE * (16 / (int)sizeof(T));

		piece[n] = make_uint4(0, 0, 0, 0);
		if (n / LINE < count && (first == 0 || first < length))
			piece[n] = *(const uint4 *)(at + first);
		if (n % LINE == LINE - 1)
			at += next;
	}
}

/* What a lane holds from row j and column c on, multiples of KEYS and COLUMNS; 0 beyond `rows` and
 * `columns`. In pieces: those ACROSS, or DOWN where all KEYS rows are there. */
template <int WIDTH, typename T>
static __device__ __forceinline__ void load_pieces(uint4 (&piece)[PIECES], const T *at,
						   const attn_tensor &t, arrangement how, int j,
						   int rows, int c, int columns)
{
	typedef held<T, WIDTH> H;

	at += j * t.stride[2] + c * t.stride[3];
	if (H::ACROSS_LINE == H::DOWN_LINE) {
		const int64_t next = how == DOWN ? t.stride[3] : t.stride[2];
		const int count = how == DOWN			? columns - c
				  : how == ACROSS && c >= columns ? 0
								  : rows - j;

		load_lines<1>(piece, at, next, count, H::PIECE);
	} else if (how == DOWN) {
		load_lines<H::DOWN_LINE>(piece, at, t.stride[3], columns - c, H::KEYS);
	} else {
		load_lines<H::ACROSS_LINE>(piece, at, t.stride[2], c < columns ? rows - j : 0,
					   columns - c);
	}
}

/* Starts copying 16 bytes to shared memory, or clears them, as copy_async does. The second-level
 * cache is to read whole lines, as lanes ask for parts of several each time. */
static __device__ __forceinline__ void ask_piece(void *to, const void *from, bool there)
{
#ifdef __CUDACC__
	asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(
			     (uint32_t)__cvta_generic_to_shared(to)),
		     "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
		     : "memory");
#else
	copy_async<16>(to, from, there);
#endif
}

/* As load_lines, but starts to copy them to a lane's places in a slot: those of a piece are 32
 * pieces behind those of the one before. */
template <int LINE, typename T>
static __device__ __forceinline__ void ask_lines(unsigned char *to, const T *at, int64_t next,
						 int count, int length)
{
#pragma unroll
	for (int n = 0; n < PIECES; n++) {
		const int first = n % LINE * (16 / (int)sizeof(T));

		ask_piece(to + n * (32 * 16), at + first,
			  n / LINE < count && (first == 0 || first < length));
		if (n % LINE == LINE - 1)
			at += next;
	}
}

/* As load_pieces. ALL_ACROSS: `how` is ACROSS. */
template <int WIDTH, bool ALL_ACROSS, typename T>
static __device__ __forceinline__ void ask_pieces(unsigned char *to, const T *at,
						  const attn_tensor &t, arrangement how, int j,
						  int rows, int c, int columns)
{
	typedef held<T, WIDTH> H;

	at += j * t.stride[2] + c * (ALL_ACROSS ? 1 : t.stride[3]);
	if (ALL_ACROSS) {
		ask_lines<H::ACROSS_LINE>(to, at, t.stride[2], c < columns ? rows - j : 0,
					  columns - c);
	} else if (H::ACROSS_LINE == H::DOWN_LINE) {
		const int64_t next = how == DOWN ? t.stride[3] : t.stride[2];
		const int count = how == DOWN			? columns - c
				  : how == ACROSS && c >= columns ? 0
								  : rows - j;

		ask_lines<1>(to, at, next, count, H::PIECE);
	} else if (how == DOWN) {
		ask_lines<H::DOWN_LINE>(to, at, t.stride[3], columns - c, H::KEYS);
	} else {
		ask_lines<H::ACROSS_LINE>(to, at, t.stride[2], c < columns ? rows - j : 0,
					  columns - c);
	}
}

/* What came to a lane's places, from the first of these on. */
static __device__ __forceinline__ void take_pieces(uint4 (&piece)[PIECES],
						   const unsigned char *from)
{
#pragma unroll
	for (int n = 0; n < PIECES; n++)
		piece[n] = *(const uint4 *)(from + n * (32 * 16));
}

/* As load_lines, with `inner` from one element of a line to the next. */
template <int LINE, typename T>
static __device__ __forceinline__ void load_elements(uint4 (&piece)[PIECES], const T *at,
						     int64_t next, int64_t inner, int count,
						     int length)
{
	constexpr int PIECE = 16 / sizeof(T);

#pragma unroll
	for (int n = 0; n < PIECES; n++) {
		union {
			uint4 all;
			T one[PIECE];
		} u;
		u.all = make_uint4(0, 0, 0, 0);
		const int first = n % LINE * PIECE;
		const T *from = at + first * inner;
		const int left = n / LINE < count ? length - first : 0;
#pragma unroll
		for (int k = 0; k < PIECE; k++, from += inner)
			if (k < left)
				u.one[k] = *from;
		piece[n] = u.all;
		if (n % LINE == LINE - 1)
			at += next;
	}
}

/* As load_pieces, for any arrangement. */
template <int WIDTH, typename T>
static __device__ __forceinline__ void load_any(uint4 (&piece)[PIECES], const T *at,
						const attn_tensor &t, arrangement how, int j,
						int rows, int c, int columns)
{
	typedef held<T, WIDTH> H;

	if (how == ACROSS || (how == DOWN && j + H::KEYS <= rows)) {
		load_pieces<WIDTH>(piece, at, t, how, j, rows, c, columns);
		return;
	}
	const int64_t next = how == DOWN ? t.stride[3] : t.stride[2];
	const int64_t inner = how == DOWN ? t.stride[2] : t.stride[3];
	const int count = how == DOWN ? columns - c : rows - j;
	const int length = how == DOWN ? rows - j : columns - c;

	at += j * t.stride[2] + c * t.stride[3];
	if (H::ACROSS_LINE == H::DOWN_LINE || how != DOWN)
		load_elements<H::ACROSS_LINE>(piece, at, next, inner, count, length);
	else
		load_elements<H::DOWN_LINE>(piece, at, next, inner, count, length);
}

template <typename T>
static __device__ __forceinline__ void widen(float *x, const uint4 &piece)
{
	union {
		uint4 all;
		T one[16 / sizeof(T)];
	} u;

	u.all = piece;
#pragma unroll
	for (int k = 0; k < (int)(16 / sizeof(T)); k++)
		x[k] = to_float<T>(u.one[k]);
}

/* Columns c, c+1, ... of one row of Q, as a piece: what is done with it must not delay K and V. */
template <typename T>
static __device__ __forceinline__ uint4 load_query(const T *at, const attn_tensor &t, int i, int c,
						   int columns)
{
	constexpr int PIECE = 16 / sizeof(T);
	union {
		uint4 all;
		T one[PIECE];
	} u;

	u.all = make_uint4(0, 0, 0, 0);
	at += i * t.stride[2] + c * t.stride[3];
	if (t.stride[3] == 1 && (uint64_t)at % 16 == 0 && c + PIECE <= columns) {
		u.all = *(const uint4 *)at;
	} else {
#pragma unroll
		for (int k = 0; k < PIECE; k++)
			if (c + k < columns)
				u.one[k] = at[k * t.stride[3]];
	}
	return u.all;
}

/* sum[n] += weight[m] x[m][n], the lines being those of m (BY_LINE) or those of n. */
template <typename T, int LINE, bool BY_LINE, int COUNT, int WEIGHTS>
static __device__ __forceinline__ void
add_products(float (&sum)[COUNT], const float (&weight)[WEIGHTS], const uint4 (&piece)[PIECES])
{
	constexpr int PIECE = 16 / sizeof(T);

#pragma unroll
	for (int n = 0; n < PIECES; n++) {
		const int line = n / LINE, first = n % LINE * PIECE;
		float x[PIECE];

		widen<T>(x, piece[n]);
#pragma unroll
		for (int k = 0; k < PIECE; k++)
			if (BY_LINE)
				sum[first + k] = fmaf(weight[line], x[k], sum[first + k]);
			else
				sum[line] = fmaf(weight[first + k], x[k], sum[line]);
	}
}

} /* namespace decode */

#endif
