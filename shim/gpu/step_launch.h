/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a chain once more, with its pointers elsewhere: at home, in scratch, or in memory that
 * only looks like the program's.
 */
#ifndef FASHIM_STEP_LAUNCH_H
#define FASHIM_STEP_LAUNCH_H

#include "shim/chain/chain.h"

/* Enqueues a launch or copy on the chain's stream; place[i] is what refs[i] points to. 0 or -1. The
 * chain's context is current. */
int step_run(const struct chain *chain, const struct step *step, const uint64_t place[CHAIN_REFS]);

/* The same of a launch alone, on any stream. */
int step_launch(CUstream stream, const struct step *step, const uint64_t *place);

/* Where refs[i] pointed when the program made the call. */
uint64_t step_pointer(const struct chain *chain, const struct step *step, int i);

#endif
