/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of bytes while the ops of a graph run in their order.
 */
#ifndef FASHIM_IN_ORDER_H
#define FASHIM_IN_ORDER_H

#include "shim/base/range.h"
#include "shim/op/graph.h"

/* From op `first` on: takes away from *live what is overwritten for certain. false: before that, or
 * beside it, op *by may read some of it, or overwrites it nobody knows how far; *live is of no use
 * then. */
bool order_overwrites(const struct graph_order *order, int first, struct range_set *live, int *by);

/* May op `first`, or one from there to op `last`, write into [begin, end)? */
bool order_writes(const struct graph_order *order, int first, int last, uint64_t begin,
		  uint64_t end);

#endif
