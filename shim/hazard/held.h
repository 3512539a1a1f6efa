/* SPDX-License-Identifier: Apache-2.0
 *
 * What is held back, and what must happen before an op would notice.
 *
 *   a later op …                              then
 *   overwrites bytes of a value, reads none   the bytes are dead
 *   may read a virtual value                  it is made real first (the deferred steps are run)
 *   may write an input still needed           the input is copied to scratch first
 *   is unknown (access.h)                     what is virtual in the allocations that it has
 *                                             pointers into is made real
 *   is opaque                                 everything virtual is made real
 *
 * Whoever asks on whatever stream is ordered behind what is made (late.h).
 *
 * All functions: flow lock held. They switch to the chain's context themselves.
 */
#ifndef FASHIM_HELD_H
#define FASHIM_HELD_H

#include "shim/chain/chain.h"

/* What FASHIM_POISON puts: NaN as fp32, as a pair of bf16 and of fp16. */
#define POISON_WORD 0x7fff7ffeu

/* Applies the table to every chain but `except`, before the op. `executed`: false when the op is
 * about to be deferred, so that it writes in the program's view but not in memory. */
void held_guard(const struct sight *sight, const struct chain *except, bool executed);

/* The same for a step of a chain that is being watched: chains whose values are real are told what
 * it `likely` does, so that memory that is merely used again counts as no reading. */
void held_guard_step(const struct sight *sight, const struct access_list *likely,
		     const struct chain *except, bool executed);

/* The same before a graph is launched that touches these ranges; `order`: and in this order, where
 * that is known. What was closed in the graph `own` is left alone. */
struct graph_ranges;
struct graph_order;
void held_guard_graph(const struct op *op, const struct graph_ranges *ranges,
		      const struct graph_order *order, const void *own);

/* Does any chain, held back or watched, have anything there, or on both sides of it? */
bool held_near(uint64_t begin, uint64_t end);

/* The same for a range that we write ourselves on a queue (write-back, poison): it is ordered
 * behind late work there. */
void held_guard_write(uint64_t begin, uint64_t end, struct queue writer,
		      const struct chain *except);

/* A step of the chain itself is about to run (learning) and writes these: keep the inputs. */
void held_guard_inputs(struct chain *chain, const struct op *op, const struct access_list *list);

/* From now on the chain's steps are kept and not run, and its values are virtual. It goes on so
 * until held_realise() or held_drop(). */
void held_begin(struct chain *chain);

/* Makes the chain's virtual values real; `who` wanted them, `certain`ly or perhaps. A closed chain
 * is forgotten afterwards, an open one goes on as if it had never been deferred. */
void held_realise(struct chain *chain, struct queue reader, const char *who, bool certain);

/* Everything virtual in any context. */
void held_realise_all(const char *who);

/* The process is ending: what is made real from now on, nobody asked for. */
void held_end(void);

/* Fills virtual memory with NaN (FASHIM_POISON). */
void held_poison(struct chain *chain);

/* Forgets a chain and gives back what it held. */
void held_drop(struct chain *chain);

/* The same of one that led nowhere; a batch of softmaxes that did is counted, with what stood
 * against it. */
void held_give_up(struct chain *chain);

/* Is any value of the chain virtual? */
bool held_virtual(const struct chain *chain);

/* Number of chains with virtual values: flow_flush() is cheap while it is zero. */
extern int held_count;

#endif
