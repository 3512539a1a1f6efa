/* SPDX-License-Identifier: Apache-2.0
 *
 * All steps of a chain once more, when its values are wanted after all.
 */
#ifndef FASHIM_RERUN_H
#define FASHIM_RERUN_H

#include "shim/chain/chain.h"

/* Runs all held-back ops now, in order, and writes what is still virtual where it belongs. 0 or
 * not. The chain's context is current. */
int rerun_chain(struct chain *chain);

/* Runs the parts of the closing product that were held back (chain/parts.h), of values that are
 * real. 0 or not. */
int rerun_parts(const struct chain *chain);

#endif
