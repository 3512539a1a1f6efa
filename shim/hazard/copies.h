/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that programs make of Q, K and V for the sake of a batched product, and of a bias that it
 * adds to (relayout.h). Once a fused kernel that read the originals has been compared with the
 * program's own answer, such copies are held back: they are made only if somebody wants to see them
 * after all.
 *
 *   a later op …                              then
 *   is a product of a deferred chain          the chain reads the original (copies_absorb)
 *   is one that writes its sum over it        the same, and it will never be made
 *   reads the copy otherwise                  it is made first
 *   writes what it would be made of           it is made first
 *   overwrites all of it, reads none          it will never be made
 *   may touch it in an unknown way            it is made first
 *
 * The other way round, where a fused kernel wrote what the program would have copied O to, O itself
 * is held back, by the same rules: it would be made of the copy.
 *
 * Held back or not, the latest copies are remembered as long as what they are made of is as it was.
 *
 * All functions: flow lock held. They switch to the copy's context themselves.
 */
#ifndef FASHIM_COPIES_H
#define FASHIM_COPIES_H

#include "shim/chain/chain.h"

/* Is anything remembered that an op might change, or any copy worth looking for? */
bool copies_watch(void);

/* Is any copy, or what it is made of, there? */
bool copies_near(uint64_t begin, uint64_t end);

/* Applies the table before an op. A GEMM's reading is left to the two functions below. */
void copies_guard(const struct sight *sight);

/* The same before a graph is launched that touches these ranges. */
struct graph_ranges;
void copies_guard_graph(const struct op *op, const struct graph_ranges *ranges);

/* A launch that reads no open chain. Is it such a copy, it is remembered; true: and held back, as
 * far as anybody can tell it was made. */
bool copies_take(const struct sight *sight);

/* A launch that reads an open chain, and will run: is it such a copy, it is remembered. */
void copies_note(const struct sight *sight);

/* Operand n of a deferred chain, which lies there: would a held-back copy have made it? Then the
 * chain reads the original instead. */
bool copies_absorb(struct chain *chain, int n, uint64_t begin, uint64_t end);

/* Held-back copies that a GEMM reads and no chain absorbed are made. `opened`: the chain that takes
 * them for inputs already; NULL: none. */
void copies_needed(const struct chain *opened, const char *who);

/* Behind a product, whatever became of it: copies that it added to are no more. */
void copies_added_to(const char *who);

/* Which remembered copy made the operand? Its number, 0: none. Counts as a use of it. */
uint64_t copies_origin(const struct chain *chain, uint64_t begin, uint64_t end);

/* The copy with that number, if what it was made of is as it was; else NULL. */
const struct relayout *copies_intact(uint64_t number);

/* How the copy with that number, or what it copied, was cast from numbers of fewer bits, if these
 * are as they were: only a description. Whose number it gives; 0: it was not, or nobody knows. */
uint64_t copies_cast(uint64_t number, struct relayout *cast);

/* A comparison read the originals of these copies: from now on they may be held back. Or it was not
 * possible to read them: they never are. */
struct site;
void copies_compared(uint64_t number, const struct site *site, bool possible);

/* O, which nobody wrote: it would be made by this inverse of its copy. */
void copies_hold_output(const struct relayout *inverse, CUcontext context, CUstream stream);

/* Of those of a kind that were held back, were few enough made after all? */
bool copies_pay(uint64_t key);

/* Operand n of a chain that has been replaced, still where the product would have read it: was it
 * made by a copy of something smaller, as where groups of heads share K? Then that is what the
 * chain is made of from now on: less needs to be saved. */
void copies_trace_back(struct chain *chain, int n);

/* Makes all that are held back; forgets the others. */
void copies_realise_all(const char *who);

#endif
