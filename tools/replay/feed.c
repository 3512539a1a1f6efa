/* SPDX-License-Identifier: Apache-2.0
 *
 * flow_before() and flow_after() as a hook calls them.
 */
#include "tools/replay/feed.h"

#include <string.h>

#include "tools/replay/below.h"
#include "tools/replay/trace.h"

#define MAX_ALLOCATIONS 4096

static struct {
	feed_seen *seen;
	void *argument;
	long ops;
	uint64_t allocations[MAX_ALLOCATIONS]; /* those not freed */
	int allocation_count;
} feed;

static void note_memory(const struct op *op)
{
	if (op->kind == OP_ALLOC && feed.allocation_count < MAX_ALLOCATIONS)
		feed.allocations[feed.allocation_count++] = op->alloc.range.base;
	for (int i = 0; op->kind == OP_FREE && i < feed.allocation_count; i++)
		if (feed.allocations[i] == op->alloc.range.base)
			feed.allocations[i--] = feed.allocations[--feed.allocation_count];
}

/* As the hooks of those calls have it. */
static bool waits(const struct op *op)
{
	return (op->kind == OP_SYNC && strstr(op->name, "Synchronize")) ||
	       (op->kind == OP_COPY && op->copy.to_host && !op->copy.later);
}

static void play(struct op *op, void *unused)
{
	enum flow flow;

	(void)unused;
	note_memory(op);
	feed.ops++;
	if (waits(op))
		flow_waited(flow_waits());
	else if (op->kind == OP_COPY && op->copy.to_host)
		flow_fetches();
	flow = flow_before(op);
	if (flow != FLOW_TAKEN)
		flow_after(op);
	feed.seen(op, flow, feed.argument);
}

static void free_all(void)
{
	while (feed.allocation_count) {
		struct op op = {.kind = OP_FREE,
				.name = "cuMemFree_v2",
				.context = BELOW_CONTEXT,
				.stream = CU_STREAM_LEGACY,
				.alloc.range.base = feed.allocations[feed.allocation_count - 1]};

		play(&op, NULL);
	}
}

long feed_trace(const char *path, int rounds, feed_seen *seen, void *argument)
{
	feed.seen = seen;
	feed.argument = argument;
	for (int i = 0; i < rounds; i++) {
		long ops = trace_play(path, play, NULL);

		if (ops < 0)
			return ops;
		if (i + 1 < rounds)
			free_all();
	}
	return feed.ops;
}
