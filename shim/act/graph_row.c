/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes become ops here, and a graph's those of its clone.
 */
#include "shim/act/graph_row.h"

#include <stdlib.h>
#include <string.h>

#include "shim/act/graph_level.h"
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
	row->entry[row->count] = (struct row_entry){.op = -1, .after = -1};
	return &row->entry[row->count++];
}

/* Entry `at` waits for those of the nodes that node `number` waits for. */
static bool append_before(struct graph_row *row, int at, const struct graph_level *level,
			  int number, const int *entries)
{
	const int more = level->first[number + 1] - level->first[number];

	if (row->before_count + more > row->before_room) {
		const int room = 2 * (row->before_count + more) + 64;
		int *grown = realloc(row->before, (size_t)room * sizeof(*grown));

		if (!grown)
			return false;
		row->before = grown;
		row->before_room = room;
	}
	row->entry[at].before = row->before_count;
	row->entry[at].before_count = more;
	for (int i = level->first[number]; i < level->first[number + 1]; i++)
		row->before[row->before_count++] = entries[level->before[i]];
	return true;
}

static bool read_graph(struct graph_row *row, CUgraph graph, int depth,
		       const struct recorded_graph *captured);

static bool read_node(struct graph_row *row, CUgraph graph, int depth, CUgraphNode node)
{
	struct row_entry *entry = append(row);
	CUgraphNodeType type;
	CUgraph child;

	if (!entry || driver.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return false;
	entry->node = node;
	entry->graph = graph;
	entry->depth = depth;
	entry->is_child = type == CU_GRAPH_NODE_TYPE_GRAPH;
	return !entry->is_child ||
	       (driver.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS &&
		read_graph(row, child, depth + 1, NULL));
}

/* Children must be rows. */
static bool read_graph(struct graph_row *row, CUgraph graph, int depth,
		       const struct recorded_graph *captured)
{
	struct graph_level level;
	bool good = depth < DEEPEST && graph_level_read(&level, graph, captured);
	int *entries = NULL; /* of the nodes */

	if (!good)
		return false;
	entries = calloc((size_t)level.count + 1, sizeof(*entries));
	good = entries && (level.row || !depth);
	row->branched |= !level.row;
	for (int i = 0; i < level.count && good; i++) {
		entries[i] = row->count;
		good = read_node(row, graph, depth, level.node[i]) &&
		       append_before(row, entries[i], &level, i, entries);
	}
	free(entries);
	graph_level_close(&level);
	return good;
}

bool graph_row_read(struct graph_row *row, CUgraph graph, const struct recorded_graph *captured)
{
	memset(row, 0, sizeof(*row));
	if (read_graph(row, graph, 0, captured) && row->count)
		return true;
	graph_row_close(row);
	return false;
}

bool graph_row_linked(const struct graph_row *row, int entry)
{
	const struct row_entry *e = &row->entry[entry];

	return e->before_count == 1 && row->before[e->before] == entry - 1;
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

/* It became no node where it ended at the last one of an op before it. */
static bool became_none(const struct graph_row *row, const struct recorded_op *record, int at)
{
	if (!row->branched || !record->last)
		return row->branched;
	for (int i = at; i < row->count; i++)
		if (row->entry[i].node == record->last)
			return false;
	for (int i = at - 1; i >= 0; i--)
		if (row->entry[i].node == record->last)
			return i + 1 == at || row->entry[i + 1].op != row->entry[i].op;
	return false;
}

/* The op's nodes are those behind the latest op's up to its own last one. false: they are not what
 * it can have become. */
static bool attribute_op(struct graph_row *row, const struct recorded_op *record, int op, int *at,
			 CUgraphNode *latest)
{
	const bool several = record->kind == OP_GEMM || record->kind == OP_LIBRARY;
	int nodes = 0;

	if (*latest != record->last && became_none(row, record, *at))
		return true;
	for (; *at < row->count && record->last && *latest != record->last; ++*at) {
		struct row_entry *entry = &row->entry[*at];

		if (entry->is_child)
			continue;
		if (!fits(record, entry->node) || (nodes++ && !several))
			return false;
		entry->op = op;
		*latest = entry->node;
	}
	return *latest == record->last &&
	       (!row->branched || !record->nodes || record->nodes == nodes);
}

/* The nodes of an op must be a row of their own in a graph that is none: what comes before one of
 * them, or behind it, does so of all. */
static bool ops_are_rows(const struct graph_row *row)
{
	int *behind = calloc((size_t)row->count + 1, sizeof(*behind)); /* so many of each */
	bool good = behind != NULL;

	for (int i = 0; i < row->before_count && good; i++)
		behind[row->before[i]]++;
	for (int i = 1; i < row->count && good; i++) {
		const struct row_entry *entry = &row->entry[i];

		if (entry->op >= 0 && entry->op == entry[-1].op)
			good = entry->graph == entry[-1].graph && graph_row_linked(row, i) &&
			       behind[i - 1] == 1;
	}
	free(behind);
	return good;
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
	return at == row->count && (!row->branched || ops_are_rows(row));
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

/* Of a row all that is behind a node. */
static bool count_behind(struct graph_row *row, struct recorded_graph *graph, CUgraphNode behind,
			 CUgraphNode *first)
{
	const int from = entry_behind(row, behind);

	if (from < 0 || from >= row->count || !attribute(row, graph, from, behind))
		return false;
	*first = row->entry[from].node;
	for (int op = 0; op < graph->op_count; op++)
		graph->op[op].nodes = 0;
	for (int i = from; i < row->count; i++)
		if (!row->entry[i].is_child)
			graph->op[row->entry[i].op].nodes++;
	return true;
}

/* Does the entry wait for these nodes, and for no other? */
static bool waits_for(const struct graph_row *row, int entry, const CUgraphNode *node, int count)
{
	const struct row_entry *e = &row->entry[entry];

	if (e->before_count != count)
		return false;
	for (int i = 0; i < count; i++) {
		bool waits = false;

		for (int k = 0; k < count; k++)
			waits |= row->entry[row->before[e->before + k]].node == node[i];
		if (!waits)
			return false;
	}
	return true;
}

/* The first of an op's nodes, back from its last one to what it is behind. NULL: it is not, or they
 * are no row. */
static CUgraphNode count_back(const struct graph_row *row, struct recorded_op *record,
			      const CUgraphNode *behind, int count)
{
	const bool several = record->kind == OP_GEMM || record->kind == OP_LIBRARY;
	int at = row->count - 1;

	while (at >= 0 && (row->entry[at].depth || row->entry[at].node != record->last))
		at--;
	while (at >= 0 && fits(record, row->entry[at].node)) {
		if (record->nodes++ && !several)
			return NULL;
		if (waits_for(row, at, behind, count))
			return row->entry[at].node;
		if (row->entry[at].before_count != 1)
			return NULL;
		at = row->before[row->entry[at].before];
	}
	return NULL;
}

/* Of a graph with branches what was captured into it, behind all of these nodes. */
static bool count_among(const struct graph_row *row, struct recorded_graph *graph,
			const struct recorded_behind *behind, CUgraphNode *first)
{
	const CUgraphNode *before = behind->node;
	int count = behind->count;

	*first = NULL;
	for (int op = 0; op < graph->op_count; op++) {
		struct recorded_op *record = &graph->op[op];
		CUgraphNode begin;

		record->nodes = 0;
		if (!record->captured)
			return false;
		if (!record->last || (count == 1 && record->last == *before))
			continue;
		begin = count_back(row, record, before, count);
		if (!begin)
			return false;
		*first = *first ? *first : begin;
		before = &record->last;
		count = 1;
	}
	return *first != NULL;
}

bool graph_row_count(struct recorded_graph *graph, const struct recorded_behind *behind,
		     CUgraphNode *first)
{
	struct graph_row row;
	bool good = graph_row_read(&row, graph->graph, NULL);

	if (good && row.branched)
		good = behind && count_among(&row, graph, behind, first);
	else if (good)
		good = (!behind || behind->count <= 1) &&
		       count_behind(&row, graph, behind && behind->count ? behind->node[0] : NULL,
				    first);
	graph_row_close(&row);
	return good;
}

/* ---- clones --------------------------------------------------------------------------------- */

/* The nodes of a row's clone stand in the same order. */
static bool read_clone(struct graph_row *row, const struct graph_row *from, CUgraph clone)
{
	bool good = graph_row_read(row, clone, NULL) && row->count == from->count;

	for (int i = 0; i < from->count && good; i++) {
		row->entry[i].op = from->entry[i].op;
		good = row->entry[i].is_child == from->entry[i].is_child &&
		       row->entry[i].depth == from->entry[i].depth;
	}
	return good;
}

/* Of one that is no row the driver says which is which. Child graphs are rows. */
static bool find_clone(struct graph_row *row, const struct graph_row *from, CUgraph clone)
{
	for (int i = 0; i < from->count;) {
		const struct row_entry *theirs = &from->entry[i];
		CUgraphNode node;
		bool good;

		if (driver.cuGraphNodeFindInClone(&node, theirs->node, clone) != CUDA_SUCCESS ||
		    !read_node(row, clone, 0, node) || row->entry[i].is_child != theirs->is_child)
			return false;
		do {
			good = i < row->count && row->entry[i].depth == from->entry[i].depth &&
			       row->entry[i].is_child == from->entry[i].is_child;
			if (!good)
				return false;
			row->entry[i].op = from->entry[i].op;
			row->entry[i].before = from->entry[i].before;
			row->entry[i].before_count = from->entry[i].before_count;
			i++;
		} while (i < from->count && from->entry[i].depth);
		if (row->count != i)
			return false;
	}
	row->branched = true;
	return true;
}

static bool copy_before(struct graph_row *row, const struct graph_row *from)
{
	const size_t bytes = (size_t)from->before_count * sizeof(*row->before);

	free(row->before);
	row->before = malloc(bytes + 1);
	if (row->before && bytes)
		memcpy(row->before, from->before, bytes);
	row->before_count = row->before_room = row->before ? from->before_count : 0;
	return row->before != NULL;
}

static bool clone_row(struct graph_row *row, const struct graph_row *from, CUgraph graph)
{
	CUgraph clone;
	bool good;

	memset(row, 0, sizeof(*row));
	if (driver.cuGraphClone(&clone, graph) != CUDA_SUCCESS)
		return false;
	good = from->branched ? find_clone(row, from, clone) && copy_before(row, from)
			      : read_clone(row, from, clone) && !row->branched;
	row->clone = clone;
	if (!good)
		graph_row_close(row);
	return good;
}

/* The graph's own nodes, each an op's. NULL, or why they are not. */
static const char *read_own(struct graph_row *own, const struct recorded_graph *graph)
{
	if (!graph_row_read(own, graph->graph, graph->built ? NULL : graph))
		return "not a row of nodes";
	if (attribute(own, graph, 0, NULL))
		return NULL;
	graph_row_close(own);
	return "nodes that came unseen";
}

const char *graph_row_open(struct graph_row *row, const struct recorded_graph *graph)
{
	struct graph_row own;
	const char *why = read_own(&own, graph);

	memset(row, 0, sizeof(*row));
	if (why)
		return why;
	if (own.branched && !graph->order.path)
		why = "not a row of nodes";
	else if (!clone_row(row, &own, graph->graph))
		why = "nodes that came unseen";
	graph_row_close(&own);
	return why;
}

bool graph_row_copy(struct graph_row *row, const struct graph_row *from)
{
	return clone_row(row, from, from->clone);
}

void graph_row_close(struct graph_row *row)
{
	if (row->clone)
		driver.cuGraphDestroy(row->clone);
	free(row->entry);
	free(row->before);
	row->clone = NULL;
	row->entry = NULL;
	row->before = NULL;
}

/* ---- beside each other ---------------------------------------------------------------------- */

/* A line for a node: one that it goes on, that of a node it waits for first; or a new one. -1:
 * there are too many. */
static int line_for(const struct graph_row *row, int at, const struct graph_path *path,
		    const int *length)
{
	const struct row_entry *entry = &row->entry[at];

	for (int i = 0; i < entry->before_count; i++) {
		const struct graph_path *before = &path[row->before[entry->before + i]];

		if (before->at == length[before->line])
			return before->line;
	}
	for (int line = 0; line < GRAPH_LINES; line++)
		if (length[line] == path[at].begun[line]) /* 0: a new one */
			return line;
	return -1;
}

/* Where each of the graph's own nodes stands. */
static bool lay_lines(struct graph_path *path, const struct graph_row *row)
{
	int length[GRAPH_LINES] = {0};

	for (int at = 0; at < row->count; at++) {
		const struct row_entry *entry = &row->entry[at];

		if (entry->depth)
			continue;
		for (int i = 0; i < entry->before_count; i++) {
			const struct graph_path *before = &path[row->before[entry->before + i]];

			for (int line = 0; line < GRAPH_LINES; line++)
				if (path[at].begun[line] < before->begun[line])
					path[at].begun[line] = before->begun[line];
			if (path[at].begun[before->line] < before->at)
				path[at].begun[before->line] = before->at;
		}
		path[at].line = line_for(row, at, path, length);
		if (path[at].line < 0)
			return false;
		path[at].at = ++length[path[at].line];
	}
	return true;
}

/* That of each op: it begins with its first node, and ends with its last one. */
static bool place_ops(struct graph_order *order, const struct graph_row *row,
		      const struct graph_path *path, int ops)
{
	int outer = 0;

	order->path = calloc((size_t)ops + 1, sizeof(*order->path));
	if (!order->path)
		return false;
	order->path_count = ops;
	for (int op = 0; op < ops; op++)
		order->path[op].line = -1;
	for (int i = 0; i < row->count; i++) {
		struct graph_path *own =
			row->entry[i].op < 0 ? NULL : &order->path[row->entry[i].op];

		outer = row->entry[i].depth ? outer : i;
		if (!own)
			continue;
		if (own->line < 0)
			*own = path[outer];
		own->line = path[outer].line;
		own->at = path[outer].at;
	}
	return true;
}

const char *graph_row_order(struct recorded_graph *graph)
{
	struct graph_path *path;
	struct graph_row own;
	const char *why = graph->order.path ? NULL : read_own(&own, graph);

	if (why || graph->order.path)
		return why;
	path = own.branched ? calloc((size_t)own.count, sizeof(*path)) : NULL;
	if (own.branched && (!driver.cuGraphNodeFindInClone || !path))
		why = "not a row of nodes";
	else if (own.branched && !lay_lines(path, &own))
		why = "too many nodes beside each other";
	else if (own.branched && !place_ops(&graph->order, &own, path, graph->op_count))
		why = "memory";
	free(path);
	graph_row_close(&own);
	return why;
}
