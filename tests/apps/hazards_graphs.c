/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: attention that is captured, or added to a graph by hand, and replayed while inputs,
 * readers and the graph itself change.
 */
#include "hazards.h"

#include <string.h>

/* A bench on a stream of its own whose chain ran so often outside. */
static void open_run(struct bench *b, int runs)
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
static void open_known(struct bench *b)
{
	open_run(b, 4);
}

static void begin(struct bench *b)
{
	CHECK(cuStreamBeginCapture(b->app.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraph end(struct bench *b)
{
	CUgraph graph;

	CHECK(cuStreamEndCapture(b->app.stream, &graph));
	return graph;
}

/* What the stream captured since begin(), ready to be launched. */
static CUgraphExec end_ready(struct bench *b)
{
	CUgraph graph = end(b);
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	return exec;
}

static void launch(struct bench *b, CUgraphExec exec)
{
	CHECK(cuGraphLaunch(exec, b->app.stream));
	CHECK(cuStreamSynchronize(b->app.stream));
}

/* Launches of which none can be replaced yet: one is the program's own, two are compared. What is
 * in view between them may be asked for. */
static void launch_unknown(struct bench *b, CUgraphExec exec, const struct tensors *t)
{
	for (int r = 101; r < 104; r++) {
		bench_inputs(b, r);
		launch(b, exec);
		observe_o(b, t, r);
		if (r == 102)
			observe_p(b, t, r);
	}
}

static void close_known(struct bench *b, CUgraphExec exec)
{
	CHECK(cuGraphExecDestroy(exec));
	bench_close(b);
}

/* Nothing of the scores is left for anybody. */
static void overwrite_scores(struct bench *b)
{
	app_fill(&b->app, b->t.s, 1.f, b->scores);
	app_fill(&b->app, b->t.x, 2.f, b->scores);
	app_fill(&b->app, b->t.m, 3.f, b->scores);
	app_fill(&b->app, b->t.p, 4.f, b->scores);
}

/* Two layers one after the other in the same memory of scores, and nobody asks for these but once.
 */
static void graph_layers(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	struct tensors second = b.t;
	second.q = b.t.k;
	second.k = b.t.q;
	second.o = b.raw;
	begin(&b);
	chain(&b, &b.t);
	chain(&b, &second);
	exec = end_ready(&b);
	launch_unknown(&b, exec, &second);
	for (int r = 4; r < 36; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &second, r);
		if (r == 20)
			observe_p(&b, &second, r);
	}
	close_known(&b, exec);
}

static void copied_in_graph(bool ahead)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	if (ahead)
		app_copy(&b.app, b.spare, b.t.p, b.scores);
	chain(&b, &b.t);
	if (!ahead)
		app_copy(&b.app, b.spare, b.t.p, b.scores);
	exec = end_ready(&b);
	for (int r = 4; r < 9; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "copy", r, b.spare, b.scores);
	}
	close_known(&b, exec);
}

/* Behind the chain a part of P is changed where it lies. */
static void graph_part(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	chain(&b, &b.t);
	app_fill(&b.app, b.t.p + b.scores / 2, 0.5f, b.scores / 4);
	exec = end_ready(&b);
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 16; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r == 9 || r == 15)
			observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* Q and K are overwritten behind the chain, in the graph; then P is asked for. */
static void graph_inputs_go(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	chain(&b, &b.t);
	app_scale(&b.app, b.t.q, b.t.k, 3.f, b.n);
	app_fill(&b.app, b.t.k, 7.f, b.n / 2);
	exec = end_ready(&b);
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 14; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r == 9 || r == 13)
			observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* V is made contiguous in the memory of Q, between the two products; O lies over K. */
static void v_over_q(bool overwritten)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	struct tensors t = b.t;
	t.v = t.q;
	t.o = t.k;
	begin(&b);
	chain_open(&b, &t);
	chain_middle(&b, &t);
	app_split_heads(&b.app, t.v, b.raw, b.shape.rows, b.shape.heads, b.shape.depth);
	chain_close(&b, &t);
	if (overwritten)
		overwrite_scores(&b);
	exec = end_ready(&b);
	app_upload_random(b.raw, b.n, 77);
	launch_unknown(&b, exec, &t);
	for (int r = 4; r < 14; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &t, r);
		if (r == 9)
			observe_p(&b, &t, r);
	}
	close_known(&b, exec);
}

/* Outside, before P is asked for: new inputs, a part of P, a chain of its own. */
static void graph_changes_outside(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 24; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r == 8)
			bench_inputs(&b, r + 100);
		if (r == 15)
			app_fill(&b.app, b.t.p + 64, 0.25f, b.scores / 8);
		if (r == 22)
			chain(&b, &b.t);
		CHECK(cuStreamSynchronize(b.app.stream));
		if (r == 8 || r == 15 || r == 22)
			observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* The executable graph is given other nodes: O goes elsewhere, from another Q. */
static void graph_update(void)
{
	CUgraphExecUpdateResultInfo info;
	struct bench b;
	CUgraphExec exec;
	CUgraph other;

	open_known(&b);
	struct tensors t = b.t;
	t.q = b.t.v;
	t.o = b.raw;
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	begin(&b);
	chain(&b, &t);
	other = end(&b);
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 24; r++) {
		if (r == 12) {
			CHECK(cuGraphExecUpdate(exec, other, &info));
			launch_unknown(&b, exec, &t);
		}
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, r < 12 ? &b.t : &t, r);
		if (r == 10 || r == 12 || r == 23)
			observe_p(&b, &b.t, r);
	}
	CHECK(cuGraphDestroy(other));
	close_known(&b, exec);
}

static void add(CUgraph graph, CUgraphNode *before, CUgraph child)
{
	CUgraphNode node;

	CHECK(cuGraphAddChildGraphNode(&node, graph, before, *before != NULL, child));
	CHECK(cuGraphDestroy(child));
	*before = node;
}

/* Nobody captures the whole: each op is captured alone, and added by hand. */
static void graph_by_hand(void)
{
	CUgraphNode before = NULL;
	struct bench b;
	CUgraphExec exec;
	CUgraph graph;

	open_known(&b);
	CHECK(cuGraphCreate(&graph, 0));
	begin(&b);
	chain_open(&b, &b.t);
	add(graph, &before, end(&b));
	begin(&b);
	chain_middle(&b, &b.t);
	add(graph, &before, end(&b));
	begin(&b);
	chain_close(&b, &b.t);
	add(graph, &before, end(&b));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	for (int r = 4; r < 9; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r % 2)
			observe_p(&b, &b.t, r);
	}
	CHECK(cuGraphDestroy(graph));
	close_known(&b, exec);
}

/* A captured graph to which a node is added: a reader of P. */
static void graph_node_added(void)
{
	CUgraphNode node[16], before = NULL;
	struct bench b;
	CUgraphExec exec;
	CUgraph graph, reader;
	size_t count = 16;

	open_known(&b);
	begin(&b);
	app_copy(&b.app, b.spare, b.t.p, b.scores);
	reader = end(&b);
	begin(&b);
	chain(&b, &b.t);
	graph = end(&b);
	CHECK(cuGraphGetNodes(graph, node, &count));
	before = node[count - 1];
	add(graph, &before, reader);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	for (int r = 4; r < 9; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "copy", r, b.spare, b.scores);
	}
	CHECK(cuGraphDestroy(graph));
	close_known(&b, exec);
}

/* Beside the chain, on a second stream that is joined back, other work. */
static void graph_branches(void)
{
	struct bench b;
	CUgraphExec exec;
	CUstream first, second;
	CUevent fork, join;

	open_known(&b);
	first = b.app.stream;
	CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	begin(&b);
	CHECK(cuEventRecord(fork, first));
	CHECK(cuStreamWaitEvent(second, fork, 0));
	chain_open(&b, &b.t);
	b.app.stream = second;
	app_copy(&b.app, b.spare, b.raw, b.n);
	b.app.stream = first;
	chain_middle(&b, &b.t);
	chain_close(&b, &b.t);
	CHECK(cuEventRecord(join, second));
	CHECK(cuStreamWaitEvent(first, join, 0));
	app_scale(&b.app, b.raw, b.spare, -1.f, b.n);
	exec = end_ready(&b);
	app_upload_random(b.raw, b.n, 91);
	for (int r = 4; r < 9; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "turned", r, b.raw, b.n);
		if (r % 2)
			observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* Two graphs that share all their memory, in turn; one is launched on two streams. */
static void graphs_in_turn(void)
{
	struct bench b;
	CUgraphExec first, second;
	CUstream streams[2];
	CUevent done;

	open_known(&b);
	streams[0] = b.app.stream;
	CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	struct tensors t = b.t;
	t.o = b.raw;
	begin(&b);
	chain(&b, &b.t);
	first = end_ready(&b);
	begin(&b);
	chain(&b, &t);
	second = end_ready(&b);
	launch_unknown(&b, first, &b.t);
	launch_unknown(&b, second, &t);
	for (int r = 4; r < 20; r++) {
		bench_inputs(&b, r);
		CHECK(cuGraphLaunch(first, streams[r % 2]));
		CHECK(cuEventRecord(done, streams[r % 2]));
		CHECK(cuStreamWaitEvent(streams[1], done, 0));
		if (r % 3 == 0)
			CHECK(cuGraphLaunch(second, streams[1]));
		CHECK(cuStreamSynchronize(streams[0]));
		CHECK(cuStreamSynchronize(streams[1]));
		observe_o(&b, &b.t, r);
		if (r > 5)
			observe_o(&b, &t, r);
		if (r == 9 || r == 19)
			observe_p(&b, &b.t, r);
	}
	CHECK(cuGraphExecDestroy(first));
	close_known(&b, second);
}

/* P is asked for when the executable graph is gone, and then its stream. */
static void graph_gone(void)
{
	struct bench b;
	CUgraphExec exec;
	CUstream stream, another;

	open_known(&b);
	stream = b.app.stream;
	CHECK(cuStreamCreate(&another, CU_STREAM_NON_BLOCKING));
	for (int r = 4; r < 8; r++) {
		begin(&b);
		chain(&b, &b.t);
		app_fill(&b.app, b.t.k, 7.f, b.n);
		exec = end_ready(&b);
		launch_unknown(&b, exec, &b.t);
		for (int k = 0; k < 6; k++) {
			bench_inputs(&b, 6 * r + k);
			launch(&b, exec);
			observe_o(&b, &b.t, 6 * r + k);
		}
		CHECK(cuGraphExecDestroy(exec));
		if (r == 7) {
			app_set_stream(&b.app, another);
			CHECK(cuStreamDestroy(stream));
		}
		if (r % 2)
			observe_p(&b, &b.t, r);
	}
	bench_close(&b);
}

/* P's memory gets a second name, by which it is read between replays. */
static void graph_aliased(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	CUgraphExec exec;
	CUstream stream;
	struct bench b;
	size_t unit, bytes;

	bench_open(&b, TOGETHER);
	CHECK(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	bytes = (b.scores * 2 + unit - 1) / unit * unit;
	CHECK(cuMemCreate(&handle, bytes, &prop, 0));
	CHECK(cuMemAddressReserve(&address, 2 * bytes, 0, 0, 0));
	CHECK(cuMemMap(address, bytes, 0, handle, 0));
	CHECK(cuMemSetAccess(address, bytes, &access, 1));
	b.t.p = address;
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	app_set_stream(&b.app, stream);
	for (int r = 0; r < 4; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		CHECK(cuStreamSynchronize(stream));
	}
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 12; r++) {
		if (r == 9) {
			CHECK(cuMemMap(address + bytes, bytes, 0, handle, 0));
			CHECK(cuMemSetAccess(address + bytes, bytes, &access, 1));
		}
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r >= 9)
			app_observe(&b.report, "P by another name", r, address + bytes, b.scores);
	}
	close_known(&b, exec);
}

/* Launches of one executable graph wait for each other whatever their streams, also where it is
 * updated in between. Each makes the next one's Q. */
static void graph_waits(void)
{
	CUgraphExecUpdateResultInfo info;
	struct bench b;
	CUgraphExec exec;
	CUgraph graph;
	CUstream streams[2];

	open_known(&b);
	streams[0] = b.app.stream;
	CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	for (int r = 4; r < 9; r++) {
		begin(&b);
		for (int k = 0; k < 4; k++)
			chain(&b, &b.t);
		app_scale(&b.app, b.t.q, b.t.o, 1.5f, b.n);
		overwrite_scores(&b);
		graph = end(&b);
		CHECK(cuGraphInstantiate(&exec, graph, 0));
		launch_unknown(&b, exec, &b.t);
		bench_inputs(&b, r);
		for (int k = 0; k < 3; k++)
			CHECK(cuGraphLaunch(exec, streams[k % 2]));
		CHECK(cuGraphExecUpdate(exec, graph, &info));
		for (int k = 0; k < 3; k++)
			CHECK(cuGraphLaunch(exec, streams[(k + 1) % 2]));
		CHECK(cuStreamSynchronize(streams[0]));
		CHECK(cuStreamSynchronize(streams[1]));
		observe_o(&b, &b.t, r);
		CHECK(cuGraphExecDestroy(exec));
		CHECK(cuGraphDestroy(graph));
	}
	bench_close(&b);
}

/* Outside it runs but once: what there is to be learned is to be learned of launches. At first
 * there is nothing to see in them. */
static void graph_learned(void)
{
	struct bench b;
	CUgraphExec exec;

	open_run(&b, 1);
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	for (int r = 4; r < 24; r++) {
		bench_inputs(&b, r);
		if (r < 8)
			app_fill(&b.app, b.t.v, 0.f, b.n);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r == 6 || r == 23)
			observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* In the graph alone S is larger than fp16 can say, so that O is none of numbers: the kernel that
 * is right for the chain outside is not for this one. */
static void graph_overflow(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	app_scale(&b.app, b.t.q, b.raw, 30000.f, b.n);
	chain(&b, &b.t);
	exec = end_ready(&b);
	app_upload_random(b.raw, b.n, 55);
	for (int r = 4; r < 14; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		if (r == 9)
			observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* A kernel that nobody knows reads P in the graph. */
static void graph_unknown(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	chain(&b, &b.t);
	app_mean_heads(&b.app, b.spare, b.t.p, b.shape.heads, b.scores / (size_t)b.shape.heads);
	exec = end_ready(&b);
	for (int r = 4; r < 12; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "mean", r, b.spare, b.scores / (size_t)b.shape.heads);
	}
	close_known(&b, exec);
}

/* The host rewrites the mask, in managed memory, between a launch and the question for P. */
static void graph_managed(void)
{
	struct bench b;
	CUgraphExec exec;
	CUdeviceptr mask;

	open_run(&b, 0);
	CHECK(cuMemAllocManaged(&mask, (size_t)b.shape.rows * (size_t)b.shape.rows * 2,
				CU_MEM_ATTACH_GLOBAL));
	app_upload_causal(mask, b.shape.rows, b.shape.rows);
	b.mask = mask;
	for (int r = 0; r < 4; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		CHECK(cuStreamSynchronize(b.app.stream));
		observe_o(&b, &b.t, r);
	}
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 16; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		memset((void *)(uintptr_t)mask, 0, (size_t)b.shape.rows * (size_t)r * 2);
		if (r == 9 || r == 15)
			observe_p(&b, &b.t, r);
		app_upload_causal(mask, b.shape.rows, b.shape.rows);
	}
	close_known(&b, exec);
}

static void CUDA_CB nothing(void *data)
{
	(void)data;
}

/* A function of the host's is a node amid the chain. */
static void graph_host(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	chain_open(&b, &b.t);
	CHECK(cuLaunchHostFunc(b.app.stream, nothing, NULL));
	chain_middle(&b, &b.t);
	chain_close(&b, &b.t);
	exec = end_ready(&b);
	for (int r = 4; r < 9; r++) {
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* The graph itself copies P, behind the chain. */
CASE(graph_reader, copied_in_graph(false))
/* … or ahead of it: what the replay before has left. */
CASE(graph_loop, copied_in_graph(true))
CASE(graph_v_over_q, v_over_q(false))
CASE(graph_v_over_q_alone, v_over_q(true))

const struct hazard hazards_graphs[] = {
	ONCE(graph_layers, "two layers in a graph; P once, amid the replays"),
	ONCE(graph_reader, "P is read in the graph, behind the chain"),
	ONCE(graph_loop, "… ahead of it: that of the replay before"),
	ONCE(graph_part, "a part of P is overwritten in the graph"),
	ONCE(graph_inputs_go, "Q and K are overwritten in the graph"),
	ONCE(graph_v_over_q, "V lands in the memory of Q, O in that of K"),
	ONCE(graph_v_over_q_alone, "… and its scores are overwritten"),
	ONCE(graph_changes_outside, "inputs and P change after the launch"),
	ONCE(graph_update, "the executable graph is updated"),
	ONCE(graph_by_hand, "child graphs put together by hand"),
	ONCE(graph_node_added, "a node is added to the captured graph"),
	ONCE(graph_branches, "two streams in one capture"),
	ONCE(graphs_in_turn, "two graphs in the same memory, two streams"),
	ONCE(graph_waits, "an executable graph on two streams, not waited for"),
	ONCE(graph_aliased, "P is read by a second name for its memory"),
	ONCE(graph_learned, "a chain that ran but once outside"),
	ONCE(graph_overflow, "numbers that the chain outside never had"),
	ONCE(graph_unknown, "a kernel that nobody knows reads P in the graph"),
	ONCE(graph_managed, "the host rewrites the mask before P is asked for"),
	ONCE(graph_host, "a function of the host's amid the chain"),
	ONCE(graph_gone, "P is read when the graph, the stream is gone"),
	{0},
};
