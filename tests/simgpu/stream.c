/* SPDX-License-Identifier: Apache-2.0
 *
 * Order: streams, events, and the engine that runs what they hold.
 *
 * Every piece of work gets a ticket, its number in its stream. Whatever must come first is a list
 * of tickets of other streams: an event waited for, everything on the blocking streams for work on
 * the legacy default stream, the legacy stream's latest for work on a blocking stream. By default
 * work runs inside the call that submits it, so all tickets are always done. With SIMGPU_ASYNC=1
 * each stream has a worker thread that waits for those tickets and for nothing else: a program, or
 * a shim under test, that forgot an event then really reads too early. SIMGPU_ASYNC=n with n > 1
 * also lets each piece of work wait up to n microseconds first, so that little stays in order by
 * luck.
 */
#include "sim_graph.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool sim_async;
unsigned sim_jitter;
pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct sim_stream *streams; /* never freed: tickets point at them */
static struct sim_event *events;
static unsigned next_id = 1;

static __thread struct {
	struct sim_context *ctx;
	struct sim_stream *stream;
} own[8]; /* the per-thread default streams of this thread */

/* ---- lookup ----------------------------------------------------------------------------- */

struct sim_stream *sim_stream_new(struct sim_context *ctx, unsigned flags, int priority)
{
	struct sim_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->magic = SIM_STREAM;
	stream->ctx = ctx;
	stream->flags = flags;
	stream->priority = priority;
	stream->tail = &stream->head;
	pthread_mutex_lock(&sim_lock);
	stream->id = next_id++;
	snprintf(stream->name, sizeof(stream->name), "s%u", stream->id);
	stream->next = streams;
	streams = stream;
	pthread_mutex_unlock(&sim_lock);
	return stream;
}

static struct sim_stream *per_thread(struct sim_context *ctx)
{
	for (unsigned i = 0; i < sizeof(own) / sizeof(*own); i++) {
		if (!own[i].ctx) {
			own[i].stream = sim_stream_new(ctx, 0, 0);
			if (!own[i].stream)
				return NULL;
			strcpy(own[i].stream->name, "per-thread");
			own[i].ctx = ctx;
		}
		if (own[i].ctx == ctx)
			return own[i].stream;
	}
	return NULL;
}

struct sim_stream *sim_stream(CUstream handle, CUstream standard)
{
	struct sim_context *ctx = sim_current();
	struct sim_stream *stream;

	if (!handle)
		handle = standard;
	if (handle == CU_STREAM_LEGACY)
		return ctx ? ctx->legacy : NULL;
	if (handle == CU_STREAM_PER_THREAD)
		return ctx ? per_thread(ctx) : NULL;
	pthread_mutex_lock(&sim_lock);
	for (stream = streams; stream && stream != (struct sim_stream *)handle;)
		stream = stream->next;
	pthread_mutex_unlock(&sim_lock);
	return stream && stream->magic == SIM_STREAM ? stream : NULL;
}

struct sim_event *sim_event(CUevent handle)
{
	struct sim_event *event = (struct sim_event *)handle;

	return event && event->magic == SIM_EVENT ? event : NULL;
}

/* ---- the engine ------------------------------------------------------------------------- */

void *sim_work_new(size_t bytes, CUresult (*run)(struct sim_work *), CUgraphNodeType type)
{
	struct sim_work *work = calloc(1, bytes);

	if (work) {
		work->run = run;
		work->type = type;
	}
	return work;
}

bool sim_ticket_done(const struct sim_ticket *ticket)
{
	return !ticket->stream || ticket->stream->done >= ticket->ticket;
}

static bool may_run(const struct sim_work *work)
{
	for (unsigned i = 0; i < work->after_count; i++)
		if (!sim_ticket_done(&work->after[i]))
			return false;
	return true;
}

static void sleep_by(uint64_t x)
{
	x ^= x >> 31;
	if (sim_jitter)
		usleep((useconds_t)((x * 0x94d049bb133111ebull >> 33) % sim_jitter));
}

/* Sleeps as long as the stream and the number of the work say: the same in every run. */
static void linger(const struct sim_stream *stream)
{
	sleep_by((stream->done + 1) * 0x9e3779b97f4a7c15ull + stream->id * 0xbf58476d1ce4e5b9ull);
}

void sim_delay(void)
{
	static atomic_uint calls;

	sleep_by((atomic_fetch_add(&calls, 1) + 1) * 0x9e3779b97f4a7c15ull);
}

static void *worker(void *argument)
{
	struct sim_stream *stream = argument;

	pthread_mutex_lock(&sim_lock);
	for (;;) {
		struct sim_work *work = stream->head;
		if (!work && !stream->magic)
			break;
		if (!work || !may_run(work)) {
			pthread_cond_wait(&changed, &sim_lock);
			continue;
		}
		stream->head = work->next;
		if (!stream->head)
			stream->tail = &stream->head;
		pthread_mutex_unlock(&sim_lock);
		linger(stream);
		CUresult result = work->run(work);
		pthread_mutex_lock(&sim_lock);
		if (result != CUDA_SUCCESS)
			stream->ctx->sticky = result;
		stream->done++;
		free(work->after);
		free(work);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&sim_lock);
	return NULL;
}

/* With the lock held: the tickets that must be done before `work` may run. */
static void order(struct sim_stream *stream, struct sim_work *work)
{
	bool legacy = stream == stream->ctx->legacy;
	unsigned count = stream->waits + 1;
	struct sim_stream *s;

	for (s = streams; s; s = s->next)
		count++;
	work->after = calloc(count, sizeof(*work->after));
	if (!work->after)
		abort();
	for (unsigned i = 0; i < stream->waits; i++)
		work->after[work->after_count++] = stream->wait[i];
	stream->waits = 0;
	if (stream->flags & CU_STREAM_NON_BLOCKING)
		return;
	for (s = streams; s; s = s->next) {
		if (s == stream || s->ctx != stream->ctx || s->done == s->submitted)
			continue;
		if (legacy ? !(s->flags & CU_STREAM_NON_BLOCKING) : s == stream->ctx->legacy)
			work->after[work->after_count++] = (struct sim_ticket){s, s->submitted};
	}
}

static bool enqueue(struct sim_stream *stream, struct sim_work *work)
{
	order(stream, work);
	work->ticket = ++stream->submitted;
	*stream->tail = work;
	stream->tail = &work->next;
	if (!stream->has_worker) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, worker, stream))
			abort();
		pthread_detach(thread);
		stream->has_worker = true;
	}
	pthread_cond_broadcast(&changed);
	return true;
}

CUresult sim_submit(struct sim_stream *stream, struct sim_work *work, bool wait)
{
	CUresult result = CUDA_SUCCESS;

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&sim_lock);
	if (stream->capture) {
		result = sim_capture_add(stream, work);
		pthread_mutex_unlock(&sim_lock);
		return result;
	}
	if (stream == stream->ctx->legacy && sim_capture_in_context(stream->ctx, true)) {
		pthread_mutex_unlock(&sim_lock);
		free(work);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (sim_async) {
		enqueue(stream, work);
		uint64_t ticket = work->ticket;
		while (wait && stream->done < ticket)
			pthread_cond_wait(&changed, &sim_lock);
		if (wait)
			result = stream->ctx->sticky;
		pthread_mutex_unlock(&sim_lock);
		return result;
	}
	pthread_mutex_unlock(&sim_lock);
	result = work->run(work);
	free(work);
	pthread_mutex_lock(&sim_lock);
	stream->submitted++;
	stream->done++;
	pthread_mutex_unlock(&sim_lock);
	return result;
}

void sim_stream_drain(struct sim_stream *stream)
{
	pthread_mutex_lock(&sim_lock);
	uint64_t until = stream->submitted;
	while (stream->done < until)
		pthread_cond_wait(&changed, &sim_lock);
	pthread_mutex_unlock(&sim_lock);
}

void sim_context_drain(struct sim_context *ctx)
{
	pthread_mutex_lock(&sim_lock);
	for (struct sim_stream *s = streams; s; s = s->next) {
		uint64_t until = s->submitted;
		while (s->ctx == ctx && s->done < until)
			pthread_cond_wait(&changed, &sim_lock);
	}
	pthread_mutex_unlock(&sim_lock);
}

void sim_stream_leave(struct sim_capture *capture)
{
	for (struct sim_stream *s = streams; s; s = s->next)
		if (s->capture == capture)
			s->capture = NULL;
}

bool sim_stream_all_done(const struct sim_capture *capture)
{
	for (const struct sim_stream *s = streams; s; s = s->next)
		for (unsigned i = 0; s->capture == capture && i < s->last_count; i++)
			if (!s->last[i]->done)
				return false;
	return true;
}

/* ---- events, with the engine's help ----------------------------------------------------- */

struct record_work {
	struct sim_work work;
	struct sim_event *event;
};

static CUresult run_record(struct sim_work *work)
{
	struct sim_event *event = ((struct record_work *)work)->event;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	event->time_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
	return CUDA_SUCCESS;
}

CUresult sim_event_record(struct sim_event *event, struct sim_stream *stream, bool external)
{
	struct record_work *work =
		sim_work_new(sizeof(*work), run_record, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
	CUresult result;

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->event = event;
	pthread_mutex_lock(&sim_lock);
	bool captured = stream->capture && !external;
	event->capture = stream->capture;
	memcpy(event->last, stream->last, sizeof(event->last));
	event->last_count = stream->capture ? stream->last_count : 0;
	pthread_mutex_unlock(&sim_lock);
	if (captured) { /* a mark in the graph's order, nothing that runs */
		free(work);
		return CUDA_SUCCESS;
	}
	result = sim_submit(stream, &work->work, false);
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&sim_lock);
	event->at = (struct sim_ticket){stream, stream->submitted};
	pthread_mutex_unlock(&sim_lock);
	return CUDA_SUCCESS;
}

static CUresult run_nothing(struct sim_work *work)
{
	(void)work;
	return CUDA_SUCCESS;
}

/* With the lock held: was there anything to wait for? */
static bool wait_for(struct sim_stream *stream, const struct sim_ticket *ticket)
{
	const bool pending = !sim_ticket_done(ticket);
	unsigned most = sizeof(stream->wait) / sizeof(*stream->wait);

	while (pending && stream->waits == most) /* another thread is between here and its submit */
		pthread_cond_wait(&changed, &sim_lock);
	if (pending)
		stream->wait[stream->waits++] = *ticket;
	return pending;
}

void sim_stream_after(struct sim_stream *stream, const struct sim_ticket *ticket)
{
	pthread_mutex_lock(&sim_lock);
	wait_for(stream, ticket);
	pthread_mutex_unlock(&sim_lock);
}

CUresult sim_stream_wait(struct sim_stream *stream, struct sim_event *event)
{
	pthread_mutex_lock(&sim_lock);
	if (event->capture || stream->capture) {
		CUresult result = sim_capture_join(stream, event);
		pthread_mutex_unlock(&sim_lock);
		return result;
	}
	const bool pending = wait_for(stream, &event->at);
	pthread_mutex_unlock(&sim_lock);
	if (!pending)
		return CUDA_SUCCESS;
	/* An item of its own, so that a synchronisation of the stream covers the wait too. */
	return sim_submit(
		stream,
		sim_work_new(sizeof(struct sim_work), run_nothing, CU_GRAPH_NODE_TYPE_EMPTY),
		false);
}

/* ---- all streams of a context --------------------------------------------------------------- */

/* One that is behind all that the context's others hold. NULL: no memory, or one of them captures.
 */
static struct sim_stream *behind_all(struct sim_context *ctx)
{
	struct sim_stream *all = sim_stream_new(ctx, CU_STREAM_NON_BLOCKING, 0);
	struct sim_stream *first;
	struct sim_ticket at;

	pthread_mutex_lock(&sim_lock);
	first = streams;
	pthread_mutex_unlock(&sim_lock);
	for (struct sim_stream *s = first; all && s; s = s->next) {
		if (s->ctx != ctx || s == all)
			continue;
		if (s->capture)
			return NULL;
		at = (struct sim_ticket){s, s->submitted};
		sim_stream_after(all, &at);
		sim_submit(all,
			   sim_work_new(sizeof(struct sim_work), run_nothing,
					CU_GRAPH_NODE_TYPE_EMPTY),
			   false);
	}
	return all;
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext handle, CUevent event)
{
	struct sim_context *ctx = sim_context(handle);
	struct sim_stream *all;

	SIM_ENTER(" event=%p", (void *)event);
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!sim_event(event))
		return CUDA_ERROR_INVALID_HANDLE;
	all = behind_all(ctx);
	return all ? sim_event_record(sim_event(event), all, false)
		   : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CUDAAPI cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
	CUcontext ctx;
	CUresult result = cuCtxFromGreenCtx(&ctx, green);

	return result == CUDA_SUCCESS ? cuCtxRecordEvent(ctx, event) : result;
}

/* ---- entry points without a stream-0 flavour -------------------------------------------- */

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
	SIM_ENTER_CONTEXT(" flags=%u priority=%d", flags, priority);
	if (!out || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUstream)sim_stream_new(ctx, flags, priority);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned int flags)
{
	SIM_ENTER_CONTEXT(" flags=%u", flags);
	if (!out || flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUstream)sim_stream_new(ctx, flags, 0);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuStreamDestroy(CUstream handle)
{
	SIM_ENTER(" stream=%s", sim_stream_name(handle, CU_STREAM_LEGACY));
	struct sim_stream *stream = sim_stream(handle, CU_STREAM_LEGACY);
	if (!stream || stream == stream->ctx->legacy || handle == CU_STREAM_PER_THREAD)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&sim_lock);
	stream->magic = 0; /* what is queued still runs */
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&sim_lock);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned int flags)
{
	struct sim_event *event;

	SIM_ENTER_CONTEXT(" flags=%u", flags);
	if (!out || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&sim_lock);
	/* A record of one that is gone may still be queued. */
	for (event = events; event && (event->magic || !sim_ticket_done(&event->at));
	     event = event->next)
		;
	if (!event) {
		event = malloc(sizeof(*event));
		if (!event) {
			pthread_mutex_unlock(&sim_lock);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		event->next = events;
		events = event;
	}
	*event = (struct sim_event){
		.magic = SIM_EVENT, .flags = flags, .ctx = ctx, .next = event->next};
	pthread_mutex_unlock(&sim_lock);
	*out = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent handle)
{
	SIM_ENTER(" event=%p", (void *)handle);
	struct sim_event *event = sim_event(handle);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&sim_lock);
	event->magic = 0;
	pthread_mutex_unlock(&sim_lock);
	return CUDA_SUCCESS;
}

static CUresult event_state(struct sim_event *event, bool wait)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&sim_lock);
	if (event->capture) {
		sim_capture_break(event->capture);
		result = CUDA_ERROR_CAPTURED_EVENT;
	}
	struct sim_ticket at = event->at;
	while (!result && wait && !sim_ticket_done(&at))
		pthread_cond_wait(&changed, &sim_lock);
	if (!result && !sim_ticket_done(&at))
		result = CUDA_ERROR_NOT_READY;
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUresult CUDAAPI cuEventQuery(CUevent handle)
{
	SIM_ENTER(" event=%p", (void *)handle);
	if (!sim_event(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	return event_state(sim_event(handle), false);
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle)
{
	SIM_ENTER(" event=%p", (void *)handle);
	if (!sim_event(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	return event_state(sim_event(handle), true);
}

/* Simulated: host time between the moments at which the two records ran. */
CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	SIM_ENTER(" ");
	struct sim_event *a = sim_event(from), *b = sim_event(to);
	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!a || !b || !a->at.stream || !b->at.stream || (a->flags & CU_EVENT_DISABLE_TIMING) ||
	    (b->flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	CUresult result = event_state(a, false);
	if (result == CUDA_SUCCESS)
		result = event_state(b, false);
	if (result == CUDA_SUCCESS)
		*ms = (float)((double)(int64_t)(b->time_ns - a->time_ns) * 1e-6);
	return result;
}
