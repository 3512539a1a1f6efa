/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of one graph, without those of its children, each behind all that it waits for.
 *
 * All functions: flow lock held, the graph's context current.
 */
#ifndef FASHIM_GRAPH_LEVEL_H
#define FASHIM_GRAPH_LEVEL_H

#include <cuda.h>
#include <stdbool.h>

#include "shim/act/recording.h"

struct graph_level {
	int count;
	CUgraphNode *node;
	int *first;  /* of each node, and one more: where in `before` its own begin */
	int *before; /* the nodes it waits for, by their numbers */
	bool row;    /* each node waits for the one before, and for no other */
};

/* Ops that were captured come in the order in which they were (NULL: there are none). Else nodes
 * come in that in which the driver lists them, as far as the edges allow, but one that waits for
 * one other alone, for which nobody else waits, right behind it. false: there are edges that say
 * more than that one node waits for another, or no memory. */
bool graph_level_read(struct graph_level *level, CUgraph graph,
		      const struct recorded_graph *captured);

void graph_level_close(struct graph_level *level);

#endif
