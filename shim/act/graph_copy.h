/* SPDX-License-Identifier: Apache-2.0
 *
 * The copy of a graph in which chains are replaced, launched in its place. The program's graph and
 * what it instantiated of it stay as they are, and run again as soon as anything about them
 * changes: an update, a site that is declined, a stream or context that goes.
 *
 * The first launches are the program's, with comparisons beside them (graph_beside.h). When these
 * agreed the copy proper is made, and now and then a launch is a comparison again. In the copy a
 * chain's nodes are gone; where its closing GEMM was, a child graph launches the
 * fused kernel, and where an input is read first that is overwritten later, one saves it. What no
 * later node of the graph overwrites of the scores is held after each launch as if the chain had
 * been replaced outside: held.h makes it real for whoever asks.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_GRAPH_COPY_H
#define FASHIM_GRAPH_COPY_H

#include "shim/act/recording.h"

struct graph_copy;

/* Not where one after the other went, or was updated, before anything could be replaced in it: a
 * program may make or update one for each step. */
bool graph_copies_wanted(void);

/* An executable graph was made of a graph that recording_of() knows: its launches are looked at
 * where one of the chains may be replaced. */
void graph_copy_make(struct recorded_graph *graph, CUgraphExec exec, unsigned long long flags);

/* What stands for an executable graph, launched on this stream; NULL: itself. Either is ordered
 * behind its latest launch. A launch of the program's own is made after the lock was given back;
 * when it was, or the driver refused it, graph_copy_passed() is told, if op->watcher is set.
 * capture: one is under way, which the launch's stream may join any moment. */
struct graph_copy *graph_copy_for(CUgraphExec exec, struct op *op);
void graph_copy_passed(const struct op *op, bool capture);

/* What this launch of it is to be: the program's own, that with comparisons beside its chains, or
 * with the chains replaced. Asked once for each launch. */
enum graph_turn { TURN_PROGRAM, TURN_BESIDE, TURN_REPLACED };
enum graph_turn graph_copy_turn(struct graph_copy *copy);

/* The order in which any of them touches memory; NULL: not known any more. */
const struct graph_order *graph_copy_order(const struct graph_copy *copy);

/* Launches it, where it is not the program's own; everybody was guarded, but in TURN_REPLACED from
 * what it holds itself. false: it could not be, and is no more. */
bool graph_copy_launch(struct graph_copy *copy, enum graph_turn turn);

/* Any copy there? */
bool graph_copies(void);

/* A capture is about to begin: nothing can be ordered any more behind what a stream that it takes
 * was given before. */
void graph_copies_before_capture(void);

/* This executable graph, any may be changed. */
void graph_copy_end(const void *exec);
void graph_copies_end(void);

/* The same of those whose ops touch the range: from now on others may look there unseen. */
void graph_copies_end_in(uint64_t begin, uint64_t end);

/* One is gone; a context, a stream is about to go. */
void graph_copy_forget(const void *exec);
void graph_copy_forget_context(CUcontext context);
void graph_copy_forget_stream(CUstream stream);

#endif
