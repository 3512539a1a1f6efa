/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of a graph that runs as the program wants it, and beside each of its attention chains,
 * behind the closing GEMM, our own kernel: on what Q, K and V were at that moment, into scratch.
 * Its launches are comparisons as those of compare.h: the first ones decide whether the chains may
 * be replaced in launches to come, some later ones are samples.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_GRAPH_BESIDE_H
#define FASHIM_GRAPH_BESIDE_H

#include "shim/act/graph_row.h"

struct graph_beside;

/* Is the chain's site still the one that it was, and not declined? */
bool beside_takes(const struct recorded_chain *record);

/* For those chains of the graph that are proven; it is made when the turn is over. The row is left
 * as it is. NULL: there is nothing to compare, no room, or the driver would not. The context is
 * current. */
struct graph_beside *beside_build(const struct recorded_graph *graph, const struct graph_row *row,
				  unsigned long long flags);

/* Launches it; the program's memory is then as behind a launch of its own. false: it could not be.
 */
bool beside_launch(struct graph_beside *beside, struct queue queue);

/* Takes in what came back, and itself when it was made. */
void beside_take_in(struct graph_beside *beside);

/* It is to be made yet (NULL), or why it cannot be. */
const char *beside_failed(const struct graph_beside *beside);

/* Is it made, nothing under way, and can another launch be afforded? */
bool beside_may_launch(const struct graph_beside *beside);

/* Is it decided of each chain? */
bool beside_settled(const struct graph_beside *beside);

/* May chain `index` of the recorded graph be replaced? */
bool beside_agrees(const struct graph_beside *beside, int index);

/* Is another kernel asked of a site by now? */
bool beside_outdated(const struct graph_beside *beside);

/* Its last launch was on `stream`. */
void beside_free(struct graph_beside *beside, CUstream stream);

/* The context is about to go; NULL: any. */
void beside_forget(CUcontext context);

#endif
