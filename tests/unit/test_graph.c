/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs that were captured before our eyes: what is held back stays so when one is launched that
 * touches none of it.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/op/graph.h"
#include "shim/hazard/held.h"

static CUgraphExec execs[64]; /* handles of their own: only the addresses count */
static int made;

/* Captures the ops and makes an executable graph of them. */
static CUgraphExec captured(const char *begin, const struct op *ops, int count)
{
	CUgraph graph = (CUgraph)&execs[made];
	CUgraphExec exec = (CUgraphExec)((char *)&execs[made] + 1);
	struct op end = core_event(OP_CAPTURE_END, "cuStreamEndCapture");

	made++;
	core_send(core_event(OP_CAPTURE_BEGIN, begin));
	assert_true(flow_watching());
	for (int i = 0; i < count; i++)
		assert_false(core_send(ops[i]));
	end.handle = &graph;
	core_send(end);
	flow_graph_instantiated(graph, exec, 0);
	return exec;
}

#define CAPTURED(...)                                                                              \
	captured("cuStreamBeginCapture_v2", (struct op[]){__VA_ARGS__},                            \
		 (int)(sizeof((struct op[]){__VA_ARGS__}) / sizeof(struct op)))

static void launch(CUgraphExec exec)
{
	struct op op = core_event(OP_GRAPH_LAUNCH, "cuGraphLaunch");

	op.handle = exec;
	assert_false(core_send(op));
}

static void test_apart(void **state)
{
	CUgraphExec exec;

	core_begin();
	exec = CAPTURED(
		core_copy(CORE_OTHER, CORE_APART, 4096), core_fill(CORE_OTHER, 1000),
		core_product(0, 0, 8, 8, 8, core.q, 8, 0, core.k, 8, 0, CORE_OTHER, 8, 0, 1));
	core_replaced();
	launch(exec);
	assert_string_equal(core_acts(), ""); /* Q and K are read, which is nothing to us */
	assert_true(held_virtual(core_only_chain()));
}

static void test_reader(void **state)
{
	CUgraphExec exec;

	core_begin();
	exec = CAPTURED(core_kernel_copy(CORE_OTHER, core.p + 64, 100));
	core_replaced();
	launch(exec);
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(held_count, 0);
}

static void test_writer_of_input(void **state)
{
	CUgraphExec exec;

	core_begin();
	exec = CAPTURED(core_memset(core.k, 2));
	core_replaced();
	launch(exec);
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.k);
	assert_true(held_virtual(core_only_chain()));
}

/* Many ranges, in no order: they are joined, none is lost. */
static void test_many(void **state)
{
	static struct op ops[4000];
	CUgraphExec exec;

	core_begin();
	for (int i = 0; i < 4000; i++)
		ops[i] = core_memset(CORE_OTHER + 64 * (uint64_t)(i * 7919 % 4000), 64);
	exec = captured("cuStreamBeginCapture_v2", ops, 4000);
	assert_int_equal(graph_known(exec)->count, 1);
	assert_int_equal(graph_known(exec)->item[0].begin, CORE_OTHER);
	assert_int_equal(graph_known(exec)->item[0].end, CORE_OTHER + 64 * 4000);
	assert_true(graph_known(exec)->item[0].written);
	core_replaced();
	launch(exec);
	assert_string_equal(core_acts(), "");
}

/* ---- not known ------------------------------------------------------------------------------ */

static void everything_is_real(CUgraphExec exec)
{
	core_replaced();
	launch(exec);
	assert_string_equal(core_acts(), CORE_FORWARD);
}

static void test_unknown(void **state)
{
	const struct op memset = (core_begin(), core_memset(CORE_OTHER, 64));
	CUgraph graph;
	CUgraphExec exec;

	everything_is_real((CUgraphExec)&execs[63]); /* never seen */
	core_begin();
	everything_is_real(captured("cuStreamBeginCaptureToGraph", &memset, 1));
	core_begin();
	everything_is_real(CAPTURED(core_event(OP_OPAQUE, "cuSomethingNew")));
	core_begin();
	exec = CAPTURED(core_memset(CORE_OTHER, 64));
	flow_flush("cuGraphExecKernelNodeSetParams_v2"); /* other pointers, who knows which */
	everything_is_real(exec);
	core_begin();
	exec = CAPTURED(core_memset(CORE_OTHER, 64));
	flow_graph_gone(exec); /* the handle is another graph's now */
	everything_is_real(exec);
	core_begin();
	exec = CAPTURED(core_memset(CORE_OTHER, 64));
	graph = (CUgraph)&execs[made - 1];
	flow_graph_gone(graph); /* what was made of it lives on */
	core_replaced();
	launch(exec);
	assert_string_equal(core_acts(), "");
}

/* Editing a graph runs nothing and reads nothing. */
static void test_edit(void **state)
{
	core_begin();
	CAPTURED(core_memset(CORE_OTHER, 64));
	core_replaced();
	flow_flush("cuGraphAddKernelNode_v2");
	assert_string_equal(core_acts(), "");
	flow_flush("cuGraphExecMemcpyNodeSetParams");
	flow_graph_updating((CUgraphExec)&execs[63]);
	flow_flush("cuGraphKernelNodeSetAttribute");
	assert_string_equal(core_acts(), "");
	flow_flush("cuGraphUpload"); /* these may do anything */
	assert_string_equal(core_acts(), CORE_FORWARD);
	core_replaced();
	flow_flush("cuGraphLaunchWithSomething");
	assert_string_equal(core_acts(), CORE_FORWARD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_apart),		cmocka_unit_test(test_reader),
		cmocka_unit_test(test_writer_of_input), cmocka_unit_test(test_many),
		cmocka_unit_test(test_unknown),		cmocka_unit_test(test_edit),
	};

	return CORE_MAIN("graph", tests);
}
