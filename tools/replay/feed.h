/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded trace played to the shim's core in place of the hooks, over below.h: what the core
 * then decides is what it would decide in the recorded program, where comparisons pass.
 */
#ifndef FASHIM_REPLAY_FEED_H
#define FASHIM_REPLAY_FEED_H

#include "shim/flow/flow.h"
#include "shim/op/op.h"

/* After an op went through, with what became of it. */
typedef void feed_seen(const struct op *op, enum flow flow, void *argument);

/* Plays the trace `rounds` times; between two rounds everything is freed. How many ops there were,
 * those frees included, or -errno with a line on stderr. Once a process: the core keeps its state.
 */
long feed_trace(const char *path, int rounds, feed_seen *seen, void *argument);

#endif
