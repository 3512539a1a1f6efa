/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph is a list of nodes, each with those that must come before it.
 */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "sim.h"

/* What a node does; copies of the node share it. */
struct body {
	struct sim_work *work;
	unsigned users;
};

struct sim_node {
	CUgraphNodeType type;
	struct body *body;	 /* NULL: an empty node, or … */
	struct sim_graph *child; /* … a graph of its own */
	struct sim_node **before;
	unsigned count; /* of these */
	struct sim_graph *graph;
	const struct sim_node *origin; /* that it is a copy of */
	bool disabled;		       /* in an executable graph: nothing is done in its place */
	bool done;
	struct sim_node *next;
};

struct sim_graph {
	enum sim_magic magic;
	struct sim_node *head;
	unsigned count;
	unsigned runs;	/* so far */
	unsigned users; /* an executable graph's: that, and its launches under way */
	bool gone;	/* the next one may be here */
	struct sim_graph *next;
};

struct sim_graph *sim_graph_new(void);

/* The graph's last node so far, ordered behind none. */
struct sim_node *sim_graph_add(struct sim_graph *g, CUgraphNodeType type);
void sim_graph_edge(struct sim_node *from, struct sim_node *to);

/* What a captured launch, fill, copy is to do. What `params` points to lives as long as the work.
 */
CUresult sim_launch_params(const struct sim_work *work, CUDA_KERNEL_NODE_PARAMS *params);
void sim_fill_params(const struct sim_work *work, CUDA_MEMSET_NODE_PARAMS *params);
void sim_copy_params(const struct sim_work *work, CUDA_MEMCPY3D *params);

/* What the node does from now on; what it did lives on in copies. */
void sim_graph_set_body(struct sim_node *node, struct body *body);

/* The executable graph's own node that was made of this one, of which no launch under way has the
 * body. NULL: it has none. */
struct sim_node *sim_graph_exec_node(CUgraphExec exec, CUgraphNode node);

/* Without nodes, as an empty graph. */
void sim_graph_empty(struct sim_graph *g);

/* … and the graph goes: its handle may be given out again. */
void sim_graph_drop(struct sim_graph *g);

#endif
