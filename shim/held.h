/* SPDX-License-Identifier: Apache-2.0
 *
 * What is held back, and what must happen before an op would notice.
 *
 *   a later op …                              then
 *   overwrites bytes of a value, reads none   the bytes are dead
 *   may read a virtual value                  it is made real first (the deferred steps are run)
 *   may write an input still needed           the input is copied to scratch first
 *   may run over a virtual value from below   canaries are set in it: the device decides later
 *   is opaque                                 everything virtual is made real
 *
 * All functions: flow lock held. They switch to the chain's context themselves.
 */
#ifndef FASHIM_HELD_H
#define FASHIM_HELD_H

#include "chain.h"

/* Applies the table to every chain but `except`, before the op. `executed`: false when the op is
 * about to be deferred, so that it writes in the program's view but not in memory. */
void held_guard(const struct op *op, const struct access_list *list, const struct chain *except,
		bool executed, const char *who);

/* The same before a graph is launched that touches these ranges. */
struct graph_ranges;
void held_guard_graph(const struct op *op, const struct graph_ranges *ranges);

/* The same for a range that we write ourselves (fused output, write-back). */
void held_guard_write(uint64_t begin, uint64_t end, CUcontext context, CUstream stream,
		      const struct chain *except);

/* A step of the chain itself is about to run (learning) and writes these: keep the inputs. */
void held_guard_inputs(struct chain *chain, const struct op *op, const struct access_list *list);

/* Makes the chain's virtual values real; `who` wanted them, `certain`ly or perhaps. A closed chain
 * is forgotten afterwards, an open one goes on as if it had never been deferred. */
void held_realise(struct chain *chain, CUstream reader, const char *who, bool certain);

/* Everything virtual in any context. */
void held_realise_all(const char *who);

/* The same at the end of the process: counted for no site. */
void held_settle(void);

/* Fills virtual memory with NaN (FASHIM_POISON). */
void held_poison(struct chain *chain);

/* Forgets a chain and gives back what it held. */
void held_drop(struct chain *chain);

/* Is any value of the chain virtual? */
bool held_virtual(const struct chain *chain);

/* Number of chains with virtual values: flow_flush() is cheap while it is zero. */
extern int held_count;

#endif
