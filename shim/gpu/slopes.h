/* SPDX-License-Identifier: Apache-2.0
 *
 * Slopes (ALiBi) that a program's own kernel multiplies by the distance of query and key, as a bias
 * in memory of ours. They are read on the device each time: the program may have changed them.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_SLOPES_H
#define FASHIM_SLOPES_H

#include "shim/chain/chain.h"
#include "shim/spec/identity.h"

/* Finds room for the biases that the occurrence's slopes make, and points args, as spec_of_chain()
 * left it, there; fused_slopes() then writes them as chain->slopes says. Nothing to do where the
 * identity has no slopes. false: there is no room. */
bool slopes_place(struct chain *chain, struct attn_args *args, const struct identity *identity);

/* Gives the room back, once its last use is enqueued. */
void slopes_put(struct chain *chain);

#endif
