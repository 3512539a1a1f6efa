/* SPDX-License-Identifier: Apache-2.0
 *
 * What launches may be of in the place of an executable graph, as it is built (graph_beside.c,
 * graph_copy_build.c), used (graph_copy_turn.c) and over (graph_copy.c).
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_GRAPH_COPY_PARTS_H
#define FASHIM_GRAPH_COPY_PARTS_H

#include "shim/act/graph_beside.h"
#include "shim/act/graph_child.h"
#include "shim/act/graph_copy.h"
#include "shim/act/graph_row.h"
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
	CUgraphExec program;
	CUcontext context; /* that it was captured in */
	bool over; /* it is no more, but launches of the program's have yet to wait for its own */
	struct queue latest; /* where either was launched last */
	bool under_way;	     /* one of the program's was not seen to be enqueued yet */
	struct graph_order order;
	unsigned long long flags;
	unsigned launches; /* so far, of the program's own */

	struct recorded_graph *recorded; /* until there is nothing more to build; NULL then */
	struct graph_row row;

	struct graph_beside *beside; /* the program's chains, and ours beside them; NULL: none */
	uint64_t since, interval;    /* launches since it was one of these, between two of them */

	struct graph_making *making; /* that is to be … */
	CUgraphExec exec;	     /* … the program's chains replaced; NULL: not yet */
	struct {
		const char *why; /* each chain of `recorded` is left alone; NULL: it is not … */
		bool held;	 /* … and something of its scores outlives a launch */
	} outcome[RECORDED_CHAINS];
	int part_count;
	struct part part[RECORDED_CHAINS];
	struct graph_saved saved;
};

static inline bool graph_part_held(const struct part *part)
{
	return part->held && part->held->used && part->held->serial == part->serial;
}

/* The copy is no more. */
void graph_copy_over(struct graph_copy *copy);

/* One came to replace something. */
void graph_copies_pay(void);

/* Which ops run beside each other. NULL, or why nobody knows. */
const char *graph_copy_order_ops(struct recorded_graph *graph);

/* Is there anything to gain? Else the log is told why not. */
bool graph_copy_any_proven(const struct recorded_graph *graph);

/* A copy that nobody knows of yet, nothing built. NULL: *why. */
struct graph_copy *graph_copy_new(struct recorded_graph *graph, const char **why);

/* Nothing more will be built. */
void graph_copy_release_plans(struct graph_copy *copy);

/* Asks for copy->exec: what agreed in the comparisons is replaced. false: nothing was, or the
 * driver would not. The context is current. */
bool graph_copy_build(struct graph_copy *copy);

/* Tells the log what became of the chains; `why`: of none was made what was asked for. */
void graph_copy_note_all(const struct graph_copy *copy, const char *why);

#endif
