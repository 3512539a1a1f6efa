/* SPDX-License-Identifier: Apache-2.0
 *
 * What cuDNN's backend descriptors were told. Most of it cannot be asked back (a variant pack does
 * not even give out its pointers), so it is noted while the program says it: tensors when an
 * operation is given them, operations when a graph is, and the graph's tensors then follow its
 * engines, configurations and heuristics down to the execution plan. Descriptors are final before
 * others are given them, so nothing noted can change afterwards.
 */
#ifndef FASHIM_CUDNN_GRAPH_H
#define FASHIM_CUDNN_GRAPH_H

#include "shim/operands/operands.h"

/* A descriptor of a cudnnBackendDescriptorType_t was made, or is about to be destroyed. */
void cudnn_graph_created(const void *descriptor, int type);
void cudnn_graph_destroyed(const void *descriptor);

/* An attribute was set; the arguments are those of cudnnBackendSetAttribute. */
void cudnn_graph_set(const void *descriptor, int name, int type, int64_t count, const void *array);

/* Descriptors were filled in by cudnnBackendGetAttribute. */
void cudnn_graph_got(const void *descriptor, int name, int type, int64_t count, const void *array);

/* An execution plan was finalised; bytes of workspace that it uses, < 0: nobody knows. */
bool cudnn_graph_is_plan(const void *descriptor);
void cudnn_graph_workspace(const void *plan, int64_t bytes);

/* Adds what executing a plan with a variant pack touches. */
void cudnn_graph_operands(const void *plan, const void *pack, struct operands *operands);

#endif
