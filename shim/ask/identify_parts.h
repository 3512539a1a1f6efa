/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the identification that stand on their own: slopes that no input holds, and from the
 * model that was found to the identity of a site.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_IDENTIFY_PARTS_H
#define FASHIM_IDENTIFY_PARTS_H

#include "shim/ask/probe.h"
#include "shim/spec/spec.h"

/* Measures the slopes of all heads where ln P, scores being zero, is not the same along the rows of
 * `plain`; p: room for as many rows. `step`: of P's rounding. NULL: alibi says which they are, or
 * that there are none; else what stands against it. The chain's context is current. */
const char *identify_slopes(struct probe *probe, const struct observation *plain, float *p,
			    double step, struct alibi *alibi);

/* The number that is meant by one that was found: one of the kernels' own constants, a usual one, a
 * short one, or the one found. */
double identify_meant(const struct chain *chain, int64_t D, double found);

/* The narrowest type that holds all of `count` numbers of P, small ones apart: P of p_dtype may
 * have been rounded to 16 bits and be kept in fp32. */
int identify_rounding(const float *p, int64_t count, int p_dtype);

/* A mask that shows keys by ones, and hides the others by a large number: what is added is hardly
 * a multiple of it, but of what it lacks to one. In fp32 that shows. false: there is no such. */
bool identify_lacking(const struct chain *chain, struct model *model);

/* Numbers that may stand for a key that is not seen, of the kernels' constants and usual ones, so
 * many as there is room for; how many. */
int identify_fills(const struct chain *chain, double *fill, int room);

/* Which flags say which keys are seen, if an input holds flags; `run`, whose scores and inputs are
 * without effect, is asked. Adds the reading, or the input turns out to hold lengths. NULL, or what
 * stands against it. */
const char *identify_flags(struct probe *probe, struct observation *run, struct model *model);

/* The reading of flags; NULL: there is none. */
const struct reading *identify_flags_reading(const struct model *model);

/* An input of flags, `kept` of 128 keys being seen. */
struct content identify_flags_content(const struct probe *probe, const struct model *model,
				      int input, unsigned kept, unsigned seed);

/* With the rest of the model found: what takes the place of keys that flags hide, or is added to
 * them. The first two runs have inputs without effect, the third is room. Completes the reading and
 * sets *empty. NULL, or what stands against it. */
const char *identify_fill(struct probe *probe, struct observation *const run[3], double step,
			  struct model *model, int *empty);

/* How far P may be off, in `step`. */
#define IDENTIFY_RMS  12
#define IDENTIFY_MOST 128

struct asked {
	const struct chain *chain;
	const struct attn_args *args; /* its operands */
	int inputs;		      /* pointers that were told apart */
	int p_rounding, empty;
	bool overflows;
};

/* NULL, or why no kernel computes the model. */
const char *identify_answer(struct identity *identity, const struct model *model,
			    const struct asked *asked);

#endif
