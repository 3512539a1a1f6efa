/* SPDX-License-Identifier: Apache-2.0
 *
 * What a case of kernel_check is: its dimensions, and every feature that a call may have; and the
 * words that the lists of kernel_cases.h are written in.
 */
#ifndef FASHIM_KERNEL_CASE_H
#define FASHIM_KERNEL_CASE_H

#include "kernels/attention.h"

/* How Q, K, V and O lie in memory. */
enum storage {
	PACKED,	   /* [B,H,S,D] */
	BSHD,	   /* [B,S,H,D] */
	FUSED,	   /* views into [B,S,3,H,D]; O is BSHD */
	SHARED_KV, /* K and V the same for all heads: stride 0 */
	PADDED,	   /* rows of D + 8 */
	ODD_ROWS,  /* rows of D + 1 */
	ODD_BASE,  /* packed, one element off alignment */
	BY_ARRAY,  /* an array of addresses */
	STORAGES
};

/* Over which of b, h, i a bias, a mask, lengths or sinks vary; over j the first two always do. */
enum spread { NONE, SQUARE, BATCH, HEAD, FULL, KEYS, PADDING, HEADS };

/* What a bias or mask holds: numbers (a mask: as SPARSE), or off and on; off is `fill`. Rows of
 * SPANS are on from one key to another, the first rows of later batches nowhere; SPOILT is a
 * triangle but for one element of each batch; PREFIX is padding, from none in the first batch to
 * nearly half of the keys in the last; OPEN is on throughout; HIDDEN as hard_is_off() says. */
enum content { NOISE, SPARSE, TRIANGLE, TAIL, BLOCKS, SPANS, SPOILT, PREFIX, OPEN, HIDDEN };

enum fill { FILL_INF, FILL_LOWEST, FILL_1E4 };

enum data {
	NORMAL,
	OUTLIERS, /* one in a thousand has a normal number of variance 100 added */
	STEEP,	  /* logits to about +-80 */
	LARGE,	  /* logits to about +-20 */
	MODEST	  /* |V| < 1: no element of O may be off by 1e-3 */
};

enum scale { USUAL, NEGATIVE, ZERO };

struct kernel_case {
	int dtype, B, H, Sq, Sk, D;
	int storage;	 /* enum storage */
	int down;	 /* K is stored [D,Sk] */
	int down_all;	 /* so are Q and V */
	int causal;	 /* 1: aligned to the first key, 2: to the last */
	int left;	 /* window to the left, 0: none */
	int window_fill; /* enum fill */
	int bias;	 /* enum spread */
	int bias_type;	 /* enum attn_dtype */
	int bias_holds;	 /* enum content */
	int bias_fill;	 /* enum fill */
	int second;	 /* also a second bias, fp32, of the keys */
	int below;	 /* enum spread: or one of the dtype */
	int below_holds; /* enum content; off as bias_fill says */
	int late;	 /* so many biases come after the mask */
	int round_x;	 /* x is rounded to the dtype */
	int floored;	 /* to fp16, and raised to its lowest number */
	int round_s;	 /* enum attn_round_s, or-ed */
	int apart;	 /* S is scaled by a kernel of its own: alpha is 1 */
	int mask;	 /* enum spread */
	int mask_holds;	 /* enum content */
	int mask_fill;	 /* enum fill */
	int mask_drops;	 /* set means masked, not kept */
	int lengths;	 /* enum spread: rows, or what shares one, end at 1 .. Sk */
	int sinks;	 /* enum spread */
	int sinks_type;	 /* enum attn_dtype */
	int empty_rows;	 /* bias, mask and lengths: every fifth row is all off */
	int empty_row;	 /* enum attn_empty_row */
	int scale;	 /* enum scale */
	int scales;	 /* enum spread: what x is multiplied by, too; HEADS, KEYS: one each */
	int scales_type; /* enum attn_dtype */
	int scales_each; /* they differ within a row as well */
	int divides;	 /* and divide */
	int windows;	 /* the bias and the mask come again every so many batches; below 0: are
			    shared by as many */
	int image;	 /* of biases, the first is one for so many keys, the second of every;
			    scales are as the first */
	int data;	 /* enum data */
	int hard;	 /* enum hard: instead of that */
	int hiding;	 /* enum hiding */
	float softcap;
	int wide;   /* O is fp32 */
	int over_q; /* O is written over Q */
	int timed;
};

/* clang-format off */
#define IN_F16 .dtype = ATTN_F16
#define IN_BF16 .dtype = ATTN_BF16
#define IN_F32 .dtype = ATTN_F32
#define SHAPE(b, h, sq, sk, d) .B = b, .H = h, .Sq = sq, .Sk = sk, .D = d
#define ADD(spread, type) .bias = spread, .bias_type = ATTN_##type
#define ADD_FILL(spread, type, what, with) ADD(spread, type), .bias_holds = what, .bias_fill = with
#define BELOW(spread, what) .below = spread, .below_holds = what
#define MASK(spread, what) .mask = spread, .mask_holds = what
#define LENGTHS(spread) .lengths = spread
#define SINKS(spread, type) .sinks = spread, .sinks_type = ATTN_##type
#define SCALES(spread, type) .scales = spread, .scales_type = ATTN_##type
#define STORED(steps) .round_s = steps
#define STORED_ONCE   STORED(ATTN_ROUND_PRODUCT)
#define STORED_TWICE  STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED)
#define STORED_ALL    STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_WEIGHTS)
#define STORED_ALL_4  STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_BIASED | ATTN_ROUND_WEIGHTS), .round_x = 1
#define STORED_CAPPED STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_CAPPED | ATTN_ROUND_WEIGHTS), .softcap = 3.0f
#define STORED_LESS   STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_BIASED | ATTN_ROUND_LESS | ATTN_ROUND_WEIGHTS), .round_x = 1
#define STORED_THRICE STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_SCALED | ATTN_ROUND_BIASED), .round_x = 1
#define STORED_PLACED STORED(ATTN_ROUND_PRODUCT | ATTN_ROUND_BIASED), .round_x = 1
#define NO_KEY(becomes) .empty_rows = 1, .empty_row = ATTN_EMPTY_##becomes
/* clang-format on */

#endif
