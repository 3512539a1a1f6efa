/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that are added one by one, and what nodes say of themselves. What a node does is what a
 * stream would capture.
 */
#include "sim_graph.h"

#include <string.h>

static struct sim_graph *graph_of(CUgraph handle)
{
	struct sim_graph *g = (struct sim_graph *)handle;

	return g && g->magic == SIM_GRAPH ? g : NULL;
}

/* ---- adding ------------------------------------------------------------------------------ */

static CUresult begin(CUstream *stream)
{
	CUresult result = cuStreamCreate(stream, CU_STREAM_NON_BLOCKING);

	if (result != CUDA_SUCCESS)
		return result;
	result = cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	if (result != CUDA_SUCCESS)
		cuStreamDestroy(*stream);
	return result;
}

/* What the one node that was captured does. */
static CUresult end(CUstream stream, CUresult result, CUgraphNodeType *type, struct body **body)
{
	struct sim_graph *captured = NULL;
	CUresult ended = cuStreamEndCapture(stream, (CUgraph *)&captured);

	cuStreamDestroy(stream);
	if (result == CUDA_SUCCESS)
		result = ended;
	if (result == CUDA_SUCCESS && captured->count != 1)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS) {
		*type = captured->head->type;
		*body = captured->head->body;
		captured->head->body = NULL;
	}
	if (ended == CUDA_SUCCESS)
		cuGraphDestroy((CUgraph)captured);
	return result;
}

static CUresult add(CUresult result, struct sim_graph *g, CUgraphNodeType type, struct body *body,
		    CUgraphNode *out, const CUgraphNode *before, size_t count)
{
	struct sim_node *node;

	if (result != CUDA_SUCCESS)
		return result;
	node = sim_graph_add(g, type);
	node->body = body;
	for (size_t i = 0; i < count; i++)
		sim_graph_edge((struct sim_node *)before[i], node);
	*out = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

static CUresult set(CUresult result, struct sim_node *node, CUgraphNodeType type, struct body *body)
{
	if (result == CUDA_SUCCESS && node->type != type)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		sim_graph_set_body(node, body);
	return result;
}

/* The call is captured on `stream`. */
#define CAPTURED(call)                                                                             \
	CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;                                           \
	struct body *body = NULL;                                                                  \
	CUstream stream;                                                                           \
	CUresult result = begin(&stream);                                                          \
                                                                                                   \
	if (result == CUDA_SUCCESS)                                                                \
	result = end(stream, call, &type, &body)

#define ADD(call)                                                                                  \
	do {                                                                                       \
		struct sim_graph *g = graph_of(handle);                                            \
                                                                                                   \
		if (!g || !out || !p)                                                              \
			return CUDA_ERROR_INVALID_VALUE;                                           \
		CAPTURED(call);                                                                    \
		return add(result, g, type, body, out, before, count);                             \
	} while (0)

#define SET(which, call)                                                                           \
	do {                                                                                       \
		struct sim_node *n = (struct sim_node *)(which);                                   \
                                                                                                   \
		if (!n || !p)                                                                      \
			return CUDA_ERROR_INVALID_VALUE;                                           \
		CAPTURED(call);                                                                    \
		return set(result, n, type, body);                                                 \
	} while (0)

#define LAUNCH                                                                                     \
	cuLaunchKernel(p->func, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, \
		       p->blockDimZ, p->sharedMemBytes, stream, p->kernelParams, p->extra)

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				      size_t count, const CUDA_KERNEL_NODE_PARAMS *p)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	ADD(LAUNCH);
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				      size_t count, const CUDA_MEMCPY3D *p, CUcontext context)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	(void)context;
	ADD(cuMemcpy3DAsync(p, stream));
}

static CUresult fill(const CUDA_MEMSET_NODE_PARAMS *p, CUstream stream)
{
	switch (p->elementSize) {
	case 1:
		return cuMemsetD2D8Async(p->dst, p->pitch, (unsigned char)p->value, p->width,
					 p->height, stream);
	case 2:
		return cuMemsetD2D16Async(p->dst, p->pitch, (unsigned short)p->value, p->width,
					  p->height, stream);
	default:
		return cuMemsetD2D32Async(p->dst, p->pitch, p->value, p->width, p->height, stream);
	}
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				      size_t count, const CUDA_MEMSET_NODE_PARAMS *p,
				      CUcontext context)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	(void)context;
	ADD(fill(p, stream));
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				     size_t count)
{
	struct sim_graph *g = graph_of(handle);
	struct sim_node *node;

	SIM_ENTER(" graph=%p", (void *)handle);
	if (!g || !out)
		return CUDA_ERROR_INVALID_VALUE;
	node = sim_graph_add(g, CU_GRAPH_NODE_TYPE_EMPTY);
	for (size_t i = 0; i < count; i++)
		sim_graph_edge((struct sim_node *)before[i], node);
	*out = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/* A graph that moves into another one keeps its handle. */
static CUresult move(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t count,
		     CUgraph child)
{
	struct sim_graph *g = graph_of(handle), *of = graph_of(child);
	struct sim_node *node;

	if (!out || !g || !of || g == of)
		return CUDA_ERROR_INVALID_VALUE;
	node = sim_graph_add(g, CU_GRAPH_NODE_TYPE_GRAPH);
	node->child = of;
	for (size_t i = 0; i < count; i++)
		sim_graph_edge((struct sim_node *)before[i], node);
	*out = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/* The general form of these. Of a child there is a word behind its handle in newer headers: it
 * moves.
 */
CUresult CUDAAPI cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
				const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *p)
{
	SIM_ENTER(" graph=%p", (void *)graph);
	(void)edges;
	if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH && ((const CUgraph *)&p->graph)[1])
		return move(out, graph, before, count, p->graph.graph);
	if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return cuGraphAddChildGraphNode(out, graph, before, count, p->graph.graph);
	if (p && p->type == CU_GRAPH_NODE_TYPE_EMPTY)
		return cuGraphAddEmptyNode(out, graph, before, count);
	if (p && p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		const CUDA_KERNEL_NODE_PARAMS_v3 *k = &p->kernel;
		const CUDA_KERNEL_NODE_PARAMS kernel = {
			.func = k->func,
			.gridDimX = k->gridDimX,
			.gridDimY = k->gridDimY,
			.gridDimZ = k->gridDimZ,
			.blockDimX = k->blockDimX,
			.blockDimY = k->blockDimY,
			.blockDimZ = k->blockDimZ,
			.sharedMemBytes = k->sharedMemBytes,
			.kernelParams = k->kernelParams,
			.extra = k->extra,
		};

		return cuGraphAddKernelNode(out, graph, before, count, &kernel);
	}
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- changing ---------------------------------------------------------------------------- */

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
	SIM_ENTER(" node=%p", (void *)node);
	SET(node, LAUNCH);
}

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *p)
{
	SIM_ENTER(" node=%p", (void *)node);
	SET(node, cuMemcpy3DAsync(p, stream));
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p)
{
	SIM_ENTER(" node=%p", (void *)node);
	SET(node, fill(p, stream));
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
						const CUDA_KERNEL_NODE_PARAMS *p)
{
	SIM_ENTER(" exec=%p node=%p", (void *)exec, (void *)node);
	SET(sim_graph_exec_node(exec, node), LAUNCH);
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
						const CUDA_MEMCPY3D *p, CUcontext context)
{
	SIM_ENTER(" exec=%p node=%p", (void *)exec, (void *)node);
	(void)context;
	SET(sim_graph_exec_node(exec, node), cuMemcpy3DAsync(p, stream));
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
						const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
	SIM_ENTER(" exec=%p node=%p", (void *)exec, (void *)node);
	(void)context;
	SET(sim_graph_exec_node(exec, node), fill(p, stream));
}

/* ---- asking ------------------------------------------------------------------------------ */

static struct sim_work *work_of(CUgraphNode node, CUgraphNodeType type)
{
	const struct sim_node *n = (const struct sim_node *)node;

	return n && n->type == type && n->body ? n->body->work : NULL;
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
	const struct sim_node *n = (const struct sim_node *)node;

	SIM_ENTER(" node=%p", (void *)node);
	if (!n || !n->child || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	*graph = (CUgraph)n->child;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
	const struct sim_work *work = work_of(node, CU_GRAPH_NODE_TYPE_KERNEL);

	SIM_ENTER(" node=%p", (void *)node);
	if (!work || !p)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_launch_params(work, p);
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode node, CUlaunchAttributeID id,
					       CUlaunchAttributeValue *value)
{
	SIM_ENTER(" node=%p id=%d", (void *)node, (int)id);
	if (!work_of(node, CU_GRAPH_NODE_TYPE_KERNEL) || !value)
		return CUDA_ERROR_INVALID_VALUE;
	memset(value, 0, sizeof(*value));
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p)
{
	const struct sim_work *work = work_of(node, CU_GRAPH_NODE_TYPE_MEMCPY);

	SIM_ENTER(" node=%p", (void *)node);
	if (!work || !p)
		return CUDA_ERROR_INVALID_VALUE;
	sim_copy_params(work, p);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p)
{
	const struct sim_work *work = work_of(node, CU_GRAPH_NODE_TYPE_MEMSET);

	SIM_ENTER(" node=%p", (void *)node);
	if (!work || !p)
		return CUDA_ERROR_INVALID_VALUE;
	sim_fill_params(work, p);
	return CUDA_SUCCESS;
}
