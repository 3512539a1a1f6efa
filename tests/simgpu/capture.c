/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture. A capture adds what its streams are given; a stream joins by waiting for an event
 * recorded in the capture. What the real driver forbids during a capture (synchronising,
 * allocating, the legacy stream) is refused here too and invalidates it.
 */
#include "sim_graph.h"

#include <stdlib.h>

struct sim_capture {
	struct sim_graph *graph;
	struct sim_stream *origin;
	CUstreamCaptureMode mode;
	CUstreamCaptureStatus status;
	pthread_t thread;
	unsigned long long id;
	struct sim_capture *next;
};

static struct sim_capture *captures; /* kept: events may still name one that has ended */
static unsigned long long next_id = 1;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- called with sim_lock held ------------------------------------------------------------- */

CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_capture *c = stream->capture;

	if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		free(work);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	struct sim_node *node = sim_graph_add(c->graph, work->type);
	node->body = calloc(1, sizeof(*node->body));
	if (!node->body)
		abort();
	*node->body = (struct body){work, 1};
	for (unsigned i = 0; i < stream->last_count; i++)
		sim_graph_edge(stream->last[i], node);
	stream->last[0] = node;
	stream->last_count = 1;
	return CUDA_SUCCESS;
}

void sim_capture_break(struct sim_capture *capture)
{
	if (capture->status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
		capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

CUresult sim_capture_join(struct sim_stream *stream, struct sim_event *event)
{
	struct sim_capture *theirs = event->capture, *ours = stream->capture;

	if (theirs && theirs->status == CU_STREAM_CAPTURE_STATUS_NONE)
		theirs = NULL; /* that capture has ended; the event was never really recorded */
	if (ours && theirs && ours != theirs) {
		sim_capture_break(ours);
		sim_capture_break(theirs);
		return CUDA_ERROR_STREAM_CAPTURE_MERGE;
	}
	if (ours && !theirs) {
		sim_capture_break(ours);
		return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	if (!ours && theirs) {
		if (stream == stream->ctx->legacy) {
			sim_capture_break(theirs);
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
		stream->capture = theirs;
		stream->last_count = 0;
	}
	for (unsigned i = 0; i < event->last_count; i++) {
		bool known = false;

		for (unsigned k = 0; k < stream->last_count; k++)
			known = known || stream->last[k] == event->last[i];
		if (!known && stream->last_count == SIM_LAST)
			abort();
		if (!known)
			stream->last[stream->last_count++] = event->last[i];
	}
	return CUDA_SUCCESS;
}

bool sim_capture_in_context(struct sim_context *ctx, bool invalidate)
{
	bool found = false;

	for (struct sim_capture *c = captures; c; c = c->next) {
		if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE || c->origin->ctx != ctx ||
		    (c->origin->flags & CU_STREAM_NON_BLOCKING))
			continue;
		found = true;
		if (invalidate)
			sim_capture_break(c);
	}
	return found;
}

CUresult sim_capture_permits(void)
{
	CUresult result = CUDA_SUCCESS;

	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&sim_lock);
	for (struct sim_capture *c = captures; c; c = c->next) {
		bool own = pthread_equal(c->thread, pthread_self());
		if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE ||
		    c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
			continue;
		if (own || (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
			    thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
			sim_capture_break(c);
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode, CUgraph graph)
{
	struct sim_capture *c;

	if (stream == stream->ctx->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if ((int)mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c || !(c->graph = graph ? (struct sim_graph *)graph : sim_graph_new())) {
		free(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&sim_lock);
	if (stream->capture) {
		pthread_mutex_unlock(&sim_lock);
		free(c);
		return CUDA_ERROR_ILLEGAL_STATE;
	}
	c->origin = stream;
	c->mode = mode;
	c->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	c->thread = pthread_self();
	c->id = next_id++;
	c->next = captures;
	captures = c;
	stream->capture = c;
	stream->last_count = 0;
	pthread_mutex_unlock(&sim_lock);
	return CUDA_SUCCESS;
}

static void mark_before(struct sim_node *node)
{
	if (node->done)
		return;
	node->done = true;
	for (unsigned i = 0; i < node->count; i++)
		mark_before(node->before[i]);
}

/* Is all that other streams were given behind what the first one goes on from? */
static bool is_joined(const struct sim_capture *c)
{
	for (struct sim_node *node = c->graph->head; node; node = node->next)
		node->done = false;
	for (unsigned i = 0; i < c->origin->last_count; i++)
		mark_before(c->origin->last[i]);
	return sim_stream_all_done(c);
}

CUresult sim_capture_end(struct sim_stream *stream, CUgraph *out)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&sim_lock);
	struct sim_capture *c = stream->capture;
	if (!c)
		result = CUDA_ERROR_ILLEGAL_STATE;
	else if (c->origin != stream)
		result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (result == CUDA_SUCCESS) { /* refused or not, it is over then: seen on a 580 driver */
		if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		    !pthread_equal(c->thread, pthread_self()))
			result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
		else if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
			result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		else if (!is_joined(c))
			result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
		if (result == CUDA_SUCCESS) {
			*out = (CUgraph)c->graph;
		} else { /* also the program's own, that it went into */
			sim_graph_drop(c->graph);
			*out = NULL;
		}
		c->status = CU_STREAM_CAPTURE_STATUS_NONE;
		sim_stream_leave(c);
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUstreamCaptureStatus sim_capture_status(struct sim_stream *stream, unsigned long long *id,
					 CUgraph *graph, CUgraphNode *last, size_t *count)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	pthread_mutex_lock(&sim_lock);
	if (stream->capture) {
		status = stream->capture->status;
		if (id)
			*id = stream->capture->id;
		if (graph)
			*graph = (CUgraph)stream->capture->graph;
		for (unsigned i = 0; last && i < stream->last_count; i++)
			last[i] = (CUgraphNode)stream->last[i];
		if (count)
			*count = stream->last_count;
	}
	pthread_mutex_unlock(&sim_lock);
	return status;
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	SIM_ENTER(" mode=%d", mode ? (int)*mode : -1);
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode old = thread_mode;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
