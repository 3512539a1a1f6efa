/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of a chain's inputs in scratch memory, so that its values can still be computed when the
 * program has overwritten what they are made of.
 *
 * A snapshot has the extent of its input: pointers into one become pointers into the other by
 * adding a constant. Only the rows that the input has are copied (pitched.h), and of a closed
 * chain's inputs only those that are about to be overwritten; the rest is still where the program
 * put it. Chains that read the same version of the same memory have one snapshot together.
 *
 * All functions: flow lock held. They switch to the chain's context themselves.
 */
#ifndef FASHIM_SNAPSHOT_H
#define FASHIM_SNAPSHOT_H

#include "shim/chain/chain.h"

/* Saves the input as far as [begin, end) is about to be overwritten, on the chain's stream; late.h
 * orders the writer behind that. false: no scratch, or the chain is captured. */
bool snapshot_part(struct chain *chain, int input, uint64_t begin, uint64_t end);

/* Saves all of it. */
bool snapshot_take(struct chain *chain, int input);

/* Saves the inputs from number `from` on that may be written unseen: by the host, or by another
 * process. false: as above. */
bool snapshot_unwatched(struct chain *chain, int from);

/* Is nothing of the input read in place any more? */
bool snapshot_whole(const struct input *input);

/* Gives it back; the input is read in place again. */
void snapshot_drop(struct chain *chain, int input);

#endif
