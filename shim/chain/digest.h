/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs make of P besides O, and mostly throw away: nn.MultiheadAttention returns the mean
 * of P over the heads, and most of its callers take the first of the two results alone.
 */
#ifndef FASHIM_DIGEST_H
#define FASHIM_DIGEST_H

#include "shim/chain/chain.h"

/* Does the launch, as its rule has it, read of the closed chain's P alone, where that still is what
 * lies there, write at most half as much, all of it, and nothing else? */
bool digest_is(const struct chain *chain, const struct sight *sight);

/* Such a launch becomes one more step of a deferred chain, and what it writes one more of its
 * values. false: there is no room, nothing is changed. Else the chain's `unfit` says whether it
 * can be held back so. */
bool digest_append(struct chain *chain, const struct sight *sight);

#endif
