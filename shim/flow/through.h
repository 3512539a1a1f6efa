/* SPDX-License-Identifier: Apache-2.0
 *
 * An op's way through everything that wants to know of it (README.md: one call, from the app to the
 * log). Every op comes by once before the program's own call, in program order, and once after.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_THROUGH_H
#define FASHIM_THROUGH_H

#include "shim/op/op.h"

/* Is anything kept that an op might change? Where nothing is, only products are asked about. */
bool through_keeps(void);

/* Whether the program's call is to be made: FLOW_PASS, or FLOW_TAKEN. */
enum flow through_before(struct op *op);

/* It was made, and succeeded. */
void through_after(struct op *op);

/* … or was refused: the end of a capture, the launch of a graph. */
void through_refused(const struct op *op);

/* What is held back of this stream's capture becomes nodes: the program's own come behind them. */
void through_capture_asked(CUstream stream, const char *who);

/* The same for a graph that was put together by hand, whose ops are read when something is made of
 * it, between these two; `whole`: they are all of its nodes. */
void through_assembly_begins(const struct op *begin);
void through_assembled(struct op *op);
void through_assembly_ends(const struct op *begin, CUgraph graph, bool whole);

#endif
