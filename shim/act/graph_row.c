/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the nodes is that of the edges; the order in which the driver lists either says
 * nothing.
 */
#include "shim/act/graph_row.h"

#include <stdlib.h>
#include <string.h>

#include "shim/real/driver.h"

bool graph_rows_possible(void)
{
	return driver.cuStreamCreate && driver.cuStreamBeginCapture_v2 &&
	       driver.cuStreamEndCapture && driver.cuGraphClone && driver.cuGraphDestroy &&
	       driver.cuGraphGetNodes && driver.cuGraphGetEdges_v2 && driver.cuGraphNodeGetType &&
	       driver.cuGraphNodeFindInClone && driver.cuGraphAddChildGraphNode &&
	       driver.cuGraphAddDependencies_v2 && driver.cuGraphDestroyNode &&
	       driver.cuGraphInstantiateWithFlags && driver.cuGraphExecDestroy &&
	       driver.cuGraphLaunch;
}

/* ---- the nodes in their order --------------------------------------------------------------- */

struct edge {
	CUgraphNode from, to;
};

static int by_from(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)((const struct edge *)a)->from,
			y = (uintptr_t)((const struct edge *)b)->from;

	return x < y ? -1 : x > y;
}

static int by_node(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t) * (const CUgraphNode *)a,
			y = (uintptr_t) * (const CUgraphNode *)b;

	return x < y ? -1 : x > y;
}

/* The edges, each of them full, by where they begin. */
static bool read_edges(struct edge *edge, CUgraph graph, size_t count)
{
	CUgraphNode *from = calloc(2 * count + 1, sizeof(*from));
	CUgraphEdgeData *data = calloc(count + 1, sizeof(*data));
	size_t listed = count;
	bool good = from && data &&
		    driver.cuGraphGetEdges_v2(graph, from, from + count, data, &listed) ==
			    CUDA_SUCCESS &&
		    listed == count;

	for (size_t i = 0; i < count && good; i++) {
		edge[i] = (struct edge){from[i], from[count + i]};
		good = !data[i].from_port && !data[i].to_port && !data[i].type;
	}
	free(from);
	free(data);
	if (good)
		qsort(edge, count, sizeof(*edge), by_from);
	return good;
}

/* The node that no edge leads to. */
static CUgraphNode root_of(const CUgraphNode *nodes, size_t count, const struct edge *edge)
{
	CUgraphNode *to = calloc(count, sizeof(*to)), root = NULL;

	if (!to)
		return NULL;
	for (size_t i = 0; i + 1 < count; i++)
		to[i] = edge[i].to;
	qsort(to, count - 1, sizeof(*to), by_node);
	for (size_t i = 0; i < count && !root; i++)
		if (!bsearch(&nodes[i], to, count - 1, sizeof(*to), by_node))
			root = nodes[i];
	free(to);
	return root;
}

/* As many edges as lead from one end of the row to the other, each from the node before. */
static bool follow_edges(CUgraphNode *nodes, size_t count, const struct edge *edge)
{
	CUgraphNode node = root_of(nodes, count, edge);

	for (size_t i = 0; i < count && node; i++) {
		const struct edge key = {.from = node};
		const struct edge *next = bsearch(&key, edge, count - 1, sizeof(*edge), by_from);

		nodes[i] = node;
		node = next ? next->to : NULL;
		if ((node == NULL) != (i + 1 == count))
			return false;
	}
	return true;
}

static CUgraphNode *ordered_nodes(CUgraph graph, size_t *count)
{
	CUgraphNode *nodes = NULL;
	struct edge *edge = NULL;
	size_t edges = 0, listed;
	bool good = driver.cuGraphGetNodes(graph, NULL, count) == CUDA_SUCCESS && *count &&
		    driver.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &edges) == CUDA_SUCCESS &&
		    edges + 1 == *count;

	if (good) {
		listed = *count;
		nodes = calloc(*count, sizeof(*nodes));
		edge = calloc(*count, sizeof(*edge));
		good = nodes && edge &&
		       driver.cuGraphGetNodes(graph, nodes, &listed) == CUDA_SUCCESS &&
		       listed == *count && read_edges(edge, graph, edges) &&
		       follow_edges(nodes, *count, edge);
	}
	free(edge);
	if (good)
		return nodes;
	free(nodes);
	return NULL;
}

/* ---- whose they are ------------------------------------------------------------------------- */

/* A kernel is one node; products and calls of libraries are a few. */
static bool fits(const struct recorded_op *op, const CUgraphNode *nodes, size_t count)
{
	const bool several = op->kind == OP_GEMM || op->kind == OP_LIBRARY;

	if (!several && count > 1)
		return false;
	for (size_t i = 0; i < count; i++) {
		CUgraphNodeType type;

		if (driver.cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS)
			return false;
		switch (type) {
		case CU_GRAPH_NODE_TYPE_KERNEL:
			if (!several && op->kind != OP_LAUNCH && op->kind != OP_FILL)
				return false;
			break;
		case CU_GRAPH_NODE_TYPE_MEMCPY:
			if (!several && op->kind != OP_COPY)
				return false;
			break;
		case CU_GRAPH_NODE_TYPE_MEMSET:
			if (!several && op->kind != OP_FILL)
				return false;
			break;
		default:
			return false;
		}
	}
	return true;
}

static bool attribute(struct graph_row *row, const struct recorded_graph *graph,
		      const CUgraphNode *nodes)
{
	const int count = row->count;
	int at = 0;

	for (int op = 0; op < graph->op_count; op++) {
		const int first = at;

		if (!graph->op[op].captured)
			return false;
		while (at < count && (at == 0 || nodes[at - 1] != graph->op[op].last) &&
		       graph->op[op].last)
			row->entry[at++].op = op;
		if (!fits(&graph->op[op], nodes + first, (size_t)(at - first)) ||
		    (at ? nodes[at - 1] : NULL) != graph->op[op].last)
			return false;
	}
	return at == count;
}

const char *graph_row_open(struct graph_row *row, const struct recorded_graph *graph)
{
	CUgraphNode *nodes;
	size_t count = 0;
	bool good;

	memset(row, 0, sizeof(*row));
	nodes = ordered_nodes(graph->graph, &count);
	if (!nodes)
		return "not a row of nodes";
	row->count = (int)count;
	row->entry = calloc(count, sizeof(*row->entry));
	good = row->entry && attribute(row, graph, nodes);
	if (good && driver.cuGraphClone(&row->clone, graph->graph) != CUDA_SUCCESS) {
		row->clone = NULL;
		good = false;
	}
	for (size_t i = 0; i < count && good; i++)
		good = driver.cuGraphNodeFindInClone(&row->entry[i].node, nodes[i], row->clone) ==
		       CUDA_SUCCESS;
	free(nodes);
	if (good)
		return NULL;
	graph_row_close(row);
	return "nodes that came unseen";
}

bool graph_row_copy(struct graph_row *row, const struct graph_row *from)
{
	bool good;

	*row = (struct graph_row){.count = from->count};
	row->entry = calloc((size_t)from->count, sizeof(*row->entry));
	good = row->entry && driver.cuGraphClone(&row->clone, from->clone) == CUDA_SUCCESS;
	for (int i = 0; i < from->count && good; i++) {
		row->entry[i].op = from->entry[i].op;
		good = driver.cuGraphNodeFindInClone(&row->entry[i].node, from->entry[i].node,
						     row->clone) == CUDA_SUCCESS;
	}
	if (!good)
		graph_row_close(row);
	return good;
}

/* ---- changing it ---------------------------------------------------------------------------- */

/* The op's nodes in the row. false: it has none. */
static bool nodes_of(const struct graph_row *row, int op, int *first, int *last)
{
	*first = -1;
	for (int i = 0; i < row->count; i++)
		if (row->entry[i].op == op) {
			*first = *first < 0 ? i : *first;
			*last = i;
		}
	return *first >= 0;
}

/* A node that is this graph; nothing for NULL. */
static int add_child(const struct graph_row *row, CUgraphNode *node, CUgraph child)
{
	int error;

	*node = NULL;
	if (!child)
		return 0;
	error = driver.cuGraphAddChildGraphNode(node, row->clone, NULL, 0, child) != CUDA_SUCCESS;
	driver.cuGraphDestroy(child);
	return error ? -1 : 0;
}

int graph_row_replace(struct graph_row *row, int op, CUgraph child)
{
	CUgraphNode instead;
	int first, last, error = add_child(row, &instead, child);

	if (!nodes_of(row, op, &first, &last) || row->entry[first].removed)
		return -1;
	row->entry[first].ahead = instead;
	for (int i = first; i <= last; i++)
		row->entry[i].removed = true;
	return error;
}

int graph_row_surround(struct graph_row *row, int op, CUgraph ahead, CUgraph behind)
{
	CUgraphNode before, after;
	int first, last, error = add_child(row, &before, ahead);

	error |= add_child(row, &after, behind);
	if (!nodes_of(row, op, &first, &last) || (before && row->entry[first].ahead) ||
	    (after && row->entry[last].behind))
		return -1;
	if (before)
		row->entry[first].ahead = before;
	if (after)
		row->entry[last].behind = after;
	return error;
}

/* An edge from the latest node, which is now this one. */
static int join(const struct graph_row *row, CUgraphNode *latest, CUgraphNode node)
{
	const CUgraphNode before = *latest;

	*latest = node;
	return before && driver.cuGraphAddDependencies_v2(row->clone, &before, &node, NULL, 1) !=
				       CUDA_SUCCESS
		       ? -1
		       : 0;
}

/* The program's own edges stay where they are. */
static int rejoin(const struct graph_row *row)
{
	CUgraphNode latest = NULL;
	int error = 0, own = -2; /* entry that `latest` is, if it is one */

	for (int i = 0; i < row->count && !error; i++) {
		const struct row_entry *entry = &row->entry[i];

		if (entry->ahead) {
			error = join(row, &latest, entry->ahead);
			own = -2;
		}
		if (!entry->removed) {
			if (own == i - 1)
				latest = entry->node;
			else
				error |= join(row, &latest, entry->node);
			own = i;
		}
		if (entry->behind) {
			error |= join(row, &latest, entry->behind);
			own = -2;
		}
	}
	for (int i = 0; i < row->count && !error; i++)
		if (row->entry[i].removed)
			error = driver.cuGraphDestroyNode(row->entry[i].node) != CUDA_SUCCESS;
	return error;
}

struct graph_making *graph_row_make(struct graph_row *row, CUcontext context,
				    unsigned long long flags)
{
	const CUgraph graph = row->clone;

	if (rejoin(row))
		return NULL;
	row->clone = NULL;
	return graph_making_ask(graph, context, flags);
}

void graph_row_close(struct graph_row *row)
{
	if (row->clone)
		driver.cuGraphDestroy(row->clone);
	free(row->entry);
	row->clone = NULL;
	row->entry = NULL;
}
