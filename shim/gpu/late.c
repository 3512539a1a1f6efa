/* SPDX-License-Identifier: Apache-2.0
 *
 * The latest pieces of such work in a ring, each with the queue it is on; and for each pair of
 * queues up to which piece the one is behind the other. No event is made before somebody comes who
 * must wait: then for all that is on the queue by then. A piece that leaves the ring counts as one
 * that touches everything; where a program has one stream, nobody ever asks.
 */
#include "shim/gpu/late.h"

#include <errno.h>

#include "shim/base/cost.h"
#include "shim/log/log.h"
#include "shim/base/range.h"
#include "shim/real/driver.h"

#define WORKS 64

static struct work {
	uint64_t begin, end;
	uint64_t serial; /* from 1 */
	int queue;
	bool writes;
} works[WORKS];
static uint64_t latest; /* serial of the latest piece: works[serial % WORKS] */

static struct known_queue {
	struct queue queue;
	uint64_t latest;	      /* serial of its latest piece */
	uint64_t dropped;	      /* … and of the latest that left the ring */
	uint64_t behind[LATE_QUEUES]; /* it waits for the other's work up to this piece */
	CUevent fence;		      /* all up to `fenced` is done when this is; NULL: none */
	uint64_t fenced;
} queues[LATE_QUEUES];
static int queue_count;

static struct late_waits waiting;

/* The same handle means another stream in each thread. */
static bool has_number(struct queue queue)
{
	return queue.stream != CU_STREAM_PER_THREAD;
}

static int number_of(struct queue queue)
{
	for (int i = 0; i < queue_count; i++)
		if (queue_same(queues[i].queue, queue))
			return i;
	return -1;
}

static int enter_queue(struct queue queue)
{
	int at = number_of(queue);

	if (at >= 0)
		return at;
	if (queue_count == LATE_QUEUES) {
		/* The one that has been quiet for longest makes room, once its work is done. */
		at = 0;
		for (int i = 1; i < queue_count; i++)
			if (queues[i].latest < queues[at].latest)
				at = i;
		late_host_waits(queues[at].queue);
		late_forget(queues[at].queue.context, queues[at].queue.stream);
	}
	at = queue_count++;
	queues[at] = (struct known_queue){.queue = queue};
	for (int i = 0; i < queue_count; i++)
		queues[i].behind[at] = 0;
	return at;
}

static void add(struct queue queue, uint64_t begin, uint64_t end, bool writes)
{
	struct work *work;
	int at;

	if (begin >= end)
		return;
	at = enter_queue(queue);
	work = &works[++latest % WORKS];
	if (work->serial)
		queues[work->queue].dropped = work->serial;
	*work = (struct work){
		.begin = begin, .end = end, .serial = latest, .queue = at, .writes = writes};
	queues[at].latest = latest;
}

void late_reads(struct queue queue, uint64_t begin, uint64_t end)
{
	add(queue, begin, end, false);
}

void late_writes(struct queue queue, uint64_t begin, uint64_t end)
{
	add(queue, begin, end, true);
}

static void order_behind(struct queue reader, int number, int at)
{
	if (driver_order(queues[at].queue, reader))
		late_host_waits(queues[at].queue);
	if (number >= 0)
		queues[number].behind[at] = queues[at].latest;
}

/* Whose work there may be that the reader is not behind? Calls `meets` only where there is some. */
static void guard(struct queue reader, bool (*meets)(const struct work *work, const void *what),
		  const void *what)
{
	const int number = has_number(reader) ? number_of(reader) : -1;

	if (!queue_count || (queue_count == 1 && number == 0))
		return;
	for (int at = 0; at < queue_count; at++) {
		const uint64_t behind = number >= 0 ? queues[number].behind[at] : 0;
		bool must = queues[at].dropped > behind;

		if (at == number || queues[at].latest <= behind)
			continue;
		for (int i = 0; i < WORKS && !must; i++)
			must = works[i].serial > behind && works[i].queue == at &&
			       meets(&works[i], what);
		if (must)
			order_behind(reader, number, at);
	}
}

static bool meets_list(const struct work *work, const void *what)
{
	const struct access_list *list = what;

	for (int i = 0; i < list->count; i++)
		if ((work->writes || (list->item[i].mode & ACCESS_WRITE)) &&
		    range_overlap(work->begin, work->end, list->item[i].begin, list->item[i].end))
			return true;
	return list->opaque || list->far;
}

static bool meets_graph(const struct work *work, const void *what)
{
	const struct graph_ranges *ranges = what;

	for (int i = 0; i < ranges->count; i++)
		if ((work->writes || ranges->item[i].written) &&
		    range_overlap(work->begin, work->end, ranges->item[i].begin,
				  ranges->item[i].end))
			return true;
	return false;
}

/* A queue that is asked about gets a number, so that it is ordered once for each piece of work. */
static void guard_numbered(struct queue reader,
			   bool (*meets)(const struct work *work, const void *what),
			   const void *what)
{
	if (queue_count && queue_count < LATE_QUEUES && has_number(reader))
		enter_queue(reader);
	guard(reader, meets, what);
}

void late_guard(struct queue reader, const struct access_list *list)
{
	if (latest)
		guard_numbered(reader, meets_list, list);
}

void late_guard_graph(struct queue reader, const struct graph_ranges *ranges)
{
	if (latest)
		guard_numbered(reader, meets_graph, ranges);
}

/* ---- being done -------------------------------------------------------------------------------
 *
 * Asked only when nothing else needs watching. */

static void set_fence(struct known_queue *known)
{
	struct driver_context here;

	if (!driver_enter(&here, known->queue.context))
		return;
	if (driver.cuEventCreate(&known->fence, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		known->fence = NULL;
	if (known->fence &&
	    driver.cuEventRecord(known->fence, known->queue.stream) != CUDA_SUCCESS) {
		driver.cuEventDestroy_v2(known->fence);
		known->fence = NULL;
	}
	known->fenced = known->latest;
	driver_leave(&here);
}

static void drop_fence(struct known_queue *known)
{
	if (known->fence)
		driver.cuEventDestroy_v2(known->fence);
	known->fence = NULL;
}

static bool is_done(struct known_queue *known)
{
	struct driver_context here;
	CUresult result;

	if (!known->fence)
		set_fence(known);
	if (!known->fence || !driver_enter(&here, known->queue.context))
		return false;
	result = driver.cuEventQuery(known->fence);
	driver_leave(&here);
	if (result != CUDA_SUCCESS)
		return false;
	drop_fence(known);
	return known->fenced == known->latest;
}

bool late_pending(void)
{
	bool any = false;

	for (int at = queue_count - 1; at >= 0; at--) {
		if (!queues[at].latest)
			continue;
		if (is_done(&queues[at])) {
			for (int i = 0; i < WORKS; i++)
				if (works[i].serial && works[i].queue == at)
					works[i] = (struct work){0};
			queues[at].latest = queues[at].dropped = 0;
		} else {
			any = true;
		}
	}
	return any;
}

/* ---- the host ------------------------------------------------------------------------------- */

void late_host_waits(struct queue queue)
{
	for (int i = 0; i < waiting.count; i++)
		if (queue_same(waiting.queue[i], queue))
			return;
	if (waiting.count < LATE_QUEUES)
		waiting.queue[waiting.count++] = queue;
	else
		log_violation("too many streams to wait for");
}

void late_host_waits_all(void)
{
	for (int i = 0; i < queue_count; i++)
		if (queues[i].latest)
			late_host_waits(queues[i].queue);
}

void late_lose(void)
{
	waiting.lost = true;
}

void late_take_waits(struct late_waits *waits)
{
	waits->count = waiting.count;
	waits->lost = waiting.lost;
	for (int i = 0; i < waiting.count; i++)
		waits->queue[i] = waiting.queue[i];
	waiting.count = 0;
	waiting.lost = false;
}

int late_await(const struct late_waits *waits)
{
	int error = waits->lost ? -EIO : 0;

	for (int i = 0; i < waits->count; i++) {
		COST(PURPOSE_HAZARDS);
		if (driver_await(waits->queue[i])) {
			if (driver_context_lives(waits->queue[i].context))
				log_violation("what was made late could not be waited for");
			error = -EIO;
		}
	}
	return error;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void forget_queue(int at)
{
	const int last = --queue_count;

	drop_fence(&queues[at]);
	for (int i = 0; i < WORKS; i++) {
		if (works[i].queue == at)
			works[i] = (struct work){0};
		else if (works[i].queue == last)
			works[i].queue = at;
	}
	queues[at] = queues[last];
	for (int i = 0; i < queue_count; i++)
		queues[i].behind[at] = queues[i].behind[last];
}

void late_forget(CUcontext context, CUstream stream)
{
	for (int i = queue_count - 1; i >= 0; i--)
		if ((!context || queues[i].queue.context == context) &&
		    (!stream || queues[i].queue.stream == stream))
			forget_queue(i);
}
