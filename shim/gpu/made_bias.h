/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases that no memory of the program's holds, as its own kernel computes them on the way: slopes
 * (ALiBi) times the distance of query and key, masks of ones where a key is shown. They are made in
 * memory of ours, and what they are made of is read on the device each time: the program may have
 * changed it. So is one mask of two.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_MADE_BIAS_H
#define FASHIM_MADE_BIAS_H

#include "shim/chain/chain.h"
#include "shim/spec/spec.h"

/* Finds room for the biases that the occurrence makes, and points args, as spec_of_chain() left it,
 * there; made_bias_write() then makes them. `identity`: NULL for a chain that rules explain.
 * Nothing to do where there is none. false: there is no room. */
bool made_bias_place(struct chain *chain, struct attn_args *args, const struct identity *identity);

/* Enqueues it on the chain's stream; 0 or -EIO. The chain's context is current. */
int made_bias_write(const struct chain *chain);

/* Gives the room back, once its last use is enqueued; not where it stays (chain->made_stays). */
void made_bias_put(struct chain *chain);

#endif
