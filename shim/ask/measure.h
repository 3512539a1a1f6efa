/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels without a rule write, found out by launching them again: the chain's own launches,
 * on data of ours, in copies of the memory they were pointed to. Nothing of the program's is
 * touched, and no copy ends before the allocation does that it stands for.
 */
#ifndef FASHIM_MEASURE_H
#define FASHIM_MEASURE_H

#include "shim/chain/chain.h"

/* Settles the length of each value of a chain that just closed and that no rule knows: from now on
 * it is a value like any other. What turns out not to be written stays as it is; where the result
 * is not clear the chain is unfit. Waits for the device, for each kernel once. NULL, or why
 * it could not be done this time: nothing is known then, nor where *waits says that it was not
 * affordable yet (ledger.h). Flow lock held; not while a stream is being captured. */
const char *measure_chain(struct chain *chain, bool *waits);

#endif
