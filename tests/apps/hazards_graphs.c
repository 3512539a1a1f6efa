/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: attention that is captured and replayed while inputs and readers change.
 */
#include "graph_bench.h"

#include <string.h>

#include "tools/base/half.h"

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

/* A part of K is written ahead of the chain, in the graph, and another layer behind it; launches go
 * on and on, and nobody waits but to look. */
static void graph_cache(void)
{
	struct bench b;
	CUgraphExec exec;
	CUdeviceptr news;

	open_known(&b);
	struct tensors second = b.t;
	second.o = b.raw;
	second.s = b.spare;
	news = app_alloc(8 * b.n * 2);
	for (int i = 0; i < 8; i++)
		app_upload_random(news + (uint64_t)i * b.n * 2, b.n, 900 + (uint64_t)i);
	begin(&b);
	app_scale(&b.app, b.t.k, b.t.q, 0.5f, b.n / 4);
	app_scale(&b.app, b.t.v, b.t.q, 0.25f, b.n / 4);
	chain(&b, &b.t);
	app_scale(&b.app, b.t.k, b.t.v, 0.5f, b.n / 8);
	chain(&b, &second);
	exec = end_ready(&b);
	launch_unknown(&b, exec, &second);
	for (int r = 0; r < 300; r++) {
		app_copy(&b.app, b.t.q, news + (uint64_t)(r * 5 % 8) * b.n * 2, b.n);
		CHECK(cuGraphLaunch(exec, b.app.stream));
		if (r % 40 == 7 || r == 250) {
			CHECK(cuStreamSynchronize(b.app.stream));
			observe_o(&b, &b.t, r);
			observe_o(&b, &second, r);
		}
		if (r == 250)
			observe_p(&b, &second, r);
	}
	CHECK(cuStreamSynchronize(b.app.stream));
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

/* In the graph alone S is larger than fp16 can say at the first key, or is not, as its sum is
 * rounded: large terms cancel each other, and small ones between them are lost where each is added
 * by itself. O is none of numbers on one side then: that which is right for the chain outside is
 * not for this one. */
static void graph_overflow(void)
{
	uint16_t row[32];
	struct bench b;
	CUgraphExec exec;

	for (int d = 0; d < 32; d++)
		row[d] = float_to_f16(d < 8    ? 60000.f
				      : d < 16 ? 0.014f
				      : d < 24 ? -60000.f
				      : d < 31 ? 127.9375f
					       : 128.125f); /* 65516 with q 64 */
	open_known(&b);
	begin(&b);
	app_scale(&b.app, b.t.q, b.raw, 64, b.n);
	chain(&b, &b.t);
	exec = end_ready(&b);
	app_fill(&b.app, b.raw, 1, b.n);
	for (int r = 4; r < 14; r++) {
		bench_inputs(&b, r);
		for (size_t h = 0; h < b.n; h += b.n / (size_t)b.shape.heads)
			app_upload(b.t.k + 2 * h, row, sizeof(row));
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
	ONCE(graph_cache,
	     "keys and values are written in the graph; launches that nobody waits for"),
	ONCE(graph_part, "a part of P is overwritten in the graph"),
	ONCE(graph_inputs_go, "Q and K are overwritten in the graph"),
	ONCE(graph_v_over_q, "V lands in the memory of Q, O in that of K"),
	ONCE(graph_v_over_q_alone, "… and its scores are overwritten"),
	ONCE(graph_changes_outside, "inputs and P change after the launch"),
	ONCE(graph_aliased, "P is read by a second name for its memory"),
	ONCE(graph_learned, "a chain that ran but once outside"),
	ONCE(graph_overflow, "numbers that the chain outside never had"),
	ONCE(graph_unknown, "a kernel that nobody knows reads P in the graph"),
	ONCE(graph_managed, "the host rewrites the mask before P is asked for"),
	ONCE(graph_host, "a function of the host's amid the chain"),
	{0},
};
