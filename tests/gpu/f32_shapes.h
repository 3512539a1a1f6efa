/* SPDX-License-Identifier: Apache-2.0
 *
 * What f32_check asks the fp32 kernels: shapes, layouts, and numbers that are hard.
 */
#ifndef F32_SHAPES_H
#define F32_SHAPES_H

/* TAIL: one weight of 1, all others just below 2^-32. HIDDEN_*: keys that a bias of -inf hides
 * from every row hold in V what may not matter: 1e30, or in K and V the largest numbers. FAINT: V
 * is 1e8 where P is about 1e-8. */
enum data { NORMAL, OUTLIERS, STEEP, UNEVEN, TAIL, HIDDEN_V, HIDDEN_BOTH, FAINT };

struct shape {
	const char *name;
	int B, H, Sq, Sk, D;
	int causal; /* 1: aligned to the first key, 2: to the last */
	int left;   /* window to the left, 0: none */
	int bias;   /* [1,H,Sq,Sk], and scale 1 */
	int image;  /* so many keys share one of a row's numbers of bias; 0: none do */
	int bshd;   /* storage of Q, K, V and O */
	int pad;    /* longer rows */
	int down;   /* K is stored [D,Sk]; 2: V too */
	int data;   /* enum data */
	int timed;
};

/* clang-format off */
#define SHAPE(b, h, sq, sk, d) .B = b, .H = h, .Sq = sq, .Sk = sk, .D = d
static const struct shape shapes[] = {
	{"plain d64", SHAPE(2, 3, 256, 256, 64)},
	{"plain d128", SHAPE(2, 3, 256, 256, 128)},
	{"odd d64", SHAPE(2, 3, 197, 203, 64), .bshd = 1},
	{"odd d128", SHAPE(2, 3, 300, 333, 128), .bshd = 1},
	{"one key", SHAPE(1, 2, 70, 1, 64)},
	{"few queries", SHAPE(2, 8, 3, 700, 64)},
	{"d40", SHAPE(2, 3, 197, 203, 40)},
	{"d80", SHAPE(2, 3, 197, 203, 80)},
	{"d256", SHAPE(2, 3, 197, 203, 256)},
	{"unaligned rows", SHAPE(2, 3, 197, 203, 64), .pad = 1},
	{"K down", SHAPE(2, 3, 197, 204, 64), .down = 1},
	{"causal d64", SHAPE(2, 3, 500, 500, 64), .causal = 1},
	{"causal last d128", SHAPE(2, 3, 200, 500, 128), .causal = 2},
	{"window d64", SHAPE(2, 3, 500, 500, 64), .causal = 1, .left = 100},
	{"bias d64", SHAPE(2, 3, 256, 320, 64), .bias = 1},
	{"bias odd d128", SHAPE(2, 3, 197, 203, 128), .bias = 1},
	{"bias of an image d64", SHAPE(2, 3, 196, 196, 64), .bias = 1, .image = 14},
	{"bias of an image d80", SHAPE(2, 3, 100, 333, 80), .bias = 1, .image = 7, .pad = 1},
	{"outliers d64", SHAPE(1, 4, 512, 1024, 64), .data = OUTLIERS},
	{"outliers d128", SHAPE(1, 4, 512, 1024, 128), .data = OUTLIERS},
	{"steep d64", SHAPE(1, 4, 512, 1024, 64), .data = STEEP},
	{"steep d128", SHAPE(1, 4, 512, 1024, 128), .data = STEEP},
	{"uneven d64", SHAPE(1, 4, 512, 1024, 64), .data = UNEVEN},
	{"uneven d128", SHAPE(1, 4, 512, 1024, 128), .data = UNEVEN},
	{"tail d64", SHAPE(1, 2, 64, 16384, 64), .data = TAIL},
	{"tail d128", SHAPE(1, 2, 64, 16384, 128), .data = TAIL},
	{"V 1e30 behind a mask d64", SHAPE(1, 4, 512, 1024, 64), .data = HIDDEN_V, .bias = 1},
	{"V 1e30 behind a mask d128", SHAPE(1, 4, 512, 1024, 128), .data = HIDDEN_V, .bias = 1},
	{"K, V max behind a mask d64", SHAPE(1, 4, 512, 1024, 64), .data = HIDDEN_BOTH, .bias = 1},
	{"K, V max beyond a window", SHAPE(1, 4, 500, 1024, 64), .data = HIDDEN_BOTH, .causal = 1},
	{"K, V max beyond, d128", SHAPE(1, 4, 500, 1024, 128), .data = HIDDEN_BOTH, .causal = 1},
	{"V large where faint d64", SHAPE(1, 4, 512, 1024, 64), .data = FAINT},
	{"V large where faint d128", SHAPE(1, 4, 512, 1024, 128), .data = FAINT},
	{"d32", SHAPE(2, 3, 197, 203, 32)},
	{"d32 bias", SHAPE(4, 3, 49, 49, 32), .bias = 1},
	{"d32 unaligned", SHAPE(2, 3, 49, 49, 32), .pad = 1},
	{"d36", SHAPE(2, 3, 197, 203, 36)},
	{"d37", SHAPE(2, 3, 197, 203, 37)},
	{"d96", SHAPE(2, 3, 197, 203, 96)},
	{"d96 unaligned", SHAPE(2, 3, 197, 203, 96), .pad = 3},
	{"d128 unaligned", SHAPE(2, 3, 197, 203, 128), .pad = 1},
	{"d160", SHAPE(2, 3, 197, 203, 160)},
	{"d256 unaligned", SHAPE(2, 3, 197, 203, 256), .pad = 2},
	{"d256 K down, causal", SHAPE(2, 3, 197, 203, 256), .down = 1, .causal = 1},
	{"K down odd", SHAPE(2, 3, 197, 203, 64), .down = 1},
	{"K, V down", SHAPE(2, 3, 197, 204, 64), .down = 2},
	{"K, V down odd d128", SHAPE(2, 3, 197, 203, 128), .down = 2},
	{"K down, causal d40", SHAPE(2, 3, 300, 300, 40), .down = 1, .causal = 1},
	{"window, unaligned", SHAPE(2, 3, 500, 500, 64), .causal = 1, .left = 100, .pad = 1},
	{"bias, unaligned", SHAPE(2, 3, 197, 203, 64), .bias = 1, .pad = 1},
	{"one query", SHAPE(2, 8, 1, 700, 64)},
	{"one query, unaligned", SHAPE(2, 8, 1, 700, 128), .pad = 1},
	{"one query d256", SHAPE(2, 8, 1, 70, 256)},
	{"one query, K down", SHAPE(2, 8, 1, 1000, 64), .down = 1},
	{"one query, K, V down odd", SHAPE(2, 8, 1, 1001, 128), .down = 2},
	{"one query d40", SHAPE(2, 8, 1, 700, 40), .bshd = 1},
	{"one query d192 K down", SHAPE(2, 8, 1, 700, 192), .down = 1},
	{"one query of many keys", SHAPE(1, 8, 1, 40000, 64)},
	{"one query, many keys d128", SHAPE(1, 8, 1, 40000, 128)},
	{"one query, many keys d256", SHAPE(1, 8, 1, 20000, 256)},
	{"two queries, bias", SHAPE(2, 8, 2, 1000, 64), .bias = 1},
	{"two queries, window", SHAPE(2, 8, 2, 1000, 128), .causal = 2, .left = 300},
	{"one query, outliers", SHAPE(2, 8, 1, 3000, 64), .data = OUTLIERS},
	{"one query, steep", SHAPE(2, 8, 1, 3000, 64), .data = STEEP},
	{"one query, steep d256", SHAPE(2, 8, 1, 3000, 256), .data = STEEP},
	{"one query, uneven", SHAPE(2, 8, 1, 3000, 128), .data = UNEVEN},
	{"one query, tail", SHAPE(1, 8, 1, 16384, 64), .data = TAIL},
	{"one query, V faint", SHAPE(1, 8, 1, 3000, 128), .data = FAINT},
	{"outliers, unaligned", SHAPE(1, 4, 512, 1024, 64), .data = OUTLIERS, .pad = 1},
	{"uneven, K down", SHAPE(1, 4, 512, 1024, 64), .data = UNEVEN, .down = 1},
	{"uneven d32", SHAPE(1, 4, 512, 1024, 32), .data = UNEVEN},
	{"uneven d96", SHAPE(1, 4, 512, 1024, 96), .data = UNEVEN},
	{"uneven d256", SHAPE(1, 4, 256, 512, 256), .data = UNEVEN},
	{"steep d256", SHAPE(1, 4, 256, 512, 256), .data = STEEP},
	{"tail d32", SHAPE(1, 2, 64, 16384, 32), .data = TAIL},
	{"tail, unaligned", SHAPE(1, 2, 64, 16384, 64), .data = TAIL, .pad = 1},
	{"tail d256", SHAPE(1, 2, 64, 4096, 256), .data = TAIL},
	{"V 1e30 behind a mask d32", SHAPE(1, 4, 512, 1024, 32), .data = HIDDEN_V, .bias = 1},
	{"V 1e30 behind, unaligned", SHAPE(1, 4, 512, 1024, 64), .data = HIDDEN_V, .bias = 1, .pad = 1},
	{"V 1e30 behind d256", SHAPE(1, 4, 256, 512, 256), .data = HIDDEN_V, .bias = 1},
	{"K, V max behind, K down", SHAPE(1, 4, 512, 1024, 64), .data = HIDDEN_BOTH, .bias = 1, .down = 1},
	{"K, V max beyond, d96", SHAPE(1, 4, 500, 1024, 96), .data = HIDDEN_BOTH, .causal = 1},
	{"K, V max beyond, d256", SHAPE(1, 4, 500, 1024, 256), .data = HIDDEN_BOTH, .causal = 1},
	{"V large where faint d80", SHAPE(1, 4, 512, 1024, 80), .data = FAINT, .pad = 1},
	{"V large where faint d256", SHAPE(1, 4, 256, 512, 256), .data = FAINT},
	{"B4 H16 S2048 D64", SHAPE(4, 16, 2048, 2048, 64), .timed = 1},
	{"B2 H16 S4096 D64 causal", SHAPE(2, 16, 4096, 4096, 64), .causal = 1, .timed = 1},
	{"B2 H16 S2048 D128", SHAPE(2, 16, 2048, 2048, 128), .timed = 1},
	{"B8 H12 S512 D64 T5 bias", SHAPE(8, 12, 512, 512, 64), .bias = 1, .timed = 1},
	{"B1 H8 S512 D64", SHAPE(1, 8, 512, 512, 64), .timed = 1},
	{"B1 H12 S197 D64", SHAPE(1, 12, 197, 197, 64), .timed = 1},
	{"B32 H12 S128 D64", SHAPE(32, 12, 128, 128, 64), .timed = 1},
	{"B1 H20 S1500 D64 K down", SHAPE(1, 20, 1500, 1500, 64), .down = 1, .timed = 1},
	{"B8 H20 S1500 D64 K down", SHAPE(8, 20, 1500, 1500, 64), .down = 1, .timed = 1},
	{"B32 H12 S197 D64", SHAPE(32, 12, 197, 197, 64), .timed = 1},
	{"B32 H12 S197 D64 odd rows", SHAPE(32, 12, 197, 197, 64), .pad = 1, .timed = 1},
	{"B16 H16 S577 D64 odd rows", SHAPE(16, 16, 577, 577, 64), .pad = 1, .timed = 1},
	{"B512 H3 S49 D32 bias", SHAPE(512, 3, 49, 49, 32), .bias = 1, .timed = 1},
	{"B32 H12 S49 D32 bias", SHAPE(32, 12, 49, 49, 32), .bias = 1, .timed = 1},
	{"B16 H8 S1024 D32", SHAPE(16, 8, 1024, 1024, 32), .timed = 1},
	{"B64 H8 S197 D32 odd rows", SHAPE(64, 8, 197, 197, 32), .pad = 1, .timed = 1},
	{"B128 H4 S256 D36", SHAPE(128, 4, 256, 256, 36), .timed = 1},
	{"B128 H4 S64 D48", SHAPE(128, 4, 64, 64, 48), .timed = 1},
	{"B2 H8 S4096 D40", SHAPE(2, 8, 4096, 4096, 40), .timed = 1},
	{"B2 H8 4096x77 D40", SHAPE(2, 8, 4096, 77, 40), .timed = 1},
	{"B8 H16 S512 D80", SHAPE(8, 16, 512, 512, 80), .timed = 1},
	{"B8 H8 S1024 D96 odd rows", SHAPE(8, 8, 1024, 1024, 96), .pad = 1, .timed = 1},
	{"B4 H8 S1024 D128 K down", SHAPE(4, 8, 1024, 1024, 128), .down = 1, .timed = 1},
	{"B4 H8 S1024 D160", SHAPE(4, 8, 1024, 1024, 160), .timed = 1},
	{"B2 H8 S1024 D256", SHAPE(2, 8, 1024, 1024, 256), .timed = 1},
	{"B1 H8 S512 D128", SHAPE(1, 8, 512, 512, 128), .timed = 1},
	{"B1 H32 1x2048 D128", SHAPE(1, 32, 1, 2048, 128), .timed = 1},
	{"B1 H32 1x16384 D128", SHAPE(1, 32, 1, 16384, 128), .timed = 1},
	{"B1 H32 2x2048 D128", SHAPE(1, 32, 2, 2048, 128), .timed = 1},
	{"B1 H32 4x2048 D128", SHAPE(1, 32, 4, 2048, 128), .timed = 1},
	{"B1 H32 1x300 D128", SHAPE(1, 32, 1, 300, 128), .timed = 1},
	{"B1 H12 1x40 D64", SHAPE(1, 12, 1, 40, 64), .timed = 1},
	{"B1 H20 1x1500 D64", SHAPE(1, 20, 1, 1500, 64), .timed = 1},
	{"B1 H20 1x1500 D64 K down", SHAPE(1, 20, 1, 1500, 64), .down = 1, .timed = 1},
	{"B1 H20 4x1500 D64", SHAPE(1, 20, 4, 1500, 64), .timed = 1},
	{"B16 H8 1x2048 D64", SHAPE(16, 8, 1, 2048, 64), .timed = 1},
	{"B16 H8 4x2048 D64", SHAPE(16, 8, 4, 2048, 64), .timed = 1},
	{"B1 H8 1x8192 D256", SHAPE(1, 8, 1, 8192, 256), .timed = 1},
	{"B32 H8 1x2048 D256", SHAPE(32, 8, 1, 2048, 256), .timed = 1},
	{"B8 H12 1x512 D64", SHAPE(8, 12, 1, 512, 64), .timed = 1},
	{"B4 H12 16x512 D64", SHAPE(4, 12, 16, 512, 64), .timed = 1},
	{"B8 H12 64x64 D64", SHAPE(8, 12, 64, 64, 64), .timed = 1},
	{"d256, many keys", SHAPE(1, 2, 200, 1021, 256), .causal = 2},
	{"B1 H2 S1024 D256 K down", SHAPE(1, 2, 1024, 1024, 256), .down = 1, .timed = 1},
};
/* clang-format on */

#endif
