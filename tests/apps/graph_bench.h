/* SPDX-License-Identifier: Apache-2.0
 *
 * A bench whose chain is captured into graphs: what the hazard cases of graphs begin and end with.
 */
#ifndef FASHIM_GRAPH_BENCH_H
#define FASHIM_GRAPH_BENCH_H

#include "hazards.h"

/* A bench on a stream of its own whose chain ran so often outside. */
static inline void open_run(struct bench *b, int runs)
{
	CUstream stream;

	bench_open(b, TOGETHER);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&b->app, stream);
	for (int r = 0; r < runs; r++) {
		bench_inputs(b, r);
		chain(b, &b->t);
		CHECK(cuStreamSynchronize(stream));
		observe_o(b, &b->t, r);
	}
}

/* … often enough to be known. */
static inline void open_known(struct bench *b)
{
	open_run(b, 4);
}

static inline void begin(struct bench *b)
{
	CHECK(cuStreamBeginCapture(b->app.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static inline CUgraph end(struct bench *b)
{
	CUgraph graph;

	CHECK(cuStreamEndCapture(b->app.stream, &graph));
	return graph;
}

/* What the stream captured since begin(), ready to be launched. */
static inline CUgraphExec end_ready(struct bench *b)
{
	CUgraph graph = end(b);
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	return exec;
}

/* A copy of `child`, which is destroyed, behind the latest node; it is the latest then. */
static inline void graph_add(CUgraph graph, CUgraphNode *latest, CUgraph child)
{
	CUgraphNode node;

	CHECK(cuGraphAddChildGraphNode(&node, graph, latest, *latest != NULL, child));
	CHECK(cuGraphDestroy(child));
	*latest = node;
}

static inline void launch(struct bench *b, CUgraphExec exec)
{
	CHECK(cuGraphLaunch(exec, b->app.stream));
	CHECK(cuStreamSynchronize(b->app.stream));
}

/* Launches of which none can be replaced yet: two are compared, and others are the program's own,
 * before there is what they are compared by, and before there is what replaces. What is in view
 * between them may be asked for. */
static inline void launch_unknown(struct bench *b, CUgraphExec exec, const struct tensors *t)
{
	for (int r = 101; r < 106; r++) {
		bench_inputs(b, r);
		launch(b, exec);
		observe_o(b, t, r);
		if (r == 102)
			observe_p(b, t, r);
	}
}

static inline void close_known(struct bench *b, CUgraphExec exec)
{
	CHECK(cuGraphExecDestroy(exec));
	bench_close(b);
}

/* Attention runs outside, and the graph, which is destroyed, behind it,
 * with a copy of P in it. */
static inline void run_behind(struct bench *b, CUgraph graph)
{
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	for (int r = 4; r < 12; r++) {
		bench_inputs(b, r);
		chain(b, &b->t);
		launch(b, exec);
		observe_o(b, &b->t, r);
		app_observe(&b->report, "copy", r, b->spare, b->scores);
	}
	close_known(b, exec);
}

/* Nothing of the scores is left for anybody. */
static inline void overwrite_scores(struct bench *b)
{
	app_fill(&b->app, b->t.s, 1.f, b->scores);
	app_fill(&b->app, b->t.x, 2.f, b->scores);
	app_fill(&b->app, b->t.m, 3.f, b->scores);
	app_fill(&b->app, b->t.p, 4.f, b->scores);
}

#endif
