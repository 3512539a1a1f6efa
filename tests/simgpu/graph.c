/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture and graphs.
 *
 * A capture collects the work that its streams are given, in the order of the calls, which is one
 * valid order of the graph; launching runs the list as one piece of work. A stream joins by waiting
 * for an event recorded in the capture. What the real driver forbids meanwhile (synchronising,
 * allocating, the legacy stream) is refused here too and invalidates the capture.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_graph {
	enum sim_magic magic;
	struct sim_work *head, **tail;
	unsigned count;
	unsigned users; /* executable graphs share the list */
	struct sim_graph *next;
};

struct sim_capture {
	struct sim_graph *graph;
	struct sim_stream *origin;
	CUstreamCaptureMode mode;
	CUstreamCaptureStatus status;
	pthread_t thread;
	unsigned long long id;
	struct sim_capture *next;
};

static struct sim_graph *graphs;     /* never freed, only emptied: late callers may hold a handle */
static struct sim_capture *captures; /* kept: events may still name one that has ended */
static unsigned long long next_id = 1;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static struct sim_graph *new_graph(void)
{
	struct sim_graph *g = calloc(1, sizeof(*g));

	if (g) {
		g->magic = SIM_GRAPH;
		g->tail = &g->head;
		g->users = 1;
		pthread_mutex_lock(&sim_lock);
		g->next = graphs;
		graphs = g;
		pthread_mutex_unlock(&sim_lock);
	}
	return g;
}

static void drop_graph(struct sim_graph *g)
{
	if (--g->users)
		return;
	for (struct sim_work *w = g->head, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	g->head = NULL;
}

/* ---- capture, called with sim_lock held ------------------------------------------------- */

CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work)
{
	struct sim_capture *c = stream->capture;

	if (c->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		free(work);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	*c->graph->tail = work;
	c->graph->tail = &work->next;
	c->graph->count++;
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

CUresult sim_capture_begin(struct sim_stream *stream, CUstreamCaptureMode mode)
{
	struct sim_capture *c;

	if (stream == stream->ctx->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if ((int)mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	c = calloc(1, sizeof(*c));
	if (!c || !(c->graph = new_graph())) {
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
	pthread_mutex_unlock(&sim_lock);
	return CUDA_SUCCESS;
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
	else if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
		 !pthread_equal(c->thread, pthread_self()))
		result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (result == CUDA_SUCCESS) {
		if (c->status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
			*out = (CUgraph)c->graph;
		} else {
			drop_graph(c->graph);
			*out = NULL;
			result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
		}
		c->status = CU_STREAM_CAPTURE_STATUS_NONE;
		sim_stream_leave(c);
	}
	pthread_mutex_unlock(&sim_lock);
	return result;
}

CUstreamCaptureStatus sim_capture_status(struct sim_stream *stream, unsigned long long *id,
					 CUgraph *graph)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	pthread_mutex_lock(&sim_lock);
	if (stream->capture) {
		status = stream->capture->status;
		if (id)
			*id = stream->capture->id;
		if (graph)
			*graph = (CUgraph)stream->capture->graph;
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

/* ---- graphs ----------------------------------------------------------------------------- */

struct graph_exec {
	enum sim_magic magic;
	struct sim_graph *graph;
	unsigned long long flags;
};

struct graph_work {
	struct sim_work work;
	struct sim_graph *graph;
};

static struct sim_graph *graph_of(CUgraph handle)
{
	struct sim_graph *g = (struct sim_graph *)handle;

	return g && g->magic == SIM_GRAPH ? g : NULL;
}

static CUresult run_graph(struct sim_work *work)
{
	CUresult result = CUDA_SUCCESS;

	for (struct sim_work *w = ((struct graph_work *)work)->graph->head; w; w = w->next) {
		CUresult r = w->run(w);
		if (r != CUDA_SUCCESS)
			result = r;
	}
	return result;
}

CUresult sim_graph_launch(CUgraphExec handle, struct sim_stream *stream)
{
	struct graph_exec *exec = (struct graph_exec *)handle;
	struct graph_work *work;

	if (!exec || exec->magic != SIM_GRAPH_EXEC)
		return CUDA_ERROR_INVALID_VALUE;
	work = sim_work_new(sizeof(*work), run_graph, CU_GRAPH_NODE_TYPE_GRAPH);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->graph = exec->graph;
	return sim_submit(stream, &work->work, false);
}

CUresult sim_graph_instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
	struct sim_graph *g = graph_of(handle);
	struct graph_exec *exec;

	if (!out || !g)
		return CUDA_ERROR_INVALID_VALUE;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->magic = SIM_GRAPH_EXEC;
	exec->graph = g;
	exec->flags = flags;
	g->users++;
	*out = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
					     unsigned long long flags)
{
	SIM_ENTER(" flags=%llu", flags);
	return sim_graph_instantiate(out, graph, flags);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle)
{
	SIM_ENTER(" exec=%p", (void *)handle);
	struct graph_exec *exec = (struct graph_exec *)handle;
	if (!exec || exec->magic != SIM_GRAPH_EXEC)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_current())
		sim_context_drain(sim_current());
	exec->magic = 0;
	drop_graph(exec->graph);
	free(exec);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphCreate(CUgraph *out, unsigned int flags)
{
	SIM_ENTER(" flags=%u", flags);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)new_graph();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	struct sim_graph *g = graph_of(handle);
	if (!g)
		return CUDA_ERROR_INVALID_VALUE;
	g->magic = 0;
	drop_graph(g);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	SIM_ENTER(" graph=%p", (void *)handle);
	struct sim_graph *g = graph_of(handle);
	if (!g || !count)
		return CUDA_ERROR_INVALID_VALUE;
	size_t i = 0;
	for (struct sim_work *w = g->head; nodes && w && i < *count; w = w->next)
		nodes[i++] = (CUgraphNode)w;
	*count = nodes ? i : g->count;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	SIM_ENTER(" node=%p", (void *)node);
	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = ((struct sim_work *)node)->type;
	return CUDA_SUCCESS;
}
