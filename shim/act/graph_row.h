/* SPDX-License-Identifier: Apache-2.0
 *
 * A clone of a captured graph whose nodes stand in one row, and the ops that they came from: some
 * are taken out, others stand in their place.
 *
 * All functions: flow lock held, the graph's context current.
 */
#ifndef FASHIM_GRAPH_ROW_H
#define FASHIM_GRAPH_ROW_H

#include "shim/act/recording.h"

struct graph_row {
	CUgraph clone;
	int count;
	struct row_entry {
		CUgraphNode node; /* the clone's */
		int op;
		bool removed;
		CUgraphNode instead; /* the op's first: what stands there now; NULL: nothing */
	} * entry;
};

/* Does the driver have what this takes? */
bool graph_rows_possible(void);

/* NULL, or why the graph is no row of nodes that are all accounted for. */
const char *graph_row_open(struct graph_row *row, const struct recorded_graph *graph);

/* Takes an op out and puts a graph, which is destroyed, or nothing (NULL) in its place. 0 or -1. */
int graph_row_replace(struct graph_row *row, int op, CUgraph child);

/* The row as it is now. NULL: the driver would not. */
CUgraphExec graph_row_instantiate(struct graph_row *row, unsigned long long flags);

void graph_row_close(struct graph_row *row);

#endif
