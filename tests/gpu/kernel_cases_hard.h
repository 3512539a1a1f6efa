/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that are hard on a kernel, one kind a case: what a softmax, a row of weights, a split
 * into parts or a rounding to 16 bits can fail at. Read by kernel_check and, for what the host can
 * run, by test_kernels_hard.
 *
 * Where a fused kernel may differ in kind from the program's chain, attention.h says so; here:
 *   - HARD_OVERFLOW: a chain that stores S in fp16 has infinities, hence NaN. Expected is what the
 *     formula gives without a limit for S: numbers.
 *   - HARD_V_*_HIDDEN with a NaN or infinity: 0 times it is NaN in the chain, and nothing where
 *     keys are skipped. Expected is either; so with HARD_K_NAN_HIDDEN if a bias of -inf hides it.
 */
#ifndef FASHIM_KERNEL_CASES_HARD_H
#define FASHIM_KERNEL_CASES_HARD_H

#include <math.h>

#include "kernels/attention.h"

enum hard {
	HARD_NOT,
	HARD_FLAT,	/* all weights alike */
	HARD_STEEP,	/* scores to 1e4, of whole numbers: so large, any rounding would tell */
	HARD_TAIL,	/* four weights of 2^-7.9 among the last keys, 2^-25.2 before */
	HARD_WIDE_TAIL, /* 128 weights of 2^-12.9, as many together */
	HARD_DENORMAL,	/* V, by column, below the least normal number, K by row */
	HARD_OVERFLOW,	/* q.k beyond what fp16 holds */
	HARD_STORED,	/* the same in some rows, at some keys, and just below in others; fp16 has
			   a limit for S */
	HARD_UNEVEN,	/* rows of V of all sizes */
	HARD_Q_INF,
	HARD_K_INF,
	HARD_V_INF, /* in one column +inf, in one -inf, in one both */
	HARD_V_NAN,
	HARD_K_HUGE_HIDDEN, /* from here on in keys that no row sees, spoilt after the truth is
			       known */
	HARD_K_NAN_HIDDEN,
	HARD_V_HUGE_HIDDEN,
	HARD_V_INF_HIDDEN,
	HARD_V_NAN_HIDDEN,
	HARD_KINDS
};

/* How keys are hidden from all rows. */
enum hiding { HIDE_NOT, HIDE_MASK, HIDE_BIAS, HIDE_WINDOW, HIDINGS };

#define HARD_TAIL_KEYS 4096

static const char *const hard_names[HARD_KINDS] = {
	"",	    "flat",	  "to-1e4",    "tail",	     "wide-tail", "denormal",
	"overflow", "stored",	  "uneven",    "Q-inf",	     "K-inf",	  "V-inf",
	"V-nan",    "K-huge-off", "K-nan-off", "V-huge-off", "V-inf-off", "V-nan-off",
};

static inline int hard_is_hidden_kind(int kind)
{
	return kind >= HARD_K_HUGE_HIDDEN;
}

/* May an element also be NaN? */
static inline int hard_may_be_nan(int kind, int hiding)
{
	return kind == HARD_V_INF_HIDDEN || kind == HARD_V_NAN_HIDDEN ||
	       (kind == HARD_K_NAN_HIDDEN && hiding == HIDE_BIAS);
}

/* Is key j hidden? By a causal window, from the first key on, what no query reaches. */
static inline int hard_is_off(int hiding, int64_t j, int Sq, int Sk)
{
	return hiding == HIDE_WINDOW ? j >= Sq : j % 7 == 3 || j >= Sk - Sk / 4;
}

/* Is key j one of those that outweigh the tail? Four lanes of a warp have one each. */
static inline int hard_is_peak(int kind, int64_t j, int Sk)
{
	const int64_t place = j - (Sk - 128);

	return kind == HARD_WIDE_TAIL ? place >= 0
				      : place == 0 || place == 10 || place == 20 || place == 30;
}

/* attn_spec's `overflow`: as most programs in fp16 have it. */
static inline float hard_limit(int kind, int dtype)
{
	return dtype == ATTN_F16 && (kind == HARD_NOT || kind == HARD_STORED) ? 65776.0f : 0.0f;
}

/* HARD_STORED: of each eight rows the second is beyond at one key in 16, the eighth at one in 7,
 * which masks hide, and the third is 65504. */
static inline float hard_stored(char operand, int64_t row, int64_t column, float x)
{
	if (operand == 'k')
		return column > 1 ? x : (column ? row % 7 == 3 : row % 16 == 5) ? 256.0f : 0.0f;
	switch (row % 8) {
	case 1:
		return column == 0 ? 300.0f : 0.0f;
	case 2:
		return column == 0 ? 255.875f : 0.0f;
	case 7:
		return column == 1 ? 300.0f : 0.0f;
	default:
		return column > 1 ? x : 0.0f;
	}
}

/* What element [row, column] of Q, K or V ('q', 'k', 'v') is in such a case, `x` being a normal
 * number; without what hidden keys hold. */
static inline float hard_number(int kind, char operand, int dtype, int D, int Sk, int64_t row,
				int64_t column, float x)
{
	const float tiny = dtype == ATTN_F16 ? 0x1p-18f : 0x1p-130f;
	const int most = dtype == ATTN_F16 ? 8 : 24;

	switch (kind) {
	case HARD_FLAT:
		return operand == 'q' ? 0.0f : x;
	case HARD_STEEP:
		return operand == 'v' ? x : rintf((operand == 'q' ? 300.0f : 8.0f) * x);
	case HARD_TAIL:
	case HARD_WIDE_TAIL:
		if (operand == 'q')
			return column ? 0.0f : sqrtf((float)D);
		if (operand == 'v')
			return hard_is_peak(kind, row, Sk) ? -1.0f : 1.0f;
		if (column)
			return x;
		return -(float)M_LN2 * (!hard_is_peak(kind, row, Sk) ? 25.2f
					: kind == HARD_TAIL	     ? 7.9f
								     : 12.9f);
	case HARD_DENORMAL:
		return (operand == 'v' && column % 2) || (operand == 'k' && row % 3 == 0) ? x * tiny
											  : x;
	case HARD_OVERFLOW:
		return operand == 'v' ? x : rintf(100.0f * x);
	case HARD_STORED:
		return operand == 'v' ? x : hard_stored(operand, row, column, x);
	case HARD_UNEVEN:
		return operand == 'v' ? ldexpf(x, (int)(row * 7 % (2 * most + 1)) - most) : x;
	case HARD_Q_INF:
		return operand == 'q' && row % 8 == 3 && column == 0 ? copysignf(INFINITY, x) : x;
	case HARD_K_INF:
		return operand == 'k' && row % 50 == 7 && column == 0 ? INFINITY : x;
	case HARD_V_INF:
		if (operand != 'v' || row % 64 != 9 || column > 3 || column == 0)
			return x;
		return column == 1 || (column == 3 && row % 128 == 9) ? INFINITY : -INFINITY;
	case HARD_V_NAN:
		return operand == 'v' && row == 9 && column == 1 ? NAN : x;
	default:
		return x;
	}
}

/* What a hidden key's element of K or V holds once it is spoilt; x where it is not. */
static inline float hard_spoilt(int kind, char operand, int dtype, float x)
{
	const float huge = dtype == ATTN_F16 ? 6e4f : 1e30f;

	switch (kind) {
	case HARD_K_HUGE_HIDDEN:
		return operand == 'k' ? copysignf(huge, x) : x;
	case HARD_K_NAN_HIDDEN:
		return operand == 'k' ? NAN : x;
	case HARD_V_HUGE_HIDDEN:
		return operand == 'v' ? copysignf(huge, x) : x;
	case HARD_V_INF_HIDDEN:
		return operand == 'v' ? copysignf(INFINITY, x) : x;
	case HARD_V_NAN_HIDDEN:
		return operand == 'v' ? NAN : x;
	default:
		return x;
	}
}

#endif
