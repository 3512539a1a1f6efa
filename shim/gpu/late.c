/* SPDX-License-Identifier: Apache-2.0
 *
 * The latest pieces of such work in a ring, each with the queue it is on; and for each pair of
 * queues up to which piece the one is behind the other. A piece that leaves the ring counts as one
 * that touches everything; where a program has one stream, nobody ever asks.
 *
 * Whoever waits does so for a fence that was set at the end of the turn, not for all that is on the
 * queue by then: that may be a kernel of the program's which itself waits for what is to wait here,
 * as those of a collective do, one on each device.
 */
#include "shim/gpu/late.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

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
static bool unfenced;	/* was some enqueued in this turn? */

/* An event behind a queue's late work. It is recorded anew, but not while a thread waits for it. */
struct late_fence {
	CUevent event;
	atomic_int users; /* the queue, and threads that wait */
};

static struct known_queue {
	struct queue queue;
	uint64_t latest;	      /* serial of its latest piece */
	uint64_t dropped;	      /* … and of the latest that left the ring */
	uint64_t behind[LATE_QUEUES]; /* it waits for the other's work up to this piece */
	uint64_t settled;	  /* serial of a piece up to which it is its own, or behind all */
	struct late_fence *fence; /* all up to `fenced` is done when this is; NULL: none */
	uint64_t fenced;
} queues[LATE_QUEUES];
static int queue_count;

static struct late_waits waiting;

/* Without the lock, or with it. */
static void give_fence(struct late_fence *fence)
{
	if (!fence || atomic_fetch_sub(&fence->users, 1) > 1)
		return;
	if (fence->event)
		driver.cuEventDestroy_v2(fence->event);
	free(fence);
}

static struct late_fence *take_fence(struct late_fence *fence)
{
	if (fence)
		atomic_fetch_add(&fence->users, 1);
	return fence;
}

static void set_fence(struct known_queue *known)
{
	struct late_fence *fence = known->fence;

	if (fence && known->fenced == known->latest)
		return;
	if (fence && atomic_load(&fence->users) > 1) {
		give_fence(fence);
		fence = NULL;
	}
	if (!fence && (fence = calloc(1, sizeof(*fence))))
		fence->users = 1;
	if (fence && !(fence->event = driver_mark(known->queue, fence->event))) {
		give_fence(fence);
		fence = NULL;
	}
	known->fence = fence;
	known->fenced = known->latest;
}

/* The same handle means another stream in each thread. */
static bool has_number(struct queue queue)
{
	return queue.stream != CU_STREAM_PER_THREAD;
}

static int number_of(struct queue queue)
{
	static int last; /* asked for: programs stay on a stream for a while */

	if (last < queue_count && queue_same(queues[last].queue, queue))
		return last;
	for (int i = 0; i < queue_count; i++)
		if (queue_same(queues[i].queue, queue))
			return last = i;
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
	unfenced = true;
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
	set_fence(&queues[at]);
	if (!queues[at].fence || driver_follow(queues[at].fence->event, reader))
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

/* Is all that the others were given done, or before what comes next on the queue? */
static bool is_behind_all(int number)
{
	for (int at = 0; at < queue_count; at++)
		if (at != number && queues[at].latest > queues[number].behind[at])
			return false;
	return true;
}

/* A queue that is asked about gets a number, so that it is ordered once for each piece of work. */
static void guard_numbered(struct queue reader,
			   bool (*meets)(const struct work *work, const void *what),
			   const void *what)
{
	int number = -1;

	if (queue_count == 1 && has_number(reader) && queue_same(queues[0].queue, reader))
		return; /* all of it is the reader's own */
	if (queue_count && queue_count < LATE_QUEUES && has_number(reader))
		number = enter_queue(reader);
	if (number >= 0 && queues[number].settled == latest)
		return;
	guard(reader, meets, what);
	if (number >= 0 && is_behind_all(number))
		queues[number].settled = latest;
}

void late_guard(struct queue reader, const struct access_list *list)
{
	if (latest)
		guard_numbered(reader, meets_list, list);
}

void late_guard_host(const struct access_list *list)
{
	for (int at = 0; at < queue_count; at++) {
		bool must = queues[at].dropped > 0;

		for (int i = 0; i < WORKS && !must; i++)
			must = works[i].serial && works[i].queue == at &&
			       meets_list(&works[i], list);
		if (must)
			late_host_waits(queues[at].queue);
	}
}

void late_guard_graph(struct queue reader, const struct graph_ranges *ranges)
{
	if (latest)
		guard_numbered(reader, meets_graph, ranges);
}

/* ---- being done -------------------------------------------------------------------------------
 *
 * Asked only when nothing else needs watching. */

static bool is_done(struct known_queue *known)
{
	struct driver_context here;
	CUresult result;

	set_fence(known);
	if (!known->fence || !driver_enter(&here, known->queue.context))
		return false;
	result = driver.cuEventQuery(known->fence->event);
	driver_leave(&here);
	return result == CUDA_SUCCESS;
}

bool late_any(void)
{
	for (int at = 0; at < queue_count; at++)
		if (queues[at].latest)
			return true;
	return false;
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

/* What the queue's late work is fenced by, as far as there is such. */
static struct late_fence *fence_of(struct queue queue)
{
	const int at = has_number(queue) ? number_of(queue) : -1;

	if (at < 0 || !queues[at].latest)
		return NULL;
	set_fence(&queues[at]);
	return queues[at].fence;
}

static void wait_for(struct queue queue, struct late_fence *fence)
{
	struct late_wait *wait = waiting.wait;

	while (wait < waiting.wait + waiting.count && !queue_same(wait->queue, queue))
		wait++;
	if (wait == waiting.wait + LATE_QUEUES) {
		log_violation("too many streams to wait for");
		return;
	}
	if (wait == waiting.wait + waiting.count)
		waiting.wait[waiting.count++] = (struct late_wait){queue, take_fence(fence)};
	else if (wait->fence != fence && wait->fence) {
		give_fence(wait->fence);
		wait->fence = take_fence(fence);
	}
}

void late_host_waits(struct queue queue)
{
	wait_for(queue, fence_of(queue));
}

void late_host_waits_stream(struct queue queue)
{
	wait_for(queue, NULL);
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

bool late_owes(void)
{
	return unfenced || waiting.count || waiting.lost;
}

void late_take_waits(struct late_waits *waits)
{
	for (int i = 0; i < queue_count && unfenced; i++)
		if (queues[i].latest)
			set_fence(&queues[i]);
	unfenced = false;
	waits->count = waiting.count;
	waits->lost = waiting.lost;
	for (int i = 0; i < waiting.count; i++) {
		struct late_fence *fence = fence_of(waiting.wait[i].queue);

		if (fence && waiting.wait[i].fence) /* there may be more by now */
			wait_for(waiting.wait[i].queue, fence);
		waits->wait[i] = waiting.wait[i];
	}
	waiting.count = 0;
	waiting.lost = false;
}

int late_await(struct late_waits *waits)
{
	int error = waits->lost ? -EIO : 0;

	for (int i = 0; i < waits->count; i++) {
		struct late_wait *wait = &waits->wait[i];

		COST(PURPOSE_HAZARDS);
		if (driver_await(wait->queue, wait->fence ? wait->fence->event : NULL)) {
			if (driver_context_lives(wait->queue.context))
				log_violation("what was made late could not be waited for");
			error = -EIO;
		}
		give_fence(wait->fence);
	}
	return error;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void forget_queue(int at)
{
	const int last = --queue_count;

	give_fence(queues[at].fence);
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
