/* SPDX-License-Identifier: Apache-2.0
 *
 * Executable graphs of our own. What the driver takes to make one grows with the graph, and there
 * may be too little memory for it, so that none is made under the lock: the launch that wants it
 * asks, its thread makes it when the turn is over (flow/turn.h), and a later launch takes it.
 *
 * All functions but graph_making_make(): flow lock held.
 */
#ifndef FASHIM_GRAPH_MAKING_H
#define FASHIM_GRAPH_MAKING_H

#include <cuda.h>
#include <stdbool.h>

struct graph_making;

/* Of this graph, which is destroyed in any case. NULL: no memory. The context is current. */
struct graph_making *graph_making_ask(CUgraph graph, CUcontext context, unsigned long long flags);

/* -EAGAIN: not there yet. Else the making is no more: 0, and *exec is the caller's; or -EIO, and
 * *why says why there is none. */
int graph_making_take(struct graph_making *making, CUgraphExec *exec, const char **why);

/* Nobody wants it any more. NULL: nothing. */
void graph_making_drop(struct graph_making *making);

/* Was any asked for? One that was, or NULL; made without the lock; there for whoever asked. */
bool graph_making_wanted(void);
struct graph_making *graph_making_next(void);
void graph_making_make(struct graph_making *making);
void graph_making_keep(struct graph_making *making);

#endif
