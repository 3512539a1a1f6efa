/* SPDX-License-Identifier: Apache-2.0
 *
 * One kernel in a chain's place: at the closing GEMM, or, where the program is known to lay O out
 * anew right away (delivery.h), at the op after it. Then the kernel writes O where that op would
 * put it, and the op is left out with the chain.
 *
 *   the op after the closing GEMM …      then
 *   is the copy of O seen before         the kernel writes the copy's output; O itself is held back
 *   is anything else                     the kernel is launched first, and writes O
 *
 * While a launch waits, nothing else may happen: whoever calls the driver asks replace_waits()
 * first.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_REPLACE_H
#define FASHIM_REPLACE_H

#include "shim/chain/chain.h"

/* A deferred chain that turned out to be an occurrence of a verified site. Inputs from
 * `kept_inputs` on were added for the closing GEMM alone. FLOW_PASS: it could not be launched, the
 * chain was run instead, and the GEMM is to run. */
enum flow replace_chain(struct chain *chain, struct site *site, const struct sight *sight,
			int kept_inputs);

/* The call that stands for a chain of a graph, and the kernel for it, made ready. What is made of
 * its biases stays (graph_saved_made()). NULL: there is none. */
const struct attn_variant *replace_call(struct attn_args *args, struct chain *chain,
					struct site *site);

/* Is there one? Nothing stays behind. */
bool replace_possible(struct chain *chain, struct site *site);

/* The kernel for a chain whose stream is being captured for a graph's copy: that and nothing else.
 * 0 or -1. */
int replace_in_graph(struct chain *chain, struct site *site);

/* Does a launch wait for the next op? */
bool replace_waits(void);

/* Is this next op the copy that it waits for? Asked once for each op. */
bool replace_awaited(const struct sight *sight);

/* It is, and everybody was guarded from it. FLOW_TAKEN: done with the launch. FLOW_PASS: O was made
 * by the program's own GEMM after all. */
enum flow replace_deliver(void);

/* It is something else: what waits is launched as it is. Nothing when nothing waits. */
void replace_settle(void);

#endif
