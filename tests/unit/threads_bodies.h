/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels whose addresses are computed in many ways. nvcc compiles them, and so does the C
 * compiler, with LOAD and STORE that note what they are given (test_threads.c).
 *
 *     BODY(name, …)      follows from the parameters: what is noted on the host is what must come
 * out LOOSE(name, …)     the same, but whether something is stored depends on what lies in memory:
 *                        nothing is sure
 *     SPLIT(name, …)     as LOOSE, or no answer
 *     OPAQUE(name, …)    loops are made of what lies in memory, or addresses of that alone, or more
 *                        is done with a pointer than adding to it: no answer
 *
 * LOAD_ANY and STORE_ANY stand for LOAD and STORE where the index lies in memory: it is noted that
 * the pointer is strayed from, and where that begins if all that is loaded is 0. IS_ALIGNED asks
 * how a pointer lies. CHECK is an assertion, and PRINT calls something that comes back.
 *
 * o, x and y are pointers to T, n and m of 32 bits, wide of 64. TX, BX, DX, GX (and Y, Z): thread,
 * block, and how many there are. */

BODY(linear, float, {
	const int i = BX * DX + TX;

	if (i < n)
		STORE(o, i, LOAD(x, i) * 2);
})

BODY(last_first, float, {
	const int i = n - 1 - (int)(BX * DX + TX);

	if (i >= 0)
		STORE(o, i, LOAD(x, i));
})

/* [B, S, H, D] to [B, H, S, D], by divisions. */
BODY(transpose, float, {
	const int i = BX * DX + TX;
	const int d = i % 24, s = i / 24 % 10, h = i / 240 % 6, b = i / 1440;

	if (i < n)
		STORE(o, i, LOAD(x, ((b * 10 + s) * 6 + h) * 24 + d));
})

BODY(transpose_unsigned, half_bits, {
	const unsigned i = BX * DX + TX;
	const unsigned d = i % 7, s = i / 7 % 11, b = i / 77;

	if (i < (unsigned)n)
		STORE(o, i, LOAD(x, b * 77 + d * 11 + s));
})

/* Rows of 384 columns, 4608 of them with a row of y in common; blocks that do not begin with one.
 */
BODY(rows_in_common, half_bits, {
	const int row = (int)(BX * 8 + TX / 32);
	const int column = TX % 32 * 2;

	if (row < n)
		STORE(o, row * 384 + column,
		      LOAD(x, row * 384 + column) + LOAD(y, row / 4608 * 384 + column));
})

/* Numbers of y by turns, of which a block takes a sixth. */
BODY(by_turns, half_bits, {
	const int i = (int)(BX * DX + TX);

	if (i < n * 8)
		STORE(o, i, LOAD(x, i) + LOAD(y, i % 3072));
})

/* By numbers that only the launch has. */
BODY(transpose_by, float, {
	const int i = (int)(BX * DX + TX) - 9;

	if (i < n)
		STORE(o, i, LOAD(x, i % m * 300 + i / m) + LOAD(y, -i % (m + (int)TX)));
})

BODY(transpose_by_unsigned, half_bits, {
	const unsigned i = BX * DX + TX;
	const unsigned by = (unsigned)m * 3 + TY;

	if (i < (unsigned)n)
		STORE(o, i % by * 17 + i / by,
		      LOAD(x, 2879 / (i + 1) + (0x7fffffffu - i) / by % 9999));
})

BODY(transpose_by_long, float, {
	const long i = (long)BX * DX + TX;

	if (i < n)
		STORE(o, i / wide * 3 + i % wide, LOAD(x, 4 * (1000000 / (wide + i))));
})

BODY(transpose_long, float, {
	const long i = (long)BX * DX + TX;
	const long d = i % 48, s = i / 48;

	if (i < n)
		STORE(o, s * wide + d, LOAD(x, d * 100 + s));
})

BODY(before, float, {
	const int i = (int)(BX * DX + TX) - 77;

	if (i < n)
		STORE(o, i, LOAD(x, -3 * i));
})

BODY(three_dimensions, float, {
	const int i = ((BZ * GY + BY) * GX + BX) * (DX * DY * DZ) + (TZ * DY + TY) * DX + TX;

	STORE(o, i, LOAD(x, (int)(TX + BX * DX) * m + (int)(TY + BY * DY)) + LOAD(y, TZ + BZ));
})

BODY(strided, float, {
	for (int i = BX * DX + TX; i < n; i += GX * DX)
		STORE(o, i, LOAD(x, i) + LOAD(y, i % 5));
})

BODY(strided_long, float, {
	for (long i = (long)BX * DX + TX; i < wide; i += (long)GX * DX)
		STORE(o, i, LOAD(x, i >> 1));
})

/* Rows that see what is not behind them. */
BODY(causal, float, {
	const int row = BX * DX + TX;
	float sum = 0;

	if (row >= n)
		return;
	for (int k = 0; k <= row; k++)
		sum += LOAD(x, row * m + k);
	for (int k = 0; k < m; k++)
		STORE(o, row * m + k, k <= row ? sum : 0);
})

BODY(either, float, {
	const int i = BX * DX + TX;

	if (TX % 3 == 1) {
		STORE(o, i, LOAD(x, i * 2));
	} else if (TX & 8) {
		STORE(o, i, LOAD(y, i + 1000));
	} else {
		for (int k = 0; k < (int)TX % 5; k++)
			STORE(o, i + k, LOAD(y, k));
	}
})

BODY(reflected, float, {
	const int i = BX * DX + TX;
	int k = i - 20;

	k = k < 0 ? -k : k;
	k = k < n ? k : 2 * n - 2 - k;
	if (k > 0 && k < n)
		STORE(o, i, LOAD(x, k));
})

BODY(clamped, float, {
	const int i = BX * DX + TX;
	const int low = i - 40 > 0 ? i - 40 : 0, high = low + 90 < n ? low + 90 : n - 1;

	STORE(o, i, LOAD(x, low) + LOAD(x, high));
})

BODY(bits, float, {
	const unsigned i = BX * DX + TX;
	const unsigned gray = (i ^ i >> 1) & 0x3ff, spun = (i << 27 | i >> 5) & 0xf800000f;

	STORE(o, gray, LOAD(x, (spun >> 23 | (i & ~0x55u)) & 0xfff));
})

BODY(bytes, unsigned char, {
	const unsigned i = BX * DX + TX;
	const unsigned turned = (i & 0xff) << 8 | (i >> 8 & 0xff);

	STORE(o, i, LOAD(x, turned));
})

BODY(halves, half_bits, {
	const int i = BX * DX + TX, row = i / 30, column = i - row * 30;

	if (row < n)
		STORE(o, row * m + column, LOAD(x, column * n + row));
})

/* One way where rows lie as vectors need it, another where not: these lie on 2 bytes and no more.
 */
BODY(asks_alignment, half_bits, {
	const int i = BX * DX + TX;

	if (IS_ALIGNED(o, 2) && i < n)
		STORE(o, i, LOAD(x, i));
	else if (i < n)
		STORE(o, 2 * n + i, LOAD(x, i));
	if (IS_ALIGNED(y, 16) && i < n)
		STORE(o, 4 * n + i, LOAD(y, i));
	else if (i < n)
		STORE(o, n + i, LOAD(x, i + 9));
})

/* As PyTorch's fuser writes it: loops one way or another, by all operands together. */
BODY(asks_alignment_of_all, half_bits, {
	bool fours = m % 4 == 0;

	if (!IS_ALIGNED(o, 8))
		fours = false;
	if (!IS_ALIGNED(x, 8))
		fours = false;
	if (!IS_ALIGNED(y, 8))
		fours = false;
	if (fours)
		for (int i = 4 * (int)(BX * DX + TX); i < n; i += 4 * (int)(GX * DX))
			STORE(o, i, LOAD(x, i));
	else
		for (int i = (int)(BX * DX + TX); i < n; i += (int)(GX * DX))
			STORE(o, i, LOAD(x, i) + LOAD(y, i));
})

BODY(asks_little_of_all, half_bits, {
	bool even = m > 0;

	if (!IS_ALIGNED(o, 2))
		even = false;
	if (!IS_ALIGNED(x, 2))
		even = false;
	if (!IS_ALIGNED(y, 2))
		even = false;
	if (even)
		for (int i = 4 * (int)(BX * DX + TX); i < n; i += 4 * (int)(GX * DX))
			STORE(o, i, LOAD(x, i));
	else
		for (int i = (int)(BX * DX + TX); i < n; i += (int)(GX * DX))
			STORE(o, i, LOAD(x, i) + LOAD(y, i));
})

/* Further than is told. */
LOOSE(asks_alignment_to_pages, float, {
	const int i = BX * DX + TX;

	if (i < n && IS_ALIGNED(o, 4096))
		STORE(o, i, LOAD(x, i));
	else if (i < n)
		STORE(o, i + 9, LOAD(x, i));
})

BODY(eights, vector8, {
	const int i = BX * DX + TX;

	if (i * 2 < n)
		STORE(o, i, LOAD(x, i));
})

BODY(sixteens, vector16, {
	const int i = BX * DX + TX;

	if (i * 4 < n)
		STORE(o, i, LOAD(x, (int)(i ^ 3)));
})

/* A division that is not by the machine's own instruction calls a function. */
BODY(divided, float, {
	const int i = BX * DX + TX;
	const float by = LOAD(y, i % 7);

	if (i < n)
		STORE(o, i, LOAD(x, i) / by);
})

/* More is known of a sum than what comes out. */
BODY(reduced, float, {
	const int row = BX;
	float sum = 0;

	for (int k = TX; k < m; k += DX)
		sum += LOAD(x, row * m + k);
	sum = OVER_WARP(sum);
	if (TX == 0)
		STORE(o, row, sum);
})

BODY(exchanged, float, {
	const int i = BX * DX + TX;
	SHARED_WORDS(kept, 512);

	kept[TX] = i < n ? (int)LOAD(x, i) : 0;
	SYNC();
	if (i < n)
		STORE(o, i, kept[TX ^ 1] + LOAD(y, i / 2));
})

BODY(in_place, float, {
	const int i = BX * DX + TX;

	if (i < n)
		STORE(o, i, LOAD(o, i) + LOAD(x, i / 4));
})

BODY(gaps, float, {
	const int i = BX * DX + TX;

	if (i % 8 != 5)
		STORE(o, i, 1);
})

BODY(turned, float, {
	const int i = BX * DX + TX, back = (int)(GX * DX) - 1 - i;

	STORE(o, back / 4 * 4 + (3 - back % 4), LOAD(x, -back));
})

BODY(shifted, float, {
	const int i = BX * DX + TX, by = TX % 31;

	STORE(o, i,
	      LOAD(x, (int)(0x40000000u >> by >> 18)) + LOAD(y, (-1000000 >> by) + (1 << by % 12)));
})

BODY(long_terms, float, {
	const long i = (long)BX * DX + TX;
	const long at = i * wide - (i / 3) * (wide - 1) + ((long)m << 3);

	if (at * 2 < (long)n * 1000)
		STORE(o, i, LOAD(x, at));
})

/* An address of three terms, of which two are the block's. */
BODY(three_terms, float, {
	const unsigned long row = (unsigned long)BX * 0x1000;
	const unsigned long far = row & 0x7ff000, near = BX << 7 & 0xf80;

	STORE(o, (long)(far / 16 + near + TX), LOAD(x, (long)(far / 8 + near + TX * 4)));
})

LOOSE(chosen, float, {
	const int i = BX * DX + TX;

	if (i < n && LOAD(x, i) >= 0)
		STORE(o, i, 1);
})

SPLIT(chosen_else, float, {
	const int i = BX * DX + TX;
	const float v = LOAD(x, i);

	if (v >= 0) {
		STORE(o, i, LOAD(y, i) * v);
		SYNC();
	} else {
		STORE(o, i + 4096, LOAD(y, i + 100) - v);
	}
})

SPLIT(chosen_inside, float, {
	const int i = BX * DX + TX;
	float v = LOAD(x, i);

	if (v >= 0) {
		const int k = i * 3 % 1000;

		v += LOAD(y, k + 7);
		if (v >= 0)
			v += LOAD(y, k + 2000);
		SYNC();
	}
	STORE(o, i * 2, v);
})

LOOSE(left_early, float, {
	const int i = BX * DX + TX;

	if (LOAD(x, i) < 0)
		return;
	STORE(o, i, LOAD(y, i));
})

/* A row by a warp, the tail by some of it: a division's slow way is a function, which leaves the
 * predicates alone that say who. */
BODY(tail_divided, float, {
	const long at = (long)BX * 48 + TX % 32;
	const bool tail = TX % 32 < 16;
	const float a = LOAD(x, at);
	const float b = tail ? LOAD(x, at + 32) : 0;
	const float one = 1 / OVER_WARP(a + b);

	STORE(o, at, a * one);
	if (tail)
		STORE(o, at + 32, b * one);
})

BODY(tails_divided, float, {
	const long row = (long)BX * n;
	const int lane = TX % 32;
	float v[3];
	float sum = 0;

	for (int k = 0; k < 3; k++) {
		v[k] = lane + 32 * k < n ? LOAD(x, row + lane + 32 * k) : 0;
		sum += v[k];
	}
	sum = OVER_WARP(sum);
	for (int k = 0; k < 3; k++)
		if (lane + 32 * k < n)
			STORE(o, row + lane + 32 * k, v[k] / sum);
})

/* How often it goes round, compilers tell by the larger of two numbers. */
BODY(constant_bound, float, {
	const long row = (long)BX * 104;
	float sum = 0;

	for (int k = (int)TX; k < 104; k += 32)
		sum += LOAD(x, row + k);
	sum = OVER_WARP(sum);
	for (int k = (int)TX; k < 104; k += 32)
		STORE(o, row + k, LOAD(y, row + k) * sum);
})

BODY(clamped_sums, float, {
	const int i = BX * DX + TX;
	const int up = i + 32 < n ? i + 32 : n;
	const int down = i - m > 0 ? i - m : 0;
	const unsigned most = i * 7u > (unsigned)m ? i * 7u : (unsigned)m;

	STORE(o, i, LOAD(x, up) + LOAD(x, down < n ? down : n) + LOAD(y, most));
})

/* As parameters are that have one byte, or two. */
BODY(short_numbers, float, {
	const int i = BX * DX + TX;
	const signed char a = (signed char)n;
	const unsigned char b = (unsigned char)n;
	const short c = (short)m;

	if ((unsigned char)m)
		STORE(o, i + c, LOAD(x, i + a + 200));
	if ((unsigned char)(n >> 8) < 2)
		STORE(o, i + c + 4096, LOAD(y, i * 3 + b));
	if ((short)wide > i)
		STORE(o, i + (unsigned short)wide, LOAD(y, i));
})

/* The number of threads in a warp is one that compilers divide by as by any other. */
BODY(by_warps, float, {
	float sum = 0;

	for (int k = (int)TX; k < n; k += WARP)
		sum += LOAD(x, BX * 3 + k);
	STORE(o, BX * DX + TX, sum);
})

/* Pointers may be left out, and are not here. */
BODY(optional, float, {
	const int i = BX * DX + TX;
	float v = LOAD(x, i);

	if (y)
		v += LOAD(y, i * 2);
	if (i < n && (!y || m > 50))
		STORE(o, i, v);
	if (x == NULL || y == NULL)
		STORE(o, i + 100000, v);
})

LOOSE(optional_or_loaded, float, {
	const int i = BX * DX + TX;
	const float v = LOAD(x, i);

	if (v > 0 && y)
		STORE(o, i, LOAD(y, i));
})

/* A warp sums up what few warps have left; whether it has parted before nobody knows. */
BODY(summed_by_some, float, {
	const int i = BX * DX + TX;
	float v = LOAD(x, i);

	if (TX < 32) {
		float part = TX < DX / 32 ? v : 1;

		part = OVER_WARP(part);
		if (TX == 0)
			v += 1 / part;
		SYNC_WARP();
	}
	SYNC();
	STORE(o, i, v);
})

BODY(last_byte, float, {
	if ((unsigned char)wide)
		STORE(o, BX * DX + TX, LOAD(x, TX));
})

/* Each block a column: nothing that is written lies side by side before all is. */
BODY(columns, half_bits, {
	for (int k = 0; k < 24; k++)
		STORE(o, (TX + DX * k) * GX + BX, LOAD(x, TX));
})

/* Of large numbers it is taken in a loop, by a table and local memory. */
BODY(large_angles, float, {
	const int i = BX * DX + TX;

	if (i < n)
		STORE(o, i, cosf(LOAD(x, i)));
})

LOOSE(looped_if, float, {
	const int i = BX * DX + TX;

	if (LOAD(x, i) >= 0)
		for (int k = 0; k < m; k++)
			STORE(o, i + k * 7, LOAD(y, k));
})

LOOSE(left_loop, float, {
	const int i = BX * DX + TX;

	for (int k = 0; k < m; k++) {
		if (LOAD(x, i + k) < 0)
			break;
		STORE(o, i + k * 7, LOAD(y, k));
	}
})

SPLIT(stepped_over, float, {
	const int i = BX * DX + TX;

	for (int k = 0; k < m; k++) {
		if (LOAD(x, i) < 0)
			continue;
		STORE(o, i + k * 3, k);
	}
})

OPAQUE(stepped_if, float, {
	int at = BX * DX + TX;

	if (LOAD(x, at) >= 0)
		for (int k = 0; k < m; k++)
			at += m >> (at & 7);
	STORE(o, at, 1);
})

OPAQUE(looped_by, float, {
	const int i = BX * DX + TX;
	int count = m;

	if (LOAD(x, i) >= 0)
		count = n;
	for (int k = 0; k < count; k++)
		STORE(o, i + k * 7, LOAD(y, k));
})

#include "tests/unit/threads_bodies_memory.h"

#undef BODY
#undef LOOSE
#undef SPLIT
#undef OPAQUE
