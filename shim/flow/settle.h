/* SPDX-License-Identifier: Apache-2.0
 *
 * Moments at which memory everywhere becomes what it would be without us: before what may touch
 * anything, before a graph is recorded, before a context ends, and at the end of the process.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_SETTLE_H
#define FASHIM_SETTLE_H

#include "shim/op/op.h"

/* For what may touch anything, and where it will run nobody knows. Chains stay open. */
void settle_all(const char *who);

/* The same, and nothing is remembered of what ran before. */
void settle_and_forget(const char *who);

/* Before ops go unseen for a while: what is known of memory may not hold behind them. */
void settle_to_rest(const char *who);

/* At the end of the process: counted for no site. `in_time`: libraries are whole; else what is held
 * back is lost. */
void settle_finally(bool in_time);

/* A context, stream, module or library is about to end. */
void settle_teardown(const struct op *op);

/* A stream is about to record a graph. */
void settle_before_capture(const struct op *op);

#endif
