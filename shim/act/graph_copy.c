/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of copies: made, in the order of their launches, over.
 */
#include "shim/act/graph_copy_parts.h"

#include <stdlib.h>

#include "shim/base/cost.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"

#define COPIES 64

/* Copies in a row that ended before anything was replaced, until there are no more. */
#define MOST_WASTED 32

static struct graph_copy *copies[COPIES];
static int copy_count; /* of them */
static int wasted;     /* in a row, up to now */

bool graph_copies(void)
{
	return copy_count > 0;
}

const struct graph_order *graph_copy_order(const struct graph_copy *copy)
{
	return copy->over ? NULL : &copy->order;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* What is held outlives the copy, and keeps what was saved of its inputs. */
static void hand_over(struct graph_copy *copy, struct part *part)
{
	struct chain *chain = part->held;

	chain->graph = NULL;
	for (int i = 0; i < chain->input_count; i++) {
		struct input *input = &chain->inputs[i];

		if (!input->lent)
			continue;
		input->lent = false;
		for (int k = 0; k < copy->saved.count; k++)
			if (copy->saved.block[k] == input->snapshot)
				copy->saved.block[k] = 0;
	}
}

bool graph_copies_wanted(void)
{
	return wasted < MOST_WASTED;
}

void graph_copies_pay(void)
{
	wasted = 0;
}

void graph_copy_over(struct graph_copy *copy)
{
	struct driver_context here;

	wasted = copy->exec ? 0 : wasted + !copy->over;
	for (int i = 0; i < copy->part_count; i++) {
		if (graph_part_held(&copy->part[i]))
			hand_over(copy, &copy->part[i]);
		free(copy->part[i].chain);
	}
	if (copy->exec && driver_enter(&here, copy->latest.context)) {
		driver.cuGraphExecDestroy(copy->exec);
		driver_leave(&here);
	}
	graph_making_drop(copy->making);
	if (copy->beside)
		beside_free(copy->beside, copy->latest.stream);
	graph_copy_release_plans(copy);
	graph_saved_put(&copy->saved, copy->latest.stream);
	graph_order_drop(&copy->order);
	copy->making = NULL;
	copy->exec = NULL;
	copy->beside = NULL;
	copy->part_count = 0;
	copy->over = true;
}

static void free_copy(struct graph_copy *copy)
{
	graph_copy_over(copy);
	for (int i = 0; i < COPIES; i++)
		if (copies[i] == copy) {
			copies[i] = NULL;
			copy_count--;
		}
	free(copy);
}

void graph_copy_forget(const void *exec)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			free_copy(copies[i]);
}

void graph_copy_end(const void *exec)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			graph_copy_over(copies[i]);
}

void graph_copies_end(void)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i])
			graph_copy_over(copies[i]);
}

static bool order_touches(const struct graph_order *order, uint64_t begin, uint64_t end)
{
	for (int i = 0; i < order->count; i++)
		if (range_overlap(order->item[i].begin, order->item[i].end, begin, end))
			return true;
	return false;
}

void graph_copies_end_in(uint64_t begin, uint64_t end_address)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && !copies[i]->over &&
		    order_touches(&copies[i]->order, begin, end_address))
			graph_copy_over(copies[i]);
}

static bool is_captured(struct queue queue)
{
	struct driver_context here;
	bool captured;

	if (!driver_enter(&here, queue.context))
		return true;
	captured = driver_may_capture(queue.stream);
	driver_leave(&here);
	return captured;
}

/* What the queue is given from now on waits for the latest launch. Whoever waits for a stream that
 * is captured is captured with it. */
static bool order_behind(const struct graph_copy *copy, struct queue queue)
{
	return queue_same(copy->latest, queue) ||
	       (!is_captured(copy->latest) && !driver_order(copy->latest, queue));
}

/* Whoever comes later waits for the latest launch at our own stream. */
static bool wait_at_ours(struct graph_copy *copy)
{
	const struct queue ours = {copy->latest.context, graph_workshop(copy->latest.context)};

	if (!ours.stream || !order_behind(copy, ours))
		return false;
	copy->latest = ours;
	return true;
}

void graph_copy_forget_stream(CUstream stream)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->latest.stream == stream && !wait_at_ours(copies[i]))
			free_copy(copies[i]);
}

static void set_apart(struct graph_copy *copy)
{
	if (wait_at_ours(copy))
		return;
	log_violation("a graph's stream is captured, and others cannot wait for its launch");
	graph_copy_over(copy);
}

/* Of what is under way that is done once it was enqueued. */
void graph_copies_before_capture(void)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && !copies[i]->under_way)
			set_apart(copies[i]);
}

void graph_copy_forget_context(CUcontext context)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && (!context || copies[i]->latest.context == context))
			free_copy(copies[i]);
	graph_workshop_forget(context);
	beside_forget(context);
}

/* ---- making --------------------------------------------------------------------------------- */

/* Launched by a kernel it would not be seen; the others change nothing of what it does. */
static bool flags_are_known(unsigned long long flags)
{
	return !(flags & ~(unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					       CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
					       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
}

/* Where the copy of this executable graph goes. It may have had another before it was updated: then
 * launches wait for that one's. NULL: there is no place. */
static struct graph_copy **place_for(CUgraphExec exec)
{
	struct graph_copy **place = NULL;

	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			return &copies[i];
		else if (!copies[i] && !place)
			place = &copies[i];
	return place;
}

void graph_copy_make(struct recorded_graph *graph, CUgraphExec exec, unsigned long long flags)
{
	struct graph_copy **place = place_for(exec), *copy;
	const char *why = place ? NULL : "too many graphs";

	COST(PURPOSE_REPLACING);
	if (place && (!graph_copies_wanted() || !flags_are_known(flags) || !graph_rows_possible()))
		return;
	if (place && graph->branched)
		why = graph_copy_order_ops(graph);
	if (place && !why && !graph_copy_any_proven(graph))
		return;
	copy = place && !why ? graph_copy_new(graph, &why) : NULL;
	if (!copy) {
		log_decline(REASON_CAPTURE, why);
		return;
	}
	copy->program = exec;
	copy->flags = flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	if (*place) {
		copy->latest = (*place)->latest;
		free_copy(*place);
	}
	*place = copy;
	copy_count++;
}

/* ---- launches -------------------------------------------------------------------------------- */

static struct graph_copy *copy_of(const void *exec)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			return copies[i];
	return NULL;
}

struct graph_copy *graph_copy_for(CUgraphExec exec, struct op *op)
{
	struct graph_copy *copy = copy_of(exec);
	struct queue queue = op_queue(op);

	if (copy && !queue.context) /* the stream knows its own */
		queue.context = copy->latest.context;
	if (!copy || is_captured(queue))
		return NULL;
	if (!copy->over && op->context != copy->context)
		graph_copy_over(copy);
	/* The handle says another stream in another thread. */
	if (!copy->over && op->stream == CU_STREAM_PER_THREAD) {
		log_decline(REASON_STREAM, "a graph's");
		graph_copy_over(copy);
	}
	/* The driver lets launches of one executable graph wait for each other, but not those of
	 * two, and nothing can be ordered behind a launch that another thread has yet to make. */
	if (!copy->over && copy->under_way) {
		log_decline(REASON_CAPTURE, "launched by two threads at once");
		graph_copy_over(copy);
	}
	/* Launches of one executable graph wait for each other, whatever their streams, and two
	 * stand for this one. */
	if (!order_behind(copy, queue)) {
		log_violation("a graph could not be ordered behind its own launch");
		graph_copy_over(copy);
	}
	if (op->stream != CU_STREAM_PER_THREAD)
		copy->latest = queue;
	copy->under_way = true;
	op->watcher = copy;
	return copy->over ? NULL : copy;
}

/* All later ones are behind this one now. */
void graph_copy_passed(const struct op *op, bool capture)
{
	struct graph_copy *copy = copy_of(op->handle);

	if (!copy)
		return;
	copy->under_way = false;
	if (copy->over)
		free_copy(copy);
	else if (capture)
		set_apart(copy);
}
