/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with attention in them whose nodes are no row: streams that join a capture by an event and
 * are joined again, branches that are put there by hand.
 */
#include "graph_bench.h"

#include <pthread.h>
#include <string.h>

/* ---- streams beside each other -------------------------------------------------------------- */

/* A bench, and the same on another stream, with a handle of its own for products. */
struct fork {
	struct bench b, side;
	CUevent event[2];
	CUdeviceptr copy; /* of what chains made, as large as O; or 0 */
};

static void open_fork(struct fork *f, int runs)
{
	CUstream stream;

	open_run(&f->b, runs);
	f->side = f->b;
	app_open(&f->side.app, NULL);
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&f->side.app, stream);
	for (int i = 0; i < 2; i++)
		CHECK(cuEventCreate(&f->event[i], CU_EVENT_DISABLE_TIMING));
	f->copy = 0;
	app_upload_random(f->b.raw, f->b.n, 99);
	app_fill(&f->b.app, f->b.spare, 1.f, f->b.scores);
	CHECK(cuStreamSynchronize(f->b.app.stream));
}

/* What the other stream is given from here on comes behind the bench's own so far … */
static void fork_off(struct fork *f)
{
	CHECK(cuEventRecord(f->event[0], f->b.app.stream));
	CHECK(cuStreamWaitEvent(f->side.app.stream, f->event[0], 0));
}

/* … and the other way round. */
static void join(struct fork *f)
{
	CHECK(cuEventRecord(f->event[1], f->side.app.stream));
	CHECK(cuStreamWaitEvent(f->b.app.stream, f->event[1], 0));
}

/* Tensors that are nobody else's. */
static struct tensors more_tensors(const struct fork *f)
{
	struct tensors t = {.q = f->b.t.q, .k = f->b.t.k, .v = f->b.t.v};

	t.s = t.m = app_alloc(2 * f->b.scores);
	t.x = app_alloc(2 * f->b.scores);
	t.p = app_alloc(2 * f->b.scores);
	t.o = app_alloc(2 * f->b.n);
	return t;
}

static void look(struct fork *f, const struct tensors *t, int r)
{
	observe_o(&f->b, t, r);
	if (f->copy)
		app_observe(&f->b.report, "O", r, f->copy, f->b.n);
	if (r == 11 || r == 23)
		observe_p(&f->b, t, r);
	if (r % 5 == 0)
		app_observe(&f->b.report, "spare", r, f->b.spare, f->b.scores);
}

static void close_fork(struct fork *f, CUgraphExec exec)
{
	CHECK(cuStreamDestroy(f->side.app.stream));
	app_close(&f->side.app);
	close_known(&f->b, exec);
}

static void replay(struct fork *f, CUgraphExec exec, const struct tensors *second)
{
	launch_unknown(&f->b, exec, &f->b.t);
	for (int r = 4; r < 24; r++) {
		bench_inputs(&f->b, r);
		launch(&f->b, exec);
		look(f, &f->b.t, r);
		if (second)
			look(f, second, r);
	}
	close_fork(f, exec);
}

/* What is captured, from its begin on the bench's own stream to its end. */
static void forked(void (*capture)(struct fork *f))
{
	struct fork f;

	open_fork(&f, 4);
	begin(&f.b);
	capture(&f);
	replay(&f, end_ready(&f.b), NULL);
}

/* ---- what has nothing to do with it --------------------------------------------------------- */

/* A product and more beside the chain. */
static void graph_fork(void)
{
	struct fork f;
	CUdeviceptr room;

	open_fork(&f, 4);
	f.copy = app_alloc(2 * f.b.n);
	room = app_alloc(2 * f.b.scores);
	begin(&f.b);
	fork_off(&f);
	app_scores(&f.side.app, f.b.shape, f.b.raw, f.b.raw, room);
	chain(&f.b, &f.b.t);
	app_scale(&f.side.app, f.b.spare, room, 0.25f, f.b.scores);
	CHECK(cuMemsetD16Async(f.b.spare, 0x3c00, 64, f.side.app.stream));
	join(&f);
	app_copy(&f.b.app, f.copy, f.b.t.o, f.b.n);
	replay(&f, end_ready(&f.b), NULL);
}

/* Nothing of the scores is left for anybody. */
static void scores_go(struct fork *f)
{
	fork_off(f);
	app_scale(&f->side.app, f->b.spare, f->b.raw, 0.25f, f->b.n);
	chain(&f->b, &f->b.t);
	join(f);
	fork_off(f);
	app_fill(&f->b.app, f->b.t.s, 1.f, f->b.scores);
	app_fill(&f->side.app, f->b.t.x, 2.f, f->b.scores);
	app_fill(&f->side.app, f->b.t.p, 3.f, f->b.scores);
	join(f);
}

/* The chain runs on the stream that joined. */
static void chain_aside(struct fork *f)
{
	fork_off(f);
	app_scale(&f->b.app, f->b.spare, f->b.raw, 0.25f, f->b.n);
	chain(&f->side, &f->b.t);
	join(f);
}

static void *give_aside(void *arg)
{
	struct fork *f = arg;

	CHECK(cuCtxSetCurrent(f->b.app.context));
	app_scores(&f->side.app, f->b.shape, f->b.raw, f->b.raw, f->b.spare);
	app_scale(&f->side.app, f->b.spare, f->b.spare, 0.5f, f->b.n);
	return NULL;
}

/* Another thread gives the other stream its work, while this one goes on. */
static void graph_fork_thread(void)
{
	pthread_t thread;
	struct fork f;

	open_fork(&f, 4);
	begin(&f.b);
	fork_off(&f);
	if (pthread_create(&thread, NULL, give_aside, &f))
		app_fail("pthread_create", 1);
	chain(&f.b, &f.b.t);
	pthread_join(thread, NULL);
	join(&f);
	replay(&f, end_ready(&f.b), NULL);
}

/* Two at once, of the same Q, K and V, in memory of their own; again and again, of other inputs. */
static void graph_fork_two(void)
{
	struct tensors second;
	struct fork f;

	open_fork(&f, 4);
	f.copy = app_alloc(2 * f.b.n);
	second = more_tensors(&f);
	begin(&f.b);
	for (int k = 0; k < 3; k++) {
		fork_off(&f);
		chain_open(&f.b, &f.b.t);
		chain_open(&f.side, &second);
		chain_middle(&f.side, &second);
		chain_middle(&f.b, &f.b.t);
		chain_close(&f.side, &second);
		chain_close(&f.b, &f.b.t);
		join(&f);
		app_scale(&f.b.app, f.copy, second.o, 1.5f, f.b.n);
		app_scale(&f.b.app, f.b.t.q, f.b.raw, 1.f / (float)(k + 1), f.b.n);
		app_scale(&f.b.app, f.b.t.v, f.b.t.k, 1.f / (float)(k + 1), f.b.n / 2);
	}
	replay(&f, end_ready(&f.b), &second);
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* Q and K are made beside each other, V beside the scores. */
static void inputs_made(struct fork *f)
{
	fork_off(f);
	app_scale(&f->b.app, f->b.t.q, f->b.raw, 2.f, f->b.n);
	app_scale(&f->side.app, f->b.t.k, f->b.t.v, 0.5f, f->b.n / 2);
	join(f);
	fork_off(f);
	chain_open(&f->b, &f->b.t);
	app_scale(&f->side.app, f->b.t.v, f->b.t.v, 0.75f, f->b.n / 2);
	chain_middle(&f->b, &f->b.t);
	join(f);
	chain_close(&f->b, &f->b.t);
}

/* Q is overwritten beside the softmax: that is read by then. Or beside the closing product, too,
 * and nothing is left of the scores for which it would be saved. */
static void input_goes(bool joined)
{
	struct fork f;

	open_fork(&f, 4);
	begin(&f.b);
	chain_open(&f.b, &f.b.t);
	fork_off(&f);
	if (joined)
		app_scale(&f.side.app, f.b.t.q, f.b.raw, 2.f, f.b.n);
	chain_middle(&f.b, &f.b.t);
	if (joined)
		join(&f);
	chain_close(&f.b, &f.b.t);
	if (!joined) {
		app_scale(&f.side.app, f.b.t.q, f.b.raw, 2.f, f.b.n);
		join(&f);
		overwrite_scores(&f.b);
	}
	replay(&f, end_ready(&f.b), NULL);
}

/* All of them are overwritten beside each other, behind the chain; then P is asked for. */
static void inputs_go(struct fork *f)
{
	fork_off(f);
	app_scale(&f->side.app, f->b.spare, f->b.raw, 0.25f, f->b.n);
	chain(&f->b, &f->b.t);
	join(f);
	fork_off(f);
	app_scale(&f->side.app, f->b.t.q, f->b.t.o, 3.f, f->b.n);
	app_fill(&f->b.app, f->b.t.k, 7.f, f->b.n / 2);
	join(f);
}

/* V is written beside the chain, in no order, with what lies there already. */
static void race(struct fork *f)
{
	app_scale(&f->b.app, f->b.t.v, f->b.raw, 1.f, f->b.n);
	fork_off(f);
	chain(&f->b, &f->b.t);
	app_scale(&f->side.app, f->b.t.v, f->b.raw, 1.f, f->b.n);
	join(f);
}

/* ---- scores --------------------------------------------------------------------------------- */

/* P is copied beside the closing product. */
static void reader(struct fork *f)
{
	chain_open(&f->b, &f->b.t);
	chain_middle(&f->b, &f->b.t);
	fork_off(f);
	chain_close(&f->b, &f->b.t);
	app_copy(&f->side.app, f->b.spare, f->b.t.p, f->b.scores);
	join(f);
}

/* That which the replay before has left is read ahead of the chain, beside something else. */
static void read_before(struct fork *f)
{
	fork_off(f);
	app_scale(&f->b.app, f->b.t.q, f->b.raw, 2.f, f->b.n);
	app_copy(&f->side.app, f->b.spare, f->b.t.p, f->b.scores);
	join(f);
	chain(&f->b, &f->b.t);
}

/* S is overwritten beside the closing product, which reads P alone; a half of it. */
static void scores_beside(struct fork *f)
{
	chain_open(&f->b, &f->b.t);
	chain_middle(&f->b, &f->b.t);
	fork_off(f);
	app_fill(&f->side.app, f->b.t.s, 3.f, f->b.scores / 2);
	app_scale(&f->side.app, f->b.spare, f->b.t.s, 2.f, f->b.scores);
	chain_close(&f->b, &f->b.t);
	join(f);
}

/* The softmax is another stream's. */
static void middle_aside(struct fork *f)
{
	chain_open(&f->b, &f->b.t);
	fork_off(f);
	chain_middle(&f->side, &f->b.t);
	join(f);
	chain_close(&f->b, &f->b.t);
}

/* ---- captures that do not end well ---------------------------------------------------------- */

/* A stream never joins back, and nothing is captured. Then it does. */
static void graph_fork_unjoined(void)
{
	CUgraph graph;
	struct fork f;

	open_fork(&f, 4);
	for (int k = 0; k < 2; k++) {
		begin(&f.b);
		fork_off(&f);
		chain(&f.b, &f.b.t);
		app_copy(&f.side.app, f.b.spare, f.b.t.q, f.b.n);
		if (!cuStreamEndCapture(f.b.app.stream, &graph))
			app_fail("a capture that should be broken", 1);
	}
	begin(&f.b);
	fork_off(&f);
	chain(&f.b, &f.b.t);
	app_copy(&f.side.app, f.b.spare, f.b.t.q, f.b.n);
	join(&f);
	replay(&f, end_ready(&f.b), NULL);
}

/* Before it joins, and after the capture has ended, the other stream is itself. */
static void graph_fork_late(void)
{
	CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUgraphExec exec;
	struct fork f;

	open_fork(&f, 4);
	CHECK(cuThreadExchangeStreamCaptureMode(&relaxed));
	CHECK(cuStreamBeginCapture(f.b.app.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	chain_open(&f.b, &f.b.t);
	app_scale(&f.side.app, f.b.t.q, f.b.raw, 2.f, f.b.n);
	fork_off(&f);
	chain_middle(&f.b, &f.b.t);
	app_copy(&f.side.app, f.b.spare, f.b.t.k, f.b.n);
	chain_close(&f.b, &f.b.t);
	join(&f);
	exec = end_ready(&f.b);
	CHECK(cuThreadExchangeStreamCaptureMode(&relaxed));
	app_fill(&f.side.app, f.b.t.s, 3.f, f.b.scores);
	CHECK(cuStreamSynchronize(f.side.app.stream));
	replay(&f, exec, NULL);
}

/* ---- by hand -------------------------------------------------------------------------------- */

static CUgraphNode add_behind(CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child)
{
	CUgraphNode node;

	CHECK(cuGraphAddChildGraphNode(&node, graph, before, count, child));
	CHECK(cuGraphDestroy(child));
	return node;
}

static CUgraphNode add_chain(struct fork *f, CUgraph graph, CUgraphNode behind,
			     const struct tensors *t, CUgraphNode *softmax)
{
	CUgraphNode node;

	begin(&f->b);
	chain_open(&f->b, t);
	node = add_behind(graph, &behind, behind != NULL, end(&f->b));
	begin(&f->b);
	chain_middle(&f->b, t);
	node = add_behind(graph, &node, 1, end(&f->b));
	if (softmax)
		*softmax = node;
	begin(&f->b);
	chain_close(&f->b, t);
	return add_behind(graph, &node, 1, end(&f->b));
}

static CUgraphNode add_copy(struct fork *f, CUgraph graph, CUgraphNode behind, CUdeviceptr to,
			    CUdeviceptr from, size_t elements)
{
	const CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.WidthInBytes = 2 * elements,
		.Height = 1,
		.Depth = 1,
	};
	CUgraphNode node;

	CHECK(cuGraphAddMemcpyNode(&node, graph, &behind, behind != NULL, &copy, f->b.app.context));
	return node;
}

static CUgraphExec ready(CUgraph graph)
{
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	return exec;
}

/* Two chains beside each other, a copy beside them, and one of what both have made. */
static void graph_hand_fork(void)
{
	struct tensors second;
	CUgraphNode two[2];
	struct fork f;
	CUgraph graph;

	open_fork(&f, 4);
	f.copy = app_alloc(2 * f.b.n);
	second = more_tensors(&f);
	CHECK(cuGraphCreate(&graph, 0));
	add_copy(&f, graph, NULL, f.b.spare, f.b.raw, f.b.n);
	two[0] = add_chain(&f, graph, NULL, &f.b.t, NULL);
	two[1] = add_chain(&f, graph, NULL, &second, NULL);
	begin(&f.b);
	app_copy(&f.b.app, f.copy, f.b.t.o, f.b.n / 2);
	app_copy(&f.b.app, f.copy + f.b.n, second.o, f.b.n / 2);
	add_behind(graph, two, 2, end(&f.b));
	replay(&f, ready(graph), &second);
}

/* P is copied beside the closing product. */
static void graph_hand_fork_reader(void)
{
	CUgraphNode softmax;
	struct fork f;
	CUgraph graph;

	open_fork(&f, 4);
	CHECK(cuGraphCreate(&graph, 0));
	add_chain(&f, graph, NULL, &f.b.t, &softmax);
	add_copy(&f, graph, softmax, f.b.spare, f.b.t.p, f.b.scores);
	replay(&f, ready(graph), NULL);
}

/* What is captured into the graph, or added to it by drivers that have no such captures. */
static CUgraphNode capture_onto(struct fork *f, CUgraph graph, const CUgraphNode *before,
				size_t count, const struct tensors *t)
{
	CUstreamCaptureStatus status;
	const CUgraphEdgeData *edges;
	const CUgraphNode *nodes;
	CUgraphNode last;
	cuuint64_t id;
	int version;

	CHECK(cuDriverGetVersion(&version));
	if (version < 12030) {
		CHECK(cuGraphAddEmptyNode(&last, graph, before, count));
		return add_chain(f, graph, last, t, NULL);
	}
	CHECK(cuStreamBeginCaptureToGraph(f->b.app.stream, graph, before, NULL, count,
					  CU_STREAM_CAPTURE_MODE_GLOBAL));
	chain(&f->b, t);
	CHECK(cuStreamGetCaptureInfo(f->b.app.stream, &status, &id, &graph, &nodes, &edges,
				     &count));
	last = nodes[0];
	CHECK(cuStreamEndCapture(f->b.app.stream, &graph));
	return last;
}

/* Products and all that is between them are nodes of one graph, captured into it: where it is a row
 * yet, and where it has branches already, behind some of them. */
static void graph_hand_fork_onto(void)
{
	struct tensors second;
	CUgraphNode root, two[2], last;
	struct fork f;
	CUgraph graph;

	open_fork(&f, 4);
	f.copy = app_alloc(2 * f.b.n);
	second = more_tensors(&f);
	CHECK(cuGraphCreate(&graph, 0));
	root = add_copy(&f, graph, NULL, f.b.t.q, f.b.raw, f.b.n);
	last = capture_onto(&f, graph, &root, 1, &f.b.t);
	two[0] = add_copy(&f, graph, root, f.b.spare, f.b.t.q, f.b.n);
	two[1] = add_copy(&f, graph, last, f.b.t.v, f.b.raw, f.b.n);
	last = capture_onto(&f, graph, two, 2, &second);
	add_copy(&f, graph, last, f.copy, second.o, f.b.n);
	replay(&f, ready(graph), &second);
}

CASE(graph_fork_overwritten, forked(scores_go))
CASE(graph_fork_aside, forked(chain_aside))
CASE(graph_fork_inputs, forked(inputs_made))
CASE(graph_fork_inputs_go, forked(inputs_go))
CASE(graph_fork_race, forked(race))
CASE(graph_fork_reader, forked(reader))
CASE(graph_fork_loop, forked(read_before))
CASE(graph_fork_scores, forked(scores_beside))
CASE(graph_fork_middle, forked(middle_aside))
CASE(graph_fork_input_goes, input_goes(false))
CASE(graph_fork_input_gone, input_goes(true))

const struct hazard hazards_graph_branches[] = {
	ONCE(graph_fork, "another stream joins the capture, for something else"),
	ONCE(graph_fork_overwritten, "… and scores are overwritten beside each other"),
	ONCE(graph_fork_aside, "the chain runs on the stream that joined"),
	ONCE(graph_fork_thread, "another thread captures beside the chain"),
	ONCE(graph_fork_two, "two chains beside each other, three times"),
	ONCE(graph_fork_inputs, "inputs are made beside each other, V beside the scores"),
	ONCE(graph_fork_input_goes, "Q is overwritten beside softmax and the second product"),
	ONCE(graph_fork_input_gone, "… beside the softmax"),
	ONCE(graph_fork_inputs_go, "Q and K are overwritten beside each other, behind the chain"),
	ONCE(graph_fork_race, "V is written beside the chain, in no order"),
	ONCE(graph_fork_reader, "P is read beside the closing product"),
	ONCE(graph_fork_loop, "P of the replay before is read on a branch"),
	ONCE(graph_fork_scores, "scores are overwritten beside the closing product"),
	ONCE(graph_fork_middle, "the softmax is another stream's"),
	ONCE(graph_fork_unjoined, "a stream that joined never joins back"),
	ONCE(graph_fork_late, "it is itself before it joins, and afterwards"),
	ONCE(graph_hand_fork, "two chains beside each other, put together by hand"),
	ONCE(graph_hand_fork_reader, "P is read beside the closing product by a node"),
	ONCE(graph_hand_fork_onto, "chains that are captured into a graph with branches"),
	{0},
};
