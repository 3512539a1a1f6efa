/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with attention in them that are put together by hand: products as children, each captured
 * alone, everything else as nodes of the graph.
 */
#include "graph_bench.h"

#include <string.h>

/* ---- nodes ---------------------------------------------------------------------------------- */

/* The nodes of what was captured, one by one. */
static void add_nodes(CUgraph graph, CUgraphNode *latest, CUgraph captured)
{
	CUgraphNode node[16], added;
	size_t count = 16;

	CHECK(cuGraphGetNodes(captured, node, &count));
	for (size_t i = 0; i < count; i++) {
		CUDA_KERNEL_NODE_PARAMS kernel;

		CHECK(cuGraphKernelNodeGetParams(node[i], &kernel));
		CHECK(cuGraphAddKernelNode(&added, graph, latest, *latest != NULL, &kernel));
		*latest = added;
	}
	CHECK(cuGraphDestroy(captured));
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static void add_copy(CUgraph graph, CUgraphNode *latest, CUdeviceptr to, CUdeviceptr from,
		     size_t bytes)
{
	const CUDA_MEMCPY3D copy = copy_of(to, from, bytes);
	CUgraphNode node;
	CUcontext context;

	CHECK(cuCtxGetCurrent(&context));
	CHECK(cuGraphAddMemcpyNode(&node, graph, latest, *latest != NULL, &copy, context));
	*latest = node;
}

static void add_fill(CUgraph graph, CUgraphNode *latest, CUdeviceptr to, size_t words)
{
	const CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = to, .value = 0x3c003c00, .elementSize = 4, .width = words, .height = 1};
	CUgraphNode node;
	CUcontext context;

	CHECK(cuCtxGetCurrent(&context));
	CHECK(cuGraphAddMemsetNode(&node, graph, latest, *latest != NULL, &fill, context));
	*latest = node;
}

/* Older drivers have no such captures. */
static bool has_onto(void)
{
	int version;

	CHECK(cuDriverGetVersion(&version));
	return version >= 12030;
}

static void begin_onto(struct bench *b, CUgraph graph, const CUgraphNode *latest)
{
	if (has_onto())
		CHECK(cuStreamBeginCaptureToGraph(b->app.stream, graph, latest, NULL,
						  *latest != NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
	else
		begin(b);
}

/* Amid a capture: the node captured last, and its graph. */
static CUgraphNode captured_last(struct bench *b, CUgraph *graph)
{
	CUstreamCaptureStatus status;
	const CUgraphNode *nodes;
	const CUgraphEdgeData *edges;
	cuuint64_t id;
	size_t count;

	CHECK(cuStreamGetCaptureInfo(b->app.stream, &status, &id, graph, &nodes, &edges, &count));
	return nodes[0];
}

static void end_onto(struct bench *b, CUgraph graph, CUgraphNode *latest)
{
	if (!has_onto()) {
		graph_add(graph, latest, end(b));
		return;
	}
	*latest = captured_last(b, &graph);
	CHECK(cuStreamEndCapture(b->app.stream, &graph));
}

static void add_open(struct bench *b, CUgraph graph, CUgraphNode *latest, const struct tensors *t)
{
	begin(b);
	chain_open(b, t);
	graph_add(graph, latest, end(b));
}

static void add_middle(struct bench *b, CUgraph graph, CUgraphNode *latest, const struct tensors *t)
{
	begin(b);
	chain_middle(b, t);
	add_nodes(graph, latest, end(b));
}

static void add_close(struct bench *b, CUgraph graph, CUgraphNode *latest, const struct tensors *t)
{
	begin(b);
	chain_close(b, t);
	graph_add(graph, latest, end(b));
}

static void add_chain(struct bench *b, CUgraph graph, CUgraphNode *latest, const struct tensors *t)
{
	add_open(b, graph, latest, t);
	add_middle(b, graph, latest, t);
	add_close(b, graph, latest, t);
}

/* ---- cases ---------------------------------------------------------------------------------- */

/* `spare`: what lies there, "O" where that is a copy of O. */
static void replay(struct bench *b, CUgraph graph, const struct tensors *t, const char *spare)
{
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	launch_unknown(b, exec, t);
	for (int r = 4; r < 24; r++) {
		bench_inputs(b, r);
		launch(b, exec);
		observe_o(b, t, r);
		if (r == 11)
			observe_p(b, t, r);
		if (r % 5 == 0)
			app_observe(&b->report, spare, r, b->spare, b->n);
	}
	close_known(b, exec);
}

static CUgraph new_graph(void)
{
	CUgraph graph;

	CHECK(cuGraphCreate(&graph, 0));
	return graph;
}

/* A bench whose chain ran so often outside, and an empty graph. */
static CUgraph open_graph(struct bench *b, int runs)
{
	open_run(b, runs);
	app_fill(&b->app, b->spare, 1.f, b->scores);
	CHECK(cuStreamSynchronize(b->app.stream));
	return new_graph();
}

/* Each op is a child of its own. */
static void graph_by_hand(void)
{
	CUgraphNode latest = NULL;
	struct bench b;
	CUgraph graph;

	graph = open_graph(&b, 4);
	add_open(&b, graph, &latest, &b.t);
	begin(&b);
	chain_middle(&b, &b.t);
	graph_add(graph, &latest, end(&b));
	add_close(&b, graph, &latest, &b.t);
	replay(&b, graph, &b.t, "spare");
}

/* Q comes by a copy, there are a fill and an empty node, O is copied out. */
static void graph_hand_nodes(void)
{
	CUgraphNode latest = NULL, empty;
	struct bench b;
	CUgraph graph;

	graph = open_graph(&b, 4);
	add_fill(graph, &latest, b.spare, b.scores / 2);
	add_copy(graph, &latest, b.raw, b.t.q, b.n * 2);
	add_open(&b, graph, &latest, &b.t);
	CHECK(cuGraphAddEmptyNode(&empty, graph, &latest, 1));
	latest = empty;
	add_middle(&b, graph, &latest, &b.t);
	add_close(&b, graph, &latest, &b.t);
	add_copy(graph, &latest, b.spare, b.t.o, b.n * 2);
	replay(&b, graph, &b.t, "O");
}

/* Products are captured into the graph itself. */
static void graph_hand_onto(void)
{
	CUgraphNode latest = NULL;
	struct bench b;
	CUgraph graph;

	graph = open_graph(&b, 4);
	add_fill(graph, &latest, b.spare, b.scores / 2);
	begin_onto(&b, graph, &latest);
	chain_open(&b, &b.t);
	end_onto(&b, graph, &latest);
	add_middle(&b, graph, &latest, &b.t);
	begin_onto(&b, graph, &latest);
	chain_close(&b, &b.t);
	end_onto(&b, graph, &latest);
	add_copy(graph, &latest, b.spare, b.t.o, b.n * 2);
	replay(&b, graph, &b.t, "O");
}

/* A layer that is a child of the whole, twice. */
static void graph_hand_nested(void)
{
	CUgraphNode latest = NULL;
	struct bench b;
	CUgraph layer, graph;

	layer = open_graph(&b, 4);
	add_chain(&b, layer, &latest, &b.t);
	graph = new_graph();
	latest = NULL;
	CHECK(cuGraphAddChildGraphNode(&latest, graph, NULL, 0, layer));
	add_copy(graph, &latest, b.spare, b.t.o, b.n * 2);
	add_fill(graph, &latest, b.t.o, b.n / 2);
	graph_add(graph, &latest, layer);
	replay(&b, graph, &b.t, "O");
}

/* A node reads P. */
static void graph_hand_reader(void)
{
	CUgraphNode latest = NULL;
	struct bench b;
	CUgraph graph;

	graph = open_graph(&b, 4);
	add_chain(&b, graph, &latest, &b.t);
	begin(&b);
	app_copy(&b.app, b.spare, b.t.p, b.scores);
	add_nodes(graph, &latest, end(&b));
	replay(&b, graph, &b.t, "spare");
}

/* So does one in a child that copied something else when it was captured. */
static void graph_hand_changed(void)
{
	CUgraphNode latest = NULL;
	CUDA_MEMCPY3D copy;
	struct bench b;
	CUgraph graph, child;

	graph = open_graph(&b, 4);
	copy = copy_of(b.spare, b.t.p, b.scores * 2);
	begin(&b);
	CHECK(cuMemcpyDtoDAsync(b.spare, has_onto() ? b.t.q : b.t.p, b.scores * 2, b.app.stream));
	if (has_onto())
		CHECK(cuGraphMemcpyNodeSetParams(captured_last(&b, &child), &copy));
	child = end(&b);
	add_chain(&b, graph, &latest, &b.t);
	graph_add(graph, &latest, child);
	replay(&b, graph, &b.t, "spare");
}

/* So does one that is put into a child, and nobody sees where. */
static void graph_hand_inside(void)
{
	CUgraphNode latest = NULL, node[16], reader;
	CUDA_KERNEL_NODE_PARAMS kernel;
	size_t count = 16;
	struct bench b;
	CUgraph graph, inside, captured;

	graph = open_graph(&b, 4);
	begin(&b);
	app_copy(&b.app, b.spare, b.t.p, b.scores);
	captured = end(&b);
	CHECK(cuGraphGetNodes(captured, &reader, &(size_t){1}));
	CHECK(cuGraphKernelNodeGetParams(reader, &kernel));
	add_chain(&b, graph, &latest, &b.t);
	CHECK(cuGraphChildGraphNodeGetGraph(latest, &inside));
	CHECK(cuGraphGetNodes(inside, node, &count));
	CHECK(cuGraphAddKernelNode(&reader, inside, &node[count - 1], 1, &kernel));
	CHECK(cuGraphDestroy(captured));
	replay(&b, graph, &b.t, "spare");
}

/* A graph that is known: it copies Q. */
static CUgraph known_graph(struct bench *b, CUgraphNode *latest)
{
	CUgraph graph = open_graph(b, 4);
	CUgraphExec exec;

	begin(b);
	app_copy(&b->app, b->spare, b->t.q, b->n);
	graph_add(graph, latest, end(b));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphExecDestroy(exec));
	return graph;
}

/* A reader of P is captured into a child of a graph that was known. */
static void graph_hand_inside_onto(void)
{
	CUgraphNode latest = NULL, inner;
	size_t one = 1;
	struct bench b;
	CUgraph graph, inside;

	graph = known_graph(&b, &latest);
	CHECK(cuGraphChildGraphNodeGetGraph(latest, &inside));
	CHECK(cuGraphGetNodes(inside, &inner, &one));
	latest = inner;
	begin_onto(&b, inside, &latest);
	app_copy(&b.app, b.spare, b.t.p, b.scores);
	end_onto(&b, inside, &latest);
	run_behind(&b, graph);
}

/* … into one whose handle may be that of a graph which went with a capture that was broken off. */
static void graph_hand_broken(void)
{
	CUgraphNode latest = NULL;
	struct bench b;
	CUgraph graph, none;

	graph = known_graph(&b, &latest);
	begin_onto(&b, graph, &latest);
	app_copy(&b.app, b.spare, b.t.p, b.scores);
	if (!cuStreamSynchronize(b.app.stream) || !cuStreamEndCapture(b.app.stream, &none))
		app_fail("a capture that should be broken", 1);
	graph = new_graph();
	latest = NULL;
	begin_onto(&b, graph, &latest);
	app_copy(&b.app, b.spare, b.t.p, b.scores);
	end_onto(&b, graph, &latest);
	run_behind(&b, graph);
}

/* The graph becomes a child, which goes with its parent. Its handle stays as long. */
static void move_and_destroy(CUgraph graph)
{
	const struct {
		CUgraph graph;
		long moved;
	} child = {graph, 1};
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	CUgraph parent = new_graph();
	CUgraphNode node;

	memcpy(&params.graph, &child, sizeof(child));
	CHECK(cuGraphAddNode(&node, parent, NULL, NULL, 0, &params));
	CHECK(cuGraphDestroy(parent));
}

/* … by hand while it is captured, where one had its handle that was made by hand. */
static void handle_again(bool moved)
{
	CUgraphNode latest;
	struct bench b;
	CUgraph graph;

	graph = open_graph(&b, 4);
	if (moved && has_onto())
		move_and_destroy(graph);
	else
		CHECK(cuGraphDestroy(graph));
	begin(&b);
	app_copy(&b.app, b.spare, b.t.q, b.n);
	if (has_onto()) {
		latest = captured_last(&b, &graph);
		add_copy(graph, &latest, b.spare, b.t.p, b.scores * 2);
	} else {
		app_copy(&b.app, b.spare, b.t.p, b.scores);
	}
	run_behind(&b, end(&b));
}

CASE(graph_hand_handle, handle_again(false))
CASE(graph_hand_moved, handle_again(true))

/* The executable graph becomes equal to another one, whose O goes elsewhere. */
static void graph_hand_update(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphNode latest = NULL;
	struct bench b;
	struct tensors t;
	CUgraphExec exec;
	CUgraph first, second;

	open_known(&b);
	t = b.t;
	t.o = b.raw;
	first = new_graph();
	add_chain(&b, first, &latest, &b.t);
	latest = NULL;
	second = new_graph();
	add_chain(&b, second, &latest, &t);
	CHECK(cuGraphInstantiate(&exec, first, 0));
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 24; r++) {
		if (r == 12) {
			CHECK(cuGraphExecUpdate(exec, second, &info));
			launch_unknown(&b, exec, &t);
		}
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, r < 12 ? &b.t : &t, r);
		if (r == 10 || r == 23)
			observe_p(&b, &b.t, r);
	}
	CHECK(cuGraphDestroy(first));
	CHECK(cuGraphDestroy(second));
	close_known(&b, exec);
}

/* No attention runs but in the graph, which is captured as a whole. */
static void graph_never_outside(void)
{
	struct bench b;
	CUgraphExec exec;

	open_run(&b, 0);
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	for (int r = 0; r < 24; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r == 3 || r == 23)
			observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* The same of one that is put together by hand. */
static void graph_hand_alone(void)
{
	CUgraphNode latest = NULL;
	struct bench b;
	CUgraph graph;

	graph = open_graph(&b, 0);
	add_chain(&b, graph, &latest, &b.t);
	add_copy(graph, &latest, b.spare, b.t.o, b.n * 2);
	replay(&b, graph, &b.t, "O");
}

const struct hazard hazards_graph_hand[] = {
	ONCE(graph_by_hand, "child graphs put together by hand"),
	ONCE(graph_hand_nodes, "children and nodes of all kinds"),
	ONCE(graph_hand_onto, "products are captured into the graph"),
	ONCE(graph_hand_nested, "put together of what was put together"),
	ONCE(graph_hand_reader, "a node put there by hand reads P"),
	ONCE(graph_hand_changed, "so does one that was changed amid a capture"),
	ONCE(graph_hand_inside, "so does one inside a child"),
	ONCE(graph_hand_inside_onto, "one is captured into a child of a known graph"),
	ONCE(graph_hand_broken,
	     "… into a graph that has another's handle, which went with a broken capture"),
	ONCE(graph_hand_handle, "… by hand, amid a capture"),
	ONCE(graph_hand_moved, "… by the handle of a graph that moved"),
	ONCE(graph_hand_update, "an executable graph is updated by one"),
	ONCE(graph_never_outside, "a chain that ran in a captured graph alone"),
	ONCE(graph_hand_alone, "in one put together by hand alone"),
	{0},
};
