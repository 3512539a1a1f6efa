/* SPDX-License-Identifier: Apache-2.0
 *
 * A clone of a graph whose nodes stand in one row, those of child graphs in their place, and the
 * ops that they came from: some are taken out, others stand in their place.
 *
 * All functions: flow lock held, the graph's context current.
 */
#ifndef FASHIM_GRAPH_ROW_H
#define FASHIM_GRAPH_ROW_H

#include "shim/act/graph_making.h"
#include "shim/act/recording.h"

struct graph_row {
	CUgraph clone; /* NULL: it was only read */
	int count, room;
	struct row_entry {
		CUgraphNode node;
		CUgraph graph; /* that it is a node of */
		int depth;     /* of that one among child graphs, from 0 */
		bool is_child; /* a child graph, whose own nodes come next */
		int op;
		bool removed;
		CUgraphNode ahead, behind; /* what stands there besides; NULL: nothing */
	} * entry;
};

/* Does the driver have what this takes? */
bool graph_rows_possible(void);

/* The graph's own nodes, to look at. false: they are no row. */
bool graph_row_read(struct graph_row *row, CUgraph graph);

/* How many nodes each op of a captured graph became (recorded_op.nodes), of those behind a node
 * (NULL: all). *first is the first of them. false: not all are accounted for. */
bool graph_row_count(struct recorded_graph *graph, CUgraphNode behind, CUgraphNode *first);

/* NULL, or why the graph is no row of nodes that are all accounted for. */
const char *graph_row_open(struct graph_row *row, const struct recorded_graph *graph);

/* Another one like it, which was not changed yet. false: the driver would not. */
bool graph_row_copy(struct graph_row *row, const struct graph_row *from);

/* Takes an op out and puts a graph, which is destroyed, or nothing (NULL) in its place. 0 or -1. */
int graph_row_replace(struct graph_row *row, int op, CUgraph child);

/* Leaves an op in and puts graphs, which are destroyed, ahead of it and behind it, or nothing
 * (NULL). An op has one of each at most. 0 or -1. */
int graph_row_surround(struct graph_row *row, int op, CUgraph ahead, CUgraph behind);

/* Asks for an executable graph of the row as it is now, of which nothing is left but to close it.
 * NULL: the driver would not. */
struct graph_making *graph_row_make(struct graph_row *row, CUcontext context,
				    unsigned long long flags);

void graph_row_close(struct graph_row *row);

#endif
