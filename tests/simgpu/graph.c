/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs. An executable graph is a copy of its own; launching runs it as one piece of work, of the
 * nodes that may run always the one that was added last, and the next time the one that was added
 * first, so that nothing is in order by luck.
 */
#include "sim_graph.h"

#include <stdlib.h>
#include <string.h>

static struct sim_graph *graphs; /* never freed, only emptied: late callers may hold a handle */

/* The handle of one that was destroyed is given out again. */
struct sim_graph *sim_graph_new(void)
{
	struct sim_graph *g;

	pthread_mutex_lock(&sim_lock);
	for (g = graphs; g && !g->gone;)
		g = g->next;
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (g) {
			g->next = graphs;
			graphs = g;
		}
	}
	if (g) {
		g->magic = SIM_GRAPH;
		g->gone = false;
	}
	pthread_mutex_unlock(&sim_lock);
	return g;
}

/* ---- nodes ------------------------------------------------------------------------------ */

struct sim_node *sim_graph_add(struct sim_graph *g, CUgraphNodeType type)
{
	struct sim_node *node = calloc(1, sizeof(*node)), **end = &g->head;

	if (!node)
		abort();
	node->type = type;
	node->graph = g;
	while (*end)
		end = &(*end)->next;
	*end = node;
	g->count++;
	return node;
}

static bool is_before(const struct sim_node *node, const struct sim_node *other)
{
	for (unsigned i = 0; i < node->count; i++)
		if (node->before[i] == other)
			return true;
	return false;
}

void sim_graph_edge(struct sim_node *from, struct sim_node *to)
{
	to->before = realloc(to->before, (to->count + 1) * sizeof(*to->before));
	if (!to->before)
		abort();
	to->before[to->count++] = from;
}

static void drop_edge(struct sim_node *from, struct sim_node *to)
{
	for (unsigned i = 0; i < to->count; i++)
		if (to->before[i] == from)
			to->before[i--] = to->before[--to->count];
}

void sim_graph_set_body(struct sim_node *node, struct body *body)
{
	if (node->body && !__atomic_sub_fetch(&node->body->users, 1, __ATOMIC_ACQ_REL)) {
		free(node->body->work);
		free(node->body);
	}
	node->body = body;
}

static void free_node(struct sim_node *node)
{
	sim_graph_set_body(node, NULL);
	if (node->child) {
		sim_graph_empty(node->child);
		node->child->magic = 0;
		node->child->gone = true;
	}
	free(node->before);
	free(node);
}

void sim_graph_empty(struct sim_graph *g)
{
	for (struct sim_node *node = g->head, *next; node; node = next) {
		next = node->next;
		free_node(node);
	}
	g->head = NULL;
	g->count = 0;
}

static struct sim_node *copy_in(const struct sim_graph *copy, const struct sim_node *origin)
{
	for (struct sim_node *node = copy->head; node; node = node->next)
		if (node->origin == origin)
			return node;
	return NULL;
}

static struct sim_graph *copy_graph(const struct sim_graph *g)
{
	struct sim_graph *copy = sim_graph_new();

	if (!copy)
		abort();
	for (const struct sim_node *from = g->head; from; from = from->next) {
		struct sim_node *node = sim_graph_add(copy, from->type);

		node->origin = from;
		node->body = from->body;
		if (node->body)
			__atomic_add_fetch(&node->body->users, 1, __ATOMIC_RELAXED);
		if (from->child)
			node->child = copy_graph(from->child);
	}
	for (const struct sim_node *from = g->head; from; from = from->next)
		for (unsigned i = 0; i < from->count; i++)
			sim_graph_edge(copy_in(copy, from->before[i]), copy_in(copy, from));
	return copy;
}

/* ---- graphs ----------------------------------------------------------------------------- */

#define EXEC_BYTES (8 << 20) /* that an executable graph takes of the device's memory */

struct graph_exec {
	enum sim_magic magic;
	struct sim_graph *graph;
	unsigned long long flags;
	uint64_t memory;	   /* of the device's */
	pthread_mutex_t launching; /* launches of several threads come one behind the other */
	struct sim_ticket latest;  /* launch: the next one waits for it, on whatever stream */
};

struct graph_work {
	struct sim_work work;
	struct sim_graph *graph;
	bool captured; /* as a node of another graph, that may run again */
};

static void leave_graph(struct sim_graph *g)
{
	pthread_mutex_lock(&sim_lock);
	const bool last = !--g->users;
	pthread_mutex_unlock(&sim_lock);
	if (last)
		sim_graph_empty(g);
}

static struct sim_graph *graph_of(CUgraph handle)
{
	struct sim_graph *g = (struct sim_graph *)handle;

	return g && g->magic == SIM_GRAPH ? g : NULL;
}

static struct graph_exec *exec_of(CUgraphExec handle)
{
	struct graph_exec *exec = (struct graph_exec *)handle;

	return exec && exec->magic == SIM_GRAPH_EXEC ? exec : NULL;
}

/* NULL: not one of this graph. */
static struct sim_node *node_of(const struct sim_graph *g, CUgraphNode handle)
{
	struct sim_node *node = g->head;

	while (node && node != (struct sim_node *)handle)
		node = node->next;
	return node;
}

static CUresult run_nodes(struct sim_graph *g)
{
	CUresult result = CUDA_SUCCESS;
	struct sim_node *node;

	for (node = g->head; node; node = node->next)
		node->done = false;
	g->runs++;
	for (unsigned i = 0; i < g->count; i++) {
		struct sim_node *next = NULL;
		CUresult r = CUDA_SUCCESS;

		for (node = g->head; node; node = node->next) {
			bool ready = !node->done;

			for (unsigned k = 0; k < node->count; k++)
				ready = ready && node->before[k]->done;
			if (ready && (!next || g->runs % 2))
				next = node;
		}
		if (!next)
			return CUDA_ERROR_UNKNOWN; /* a circle */
		next->done = true;
		if (next->disabled)
			continue;
		if (next->body)
			r = next->body->work->run(next->body->work);
		else if (next->child)
			r = run_nodes(next->child);
		if (r != CUDA_SUCCESS)
			result = r;
	}
	return result;
}

static CUresult run_graph(struct sim_work *work)
{
	struct graph_work *launch = (struct graph_work *)work;
	CUresult result = run_nodes(launch->graph);

	if (!launch->captured)
		leave_graph(launch->graph);
	return result;
}

CUresult sim_graph_launch(CUgraphExec handle, struct sim_stream *stream)
{
	struct graph_exec *exec = exec_of(handle);
	struct graph_work *work;

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	work = sim_work_new(sizeof(*work), run_graph, CU_GRAPH_NODE_TYPE_GRAPH);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_delay();
	pthread_mutex_lock(&exec->launching);
	work->graph = exec->graph;
	pthread_mutex_lock(&sim_lock);
	work->graph->users++;
	work->captured = stream->capture != NULL;
	pthread_mutex_unlock(&sim_lock);
	sim_stream_after(stream, &exec->latest);
	CUresult result = sim_submit(stream, &work->work, false);
	pthread_mutex_lock(&sim_lock);
	exec->latest = (struct sim_ticket){stream, stream->submitted};
	pthread_mutex_unlock(&sim_lock);
	pthread_mutex_unlock(&exec->launching);
	return result;
}

CUresult sim_graph_instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
	struct sim_graph *g = graph_of(handle);
	struct graph_exec *exec;

	if (!out || !g)
		return CUDA_ERROR_INVALID_VALUE;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (sim_allocate(sim_current(), EXEC_BYTES, SIM_DEVICE, &exec->memory)) {
		free(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->magic = SIM_GRAPH_EXEC;
	pthread_mutex_init(&exec->launching, NULL);
	exec->graph = copy_graph(g);
	exec->graph->users = 1;
	exec->flags = flags;
	*out = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
					     unsigned long long flags)
{
	SIM_ENTER(" flags=%llu", flags);
	return sim_graph_instantiate(out, graph, flags);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle)
{
	SIM_ENTER(" exec=%p", (void *)handle);
	struct graph_exec *exec = exec_of(handle);
	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	exec->magic = 0;
	sim_release(exec->memory, SIM_DEVICE);
	leave_graph(exec->graph);
	free(exec);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
	SIM_ENTER(" exec=%p", (void *)handle);
	const struct graph_exec *exec = exec_of(handle);
	if (!exec || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* The program names them as the nodes of the graph that the first one was made of, and those that
 * are disabled stay so, whatever they are updated to. */
static void keep_nodes(struct sim_graph *updated, const struct sim_graph *before)
{
	const struct sim_node *old = before->head;

	for (struct sim_node *node = updated->head; node && old; node = node->next) {
		node->origin = old->origin;
		node->disabled = old->disabled;
		if (node->child && old->child)
			keep_nodes(node->child, old->child);
		old = old->next;
	}
}

/* Launches under way go on with what it was. */
static void update(struct graph_exec *exec, const struct sim_graph *to)
{
	struct sim_graph *before = exec->graph;

	exec->graph = copy_graph(to);
	exec->graph->users = 1;
	keep_nodes(exec->graph, before);
	leave_graph(before);
}

/* … of a graph inside it, perhaps. */
static struct sim_node *copy_within(const struct sim_graph *copy, const struct sim_node *origin)
{
	struct sim_node *found = copy_in(copy, origin);

	for (struct sim_node *node = copy->head; node && !found; node = node->next)
		if (node->child)
			found = copy_within(node->child, origin);
	return found;
}

/* The same kinds of nodes with the same edges, only what they do may differ. */
CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec handle, CUgraph graph,
				   CUgraphExecUpdateResultInfo *info)
{
	SIM_ENTER(" exec=%p graph=%p", (void *)handle, (void *)graph);
	struct graph_exec *exec = exec_of(handle);
	struct sim_graph *g = graph_of(graph);
	const struct sim_node *ours, *theirs;
	if (!exec || !g || !info)
		return CUDA_ERROR_INVALID_VALUE;
	memset(info, 0, sizeof(*info));
	theirs = g->head;
	for (ours = exec->graph->head; ours && theirs; ours = ours->next, theirs = theirs->next)
		if (ours->type != theirs->type || ours->count != theirs->count)
			break;
	if (ours || theirs) {
		info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	update(exec, g);
	return CUDA_SUCCESS;
}

struct sim_node *sim_graph_exec_node(CUgraphExec handle, CUgraphNode node)
{
	struct graph_exec *exec = exec_of(handle);

	if (!exec || !copy_within(exec->graph, (struct sim_node *)node))
		return NULL;
	update(exec, exec->graph);
	return copy_within(exec->graph, (struct sim_node *)node);
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node, unsigned int enabled)
{
	SIM_ENTER(" exec=%p node=%p enabled=%u", (void *)handle, (void *)node, enabled);
	struct graph_exec *exec = exec_of(handle);
	struct sim_node *copy = exec ? copy_within(exec->graph, (struct sim_node *)node) : NULL;
	if (!copy || !copy->body)
		return CUDA_ERROR_INVALID_VALUE;
	copy->disabled = !enabled;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *out, unsigned int flags)
{
	SIM_ENTER(" flags=%u", flags);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)sim_graph_new();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_graph_drop(struct sim_graph *g)
{
	g->magic = 0;
	sim_graph_empty(g);
	g->gone = true;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	struct sim_graph *g = graph_of(handle);
	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_drop(g);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph *out, CUgraph handle)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	struct sim_graph *g = graph_of(handle);
	if (!out || !g)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)copy_graph(g);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode node, CUgraph clone)
{
	SIM_ENTER(" node=%p clone=%p", (void *)node, (void *)clone);
	struct sim_graph *g = graph_of(clone);
	struct sim_node *copy = g ? copy_in(g, (struct sim_node *)node) : NULL;
	if (!out || !copy)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraphNode)copy;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	struct sim_graph *g = graph_of(handle);
	if (!g || !count)
		return CUDA_ERROR_INVALID_VALUE;
	size_t i = 0;
	for (struct sim_node *node = g->head; nodes && node && i < *count; node = node->next)
		nodes[i++] = (CUgraphNode)node;
	*count = nodes ? i : g->count;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph handle, CUgraphNode *from, CUgraphNode *to,
				 CUgraphEdgeData *data, size_t *count)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	struct sim_graph *g = graph_of(handle);
	if (!g || !count || (from && !*count))
		return CUDA_ERROR_INVALID_VALUE;
	size_t n = 0;
	for (struct sim_node *node = g->head; node; node = node->next)
		for (unsigned i = 0; i < node->count; i++, n++) {
			if (!from || !to || n >= *count)
				continue;
			from[n] = (CUgraphNode)node->before[i];
			to[n] = (CUgraphNode)node;
			if (data)
				data[n] = (CUgraphEdgeData){0};
		}
	*count = n;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph handle, const CUgraphNode *from,
					const CUgraphNode *to, const CUgraphEdgeData *data,
					size_t count)
{
	SIM_ENTER(" graph=%p count=%zu", (void *)handle, count);
	struct sim_graph *g = graph_of(handle);
	(void)data;
	for (size_t i = 0; g && i < count; i++) {
		struct sim_node *a = node_of(g, from[i]), *b = node_of(g, to[i]);

		if (!a || !b || a == b || is_before(b, a))
			return CUDA_ERROR_INVALID_VALUE;
		sim_graph_edge(a, b);
	}
	return g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode handle)
{
	SIM_ENTER(" node=%p", (void *)handle);
	struct sim_node *node = (struct sim_node *)handle, **at;
	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct sim_node *other = node->graph->head; other; other = other->next)
		drop_edge(node, other);
	for (at = &node->graph->head; *at != node;)
		at = &(*at)->next;
	*at = node->next;
	node->graph->count--;
	free_node(node);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph handle,
					  const CUgraphNode *before, size_t count, CUgraph child)
{
	SIM_ENTER(" graph=%p child=%p", (void *)handle, (void *)child);
	struct sim_graph *g = graph_of(handle), *of = graph_of(child);
	if (!out || !g || !of)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_node *node = sim_graph_add(g, CU_GRAPH_NODE_TYPE_GRAPH);
	node->child = copy_graph(of);
	for (size_t i = 0; i < count; i++)
		sim_graph_edge((struct sim_node *)before[i], node);
	*out = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	SIM_ENTER(" node=%p", (void *)node);
	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = ((struct sim_node *)node)->type;
	return CUDA_SUCCESS;
}
