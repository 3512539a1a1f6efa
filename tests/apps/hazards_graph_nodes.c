/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs with attention in them, where not all is as the graph itself says: disabled nodes, other
 * contexts.
 */
#include "graph_bench.h"

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

const struct hazard hazards_graph_nodes[] = {
	ONCE(graph_disabled, "a node of an executable graph is disabled"),
	{0},
};
