/* SPDX-License-Identifier: Apache-2.0
 *
 * Products in parts. A program whose batches lie in memory as no single product can say it (Q, K
 * and V packed, heads behind one another) multiplies batch by batch; then one softmax makes P of
 * all the scores, and V is multiplied batch by batch again. Each of the first products opens a
 * chain; the op that reads the scores of all makes them one, whose GEMM1 has so many parts; and the
 * last of as many products with V closes it. Between these nothing else may come: then no part's O
 * can be missed, nor another's V be lost, before there are all.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_PARTS_H
#define FASHIM_PARTS_H

#include "shim/chain/chain.h"

#define PARTS_MOST 24

/* Open chains that are their first products alone, where the scores of each begin behind those of
 * the one before, and whose operands are one distance apart: `first`, and at most so many; those
 * whose scores lie before `end`. Fills list, returns how many. */
int parts_find(struct chain *first, uint64_t end, struct chain *list[PARTS_MOST]);

/* The first of them becomes the chain of all; what holds the others is for the caller to drop. */
void parts_join(struct chain *const list[], int count);

/* The open chain whose first product is as this one, its scores right before this one's. NULL:
 * none. */
const struct chain *parts_before(const struct op *op);

/* Is the op the next part of what closes the chain? */
bool parts_fit(const struct chain *chain, const struct op *op);

/* Takes it in. true: it is the last, and the closer is all of them: chain_close(). */
bool parts_take(struct chain *chain, const struct op *op);

/* Those before the last that were taken in, as one product; there are some: chain->closing. */
void parts_taken(const struct chain *chain, struct op_gemm *gemm);

/* Is any chain waiting for a further part? */
bool parts_wait(void);

/* Those were run, or what stands for them was. */
void parts_end(struct chain *chain);

#endif
