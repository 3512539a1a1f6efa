/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture that is followed op by op (FASHIM_GRAPHS=prove). The program's ops are captured as they
 * are; what is kept is which nodes each of them became, what they touch in which order, and which
 * of them are occurrences of verified sites. From that graph_proof.h tells what may be left out of
 * a copy of the graph (graph_copy.h).
 *
 * Followed is one capture at a time, on the stream that it began on and those that join it.
 * Whatever cannot be accounted for ends that: a node that no op of ours became, an op that may
 * touch anything, work beside the capture. Then the graph runs as it is. A graph that was put
 * together by hand is followed in the same way, by whoever reads it node by node (flow/assembly.h).
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_RECORDING_H
#define FASHIM_RECORDING_H

#include "shim/chain/chain.h"
#include "shim/op/graph.h"

#define RECORDED_CHAINS 128 /* of a graph */
#define RECORDED_BEHIND 16

/* The nodes that something begins behind. */
struct recorded_behind {
	int count;
	CUgraphNode node[RECORDED_BEHIND];
};

struct recorded_op {
	CUgraphNode last; /* once it was captured: the latest node then; NULL: none yet */
	bool captured;
	enum op_kind kind;
	int nodes;	      /* how many it became, where somebody counted (graph_row.h) */
	struct op_gemm *gemm; /* a product; else NULL */
	char name[40];
};

/* An occurrence of a verified site among the ops. */
struct recorded_chain {
	struct chain *chain; /* as it was when its closing GEMM came, a copy */
	struct site *site;
	int number; /* the site's */
	int close;  /* the ops: its closing GEMM, … */
	int step[CHAIN_STEPS];
	int reader[CHAIN_INPUTS]; /* … its steps, the first reader of each input */
	int kept_inputs;	  /* of these; the others are the closing GEMM's */
};

struct recorded_graph {
	CUgraph graph;
	CUcontext context;
	uint64_t serial;   /* later ones have more */
	bool instantiated; /* was an executable graph made of it? */
	bool built;	   /* it was read, in the order in which the driver lists its nodes */
	bool branched;	   /* some ops may run beside each other (graph_row_order()) */
	int users;	   /* recording_keep() */
	int op_count, op_room;
	struct recorded_op *op;
	struct graph_order order;
	int chain_count;
	struct recorded_chain *chain[RECORDED_CHAINS];
};

/* A capture began on the op's stream; none can be followed any more that is under way. `onto`: into
 * a graph that may hold nodes already. */
void recording_begin(const struct op *op, bool onto);
void recording_fail(const char *why);

/* The graph that the stream is captured into; NULL: nobody can tell. */
CUgraph recording_place(const struct op *op);

/* The same of a graph that nobody captured. Its ops are said to be on this stream, even where they
 * run beside each other (`branched`). false: there is no use in it, or no memory. */
bool recording_begin_built(CUgraph graph, CUcontext context, CUstream stream, bool branched);

/* Is the op one of a capture that is followed? Then it is noted, and op->recorded set. */
void recording_note(const struct sight *sight);

/* It was captured; is so many nodes, of which this is the last. */
void recording_ran(const struct op *op);
void recording_found(const struct op *op, CUgraphNode last, int nodes);

/* A chain that it opens, or that it extends: from input `inputs` on it is their first reader. */
void recording_step(const struct chain *chain, const struct op *op, int inputs);

/* The chain closes with it, as the site's do. */
void recording_close(const struct chain *chain, struct site *site, const struct op *op,
		     int kept_inputs);

/* The capture is about to end; has ended as this graph. */
void recording_ends(const struct op *op);
void recording_ended(CUgraph graph);

/* Instead, of one that went into a graph: what was captured, for whoever releases it, and behind
 * which nodes it stands there. NULL: it was not, or not followed to its end. */
struct recorded_graph *recording_taken(CUgraph graph, struct recorded_behind *behind);

/* What is known of a graph of which something is made; NULL: nothing. */
struct recorded_graph *recording_of(CUgraph graph);

/* It stays as it is until it was released as often, also when its graph is gone. */
void recording_keep(struct recorded_graph *graph);
void recording_release(struct recorded_graph *graph);

/* A graph is gone; NULL: any may have been changed. */
void recording_forget(const void *graph);

#endif
