/* SPDX-License-Identifier: Apache-2.0
 *
 * The ladder: how the kernel came to be, one step a file, from one thread a row to tensor cores
 * fed by asynchronous copies. The steps have the C ABI of the kernels that ship and are never
 * chosen unless forced by name (FASHIM_KERNEL=ladder/03).
 */
#ifndef FASHIM_LADDER_H
#define FASHIM_LADDER_H

#include "kernels/attention.h"

enum ladder_figure { LADDER_NO_FIGURE, LADDER_MEASURED, LADDER_HOPED };

/* A row of ladder.def. */
struct ladder_step {
	const char *name;   /* "ladder/03_warp_reductions"; also the variant's, if there is one */
	const char *symbol; /* of the kernel in the ladder's module */
	const char *adds;   /* over the step before, in words */
	int32_t number;
	int32_t rows, threads, shared_bytes; /* of a block; shared memory: the dynamic part */
	int32_t library; /* no variant: cuBLAS computes both products, `symbol` is the softmax
			    between them and takes struct ladder_scores */
	float l4_us;	 /* on an L4, B1 H8 S512 D64, microseconds */
	int32_t figure;	 /* enum ladder_figure: what l4_us is */
};

extern const struct ladder_step ladder_steps[];
extern const int ladder_step_count;

/* The variant that a step is, or NULL for those that call a library. */
const struct attn_variant *ladder_variant(const struct ladder_step *step);

/* What steps take that leave scores in memory between kernels. */
struct ladder_scores {
	struct attn_args attn;
	uint64_t scores; /* device, [B][H][Sq][Sk] without gaps: fp32, scaled, from the kernel
			    LADDER_SCORES to the next; of Q's dtype, scaled, then P, for the
			    softmax of a library step (grid: Sq / rows, rounded up; H; B) */
};

/* The kernel before a variant with ATTN_NEEDS_SCORES: a block per tile of rows and of keys. */
#define LADDER_SCORES	      "fashim_ladder_scores"
#define LADDER_SCORES_ROWS    64
#define LADDER_SCORES_KEYS    64
#define LADDER_SCORES_THREADS 128

#endif
