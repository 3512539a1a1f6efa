/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are overwritten by turns: one launch writes every other element, or the first columns
 * of each row, the next the others.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_COMB_H
#define FASHIM_COMB_H

#include "shim/chain/chain.h"

/* Is it the first of two such launches? It is not made up for, since the second is as good as
 * there; rerun.c leaves alone what it wrote. Where a value ends in the midst of a row, it is as any
 * other. */
bool comb_begins(struct chain *chain, const struct access *access);

/* Where part of each row is the program's, an op must overwrite the others, or all, or keep
 * away. False: the chain's values must be made real first. */
bool comb_meet(struct chain *chain, const struct access_list *list);

#endif
