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

/* Some graph was changed by hand: none is known any more. */
void graph_changed(void);

/* What a launch touches; NULL: anything. */
const struct graph_ranges *graph_known(CUgraphExec exec);

#endif
