/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of our own for copies of graphs: captured on a stream of ours, as a graph that becomes a
 * child of the copy.
 *
 * All functions: flow lock held, the context current.
 */
#ifndef FASHIM_GRAPH_CHILD_H
#define FASHIM_GRAPH_CHILD_H

#include "shim/act/recording.h"

/* A stream of our own on which nodes are captured. NULL: none could be had. It outlives copies:
 * their scratch is ordered by it. */
CUstream graph_workshop(CUcontext context);

/* The context is about to go; NULL: any. */
void graph_workshop_forget(CUcontext context);

/* What is enqueued on the workshop's stream in between becomes the graph. `error`: it was no good.
 * NULL then, or where the driver would not. */
int graph_child_begin(CUstream stream);
CUgraph graph_child_end(CUstream stream, int error);

/* Copies of inputs in scratch, which nodes make anew at each launch. */
struct graph_saved {
	int count;
	uint64_t block[RECORDED_CHAINS * 4];
};

/* Has scratch for those inputs that `which` says, and makes the chain read it there. false: there
 * is no room. */
bool graph_saved_place(struct graph_saved *saved, struct chain *chain, const bool *which,
		       CUstream stream);

/* Scratch for the kernel while it is captured, until graph_saved_made(). Without it may fail. */
void graph_room_open(struct chain *chain, const struct attn_variant *variant,
		     const struct attn_args *args);

/* Has that scratch, and the room of what is made of the chain's biases (made_bias.h), and no longer
 * the chain. false: there are too many. */
bool graph_saved_made(struct graph_saved *saved, struct chain *chain);

/* Is one of them read first by this op? */
bool graph_saved_at(const struct recorded_chain *record, const bool *which, int op);

/* Enqueues the copying of those on the chain's stream. 0 or -1. */
int graph_saved_copy(const struct recorded_chain *record, const struct chain *chain,
		     const bool *which, int op);

/* Gives the scratch back; its last use is on `stream`. */
void graph_saved_put(struct graph_saved *saved, CUstream stream);

#endif
