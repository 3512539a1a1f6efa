/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a closed chain can still be met, in a line or two of the cache. Many chains may be held,
 * and each op is held against all of them; most of these it is nowhere near, though all lie in the
 * same few blocks of a program's memory.
 *
 * It is drawn from what is left of the values and not saved of the inputs. Both only ever shrink
 * while the chain is closed; whoever adds to them has it drawn anew (chain_add_input() and its
 * like). Chains of graphs, which are filled again at each launch, have none.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_OUTLINE_H
#define FASHIM_OUTLINE_H

#include "shim/chain/chain.h"

/* After an op has met the chain. */
void outline_draw(struct chain *chain);

/* May the op see or change anything of the chain? Without an outline, it may where it comes between
 * the ends of all that the chain has. */
bool outline_meets(const struct chain *chain, const struct access_list *list);

#endif
