/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of the nodes is that of the edges; the order in which the driver lists either says
 * nothing.
 */
#include "shim/act/graph_level.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/real/driver.h"

/* ---- as the driver lists them --------------------------------------------------------------- */

struct listed {
	CUgraphNode node;
	int number; /* in the driver's list */
};

struct edge {
	int from, to; /* by these numbers */
};

struct reading {
	int count;
	CUgraphNode *node;
	struct listed *sorted; /* by handle */
	size_t edge_count;
	struct edge *edge; /* by where they end */
	int *first;	   /* of each node: its first edge */
	int *after;	   /* which node alone waits for it, and for no other; else -1 */
	int *place;	   /* in the order, once it has one; else -1 */
	int *trail;	   /* nodes that wait for the one behind them, here */
	int *next;	   /* of each of these: which edge to follow */
};

static int by_handle(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)((const struct listed *)a)->node,
			y = (uintptr_t)((const struct listed *)b)->node;

	return x < y ? -1 : x > y;
}

static int by_end(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return x->to != y->to ? x->to - y->to : x->from - y->from;
}

/* -1: it is none of the graph's. */
static int number_of(const struct reading *r, CUgraphNode node)
{
	const struct listed key = {.node = node};
	const struct listed *found =
		bsearch(&key, r->sorted, (size_t)r->count, sizeof(key), by_handle);

	return found ? found->number : -1;
}

static bool read_nodes(struct reading *r, CUgraph graph)
{
	size_t count = 0, listed;

	if (driver.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count > INT32_MAX / 2)
		return false;
	r->count = (int)count;
	r->node = calloc(count + 1, sizeof(*r->node));
	r->sorted = calloc(count + 1, sizeof(*r->sorted));
	r->first = calloc(count + 2, sizeof(*r->first));
	r->after = calloc(count + 1, sizeof(*r->after));
	r->place = calloc(count + 1, sizeof(*r->place));
	r->trail = calloc(count + 1, sizeof(*r->trail));
	r->next = calloc(count + 1, sizeof(*r->next));
	if (!r->node || !r->sorted || !r->first || !r->after || !r->place || !r->trail || !r->next)
		return false;
	listed = count;
	if (count &&
	    (driver.cuGraphGetNodes(graph, r->node, &listed) != CUDA_SUCCESS || listed != count))
		return false;
	for (int i = 0; i < r->count; i++) {
		r->sorted[i] = (struct listed){r->node[i], i};
		r->place[i] = -1;
	}
	qsort(r->sorted, count, sizeof(*r->sorted), by_handle);
	return true;
}

/* Does one node wait for the other? By a programmatic edge a kernel may begin while the one before
 * it is not done, but must wait, inside, before it touches what that one does: whoever touches the
 * same is as far apart as by a full edge. What we put in place of a node gets full ones, and those
 * between nodes that stay are left as they are. */
static bool is_order(const CUgraphEdgeData *edge)
{
	if (edge->to_port)
		return false;
	return edge->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
		       ? edge->from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
		       : !edge->type && !edge->from_port;
}

/* Asked for none, the driver says that this is wrong. */
static bool list_edges(struct reading *r, CUgraph graph, CUgraphNode *from, CUgraphEdgeData *data)
{
	const size_t count = r->edge_count;
	size_t listed = count;

	if (driver.cuGraphGetEdges_v2(graph, from, from + count, data, &listed) != CUDA_SUCCESS ||
	    listed != count)
		return false;
	for (size_t i = 0; i < count; i++) {
		r->edge[i] = (struct edge){number_of(r, from[i]), number_of(r, from[count + i])};
		if (r->edge[i].from < 0 || r->edge[i].to < 0 || !is_order(&data[i]))
			return false;
	}
	return true;
}

static bool read_edges(struct reading *r, CUgraph graph)
{
	CUgraphNode *from;
	CUgraphEdgeData *data;
	bool good;

	if (driver.cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &r->edge_count) != CUDA_SUCCESS ||
	    r->edge_count > INT32_MAX / 2)
		return false;
	from = calloc(2 * r->edge_count + 1, sizeof(*from));
	data = calloc(r->edge_count + 1, sizeof(*data));
	r->edge = calloc(r->edge_count + 1, sizeof(*r->edge));
	good = from && data && r->edge && (!r->edge_count || list_edges(r, graph, from, data));
	free(from);
	free(data);
	if (!good)
		return false;
	qsort(r->edge, r->edge_count, sizeof(*r->edge), by_end);
	for (size_t i = 0; i < r->edge_count; i++)
		r->first[r->edge[i].to + 1]++;
	for (int i = 0; i < r->count; i++)
		r->first[i + 1] += r->first[i];
	return true;
}

static void find_links(struct reading *r)
{
	int *waiting = r->next; /* for each node so many; not in use yet */

	for (size_t i = 0; i < r->edge_count; i++) {
		const struct edge *edge = &r->edge[i];

		r->after[edge->from] = edge->to;
		waiting[edge->from]++;
	}
	for (int i = 0; i < r->count; i++)
		if (waiting[i] != 1 || r->first[r->after[i] + 1] - r->first[r->after[i]] != 1)
			r->after[i] = -1;
}

static void close_reading(struct reading *r)
{
	free(r->node);
	free(r->sorted);
	free(r->edge);
	free(r->first);
	free(r->after);
	free(r->place);
	free(r->trail);
	free(r->next);
}

/* ---- in their order ------------------------------------------------------------------------- */

static void append(struct graph_level *level, struct reading *r, int number)
{
	const int at = level->count++;

	level->node[at] = r->node[number];
	level->first[at + 1] = level->first[at];
	for (int i = r->first[number]; i < r->first[number + 1]; i++)
		level->before[level->first[at + 1]++] = r->place[r->edge[i].from];
	level->row &= level->first[at + 1] - level->first[at] == (at > 0) &&
		      (!at || level->before[level->first[at]] == at - 1);
	r->place[number] = at;
}

/* The node, behind all that it waits for, and (`linked`) what is linked to each of them. false: it
 * waits for itself. */
static bool append_behind(struct graph_level *level, struct reading *r, int number, bool linked)
{
	int depth = 0;

	if (r->place[number] >= 0)
		return true;
	r->trail[0] = number;
	r->next[0] = r->first[number];
	while (depth >= 0) {
		const int at = r->trail[depth];

		while (r->next[depth] < r->first[at + 1] &&
		       r->place[r->edge[r->next[depth]].from] >= 0)
			r->next[depth]++;
		if (r->next[depth] == r->first[at + 1]) {
			for (int next = at; next >= 0 && r->place[next] < 0;
			     next = linked ? r->after[next] : -1)
				append(level, r, next);
			depth--;
			continue;
		}
		if (depth + 1 == r->count)
			return false;
		depth++;
		r->trail[depth] = r->edge[r->next[depth - 1]].from;
		r->next[depth] = r->first[r->trail[depth]];
	}
	return true;
}

static bool order_nodes(struct graph_level *level, struct reading *r,
			const struct recorded_graph *captured)
{
	bool good = true;

	for (int i = 0; captured && i < captured->op_count && good; i++) {
		const int number = captured->op[i].last ? number_of(r, captured->op[i].last) : -1;

		good = number < 0 || append_behind(level, r, number, false);
	}
	for (int i = 0; i < r->count && good; i++)
		good = append_behind(level, r, i, !captured);
	return good;
}

bool graph_level_read(struct graph_level *level, CUgraph graph,
		      const struct recorded_graph *captured)
{
	struct reading r = {0};
	bool good = read_nodes(&r, graph) && read_edges(&r, graph);

	if (good)
		find_links(&r);
	*level = (struct graph_level){.row = true};
	if (good) {
		level->node = calloc((size_t)r.count + 1, sizeof(*level->node));
		level->first = calloc((size_t)r.count + 2, sizeof(*level->first));
		level->before = calloc(r.edge_count + 1, sizeof(*level->before));
		good = level->node && level->first && level->before &&
		       order_nodes(level, &r, captured);
	}
	close_reading(&r);
	if (!good)
		graph_level_close(level);
	return good;
}

void graph_level_close(struct graph_level *level)
{
	free(level->node);
	free(level->first);
	free(level->before);
	*level = (struct graph_level){0};
}
