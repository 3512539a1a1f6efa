/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that a program puts together by hand, and which of their nodes were followed when they
 * were captured (recording.h), as a child or into the graph itself. What other nodes do the driver
 * says; what a product's kernels do only the call that was captured.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_BUILT_H
#define FASHIM_BUILT_H

#include "shim/act/recording.h"

/* An empty graph was made. */
void built_begin(CUgraph graph);

/* Is it such a graph, so that nodes that are added are added to it alone? A graph inside another
 * one is not. */
bool built_is(CUgraph graph);

/* A node of it is a copy of this graph, or the first of what was captured into it so. */
void built_add(CUgraph graph, CUgraphNode node, struct recorded_graph *part);

/* Has it any such node? What is this one? NULL: nobody knows. */
bool built_of_parts(CUgraph graph);
struct recorded_graph *built_part(CUgraph graph, CUgraphNode node);

/* A graph is gone; NULL: some graph was changed, perhaps inside another one. */
void built_forget(const void *graph);

#endif
