/* SPDX-License-Identifier: Apache-2.0
 *
 * What is remembered of graphs that are put together by hand.
 */
#include "tests/unit/core.h"

#include <stdlib.h>

#include "shim/act/built.h"

#define GRAPH ((CUgraph)0x1000)
#define OTHER ((CUgraph)0x2000)
#define NODE  ((CUgraphNode)0x10)
#define NEXT  ((CUgraphNode)0x20)

static struct recorded_graph *new_part(void)
{
	struct recorded_graph *part = calloc(1, sizeof(*part));

	assert_non_null(part);
	part->users = 1;
	return part;
}

static int forget_all(void **state)
{
	(void)state;
	built_forget(GRAPH);
	built_forget(OTHER);
	return 0;
}

static void test_parts_by_node(void **state)
{
	struct recorded_graph *part = new_part(), *next = new_part();

	built_begin(GRAPH);
	assert_true(built_is(GRAPH));
	assert_false(built_is(OTHER));
	assert_false(built_is(NULL));
	assert_false(built_of_parts(GRAPH));
	built_add(GRAPH, NODE, part);
	built_add(GRAPH, NEXT, next);
	assert_true(built_of_parts(GRAPH));
	assert_ptr_equal(built_part(GRAPH, NODE), part);
	assert_ptr_equal(built_part(GRAPH, NEXT), next);
	assert_null(built_part(OTHER, NODE));
	assert_int_equal(part->users, 2);
	built_forget(GRAPH);
	assert_false(built_is(GRAPH));
	assert_int_equal(part->users, 1);
	recording_release(part);
	recording_release(next);
	(void)state;
}

/* Nobody knows which graph changed: nodes are added to each as before, but parts are not known. */
static void test_some_changed(void **state)
{
	struct recorded_graph *part = new_part();

	built_begin(GRAPH);
	built_begin(OTHER);
	built_add(GRAPH, NODE, part);
	built_forget(NULL);
	assert_true(built_is(GRAPH));
	assert_true(built_is(OTHER));
	assert_null(built_part(GRAPH, NODE));
	assert_int_equal(part->users, 1);
	recording_release(part);
	(void)state;
}

/* A handle is given out again. */
static void test_begun_anew(void **state)
{
	struct recorded_graph *part = new_part();

	built_begin(GRAPH);
	built_add(GRAPH, NODE, part);
	built_begin(GRAPH);
	assert_null(built_part(GRAPH, NODE));
	assert_int_equal(part->users, 1);
	recording_release(part);
	(void)state;
}

/* More graphs than there is room for are no such graphs. */
static void test_many(void **state)
{
	int known = 0;

	for (uintptr_t i = 1; i <= 200; i++) {
		built_begin((CUgraph)(i << 12));
		known += built_is((CUgraph)(i << 12));
	}
	assert_in_range(known, 16, 199);
	for (uintptr_t i = 1; i <= 200; i++)
		built_forget((CUgraph)(i << 12));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_parts_by_node, forget_all),
		cmocka_unit_test_teardown(test_some_changed, forget_all),
		cmocka_unit_test_teardown(test_begun_anew, forget_all),
		cmocka_unit_test_teardown(test_many, forget_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
