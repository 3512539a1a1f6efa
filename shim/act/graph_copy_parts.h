/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy as it is built (graph_copy_build.c) and used (graph_copy.c).
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_GRAPH_COPY_PARTS_H
#define FASHIM_GRAPH_COPY_PARTS_H

#include "shim/act/graph_copy.h"
#include "shim/real/driver_context.h"

/* A chain that is replaced in the copy. */
struct part {
	struct site *site;
	int number;	     /* the site's */
	struct chain *chain; /* as it is held after a launch; NULL: nothing is */
	struct chain *held;  /* that is it, as long as it has this serial */
	uint64_t serial;
};

struct graph_copy {
	CUgraphExec program, exec; /* exec NULL: it is no more, but the program's has yet to wait */
	struct queue latest;	   /* where either was launched last */
	struct graph_order order;
	int part_count;
	struct part part[RECORDED_CHAINS];
	int saved_count;
	uint64_t saved[RECORDED_CHAINS * 4]; /* scratch for inputs */
};

/* A stream of our own on which nodes are captured. NULL: none could be had. It outlives copies:
 * their saved inputs are ordered by it. */
CUstream graph_workshop(CUcontext context);

/* The context is about to go; NULL: any. */
void graph_workshop_forget(CUcontext context);

/* A copy in which at least one chain is replaced. NULL: none may be, or the driver would not. The
 * context is current. */
struct graph_copy *graph_copy_build(const struct recorded_graph *graph, CUgraphExec exec,
				    unsigned long long flags);

/* The copy and all that it holds are no more. */
void graph_copy_free(struct graph_copy *copy);

#endif
