/* SPDX-License-Identifier: Apache-2.0
 *
 * What is learned from a chain whose calls the program made itself.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_LEARNING_H
#define FASHIM_LEARNING_H

#include "shim/chain/chain.h"

/* Kernels, and the means to run deferred steps, which begin with that product, again, are made
 * ready while nothing depends on them; the context is current. 0; -EAGAIN: they are asked for
 * (ahead.h); or why they cannot be had. */
int learning_prepare(CUcontext context, const struct op_gemm *first);

/* A step was added to the chain: may it be attention, then what a comparison needs is asked for, so
 * that it is there when the chain is closed (ahead.h). */
void learning_foresee(const struct chain *chain);

/* The closing GEMM is about to run: finds the site and what it computes, asks what is not known.
 * The chain is watched further, or forgotten. */
enum flow learning_close(struct chain *chain, const struct sight *sight);

/* The same of a chain that is followed in a graph (recording.h): the site of which it is one more,
 * or that begins with it. NULL: none is, or it is not to be replaced. */
struct site *learning_recorded(const struct chain *chain);

/* Before occurrences in graphs are compared: is there a kernel for a site that may have been seen
 * in graphs alone? may_ask: the graph has run, and what its kernels without a rule read is still
 * there; they are asked on that stream. 0; -EAGAIN: not yet; -EBUSY: it cannot be afforded yet.
 * Where there will be none the site is declined. The context is current. */
int learning_in_graph(struct site *site, struct chain *chain, CUstream stream, bool may_ask);

/* The same for what is no attention. */
enum flow learning_pass_over(struct chain *chain, const char *detail);

/* The closing GEMM ran: O is the program's own, and a comparison is begun where one is due. */
void learning_closed(struct chain *chain);

#endif
