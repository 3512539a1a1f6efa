/* SPDX-License-Identifier: Apache-2.0
 *
 * What a hook calls. A hook
 *   1. returns at once to the real function when flow_active() is false or depth is nonzero,
 *   2. fills a struct op and calls flow_before(): FLOW_TAKEN means the op was deferred or replaced
 *      and the hook returns success without calling the real function; FLOW_FAILED, that data of
 *      the program's could not be made: the hook returns an error (op.error) without calling it,
 *   3. otherwise calls the real function (no lock of ours is held) and, when it succeeded,
 *      flow_after() with the same op; when the driver refused it, flow_refused().
 * All of them leave errno and the current context as they found them.
 */
#ifndef FASHIM_FLOW_H
#define FASHIM_FLOW_H

#include "shim/op/op.h"

/* False in mode `off` and after the shim disabled itself: hooks then only forward. */
bool flow_active(void);

/* Cheap test for the launch, copy and fill hooks: does anybody watch memory or record right now?
 * While it is false such an op needs no struct op at all. One relaxed atomic load. */
bool flow_watching(void);

/* The same for the launch of a graph. */
bool flow_watching_graphs(void);

/* The program waits for the device, or for what it copies from there, until it has waited: since
 * the moment that flow_waits() gave. Cheap, without the lock. */
uint64_t flow_waits(void);
void flow_waited(uint64_t since_ns);

/* It has something copied to the host without waiting for it. */
void flow_fetches(void);

/* A product comes: need nobody see it? Asked before its struct op is filled in. */
bool flow_rests(void);

enum flow flow_before(struct op *op);
void flow_after(struct op *op);
void flow_refused(struct op *op);

/* exit() was called, or main returned; exit handlers and destructors come next. */
void flow_exits(void);

/* For driver functions nobody wrote a hook for: makes memory everywhere what it would be without
 * us. `name` is for the log. Cheap when nothing is held back. */
void flow_flush(const char *name);

/* An empty graph was made; a node (NULL: edges) was added to one, a copy of `child` if not NULL. */
void flow_graph_created(CUgraph graph);
void flow_graph_added(CUgraph graph, const CUgraphNode *node, CUgraph child);

/* The program is about to ask where the capture on this stream has come to, or to move it. */
void flow_capture_asked(CUstream stream, const char *name);

/* An executable graph was made of a graph; a handle of either kind is about to be destroyed. */
void flow_graph_instantiated(CUgraph graph, CUgraphExec exec, unsigned long long flags);
void flow_graph_gone(const void *handle);

/* An executable graph is about to be made equal to another graph; it was. */
void flow_graph_updating(CUgraphExec exec);
void flow_graph_updated(CUgraph graph, CUgraphExec exec);

/* The driver had no memory left for the program: gives back what the shim holds idle. true: some
 * was freed, asking again is worth it. */
bool flow_out_of_memory(void);

#endif
