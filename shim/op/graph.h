/* SPDX-License-Identifier: Apache-2.0
 *
 * What a graph touches when it is launched: the ranges of all ops that were captured into it. A
 * graph that was not captured before our eyes, or was changed since, is not known, and may touch
 * anything.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_GRAPH_H
#define FASHIM_GRAPH_H

#include "shim/op/access.h"

struct graph_range {
	uint64_t begin, end;
	bool written;
};

struct graph_ranges {
	int count;
	struct graph_range *item;
};

/* What the ops of a graph touch, op by op: of each first what it may read, then what it writes. */
struct graph_touch {
	uint64_t begin, end, sure_end; /* written: every byte of [begin, sure_end) is */
	int op;
	bool read;
};

/* Where an op stands among those that run beside each other. Each line is a row of ops, each of
 * them behind the one before. */
#define GRAPH_LINES 16

struct graph_path {
	int line, at;		/* so far along its line it ends; -1: nothing of it runs */
	int begun[GRAPH_LINES]; /* so far along each line all is done when it begins */
};

struct graph_order {
	int count, room;
	struct graph_touch *item;
	int path_count;		 /* ops of … */
	struct graph_path *path; /* NULL: each op is behind the one before */
};

/* Appends an op's accesses; of one that may follow addresses, anything. false: no memory. */
bool graph_order_add(struct graph_order *order, int op, const struct access_list *list);
void graph_order_drop(struct graph_order *order);

/* Another one like it. false: no memory. */
bool graph_order_copy(struct graph_order *to, const struct graph_order *from);

/* Is op `a` done before op `b` begins, however the graph is run? */
bool graph_order_before(const struct graph_order *order, int a, int b);

/* A capture began on a stream, into an empty graph or (`onto`) one that may hold nodes already. */
void graph_begin(CUstream stream, bool onto);

/* An op passed while something is being captured. Counted to every capture under way: which of them
 * it belongs to only the driver knows. */
void graph_note(const struct access_list *list);

/* The capture on a stream ended as this graph. */
void graph_end(CUstream stream, CUgraph graph);

/* An executable graph was made of a graph. */
void graph_instantiated(CUgraph graph, CUgraphExec exec);

/* A handle (of either kind) will mean nothing, or something else, from now on. */
void graph_gone(const void *handle);

/* Some graph, some executable graph was changed by hand: none of the kind is known any more. */
void graph_changed(void);
void graph_executables_changed(void);

/* What a launch touches; NULL: anything. */
const struct graph_ranges *graph_known(CUgraphExec exec);

#endif
