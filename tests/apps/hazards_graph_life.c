/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with attention in them: put together by hand, changed, launched in turn, and gone.
 */
#include "graph_bench.h"

#include <pthread.h>
#include <string.h>

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

struct launcher {
	CUcontext context;
	CUgraphExec exec;
	CUstream stream;
	int launches;
	int turn; /* 1, 2: first, or second; 0: at once */
	pthread_barrier_t *both;
};

static void *launch_often(void *arg)
{
	const struct launcher *l = arg;

	CHECK(cuCtxSetCurrent(l->context));
	for (int k = 0; k < l->launches; k++) {
		pthread_barrier_wait(l->both);
		if (l->turn == 2)
			pthread_barrier_wait(l->both);
		CHECK(cuGraphLaunch(l->exec, l->stream));
		if (l->turn == 1)
			pthread_barrier_wait(l->both);
	}
	CHECK(cuStreamSynchronize(l->stream));
	return NULL;
}

/* Two threads launch it, at the same time or by turns, each on a stream of its own. */
static void launch_twice(CUgraphExec exec, int launches, bool by_turns)
{
	struct launcher l[2];
	pthread_t thread[2];
	pthread_barrier_t both;

	pthread_barrier_init(&both, NULL, 2);
	for (int i = 0; i < 2; i++) {
		l[i] = (struct launcher){.exec = exec,
					 .stream = CU_STREAM_PER_THREAD,
					 .launches = launches,
					 .turn = by_turns ? i + 1 : 0,
					 .both = &both};
		CHECK(cuCtxGetCurrent(&l[i].context));
		if (!by_turns)
			CHECK(cuStreamCreate(&l[i].stream, CU_STREAM_NON_BLOCKING));
		if (pthread_create(&thread[i], NULL, launch_often, &l[i]))
			app_fail("pthread_create", 1);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2 && !by_turns; i++)
		CHECK(cuStreamDestroy(l[i].stream));
	pthread_barrier_destroy(&both);
}

/* Each launch makes the next one's Q, so that which of them comes first makes no difference, but
 * two at once do. */
static CUgraph two_steps(struct bench *b, float factor)
{
	begin(b);
	for (int k = 0; k < 2; k++) {
		chain(b, &b->t);
		app_scale(&b->app, b->t.q, b->t.o, factor, b->n);
	}
	overwrite_scores(b); /* else others wait for what is held of them */
	return end(b);
}

static void two_threads(bool by_turns)
{
	struct bench b;
	CUgraphExec exec;
	CUgraph graph;

	open_known(&b);
	for (int r = 4; r < 10; r++) {
		graph = two_steps(&b, 1.5f);
		CHECK(cuGraphInstantiate(&exec, graph, 0));
		CHECK(cuGraphDestroy(graph));
		bench_inputs(&b, r);
		CHECK(cuStreamSynchronize(b.app.stream));
		launch_twice(exec, 6, by_turns);
		observe_o(&b, &b.t, r);
		CHECK(cuGraphExecDestroy(exec));
	}
	bench_close(&b);
}

CASE(graph_two_threads, two_threads(false))
/* By turns, on what is the thread's own default stream. */
CASE(graph_per_thread, two_threads(true))

/* The same where launches of another thread, and of what the graph was before it was updated, are
 * still under way; and what it is now was changed by hand, as far as anybody can tell. */
static void graph_two_threads_later(void)
{
	CUDA_KERNEL_NODE_PARAMS nothing = {0};
	CUgraphExecUpdateResultInfo info;
	struct bench b;
	CUgraphExec exec;
	CUgraph first, second;

	open_known(&b);
	for (int r = 4; r < 16; r++) {
		first = two_steps(&b, 1.5f);
		second = two_steps(&b, -1.5f);
		CHECK(cuGraphInstantiate(&exec, first, 0));
		bench_inputs(&b, r);
		for (int k = 0; k < 4; k++)
			launch(&b, exec);
		for (int k = 0; k < 4; k++)
			CHECK(cuGraphLaunch(exec, b.app.stream));
		cuGraphKernelNodeSetParams(NULL, &nothing); /* is refused */
		CHECK(cuGraphExecUpdate(exec, second, &info));
		launch_twice(exec, 1, false);
		CHECK(cuStreamSynchronize(b.app.stream));
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "O scaled", r, b.t.q, b.n);
		CHECK(cuGraphExecDestroy(exec));
		CHECK(cuGraphDestroy(first));
		CHECK(cuGraphDestroy(second));
	}
	bench_close(&b);
}

/* A new graph for each step. */
static void graph_each_step(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	for (int r = 4; r < 48; r++) {
		begin(&b);
		chain(&b, &b.t);
		exec = end_ready(&b);
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
		CHECK(cuGraphExecDestroy(exec));
	}
	bench_close(&b);
}

/* A launch that the driver refuses is tried once more. */
static void graph_launched_again(void)
{
	struct bench b;
	CUgraphExec exec;

	open_known(&b);
	begin(&b);
	chain(&b, &b.t);
	exec = end_ready(&b);
	for (int r = 4; r < 16; r++) {
		bench_inputs(&b, r);
		if (cuGraphLaunch(exec, b.app.stream))
			CHECK(cuGraphLaunch(exec, b.app.stream));
		CHECK(cuStreamSynchronize(b.app.stream));
		observe_o(&b, &b.t, r);
	}
	close_known(&b, exec);
}

/* The stream of the latest launch is captured when the next one comes, on another stream. */
static void graph_stream_captured(void)
{
	struct bench b;
	CUgraphExec exec, other;
	CUstream streams[2];

	open_known(&b);
	streams[0] = b.app.stream;
	CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	begin(&b);
	chain(&b, &b.t);
	app_scale(&b.app, b.t.q, b.t.o, 1.5f, b.n);
	overwrite_scores(&b);
	exec = end_ready(&b);
	bench_inputs(&b, 4);
	for (int r = 4; r < 14; r++) {
		CHECK(cuGraphLaunch(exec, streams[0]));
		if (r < 10)
			CHECK(cuStreamSynchronize(streams[0]));
		begin(&b);
		app_copy(&b.app, b.spare, b.t.o, b.n);
		CHECK(cuGraphLaunch(exec, streams[1]));
		other = end_ready(&b);
		CHECK(cuStreamSynchronize(streams[1]));
		observe_o(&b, &b.t, r);
		launch(&b, other);
		app_observe(&b.report, "O copied", r, b.spare, b.n);
		CHECK(cuGraphExecDestroy(other));
	}
	close_known(&b, exec);
}

/* It is launched on a stream that joins a capture afterwards, and another capture begins before
 * that one ends. */
static void graph_stream_joins(void)
{
	struct bench b;
	CUgraphExec exec, other;
	CUgraph empty;
	CUstream streams[3];
	CUevent fork, join;

	open_known(&b);
	streams[0] = b.app.stream;
	for (int i = 1; i < 3; i++)
		CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	CHECK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	begin(&b);
	chain(&b, &b.t);
	app_scale(&b.app, b.t.q, b.t.o, 1.5f, b.n);
	overwrite_scores(&b);
	exec = end_ready(&b);
	bench_inputs(&b, 4);
	for (int r = 4; r < 14; r++) {
		CHECK(cuGraphLaunch(exec, streams[r % 2]));
		CHECK(cuStreamSynchronize(streams[r % 2]));
		begin(&b);
		CHECK(cuGraphLaunch(exec, streams[1]));
		CHECK(cuEventRecord(fork, streams[0]));
		CHECK(cuStreamWaitEvent(streams[1], fork, 0));
		CHECK(cuStreamBeginCapture(streams[2], CU_STREAM_CAPTURE_MODE_GLOBAL));
		CHECK(cuStreamEndCapture(streams[2], &empty));
		b.app.stream = streams[1];
		app_copy(&b.app, b.spare, b.t.o, b.n);
		b.app.stream = streams[0];
		CHECK(cuEventRecord(join, streams[1]));
		CHECK(cuStreamWaitEvent(streams[0], join, 0));
		other = end_ready(&b);
		CHECK(cuGraphDestroy(empty));
		CHECK(cuStreamSynchronize(streams[1]));
		observe_o(&b, &b.t, r);
		launch(&b, other);
		app_observe(&b.report, "O copied", r, b.spare, b.n);
		CHECK(cuGraphExecDestroy(other));
	}
	close_known(&b, exec);
}

/* Takes all memory but so much. A real GPU is shared with others: there it takes none. */
static void leave_memory(size_t least)
{
	size_t left, all, bytes = (size_t)1 << 34;
	char name[64] = "";
	CUdeviceptr piece;

	CHECK(cuDeviceGetName(name, sizeof(name), 0));
	if (strncmp(name, "simgpu", 6) != 0)
		return;
	CHECK(cuMemGetInfo(&left, &all));
	while (left > least) {
		bytes = bytes < left - least ? bytes : left - least;
		if (cuMemAlloc(&piece, bytes))
			bytes /= 2;
		CHECK(cuMemGetInfo(&left, &all));
	}
}

/* There is as much memory as the program's graphs need and, first, two of somebody else's. */
static void in_memory(size_t least, int graphs)
{
	struct bench b;
	CUgraphExec exec, others[2];
	CUgraph graph;

	open_known(&b);
	begin(&b);
	chain(&b, &b.t);
	graph = end(&b);
	leave_memory(least);
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	launch_unknown(&b, exec, &b.t);
	for (int r = 4; r < 12; r++) {
		for (int i = 0; i < graphs && r == 8; i++)
			CHECK(cuGraphInstantiate(&others[i], graph, 0));
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
	}
	observe_p(&b, &b.t, 11);
	CHECK(cuGraphDestroy(graph));
	close_known(&b, exec);
}

CASE(graph_little_memory, in_memory(12 << 20, 0))
CASE(graph_memory_full, in_memory(36 << 20, 2))

const struct hazard hazards_graph_life[] = {
	ONCE(graph_update, "the executable graph is updated"),
	ONCE(graph_by_hand, "child graphs put together by hand"),
	ONCE(graph_node_added, "a node is added to the captured graph"),
	ONCE(graph_branches, "two streams in one capture"),
	ONCE(graphs_in_turn, "two graphs in the same memory, two streams"),
	ONCE(graph_waits, "an executable graph on two streams, not waited for"),
	ONCE(graph_two_threads, "an executable graph, by two threads at once"),
	ONCE(graph_per_thread, "… by turns, on the default stream of each"),
	ONCE(graph_two_threads_later, "… once it was updated"),
	ONCE(graph_launched_again, "a launch of it that is refused is tried again"),
	ONCE(graph_stream_captured, "its stream is captured when it is launched again"),
	ONCE(graph_stream_joins, "… is captured with another when a third begins to be"),
	ONCE(graph_each_step, "a new graph for each step"),
	ONCE(graph_little_memory, "there is memory for the program's graph alone"),
	ONCE(graph_memory_full, "for its graphs, but no others beside them"),
	ONCE(graph_gone, "P is read when the graph, the stream is gone"),
	{0},
};
