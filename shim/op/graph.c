/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of ranges, one for each capture, graph and executable graph. A record grows by appending;
 * when it is full it is sorted and ranges that meet are joined.
 */
#include "shim/op/graph.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS	    256
#define MOST_RANGES 65536

/* What the handle is. */
enum kind { UNUSED, CAPTURE, GRAPH, EXEC };

static struct record {
	enum kind kind;
	const void *handle;
	bool opaque; /* something in it may touch anything */
	int room;
	struct graph_ranges ranges;
} records[RECORDS];

static struct record *find(enum kind kind, const void *handle)
{
	for (int i = 0; i < RECORDS; i++)
		if (records[i].kind == kind && records[i].handle == handle)
			return &records[i];
	return NULL;
}

static void drop(struct record *record)
{
	if (!record)
		return;
	free(record->ranges.item);
	*record = (struct record){.kind = UNUSED};
}

/* NULL: no place; the graph will not be known. */
static struct record *add(enum kind kind, const void *handle)
{
	struct record *record;

	drop(find(kind, handle));
	record = find(UNUSED, NULL);
	if (record)
		*record = (struct record){.kind = kind, .handle = handle};
	return record;
}

/* ---- ranges --------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
	const struct graph_range *x = a, *y = b;

	if (x->written != y->written)
		return x->written - y->written;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void join(struct graph_ranges *ranges)
{
	int kept = 0;

	if (!ranges->count)
		return;
	qsort(ranges->item, (size_t)ranges->count, sizeof(*ranges->item), by_begin);
	for (int i = 1; i < ranges->count; i++) {
		struct graph_range *last = &ranges->item[kept], *next = &ranges->item[i];

		if (next->written != last->written || next->begin > last->end)
			ranges->item[++kept] = *next;
		else if (next->end > last->end)
			last->end = next->end;
	}
	ranges->count = kept + 1;
}

static bool make_room(struct record *record)
{
	const int room = record->room ? 2 * record->room : 64;
	struct graph_range *grown;

	if (record->ranges.count < record->room)
		return true;
	join(&record->ranges);
	if (record->ranges.count <= record->room / 2 && record->room)
		return true;
	if (room > MOST_RANGES)
		return false;
	grown = realloc(record->ranges.item, (size_t)room * sizeof(*grown));
	if (!grown)
		return false;
	record->ranges.item = grown;
	record->room = room;
	return true;
}

static void append(struct record *record, const struct access *access)
{
	if (!make_room(record)) {
		record->opaque = true;
		return;
	}
	record->ranges.item[record->ranges.count++] = (struct graph_range){
		access->begin, access->end, (access->mode & ACCESS_WRITE) != 0};
}

/* What an op may touch that may follow addresses in memory. */
static const struct access anywhere = {.end = UINT64_MAX, .mode = ACCESS_UNKNOWN};

/* ---- in order ------------------------------------------------------------------------------- */

static bool add_touch(struct graph_order *order, struct graph_touch touch)
{
	const int room = order->room ? 2 * order->room : 256;
	struct graph_touch *grown;

	if (order->count == order->room) {
		grown = realloc(order->item, (size_t)room * sizeof(*grown));
		if (!grown)
			return false;
		order->item = grown;
		order->room = room;
	}
	order->item[order->count++] = touch;
	return true;
}

bool graph_order_add(struct graph_order *order, int op, const struct access_list *list)
{
	for (int reads = 1; reads >= 0; reads--)
		for (int i = list->far ? -1 : 0; i < list->count; i++) {
			const struct access *access = i < 0 ? &anywhere : &list->item[i];
			const bool read = access->mode != ACCESS_WRITE;
			const struct graph_touch touch = {.begin = access->begin,
							  .end = access->end,
							  .sure_end = read ? access->begin
									   : access->sure_end,
							  .op = op,
							  .read = reads};

			if (reads ? read : (access->mode & ACCESS_WRITE) != 0)
				if (!add_touch(order, touch))
					return false;
		}
	return true;
}

void graph_order_drop(struct graph_order *order)
{
	free(order->item);
	free(order->path);
	*order = (struct graph_order){0};
}

static void *duplicate(const void *from, size_t bytes)
{
	void *to = malloc(bytes + 1);

	if (to && bytes)
		memcpy(to, from, bytes);
	return to;
}

bool graph_order_copy(struct graph_order *to, const struct graph_order *from)
{
	*to = *from;
	to->room = from->count;
	to->item = duplicate(from->item, (size_t)from->count * sizeof(*from->item));
	if (from->path)
		to->path = duplicate(from->path, (size_t)from->path_count * sizeof(*from->path));
	if (to->item && (to->path || !from->path))
		return true;
	graph_order_drop(to);
	return false;
}

bool graph_order_before(const struct graph_order *order, int a, int b)
{
	const struct graph_path *first, *second;

	if (!order->path || a >= b)
		return a < b;
	first = &order->path[a];
	second = &order->path[b];
	if (first->line < 0 || second->line < 0)
		return false;
	if (first->line == second->line && first->at == second->at) /* in one child graph */
		return true;
	return second->begun[first->line] >= first->at;
}

/* ---- from capture to launch ----------------------------------------------------------------- */

/* One handle says another stream in each thread, which may all be captured at once. */
static const void *capture_on(CUstream stream)
{
	static __thread char own __attribute__((tls_model("initial-exec")));

	return stream == CU_STREAM_PER_THREAD ? (const void *)&own : stream;
}

void graph_begin(CUstream stream, bool onto)
{
	struct record *record = add(CAPTURE, capture_on(stream));

	if (record)
		record->opaque = onto;
}

void graph_note(const struct access_list *list)
{
	for (int i = 0; i < RECORDS; i++) {
		if (records[i].kind != CAPTURE)
			continue;
		records[i].opaque |= list->opaque;
		if (list->far)
			append(&records[i], &anywhere);
		for (int k = 0; k < list->count; k++)
			append(&records[i], &list->item[k]);
	}
}

void graph_end(CUstream stream, CUgraph graph)
{
	struct record *record = find(CAPTURE, capture_on(stream));

	drop(find(GRAPH, graph));
	if (!record)
		return;
	record->kind = GRAPH;
	record->handle = graph;
	join(&record->ranges);
}

void graph_instantiated(CUgraph graph, CUgraphExec exec)
{
	const struct record *from = find(GRAPH, graph);
	struct record *record = from ? add(EXEC, exec) : NULL;

	if (!record) {
		drop(find(EXEC, exec));
		return;
	}
	record->opaque = from->opaque;
	record->room = record->ranges.count = from->ranges.count;
	record->ranges.item = malloc((size_t)from->ranges.count * sizeof(struct graph_range) + 1);
	if (!record->ranges.item)
		drop(record);
	else if (from->ranges.count)
		memcpy(record->ranges.item, from->ranges.item,
		       (size_t)from->ranges.count * sizeof(struct graph_range));
}

void graph_gone(const void *handle)
{
	drop(find(GRAPH, handle));
	drop(find(EXEC, handle));
}

void graph_changed(void)
{
	for (int i = 0; i < RECORDS; i++)
		if (records[i].kind == CAPTURE)
			records[i].opaque = true;
		else if (records[i].kind == GRAPH)
			drop(&records[i]);
}

void graph_executables_changed(void)
{
	for (int i = 0; i < RECORDS; i++)
		if (records[i].kind == EXEC)
			drop(&records[i]);
}

const struct graph_ranges *graph_known(CUgraphExec exec)
{
	const struct record *record = find(EXEC, exec);

	return record && !record->opaque ? &record->ranges : NULL;
}
