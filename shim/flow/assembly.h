/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph that was put together by hand, read node by node as if it were captured: the ops of
 * children that were captured as they were then, kernels, copies and fills as the driver describes
 * their nodes.
 *
 * Both: flow lock held, no capture under way.
 */
#ifndef FASHIM_ASSEMBLY_H
#define FASHIM_ASSEMBLY_H

#include "shim/act/recording.h"

/* It is known from then on (graph.h, recording.h), if all of it can be told; else it is as before.
 */
void assembly_read(CUgraph graph);

/* A child was added to it as this node. */
void assembly_added(CUgraph graph, CUgraphNode node, CUgraph child);

#endif
