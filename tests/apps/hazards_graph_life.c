/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with attention in them: changed, launched in turn, and gone.
 */
#include "graph_bench.h"

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
	graph_add(graph, &before, reader);
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
	ONCE(graph_node_added, "a node is added to the captured graph"),
	ONCE(graphs_in_turn, "two graphs in the same memory, two streams"),
	ONCE(graph_waits, "an executable graph on two streams, not waited for"),
	ONCE(graph_launched_again, "a launch of it that is refused is tried again"),
	ONCE(graph_each_step, "a new graph for each step"),
	ONCE(graph_little_memory, "there is memory for the program's graph alone"),
	ONCE(graph_memory_full, "for its graphs, but no others beside them"),
	ONCE(graph_gone, "P is read when the graph, the stream is gone"),
	{0},
};
