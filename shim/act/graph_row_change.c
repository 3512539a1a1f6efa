/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken out of a row, and what is put in. Whoever waited for a node that is gone waits for
 * what it waited for.
 */
#include "shim/act/graph_row.h"

#include <stdlib.h>

#include "shim/real/driver.h"

/* ---- in and out ----------------------------------------------------------------------------- */

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

/* The graph's own node that an entry is, or is in. */
static int outermost(const struct graph_row *row, int entry)
{
	while (row->entry[entry].depth)
		entry--;
	return entry;
}

void graph_row_one_by_one(struct graph_row *row, int first, int second)
{
	int unused, from, to;

	if (!nodes_of(row, first, &unused, &from) || !nodes_of(row, second, &to, &unused))
		return;
	from = outermost(row, from);
	to = outermost(row, to);
	if (from != to)
		row->entry[to].after = from;
}

/* ---- edges ---------------------------------------------------------------------------------- */

struct sources {
	int count, room;
	CUgraphNode *node;
	int *entry;
};

static int add_source(struct sources *sources, CUgraphNode node, int entry)
{
	const int room = sources->room ? 2 * sources->room : 32;

	if (sources->count == sources->room) {
		CUgraphNode *nodes = realloc(sources->node, (size_t)room * sizeof(*nodes));
		int *entries;

		if (!nodes)
			return -1;
		sources->node = nodes;
		entries = realloc(sources->entry, (size_t)room * sizeof(*entries));
		if (!entries)
			return -1;
		sources->entry = entries;
		sources->room = room;
	}
	sources->node[sources->count] = node;
	sources->entry[sources->count++] = entry;
	return 0;
}

static int find_sources(struct graph_row *row, int entry, struct sources *sources);

/* What is done when the entry is. */
static int find_source(struct graph_row *row, int entry, struct sources *sources)
{
	struct row_entry *e = &row->entry[entry];

	if (e->passed)
		return 0;
	e->passed = true;
	if (e->behind)
		return add_source(sources, e->behind, entry);
	if (!e->removed)
		return add_source(sources, e->node, entry);
	if (e->ahead)
		return add_source(sources, e->ahead, entry);
	return find_sources(row, entry, sources);
}

/* What is done before the entry begins. */
static int find_sources(struct graph_row *row, int entry, struct sources *sources)
{
	const struct row_entry *e = &row->entry[entry];
	int error = 0;

	for (int i = 0; i < e->before_count && !error; i++)
		error = find_source(row, row->before[e->before + i], sources);
	if (e->after >= 0 && !error)
		error = find_source(row, e->after, sources);
	return error;
}

static void forget_passed(struct graph_row *row, int entry)
{
	const struct row_entry *e = &row->entry[entry];

	for (int i = 0; i <= e->before_count; i++) {
		const int before = i < e->before_count ? row->before[e->before + i] : e->after;

		if (before < 0 || !row->entry[before].passed)
			continue;
		row->entry[before].passed = false;
		forget_passed(row, before);
	}
}

static int add_edge(CUgraph graph, CUgraphNode from, CUgraphNode to)
{
	return driver.cuGraphAddDependencies_v2(graph, &from, &to, NULL, 1) != CUDA_SUCCESS ? -1
											    : 0;
}

/* Has the program put an edge there? */
static bool has_edge(const struct graph_row *row, int from, int to)
{
	const struct row_entry *e = &row->entry[to];

	for (int i = 0; i < e->before_count; i++)
		if (row->before[e->before + i] == from)
			return true;
	return false;
}

/* Edges from all that is done before the entry begins. The program's own stay where they are. */
static int join(struct graph_row *row, int entry, struct sources *sources)
{
	const struct row_entry *e = &row->entry[entry];
	const CUgraphNode to = e->ahead ? e->ahead : e->node;
	int error;

	sources->count = 0;
	error = find_sources(row, entry, sources);
	forget_passed(row, entry);
	for (int i = 0; i < sources->count && !error; i++) {
		const int from = sources->entry[i];

		if (to != e->node || sources->node[i] != row->entry[from].node ||
		    !has_edge(row, from, entry))
			error = add_edge(e->graph, sources->node[i], to);
	}
	if (e->ahead && !e->removed && !error)
		error = add_edge(e->graph, e->ahead, e->node);
	if (e->behind && !error)
		error = e->removed ? -1 : add_edge(e->graph, e->node, e->behind);
	return error;
}

static int join_all(struct graph_row *row)
{
	struct sources sources = {0};
	int error = 0;

	for (int i = 0; i < row->count && !error; i++)
		if (!row->entry[i].removed || row->entry[i].ahead)
			error = join(row, i, &sources);
	free(sources.node);
	free(sources.entry);
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
	int error;

	remove_empty(row);
	error = join_all(row);
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
