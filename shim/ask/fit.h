/* SPDX-License-Identifier: Apache-2.0
 *
 * What the middle of a chain computes, from what it made of scores and inputs of our own choosing.
 * Pure arithmetic: rows of P on one side, the form
 *
 *     P[z,i,:] = softmax over visible j of
 *                cap * tanh(scale * S / cap) + slope[z] * j + weight * input + …
 *
 * which programs round as they go: the score before anything is added, and after each sum; or,
 * where scale and weights are one factor (`later`), the sums before they are multiplied by it. on
 * the other. z counts batch entries of the products (heads and batches in one), i queries, j keys.
 * No driver, no state.
 */
#ifndef FASHIM_FIT_H
#define FASHIM_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

#define FIT_ROWS   48
#define FIT_INPUTS 4
#define FIT_PERIOD 16381 /* elements after which made-up numbers repeat; prime */
#define FIT_FLAGS  8191	 /* the same of flags, which may have eight bytes each; prime */
#define FIT_WORDS  65536 /* whole numbers of an input that are looked at */

/* What an operand was filled with. */
enum content_kind {
	CONTENT_ZERO,
	CONTENT_HASH,	  /* multiples of 1/64 in (-2, 0], times 2^exponent */
	CONTENT_CENTERED, /* multiples of 1/64 in [-1, 1), times 2^exponent */
	CONTENT_CONSTANT, /* -2^exponent */
	CONTENT_EMPTY,	  /* minus infinity */
	CONTENT_BEYOND,	  /* infinity */
	CONTENT_STEPS,	  /* 0 or `low` */
	CONTENT_FLAGS,	  /* set, of `ones` in 128, or 0; with what is up to who fills (probe.c) */
	CONTENT_WORDS	  /* whole numbers, given */
};

struct content {
	enum content_kind kind;
	int dtype, exponent; /* flags: ATTN_F64 is an integer of eight bytes */
	unsigned seed, ones;
	double low;
	const int32_t *words; /* CONTENT_WORDS: `count` of them */
	uint64_t count;	      /* elements that were filled; what lies behind is not known */
};

double content_value(const struct content *content, uint64_t element);

/* After how many elements it repeats, words apart. */
uint64_t content_period(const struct content *content);

/* Which rows of P are looked at. */
struct fit_grid {
	int64_t Z, Sq, Sk;
	int rows;
	struct {
		int64_t z, i;
	} row[FIT_ROWS];
};

void fit_rows(struct fit_grid *grid);

/* One run of the chain: what went in, and the rows of P that came out, Sk numbers each. */
struct observation {
	struct content scores, input[FIT_INPUTS];
	float *p;
};

/* How an input is laid out over the scores: offset = unit * f(z) + row * i + column * j. */
enum form_along { FORM_NONE, FORM_EACH, FORM_MODULO, FORM_QUOTIENT }; /* f(z): 0, z, z%H, z/H */

struct form {
	enum form_along along;
	int64_t heads; /* H */
	int64_t unit, row, column;
};

enum reading_kind {
	READ_BIAS,    /* weight * input is added */
	READ_RAMP,    /* weight * input * j is */
	READ_SIDES,   /* weight * input * |i - j| is */
	READ_LENGTHS, /* keys from there on are not seen */
	READ_FLAGS    /* a key is seen where it is `keeps`; elsewhere, after all else, weight is
			 added, or stands in the score's place */
};

struct reading {
	enum reading_kind kind;
	int input, dtype;
	struct form form;
	double weight;
	bool keeps, replaces;
	bool pitched; /* form.row has nothing to do with the number of keys */
	bool lacking; /* -weight * (1 - input) is added: the same but for how it rounds */
};

/* Slopes that no input holds: weight * 2^attn_slope_exponent(z % heads) * j is added. */
struct alibi {
	int32_t heads, first; /* heads 0: none */
	double most, weight;
};

struct model {
	double scale, cap; /* cap 0: none */
	struct alibi alibi;
	bool causal;
	int64_t shift, left;  /* key i + shift is the last seen; left < 0: all before it are */
	bool beyond;	      /* what flags do to keys that they hide happens to those, too */
	int round_s, round_x; /* types of the score alone, and of what is added to */
	double later;	      /* so much of scale and weights comes behind; 0: nothing */
	int readings;
	struct reading reading[FIT_INPUTS];
};

/* Between two runs that differ in the scores alone, the second's being zero: d ln P / d S. *misfit:
 * what a straight line leaves, root mean square. false: too few numbers to tell. */
bool fit_slope(const struct fit_grid *grid, const struct observation *zero,
	       const struct observation *run, double *slope, double *misfit);

/* The two numbers of a saturating line through two such runs. */
bool fit_softcap(const struct fit_grid *grid, const struct observation *zero,
		 const struct observation *const run[2], double *scale, double *cap);

/* Which keys are seen at scores of zero: sets causal, shift and left, and adds a reading of
 * `lengths` (an input of whole numbers; -1: none). */
bool fit_edges(const struct fit_grid *grid, const struct observation *run, int lengths,
	       struct model *model);

/* The same where an input holds flags: sets causal, shift and left, and adds a reading of flags
 * that hide with minus infinity. */
bool fit_flags(const struct fit_grid *grid, const struct observation *run, int input,
	       struct model *model);

/* What `input` of the second run does, all else being equal: adds a reading. *effect: most that ln
 * P moved by; infinite where too little of P was left to tell. */
bool fit_input(const struct fit_grid *grid, const struct observation *before,
	       const struct observation *run, int input, struct model *model, double *effect);

/* A straight line through ln P along row `row`. *span: over so many keys. false: too few. */
bool fit_ramp(const struct fit_grid *grid, const struct observation *run, int row, double *slope,
	      double *span);

/* Which progression the slopes of all Z are, to `step` over their span each; false: of none. */
bool fit_alibi(const double *slope, const double *span, int64_t Z, double step,
	       struct alibi *alibi);

/* The slope of z, 0 where there is none. */
double fit_alibi_slope(const struct alibi *alibi, int64_t z);

/* Is there a row of which all keys that flags leave have the low score, and one that they hide has
 * not (CONTENT_STEPS)? */
bool fit_tells_hidden(const struct fit_grid *grid, const struct observation *run,
		      const struct model *model);

/* How far the model is from a run, in units of `step` relative to P: root mean square and most. */
void fit_check(const struct fit_grid *grid, const struct observation *run,
	       const struct model *model, double step, double *rms, double *most);

/* Rows without anything to see (enum attn_empty_row); -1: not one and the same. */
int fit_empty_row(const struct fit_grid *grid, const struct observation *run);

#endif
