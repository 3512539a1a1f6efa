/* SPDX-License-Identifier: Apache-2.0
 *
 * A clone of a graph whose nodes stand in one row, or in a few beside each other, those of child
 * graphs in their place, and the ops that they came from: some are taken out, others stand in their
 * place. In the row each node is behind all that it waits for.
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
		CUgraph graph;		  /* that it is a node of */
		int depth;		  /* of that one among child graphs, from 0 */
		bool is_child;		  /* a child graph, whose own nodes come next */
		int before, before_count; /* in .before: the entries it waits for, … */
		int after;		  /* … and one that it shall wait for besides; -1: none */
		int op;
		bool removed;
		CUgraphNode ahead, behind; /* what stands there besides; NULL: nothing */
		bool passed;		   /* one search for what comes before another */
	} * entry;
	bool branched; /* some nodes do not wait for the one before */
	int before_count, before_room;
	int *before;
};

/* Does the driver have what this takes? */
bool graph_rows_possible(void);

/* The graph's own nodes, to look at; of a captured graph (else NULL) in the order of its ops.
 * false: what waits for what is more than edges from node to node, or a child is no row. */
bool graph_row_read(struct graph_row *row, CUgraph graph, const struct recorded_graph *captured);

/* Does the entry wait for the one before it, and for no other? */
bool graph_row_linked(const struct graph_row *row, int entry);

/* How many nodes each op of a captured graph became (recorded_op.nodes), of those behind what was
 * there before (NULL: the graph is the capture's, and a row). *first is the first of them. false:
 * not all are accounted for, or they are no row. */
bool graph_row_count(struct recorded_graph *graph, const struct recorded_behind *behind,
		     CUgraphNode *first);

/* Which of a graph's ops run beside each other (graph_order.path). NULL, or why nobody knows. */
const char *graph_row_order(struct recorded_graph *graph);

/* NULL, or why the graph's nodes are not all accounted for, and in a known order. */
const char *graph_row_open(struct graph_row *row, const struct recorded_graph *graph);

/* Another one like it, which was not changed yet. false: the driver would not. */
bool graph_row_copy(struct graph_row *row, const struct graph_row *from);

/* Takes an op out and puts a graph, which is destroyed, or nothing (NULL) in its place. 0 or -1. */
int graph_row_replace(struct graph_row *row, int op, CUgraph child);

/* Leaves an op in and puts graphs, which are destroyed, ahead of it and behind it, or nothing
 * (NULL). An op has one of each at most. 0 or -1. */
int graph_row_surround(struct graph_row *row, int op, CUgraph ahead, CUgraph behind);

/* What stands at op `second`, and all that waits for it, shall wait for what stands at op `first`
 * and behind it, which comes before it in the row. */
void graph_row_one_by_one(struct graph_row *row, int first, int second);

/* Asks for an executable graph of the row as it is now, of which nothing is left but to close it.
 * NULL: the driver would not. */
struct graph_making *graph_row_make(struct graph_row *row, CUcontext context,
				    unsigned long long flags);

void graph_row_close(struct graph_row *row);

#endif
