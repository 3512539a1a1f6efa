/* SPDX-License-Identifier: Apache-2.0
 *
 * What of P a causal softmax leaves alone. Some write what lies on and below the diagonal, and no
 * more: what is above must be zero already, as the program saw to once. A fused kernel is as right
 * as that is, and nobody knows it but by a look.
 *
 *   a look at P, in stream order before the product that reads it, finds    then
 *   nothing but zeros above the diagonal     what the kernel leaves alone there is known …
 *   something else                           … to be none of ours
 *   … until an op may write there: the same launch to the same place may, since it writes the same
 *   bytes. Nobody waits for a look: it is known at a later occurrence. For as long as
 *   such attentions come, every op is seen.
 *
 * Of what such a chain holds back the holes are never part: they lie in memory as the program left
 * them.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_HOLES_H
#define FASHIM_HOLES_H

#include "shim/chain/chain.h"
#include "shim/op/graph.h"

enum holes {
	HOLES_UNKNOWN, /* or not yet */
	HOLES_ZERO,
	HOLES_FILLED,
};

/* Is anything known that an op might change? */
bool holes_watch(void);

/* Those of a chain's P, as it would be read now. */
enum holes holes_of(const struct chain *chain);

/* Looks at them, unless it is known or on its way. The chain's ops ran, and its product with V is
 * about to; chain->triangle. */
void holes_look(struct chain *chain);

/* A launch that writes again what left holes: its access says so (`left`). */
void holes_tell(const struct sight *sight);

/* An op is about to run: what it may write is forgotten. For an op, for a graph's launch, for a
 * range that we write ourselves. */
void holes_guard(const struct access_list *list);
void holes_guard_graph(const struct graph_ranges *ranges);
void holes_guard_write(uint64_t begin, uint64_t end);

/* Ops may pass unseen; or a context is about to go (NULL: any of them). */
void holes_forget(void);
void holes_forget_context(CUcontext context);

#endif
