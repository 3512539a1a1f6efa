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
	       driver.cuGraphChildGraphNodeGetGraph && driver.cuGraphAddChildGraphNode &&
	       driver.cuGraphAddDependencies_v2 && driver.cuGraphDestroyNode &&
	       driver.cuGraphInstantiateWithFlags && driver.cuGraphExecDestroy &&
	       driver.cuGraphLaunch;
}

/* ---- the nodes in their order --------------------------------------------------------------- */

#define DEEPEST 8 /* child graphs in child graphs */

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

/* The edges, each of them full, by where they begin. Asked for none, the driver says that this is
 * wrong. */
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

/* NULL: not a row; of an empty graph a row of none. */
static CUgraphNode *ordered_nodes(CUgraph graph, size_t *count)
{
	CUgraphNode *nodes = NULL;
	struct edge *edge = NULL;
	size_t edges = 0, listed;
	bool good = driver.cuGraphGetNodes(graph, NULL, count) == CUDA_SUCCESS &&
		    driver.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &edges) == CUDA_SUCCESS &&
		    (*count ? edges + 1 == *count : !edges);

	if (good) {
		listed = *count;
		nodes = calloc(*count + 1, sizeof(*nodes));
		edge = calloc(*count + 1, sizeof(*edge));
		good = nodes && edge;
	}
	if (good && *count)
		good = driver.cuGraphGetNodes(graph, nodes, &listed) == CUDA_SUCCESS &&
		       listed == *count && (!edges || read_edges(edge, graph, edges)) &&
		       follow_edges(nodes, *count, edge);
	free(edge);
	if (good)
		return nodes;
	free(nodes);
	return NULL;
}

static struct row_entry *append(struct graph_row *row)
{
	const int room = row->room ? 2 * row->room : 64;
	struct row_entry *grown;

	if (row->count == row->room) {
		grown = realloc(row->entry, (size_t)room * sizeof(*grown));
		if (!grown)
			return NULL;
		row->entry = grown;
		row->room = room;
	}
	row->entry[row->count] = (struct row_entry){.op = -1};
	return &row->entry[row->count++];
}

static bool read_level(struct graph_row *row, CUgraph graph, int depth)
{
	size_t count = 0;
	CUgraphNode *nodes = depth < DEEPEST ? ordered_nodes(graph, &count) : NULL;
	bool good = nodes != NULL;

	for (size_t i = 0; i < count && good; i++) {
		struct row_entry *entry = append(row);
		CUgraphNodeType type;
		CUgraph child;

		good = entry && driver.cuGraphNodeGetType(nodes[i], &type) == CUDA_SUCCESS;
		if (!good)
			break;
		entry->node = nodes[i];
		entry->graph = graph;
		entry->depth = depth;
		entry->is_child = type == CU_GRAPH_NODE_TYPE_GRAPH;
		if (entry->is_child)
			good = driver.cuGraphChildGraphNodeGetGraph(nodes[i], &child) ==
				       CUDA_SUCCESS &&
			       read_level(row, child, depth + 1);
	}
	free(nodes);
	return good;
}

bool graph_row_read(struct graph_row *row, CUgraph graph)
{
	memset(row, 0, sizeof(*row));
	if (read_level(row, graph, 0) && row->count)
		return true;
	graph_row_close(row);
	return false;
}

/* ---- whose they are ------------------------------------------------------------------------- */

/* A kernel is one node; products and calls of libraries are a few. */
static bool fits(const struct recorded_op *op, CUgraphNode node)
{
	const bool several = op->kind == OP_GEMM || op->kind == OP_LIBRARY;
	CUgraphNodeType type;

	if (driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return false;
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return several || op->kind == OP_LAUNCH || op->kind == OP_FILL;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return several || op->kind == OP_COPY;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return several || op->kind == OP_FILL;
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return several || op->kind == OP_SYNC;
	default:
		return false;
	}
}

/* The op's nodes are those behind the latest op's up to its own last one. false: they are not what
 * it can have become. */
static bool attribute_op(struct graph_row *row, const struct recorded_op *record, int op, int *at,
			 CUgraphNode *latest)
{
	const bool several = record->kind == OP_GEMM || record->kind == OP_LIBRARY;
	int nodes = 0;

	for (; *at < row->count && record->last && *latest != record->last; ++*at) {
		struct row_entry *entry = &row->entry[*at];

		if (entry->is_child)
			continue;
		if (!fits(record, entry->node) || (nodes++ && !several))
			return false;
		entry->op = op;
		*latest = entry->node;
	}
	return *latest == record->last;
}

/* All nodes from an entry on, the node before which is `latest`. */
static bool attribute(struct graph_row *row, const struct recorded_graph *graph, int at,
		      CUgraphNode latest)
{
	for (int op = 0; op < graph->op_count; op++)
		if (!graph->op[op].captured || !attribute_op(row, &graph->op[op], op, &at, &latest))
			return false;
	while (at < row->count && row->entry[at].is_child)
		at++;
	return at == row->count;
}

/* The entry behind a node of the graph's own; -1: it has no such node. */
static int entry_behind(const struct graph_row *row, CUgraphNode node)
{
	for (int i = 0; i < row->count; i++)
		if (row->entry[i].node == node) {
			while (++i < row->count && row->entry[i].depth)
				;
			return i;
		}
	return node ? -1 : 0;
}

bool graph_row_count(struct recorded_graph *graph, CUgraphNode behind, CUgraphNode *first)
{
	struct graph_row row;
	bool good = graph_row_read(&row, graph->graph);
	const int from = good ? entry_behind(&row, behind) : -1;

	good = from >= 0 && from < row.count && attribute(&row, graph, from, behind);
	if (good) {
		*first = row.entry[from].node;
		for (int op = 0; op < graph->op_count; op++)
			graph->op[op].nodes = 0;
		for (int i = from; i < row.count; i++)
			if (!row.entry[i].is_child)
				graph->op[row.entry[i].op].nodes++;
	}
	graph_row_close(&row);
	return good;
}

/* ---- clones --------------------------------------------------------------------------------- */

/* The nodes of a clone stand in the same order. */
static bool clone_row(struct graph_row *row, const struct graph_row *from, CUgraph graph)
{
	CUgraph clone;
	bool good;

	memset(row, 0, sizeof(*row));
	if (driver.cuGraphClone(&clone, graph) != CUDA_SUCCESS)
		return false;
	good = graph_row_read(row, clone) && row->count == from->count;
	row->clone = clone;
	for (int i = 0; i < from->count && good; i++) {
		row->entry[i].op = from->entry[i].op;
		good = row->entry[i].is_child == from->entry[i].is_child &&
		       row->entry[i].depth == from->entry[i].depth;
	}
	if (!good)
		graph_row_close(row);
	return good;
}

const char *graph_row_open(struct graph_row *row, const struct recorded_graph *graph)
{
	struct graph_row own;
	bool good;

	memset(row, 0, sizeof(*row));
	if (!graph_row_read(&own, graph->graph))
		return "not a row of nodes";
	good = attribute(&own, graph, 0, NULL) && clone_row(row, &own, graph->graph);
	graph_row_close(&own);
	return good ? NULL : "nodes that came unseen";
}

bool graph_row_copy(struct graph_row *row, const struct graph_row *from)
{
	return clone_row(row, from, from->clone);
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

static void drop_child(CUgraph child)
{
	if (child)
		driver.cuGraphDestroy(child);
}

/* A node of the entry's graph that is this child, which is destroyed; nothing for NULL. Another one
 * that is there already is an error. */
static int add_child(const struct row_entry *entry, CUgraphNode *node, CUgraph child)
{
	int error;

	if (!child)
		return 0;
	error = *node ||
		driver.cuGraphAddChildGraphNode(node, entry->graph, NULL, 0, child) != CUDA_SUCCESS;
	drop_child(child);
	return error ? -1 : 0;
}

int graph_row_replace(struct graph_row *row, int op, CUgraph child)
{
	int first, last;

	if (!nodes_of(row, op, &first, &last) || row->entry[first].removed) {
		drop_child(child);
		return -1;
	}
	for (int i = first; i <= last; i++)
		row->entry[i].removed = !row->entry[i].is_child;
	return add_child(&row->entry[first], &row->entry[first].ahead, child);
}

int graph_row_surround(struct graph_row *row, int op, CUgraph ahead, CUgraph behind)
{
	int first, last;

	if (!nodes_of(row, op, &first, &last)) {
		drop_child(ahead);
		drop_child(behind);
		return -1;
	}
	return add_child(&row->entry[first], &row->entry[first].ahead, ahead) |
	       add_child(&row->entry[last], &row->entry[last].behind, behind);
}

/* An edge from the latest node, which is now this one. */
static int join(CUgraph graph, CUgraphNode *latest, CUgraphNode node)
{
	const CUgraphNode before = *latest;

	*latest = node;
	return before && driver.cuGraphAddDependencies_v2(graph, &before, &node, NULL, 1) !=
				       CUDA_SUCCESS
		       ? -1
		       : 0;
}

/* One graph's nodes, from its first entry on. The program's own edges stay where they are. */
static int rejoin_level(const struct graph_row *row, int from)
{
	const CUgraph graph = row->entry[from].graph;
	CUgraphNode latest = NULL;
	bool own = false; /* is `latest` what the program's edge leads from? */
	int error = 0;

	for (int i = from; i < row->count && !error; i++) {
		const struct row_entry *entry = &row->entry[i];

		if (entry->depth < row->entry[from].depth)
			break;
		if (entry->graph != graph)
			continue;
		if (entry->ahead)
			error = join(graph, &latest, entry->ahead);
		if (entry->removed) {
			own = false;
		} else {
			if (own && !entry->ahead)
				latest = entry->node;
			else
				error |= join(graph, &latest, entry->node);
			own = true;
		}
		if (entry->behind) {
			error |= join(graph, &latest, entry->behind);
			own = false;
		}
	}
	return error;
}

/* Where the nodes of a child graph end. */
static int end_of_child(const struct graph_row *row, int child)
{
	int i = child + 1;

	while (i < row->count && row->entry[i].depth > row->entry[child].depth)
		i++;
	return i;
}

/* A child graph of which nothing is left goes, too. */
static void remove_empty(struct graph_row *row)
{
	for (int i = row->count - 1; i >= 0; i--) {
		const int end = row->entry[i].is_child ? end_of_child(row, i) : i;
		bool left = end <= i + 1;

		for (int k = i + 1; k < end; k++)
			left |= !row->entry[k].removed || row->entry[k].ahead ||
				row->entry[k].behind;
		if (!left)
			row->entry[i].removed = true;
	}
}

static int rejoin(struct graph_row *row)
{
	int error = 0;

	remove_empty(row);
	for (int i = 0; i < row->count && !error; i++)
		if (i == 0 || row->entry[i].depth > row->entry[i - 1].depth)
			error = rejoin_level(row, i);
	for (int i = 0; i < row->count && !error; i++) {
		const struct row_entry *entry = &row->entry[i];

		if (!entry->removed)
			continue;
		error = driver.cuGraphDestroyNode(entry->node) != CUDA_SUCCESS;
		if (entry->is_child) /* with what it held */
			i = end_of_child(row, i) - 1;
	}
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
