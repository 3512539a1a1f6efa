/* SPDX-License-Identifier: Apache-2.0
 *
 * One attention problem on the host: operands of any layout, the answer in double precision, and
 * how far a result may lie from it.
 *
 * The answer is computed here from the formula of kernels/attention.h by plain C that shares no
 * code with the kernels. Operands end just before a page that cannot be touched, and hold NaN
 * wherever no element lies, so reading beside an operand shows. O is filled with one NaN pattern
 * beforehand: what was not written, and what was written beside it, shows too.
 */
#ifndef FASHIM_TEST_KERNELS_CASE_H
#define FASHIM_TEST_KERNELS_CASE_H

#include "kernels/attention.h"

#include <stdbool.h>
#include <stddef.h>

/* How an operand lies in memory. All zero: [B,H,rows,cols] without gaps, well aligned. */
struct layout {
	const char *order; /* outermost first, letters of "bhrc"; NULL: "bhrc" */
	int pad;	   /* elements between the rows of the innermost dimension */
	int step;	   /* distance of neighbours in the innermost dimension; 0: 1 */
	int offset;	   /* elements by which the base is off a 256-byte boundary */
	const char *same;  /* dimensions with stride 0, e.g. "bh" */
	bool by_array;
};

#define OPERAND_POISON 0xff /* every byte: NaN in each format */

/* In which biases and masks lie. */
#define BIAS_LAYOUTS 10
extern const struct layout bias_layouts[BIAS_LAYOUTS];

/* Has each of Q, K, V and O checked in every layout that is not the usual one, the others in that.
 */
void check_layouts(void (*check_one)(const struct layout layouts[4], int n, const char *what));

struct operand {
	void *map; /* what was mapped */
	size_t map_bytes;
	char *data; /* first byte that belongs to the operand's span */
	size_t bytes;
	void **array;
};

enum {
	OPERAND_Q,
	OPERAND_K,
	OPERAND_V,
	OPERAND_O,
	OPERAND_BIAS,
	OPERAND_MASK = OPERAND_BIAS + 2,
	OPERAND_LENGTHS,
	OPERAND_SINKS,
	OPERAND_SCALES,
	OPERAND_COUNT
};

/* The kernels as a shared object of the host: a group's setup opens those of the simulated GPU, or
 * those compiled against tests/simgpu/cuda_host.h, or those of tests/simgpu/hopper. */
extern void *kernels;
int kernels_open(void **state);
int kernels_open_host(void **state);
int kernels_open_hopper(void **state);

struct problem {
	struct attn_args args;
	struct operand operand[OPERAND_COUNT];
	int row_step; /* rows whose answer is checked: every row_step-th */
	/* Called once the answer is known, with these two: changes what may not matter. */
	void (*spoil)(struct problem *p, int kind, int hiding);
	int kind, hiding;
	/* What fashim_ranges finds for the variant: fills ranges, spans and their steps. */
	void (*look)(struct problem *p, const struct attn_variant *v, struct attn_mapped *mapped);
	bool may_be_nan; /* instead of the answer */
	int more_steps;	 /* of rounding: where the chain has no number, nor then an error of its own
			  */
	int64_t dims[3][4];
};

/* ---- numbers ---- */

/* The double nearest to x that `dtype` can hold, ties to even. */
double number_round(double x, int dtype);
double number_load(const void *p, int dtype);
void number_store(void *p, int dtype, double x);
/* Uniform in [0,1), the same sequence in every run. */
double number_random(void);
/* About normal, mean 0, deviation 1. */
double number_normal(void);

/* ---- problems ---- */

/* Fills in dims, Q, K and V (normal) and O for the layouts q,k,v,o (NULL: the default each);
 * o_dtype as dtype unless changed later. Spec: scale 1/sqrt(D), nothing else. */
void problem_init(struct problem *p, int dtype, const int dims[6], const struct layout layouts[4]);
/* Adds bias n, or the mask, of normal numbers times `size` (mask: set with probability `size`). */
void problem_bias(struct problem *p, int n, int dtype, const struct layout *layout, double size);
/* Adds scales, normal times `size`, but for those near 0: no program divides by such. */
void problem_scales(struct problem *p, int dtype, const struct layout *layout, double size);
void problem_mask(struct problem *p, bool keeps, float value, const struct layout *layout,
		  double share);
/* Adds a mask that hides by `value`, and P once more, and a bias; in batch 1, head 0, every third
 * row is hidden in all, and the bias makes all that the mask leaves of the next one `low`. */
void problem_again(struct problem *p, bool keeps, float value, float low);
/* Adds lengths, uniform from `least` to `most`, or sinks, normal times `size`. */
void problem_lengths(struct problem *p, const struct layout *layout, int least, int most);
void problem_sinks(struct problem *p, int dtype, const struct layout *layout, double size);
/* Replaces O by one of another dtype or layout. */
void problem_output(struct problem *p, int dtype, const struct layout *layout);
void problem_free(struct problem *p);

/* Address of an element of an operand. */
void *element_at(const struct attn_tensor *t, int H, int64_t b, int64_t h, int64_t r, int64_t c);

/* Row b,h,i of the answer; with `rounded`, as a chain of kernels would give it that rounds scores,
 * P and O to the operands' dtype. */
void problem_row(const struct problem *p, int b, int h, int i, bool rounded, double *out);
/* The same. Returns by how much an element may be off where scores that are rounded (round_s) lie
 * so near the middle of two numbers that fp32 cannot tell: such a weight changes by a factor, and O
 * by its share of the key's distance from O. */
double problem_row_loose(const struct problem *p, int b, int h, int i, bool rounded, double *out);

/* Is it a variant for a handful of queries? */
static inline bool takes_few_queries(const struct attn_variant *v)
{
	return v->family == ATTN_DECODE || v->family == ATTN_FEW ||
	       v->family == ATTN_ROUNDED_DECODE;
}

/* Is the variant for calls that round P once it is divided? Of the host build's. */
static inline bool rounds_weights(const struct attn_variant *v)
{
	return v->family == ATTN_ROUNDED || v->family == ATTN_ROUNDED_DECODE;
}
/* Runs the variant `v` of `kernels` on the problem. */
void problem_run(struct problem *p, const struct attn_variant *v);
/* Runs it and compares: cmocka
 * failures name the problem by `what`. Every element of O within twice the error of the rounded
 * chain plus one rounding step (with round_s: and problem_row_loose), NaN and infinity where the
 * answer has them, nothing else written.
 */
void problem_check(struct problem *p, const struct attn_variant *v, const char *what);

/* Checks with every variant that could be chosen for the problem; frees it. With many rows not with
 * those of a row per block, for the sake of time: see test_kernels_decode.c. */
void problem_check_all(struct problem *p, const char *what);
/* Checks a problem with `round_s` with every variant that takes it; frees. */
void problem_check_rounded(struct problem *p, const char *what);
/* Checks with the variant that would be chosen; frees. */
void problem_check_chosen(struct problem *p, const char *what);

#endif
