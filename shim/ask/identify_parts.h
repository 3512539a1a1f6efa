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

struct asked {
	const struct chain *chain;
	const struct attn_args *args; /* its operands */
	int inputs;		      /* pointers that were told apart */
	int p_rounding, empty;
};

/* NULL, or why no kernel computes the model. */
const char *identify_answer(struct identity *identity, const struct model *model,
			    const struct asked *asked);

#endif
