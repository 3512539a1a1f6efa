/* SPDX-License-Identifier: Apache-2.0
 *
 * What a comparison's numbers mean (kernels/attention.h: struct drift_*). A spec explains a program
 * when the program's own O is as near to the double-precision reference as rounding lets it be; the
 * fused O is as exact when it is about as near as that one. Pure arithmetic: no driver, no state.
 */
#ifndef FASHIM_VERDICT_H
#define FASHIM_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

/* What rounding there is, relative to the numbers rounded. */
struct rounding {
	double output; /* of O, by its type */
	double chain;  /* of what lies before O: operands as they are multiplied, S, P, and sums */
	double apart;  /* most that O may differ from the fused O anywhere, of max |O| … */
	double moved;  /* … and root mean square, of O's own */
	double wanted; /* … which should rather be no more than this, if that can be had */
	double single; /* … nor any number, of max |O|, than this */
	double least;  /* least root mean square of an O that may be told from its rounding */
};

/* For attention with these operands; tf32: fp32 operands may be rounded to TF32 in a product. */
struct rounding rounding_of(const struct attn_args *args, bool tf32);

/* The most that O in 16 bits may be moved where the program chooses by what comes of it, among
 * experts for instance: a choice does not become another one by little. */
double rounding_where_choices(int dtype);

/* Is the program's O what the reference says? by_data: nothing but this says what the chain means,
 * and the answer has to be closer. */
bool verdict_explains(const struct drift_sampled_result *r, const struct rounding *rounding,
		      bool by_data);

/* The program's largest error, of its largest number. */
double verdict_own_error(const struct drift_sampled_result *r);

/* Is the fused O at most `factor` times as far from the reference as the program's own, plus one
 * rounding step? `known`: the largest verdict_own_error() of other comparisons of the site; a
 * largest error of a few rows is a matter of luck, so this counts, up to twice what it is here. */
bool verdict_as_exact(const struct drift_sampled_result *r, const struct rounding *rounding,
		      double factor, double known);

/* Was there nothing to see: only zeros, or no numbers at all, in all rows that were looked at? */
bool verdict_empty(const struct drift_sampled_result *r);

/* Is not one element of O a number? What overflowed in the program's 16 bits to give that need not
 * do so in a fused kernel: right on other numbers is not enough then. */
bool verdict_no_numbers(const struct drift_result *d);

/* In what the two disagree further than rounding lets them, on all of O; NULL: in nothing. */
const char *verdict_disagreement(const struct drift_result *d, const struct rounding *rounding);

/* Did the fused O move the program's by more than `limit`, root mean square of its own? */
bool verdict_moved(const struct drift_result *d, double limit);

/* Beyond this, relative to an element and in absolute terms, a difference is counted in the log. */
double verdict_noticeable(const struct rounding *rounding);

/* Root of the mean of `count` squares that add up to `sum`; 0 of none. */
double verdict_rms(double sum, uint64_t count);

#endif
