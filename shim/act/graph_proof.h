/* SPDX-License-Identifier: Apache-2.0
 *
 * What a graph's ops, in their order, prove of an attention chain among them: that its scores may
 * be left out, since within the graph, however often it is replayed, nobody but the chain reads
 * them. What no later op of the graph overwrites of them may be asked for from outside: that stays
 * virtual after each launch, and the graph's copy must leave behind what it is made of.
 */
#ifndef FASHIM_GRAPH_PROOF_H
#define FASHIM_GRAPH_PROOF_H

#include "shim/act/recording.h"

struct graph_proof {
	bool outlives;			      /* something of the values is left at the end: */
	struct range_set left[CHAIN_VALUES];  /* of each value */
	struct range_set first[CHAIN_VALUES]; /* the same right behind the closing GEMM */
	bool saved[CHAIN_INPUTS];	      /* inputs to copy before their first reader … */
	bool beside[CHAIN_INPUTS];	      /* … where they are read behind the closing GEMM */
};

/* NULL: proven. Else why not, in words that live as long as the graph. */
const char *graph_prove(struct graph_proof *proof, const struct recorded_graph *graph,
			const struct recorded_chain *record);

/* Does what the chain's steps read from outside stay as it is until the graph ends? */
bool graph_keeps_inputs(const struct recorded_graph *graph, const struct recorded_chain *record);

#endif
