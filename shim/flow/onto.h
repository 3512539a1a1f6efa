/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures that go into a graph which may hold nodes (cuStreamBeginCaptureToGraph): what comes of
 * one is a part of that graph (built.h), if the graph was put together before our eyes.
 *
 * Both: flow lock held.
 */
#ifndef FASHIM_ONTO_H
#define FASHIM_ONTO_H

#include "shim/op/op.h"

/* One began. */
void onto_begun(const struct op *op);

/* A capture has ended. false: it was no such one. */
bool onto_ended(CUgraph graph);

#endif
