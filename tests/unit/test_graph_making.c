/* SPDX-License-Identifier: Apache-2.0
 *
 * Executable graphs of our own: asked for under the lock, made without it, there when asked again.
 */
#include "tests/unit/core.h"

#include <errno.h>

#include "shim/act/graph_making.h"
#include "shim/real/driver.h"

#define CONTEXT BELOW_CONTEXT
#define GRAPH	((CUgraph)(uintptr_t)0x6000)
#define EXEC	((CUgraphExec)(uintptr_t)0x7000)

static CUresult answer; /* the driver's */
static int made, graphs_gone, gone;

static CUresult CUDAAPI instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	assert_ptr_equal(graph, GRAPH);
	assert_int_equal(flags, 8);
	made++;
	*exec = EXEC; /* what a failed call leaves is not looked at */
	return answer;
}

static CUresult CUDAAPI destroy_graph(CUgraph graph)
{
	assert_ptr_equal(graph, GRAPH);
	graphs_gone++;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy(CUgraphExec exec)
{
	assert_ptr_equal(exec, EXEC);
	gone++;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	driver_resolve();
	driver.cuGraphInstantiateWithFlags = instantiate;
	driver.cuGraphDestroy = destroy_graph;
	driver.cuGraphExecDestroy = destroy;
	answer = CUDA_SUCCESS;
	made = graphs_gone = gone = 0;
	return state ? 0 : -1;
}

static struct graph_making *ask(void)
{
	struct graph_making *making = graph_making_ask(GRAPH, CONTEXT, 8);

	assert_non_null(making);
	return making;
}

static void turn(void)
{
	struct graph_making *making = graph_making_next();

	if (!making)
		return;
	graph_making_make(making);
	graph_making_keep(making);
}

static void test_next_turn(void **state)
{
	struct graph_making *making = ask();
	CUgraphExec exec = NULL;
	const char *why;

	assert_int_equal(graph_making_take(making, &exec, &why), -EAGAIN);
	assert_int_equal(made, 0);
	turn();
	assert_int_equal(graph_making_take(making, &exec, &why), 0);
	assert_ptr_equal(exec, EXEC);
	turn();
	assert_int_equal(made, 1);
	assert_int_equal(graphs_gone, 1);
	assert_int_equal(gone, 0);
}

static void test_refused(void **state)
{
	struct graph_making *making = ask();
	CUgraphExec exec = NULL;
	const char *why = NULL;

	answer = CUDA_ERROR_OUT_OF_MEMORY;
	turn();
	assert_int_equal(graph_making_take(making, &exec, &why), -EIO);
	assert_string_equal(why, "no memory to instantiate a graph");
	making = ask();
	answer = CUDA_ERROR_INVALID_VALUE;
	turn();
	assert_int_equal(graph_making_take(making, &exec, &why), -EIO);
	assert_string_equal(why, "cuGraphInstantiate");
	assert_int_equal(graphs_gone, 2);
	assert_int_equal(gone, 0);
}

/* Nobody wants it any more: before it is made, meanwhile, and when it is there. */
static void test_dropped(void **state)
{
	struct graph_making *making = ask(), *other;

	graph_making_drop(making);
	assert_null(graph_making_next());
	assert_int_equal(graphs_gone, 1);
	other = ask();
	making = graph_making_next();
	assert_ptr_equal(making, other);
	graph_making_drop(other);
	graph_making_make(making);
	assert_int_equal(gone, 0);
	graph_making_keep(making);
	assert_int_equal(gone, 1);
	making = ask();
	turn();
	graph_making_drop(making);
	assert_int_equal(gone, 2);
	assert_int_equal(graphs_gone, 3);
	graph_making_drop(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_next_turn, begin),
		cmocka_unit_test_setup(test_refused, begin),
		cmocka_unit_test_setup(test_dropped, begin),
	};

	return CORE_MAIN("graph_making", tests);
}
