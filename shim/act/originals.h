/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that read Q, K and V where the program has them, instead of the copies it makes of them for
 * its products (copies.h).
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_ORIGINALS_H
#define FASHIM_ORIGINALS_H

#include "shim/chain/chain.h"

/* The call shall read what a deferred chain's operands were to be copied from, and write at `at`
 * what a copy of O would make of it, whose inverse `output` is; NULL: write O. false: strides
 * cannot say it; *args is unchanged. */
bool originals_read(struct attn_args *args, const struct chain *chain,
		    const struct relayout *output, uint64_t at);

/* The same for a chain that ran, where the originals are as they were: the comparison then shows
 * whether such copies may be held back from now on, and O be written in *order's strides. These are
 * 0 where it goes through no copy; args->o stays the program's. */
void originals_compare(struct attn_args *args, struct attn_tensor *order,
		       const struct chain *chain);

/* As its first product runs, or is deferred: notes which copies made A and B. */
void originals_note(struct chain *chain);

/* Mixed calls: QK^T multiplied fp32 numbers and PV 16-bit ones. Where Q and K were cast from the
 * type of V, a call may read what they were cast from: the same numbers.
 *
 * At the close: what A and B of such a chain were cast from becomes an input, if it still is as it
 * was. What lay between, the chain itself may have overwritten. */
void originals_settle(struct chain *chain);

/* Makes a mixed call read that; any other is left as it is, and so is one of a site of which that
 * is not possible (`wide`). false: there is nothing to read. */
bool originals_narrow(struct attn_args *args, const struct chain *chain, bool wide);

#endif
