/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as they are put together, made executable, updated and destroyed. Launches are
 * hook_stream.c's.
 */
#include "shim/hook/hook_driver.h"
#include "shim/hook/hook_memory.h"

#include <string.h>

/* ---- put together --------------------------------------------------------------------------- */

NOTED_AFTER(cuGraphCreate, (CUgraph * graph, unsigned flags), (graph, flags), !hook_bypassed(),
	    flow_graph_created(*graph))

#define ADD(function, child, type, parameter)                                                      \
	NOTED_AFTER(function,                                                                      \
		    (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t count,   \
		     type parameter),                                                              \
		    (node, graph, before, count, parameter), !hook_bypassed(),                     \
		    flow_graph_added(graph, node, child))
ADD(cuGraphAddKernelNode, NULL, const CUDA_KERNEL_NODE_PARAMS_v1 *, params)
ADD(cuGraphAddKernelNode_v2, NULL, const CUDA_KERNEL_NODE_PARAMS *, params)
ADD(cuGraphAddChildGraphNode, child, CUgraph, child)

NOTED_AFTER(cuGraphAddMemcpyNode,
	    (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t count,
	     const CUDA_MEMCPY3D *params, CUcontext context),
	    (node, graph, before, count, params, context), !hook_bypassed(),
	    flow_graph_added(graph, node, NULL))
NOTED_AFTER(cuGraphAddMemsetNode,
	    (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t count,
	     const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context),
	    (node, graph, before, count, params, context), !hook_bypassed(),
	    flow_graph_added(graph, node, NULL))
NOTED_AFTER(cuGraphAddEmptyNode,
	    (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t count),
	    (node, graph, before, count), !hook_bypassed(), flow_graph_added(graph, node, NULL))

/* The graph that the node is to be. Behind its handle newer drivers have a word that is 0 where it
 * is copied and not moved: a graph that moves is no graph of its own any more. */
struct child {
	CUgraph graph; /* NULL: it is a node of another kind */
	int moved;
};

static struct child child_of(const CUgraphNodeParams *params)
{
	struct child child = {0};

	if (params && params->type == CU_GRAPH_NODE_TYPE_GRAPH)
		memcpy(&child, &params->graph, sizeof(child));
	return child;
}

/* Its kind was asked before the call, which may write into the parameters. */
#define ADD_ANY(function, parameters, arguments)                                                   \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		struct child child;                                                                \
		CUresult result;                                                                   \
                                                                                                   \
		FIND_REAL(function);                                                               \
		child = child_of(params);                                                          \
		if (child.moved) {                                                                 \
			flow_flush(#function);                                                     \
			flow_graph_gone(child.graph);                                              \
		}                                                                                  \
		result = real arguments;                                                           \
		if (result == CUDA_SUCCESS && !hook_bypassed())                                    \
			flow_graph_added(graph, node, child.moved ? NULL : child.graph);           \
		return result;                                                                     \
	}
ADD_ANY(cuGraphAddNode,
	(CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t count,
	 CUgraphNodeParams *params),
	(node, graph, before, count, params))
ADD_ANY(cuGraphAddNode_v2,
	(CUgraphNode * node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
	 size_t count, CUgraphNodeParams *params),
	(node, graph, before, edges, count, params))

NOTED_AFTER(cuGraphAddDependencies,
	    (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count),
	    (graph, from, to, count), !hook_bypassed(), flow_graph_added(graph, NULL, NULL))
NOTED_AFTER(cuGraphAddDependencies_v2,
	    (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
	     const CUgraphEdgeData *edges, size_t count),
	    (graph, from, to, edges, count), !hook_bypassed(), flow_graph_added(graph, NULL, NULL))

/* ---- made executable ------------------------------------------------------------------------ */

/* It takes memory of the device's, that copies of other graphs may have. */
#define INSTANTIATE(function, parameters, arguments, flags)                                        \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		CUresult result;                                                                   \
                                                                                                   \
		ALLOC_REAL(function, arguments);                                                   \
		if (result == CUDA_SUCCESS && !hook_bypassed())                                    \
			flow_graph_instantiated(graph, *exec, flags);                              \
		return result;                                                                     \
	}
INSTANTIATE(cuGraphInstantiate,
	    (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t size),
	    (exec, graph, node, text, size), 0)
INSTANTIATE(cuGraphInstantiate_v2,
	    (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t size),
	    (exec, graph, node, text, size), 0)
INSTANTIATE(cuGraphInstantiateWithFlags,
	    (CUgraphExec * exec, CUgraph graph, unsigned long long flags), (exec, graph, flags),
	    flags)
INSTANTIATE(cuGraphInstantiateWithParams,
	    (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	    (exec, graph, params), params->flags)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
	    (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	    (exec, graph, params), params->flags)

/* While it is updated, and where that fails, it may be anything. */
#define UPDATE(function, parameters, arguments)                                                    \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		CUresult result;                                                                   \
                                                                                                   \
		FIND_REAL(function);                                                               \
		if (hook_bypassed())                                                               \
			return real arguments;                                                     \
		flow_graph_updating(exec);                                                         \
		result = real arguments;                                                           \
		if (result == CUDA_SUCCESS)                                                        \
			flow_graph_updated(graph, exec);                                           \
		return result;                                                                     \
	}
UPDATE(cuGraphExecUpdate,
       (CUgraphExec exec, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *info),
       (exec, graph, node, info))
UPDATE(cuGraphExecUpdate_v2, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info),
       (exec, graph, info))

/* First: the handle may be given out again as soon as it is free. */
NOTED_BEFORE(cuGraphDestroy, (CUgraph graph), (graph), flow_graph_gone(graph))
NOTED_BEFORE(cuGraphExecDestroy, (CUgraphExec graph), (graph), flow_graph_gone(graph))
