/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a recorded trace (shim/flow/record.h), plain or .gz, and hands out its ops one by one.
 */
#ifndef FASHIM_REPLAY_TRACE_H
#define FASHIM_REPLAY_TRACE_H

#include "shim/op/op.h"

/* Calls `each` for every op, in order. Kernels are entered with below_function(); what an op points
 * to lasts for the call, its strings as long as the program. Returns how many ops there were, or
 * -errno with a line on stderr. */
long trace_play(const char *path, void (*each)(struct op *op, void *argument), void *argument);

#endif
