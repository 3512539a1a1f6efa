/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with attention in them, where not all is as the graph itself says: disabled nodes, other
 * contexts.
 */
#include "graph_bench.h"

/* What every driver has, whichever the headers make of cuCtxCreate(). */
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device);

/* Q is scaled ahead of the chain, but that node is disabled, also in what the executable graph is
 * updated to. */
static void graph_disabled(void)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphNode node[16];
	size_t count = 16;
	struct bench b;
	CUgraphExec exec;
	CUgraph graph;

	open_known(&b);
	app_upload_random(b.raw, b.n, 5);
	begin(&b);
	app_scale(&b.app, b.t.q, b.raw, 2.f, b.n);
	chain(&b, &b.t);
	graph = end(&b);
	CHECK(cuGraphGetNodes(graph, node, &count));
	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphNodeSetEnabled(exec, node[0], 0));
	CHECK(cuGraphExecUpdate(exec, graph, &info));
	for (int r = 4; r < 16; r++) {
		if (r == 12)
			CHECK(cuGraphNodeSetEnabled(exec, node[0], 1));
		bench_inputs(&b, r);
		launch(&b, exec);
		observe_o(&b, &b.t, r);
	}
	CHECK(cuGraphDestroy(graph));
	close_known(&b, exec);
}

/* Launches of one executable graph wait for each other, also where the context is another one, or
 * none is current. Each makes the next one's Q. */
static void launched_elsewhere(bool none)
{
	struct bench b;
	CUgraphExec exec;
	CUstream streams[2];
	CUcontext here, there = NULL;

	open_known(&b);
	CHECK(cuCtxGetCurrent(&here));
	if (!none) {
		CHECK(cuCtxCreate_v2(&there, 0, 0));
		CHECK(cuCtxSetCurrent(here));
	}
	streams[0] = b.app.stream;
	CHECK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
	begin(&b);
	for (int k = 0; k < 4; k++)
		chain(&b, &b.t);
	app_scale(&b.app, b.t.q, b.t.o, 1.5f, b.n);
	overwrite_scores(&b);
	exec = end_ready(&b);
	for (int r = 4; r < 12; r++) {
		bench_inputs(&b, r);
		for (int k = 0; k < 3; k++) {
			CHECK(cuGraphLaunch(exec, streams[0]));
			if (r >= 10)
				CHECK(cuCtxSetCurrent(there));
			CHECK(cuGraphLaunch(exec, streams[1]));
			CHECK(cuCtxSetCurrent(here));
		}
		CHECK(cuStreamSynchronize(streams[0]));
		CHECK(cuStreamSynchronize(streams[1]));
		observe_o(&b, &b.t, r);
		observe_p(&b, &b.t, r);
	}
	close_known(&b, exec);
}

CASE(graph_no_context, launched_elsewhere(true))
CASE(graph_other_context, launched_elsewhere(false))

/* A kernel without any address among its parameters copies P: behind the chain, or in the graph. */
static void kept_address(bool in_graph)
{
	CUfunction keep, copy_kept;
	CUgraphExec exec = NULL;
	struct bench b;
	int count;

	open_known(&b);
	count = (int)b.scores;
	CHECK(cuModuleGetFunction(&keep, b.app.module, "reach_keep"));
	CHECK(cuModuleGetFunction(&copy_kept, b.app.module, "reach_copy_kept"));
	app_launch(&b.app, keep, 1, 1, (void *[]){&b.spare, &b.t.p});
	CHECK(cuStreamSynchronize(b.app.stream));
	begin(&b);
	if (in_graph)
		chain(&b, &b.t);
	app_launch(&b.app, copy_kept, (unsigned)(count + 255) / 256, 256, (void *[]){&count});
	exec = end_ready(&b);
	for (int r = 4; r < 16; r++) {
		bench_inputs(&b, r);
		if (!in_graph)
			chain(&b, &b.t);
		if (in_graph || r % 2)
			launch(&b, exec);
		else
			app_launch(&b.app, copy_kept, (unsigned)(count + 255) / 256, 256,
				   (void *[]){&count});
		CHECK(cuStreamSynchronize(b.app.stream));
		observe_o(&b, &b.t, r);
		app_observe(&b.report, "copy", r, b.spare, b.scores);
	}
	close_known(&b, exec);
}

CASE(graph_kept_address, kept_address(false))
CASE(graph_kept_address_within, kept_address(true))

/* A graph that kernels may launch, where nobody sees it. */
static void graph_for_device(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 4, .height = 1};
	CUcontext context;
	CUgraphNode node;
	CUgraphExec exec;
	CUgraph graph;
	struct bench b;

	bench_open(&b, TOGETHER);
	fill.dst = b.spare;
	fill.width = b.scores / 2;
	CHECK(cuCtxGetCurrent(&context));
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, context));
	CHECK(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
	for (int r = 0; r < REPETITIONS; r++) {
		bench_inputs(&b, r);
		chain(&b, &b.t);
		observe_o(&b, &b.t, r);
	}
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	bench_close(&b);
}

const struct hazard hazards_graph_nodes[] = {
	ONCE(graph_for_device, "a graph that kernels may launch"),
	ONCE(graph_disabled, "a node of an executable graph is disabled"),
	ONCE(graph_no_context, "it is launched where no context is current"),
	ONCE(graph_other_context, "… where another one is"),
	ONCE(graph_kept_address, "a kernel that was not given P's address copies it"),
	ONCE(graph_kept_address_within, "… in the graph"),
	{0},
};
