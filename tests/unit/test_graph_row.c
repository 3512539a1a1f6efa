/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of nodes that are none (graph_row.h), of a driver that lists nodes and edges as it likes:
 * who comes before whom, and that it stays so when some are taken out and others put in.
 */
#include "tests/unit/core.h"

#include <stdlib.h>
#include <string.h>

#include "shim/act/graph_row.h"
#include "shim/real/driver.h"

enum { NODES = 64, GRAPHS = 8, OPS = 18, MOST_EACH = 3 };

/* ---- the driver ------------------------------------------------------------------------------ */

static struct fake {
	int count;
	bool gone[NODES], child[NODES], edge[NODES][NODES];
	int list[NODES]; /* in which order they are listed */
	int edges;
} fakes[GRAPHS];
static int fake_count;

/* A handle is the graph's number and the node's. */
static CUgraph handle_of(int graph)
{
	return (CUgraph)(uintptr_t)(graph + 1);
}

static struct fake *fake_of(CUgraph graph)
{
	return &fakes[(uintptr_t)graph - 1];
}

static CUgraphNode node_of(CUgraph graph, int node)
{
	return (CUgraphNode)(((uintptr_t)graph << 16) + (uintptr_t)node + 1);
}

static int number_of(CUgraphNode node)
{
	return (int)((uintptr_t)node & 0xffff) - 1;
}

static CUresult CUDAAPI get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	const struct fake *f = fake_of(graph);
	size_t listed = 0;

	for (int i = 0; i < f->count; i++)
		if (!f->gone[f->list[i]]) {
			if (nodes)
				nodes[listed] = node_of(graph, f->list[i]);
			listed++;
		}
	*count = listed;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
				  CUgraphEdgeData *data, size_t *count)
{
	const struct fake *f = fake_of(graph);
	size_t listed = 0;

	if (from && !*count)
		return CUDA_ERROR_INVALID_VALUE;
	for (int a = 0; a < f->count; a++)
		for (int b = f->count - 1; b >= 0; b--) {
			if (!f->edge[a][b])
				continue;
			if (from) {
				from[listed] = node_of(graph, a);
				to[listed] = node_of(graph, b);
				memset(&data[listed], 0, sizeof(*data));
			}
			listed++;
		}
	*count = listed;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI get_type(CUgraphNode node, CUgraphNodeType *type)
{
	(void)node;
	*type = CU_GRAPH_NODE_TYPE_KERNEL;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI clone_graph(CUgraph *clone, CUgraph graph)
{
	struct fake *f = &fakes[fake_count];

	assert_true(fake_count < GRAPHS);
	*f = *fake_of(graph);
	for (int i = 0; i < f->count; i++) /* listed otherwise */
		f->list[i] = f->count - 1 - i;
	*clone = handle_of(fake_count++);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI find_in_clone(CUgraphNode *found, CUgraphNode node, CUgraph clone)
{
	*found = node_of(clone, number_of(node));
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI add_child(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
				  size_t count, CUgraph child)
{
	struct fake *f = fake_of(graph);

	(void)before;
	(void)child;
	assert_int_equal(count, 0);
	assert_true(f->count < NODES);
	f->child[f->count] = true;
	*node = node_of(graph, f->count++);
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI add_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				  const CUgraphEdgeData *data, size_t count)
{
	bool *edge = &fake_of(graph)->edge[number_of(*from)][number_of(*to)];

	assert_null(data);
	assert_int_equal(count, 1);
	assert_int_equal((uintptr_t)*from >> 16, (uintptr_t)graph);
	assert_int_equal((uintptr_t)*to >> 16, (uintptr_t)graph);
	if (*edge)
		return CUDA_ERROR_INVALID_VALUE;
	*edge = true;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy_node(CUgraphNode node)
{
	struct fake *f = fake_of((CUgraph)((uintptr_t)node >> 16));
	const int number = number_of(node);

	f->gone[number] = true;
	for (int i = 0; i < NODES; i++)
		f->edge[number][i] = f->edge[i][number] = false;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI destroy_graph(CUgraph graph)
{
	(void)graph;
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	driver_resolve();
	driver.cuGraphGetNodes = get_nodes;
	driver.cuGraphGetEdges_v2 = get_edges;
	driver.cuGraphNodeGetType = get_type;
	driver.cuGraphClone = clone_graph;
	driver.cuGraphNodeFindInClone = find_in_clone;
	driver.cuGraphAddChildGraphNode = add_child;
	driver.cuGraphAddDependencies_v2 = add_edges;
	driver.cuGraphDestroyNode = destroy_node;
	driver.cuGraphDestroy = destroy_graph;
	return state ? 0 : -1;
}

static bool reaches(const struct fake *f, int from, int to)
{
	for (int i = 0; i < f->count; i++)
		if (f->edge[from][i] && (i == to || reaches(f, i, to)))
			return true;
	return false;
}

/* ---- a graph -------------------------------------------------------------------------------- */

static struct recorded_op ops[OPS];
static struct recorded_graph graph;
static int first[OPS], last[OPS]; /* nodes of the ops */

static int random_below(int n)
{
	return (int)((unsigned)rand() / 7 % (unsigned)n);
}

static int add_node(struct fake *f, int behind)
{
	const int node = f->count++;

	if (behind >= 0)
		f->edge[behind][node] = true;
	return node;
}

/* Each op is behind some of those before it; of one node, or a few one behind the other. */
static void make_graph(int count, int density)
{
	struct fake *f = &fakes[0];

	memset(fakes, 0, sizeof(fakes));
	memset(ops, 0, sizeof(ops));
	fake_count = 1;
	graph_order_drop(&graph.order);
	graph = (struct recorded_graph){
		.graph = handle_of(0), .op = ops, .op_count = count, .branched = true};
	for (int op = 0; op < count; op++) {
		const int nodes = 1 + (random_below(3) ? 0 : random_below(MOST_EACH));

		first[op] = last[op] = add_node(f, -1);
		for (int i = 1; i < nodes; i++)
			last[op] = add_node(f, last[op]);
		for (int before = 0; before < op; before++)
			if (random_below(100) < density)
				f->edge[last[before]][first[op]] = true;
		ops[op] = (struct recorded_op){.kind = nodes > 1 ? OP_GEMM : OP_LAUNCH,
					       .captured = true,
					       .last = node_of(graph.graph, last[op])};
	}
	for (int i = 0; i < f->count; i++) {
		const int with = random_below(i + 1);

		f->list[i] = f->list[with];
		f->list[with] = i;
	}
}

/* false: it has too many branches. */
static bool make_known_graph(int count, int density)
{
	const char *why;

	make_graph(count, density);
	why = graph_row_order(&graph);
	if (why)
		assert_string_equal(why, "too many nodes beside each other");
	return !why;
}

static void test_before(void **state)
{
	int known = 0;

	for (int round = 0; round < 2000; round++) {
		if (!make_known_graph(1 + random_below(OPS), 5 + random_below(60)))
			continue;
		known++;
		for (int a = 0; a < graph.op_count; a++)
			for (int b = 0; b < graph.op_count; b++)
				assert_int_equal(graph_order_before(&graph.order, a, b),
						 reaches(&fakes[0], last[a], first[b]));
	}
	assert_true(known > 1500);
}

/* ---- what becomes of it --------------------------------------------------------------------- */

/* Where an op begins and ends in what is made of the graph; -1: it is gone. */
static int begins[OPS], ends[OPS];

static void change(struct graph_row *row, int op)
{
	struct fake *f = fake_of(row->clone);
	const CUgraph child = handle_of(GRAPHS - 1);
	const int way = random_below(6), at = f->count;

	begins[op] = first[op];
	ends[op] = last[op];
	if (way == 0) {
		assert_int_equal(graph_row_replace(row, op, NULL), 0);
		begins[op] = ends[op] = -1;
	} else if (way == 1) {
		assert_int_equal(graph_row_replace(row, op, child), 0);
		begins[op] = ends[op] = at;
	} else if (way == 2) {
		assert_int_equal(graph_row_surround(row, op, child, NULL), 0);
		begins[op] = at;
	} else if (way == 3) {
		assert_int_equal(graph_row_surround(row, op, NULL, child), 0);
		ends[op] = at;
	} else if (way == 4) {
		assert_int_equal(graph_row_surround(row, op, child, child), 0);
		begins[op] = at;
		ends[op] = at + 1;
	}
}

static void check(const struct fake *changed, int one, int other)
{
	for (int a = 0; a < graph.op_count; a++)
		for (int b = 0; b < graph.op_count; b++) {
			const bool before = reaches(&fakes[0], last[a], first[b]);

			if (begins[a] < 0 || begins[b] < 0 || a == b)
				continue;
			if (before || (a == one && b == other))
				assert_true(reaches(changed, ends[a], begins[b]));
			else if (one < 0)
				assert_false(reaches(changed, ends[a], begins[b]));
		}
	for (int op = 0; op < graph.op_count; op++) {
		if (begins[op] >= 0 && begins[op] != first[op] && begins[op] != ends[op])
			assert_true(reaches(changed, begins[op], first[op]));
		if (begins[op] >= 0 && ends[op] != last[op] && begins[op] != ends[op])
			assert_true(reaches(changed, last[op], ends[op]));
		if (begins[op] < 0 || (begins[op] == ends[op] && begins[op] != first[op]))
			assert_true(changed->gone[first[op]] && changed->gone[last[op]]);
	}
	for (int i = 0; i < changed->count; i++)
		assert_false(reaches(changed, i, i));
}

static void test_changes(void **state)
{
	for (int round = 0; round < 3000; round++) {
		int one = -1, other = -1;
		struct graph_row row, copy;
		struct fake *changed;

		if (!make_known_graph(2 + random_below(OPS - 2), 5 + random_below(60)))
			continue;
		assert_null(graph_row_open(&row, &graph));
		assert_true(graph_row_copy(&copy, &row));
		changed = fake_of(copy.clone);
		for (int op = 0; op < graph.op_count; op++)
			change(&copy, op);
		if (round % 2) {
			one = random_below(graph.op_count - 1);
			other = one + 1 + random_below(graph.op_count - 1 - one);
			graph_row_one_by_one(&copy, one, other);
		}
		assert_non_null(graph_row_make(&copy, NULL, 0));
		check(changed, one, other);
		graph_row_close(&copy);
		graph_row_close(&row);
	}
}

/* What is not as the ops say it is not known. */
static void test_unknown(void **state)
{
	struct graph_row row;
	int extra;

	make_graph(6, 0);
	assert_non_null(graph_row_open(&row, &graph)); /* nobody has asked who is before whom */
	make_graph(6, 40); /* a node that nobody's is: at the end of a branch, before a kernel */
	extra = add_node(&fakes[0], -1);
	fakes[0].list[extra] = extra;
	assert_string_equal(graph_row_order(&graph), "nodes that came unseen");
	ops[5].kind = OP_LAUNCH;
	fakes[0].edge[extra][first[5]] = true;
	assert_string_equal(graph_row_order(&graph), "nodes that came unseen");
	make_graph(3,
		   0); /* a product whose nodes others wait for, or that wait for others, midway */
	ops[2].kind = OP_GEMM;
	extra = add_node(&fakes[0], last[2]);
	fakes[0].list[extra] = extra;
	ops[2].last = node_of(graph.graph, extra);
	fakes[0].edge[last[1]][extra] = true;
	assert_string_equal(graph_row_order(&graph), "nodes that came unseen");
	fakes[0].edge[last[1]][extra] = false;
	assert_null(graph_row_order(&graph));
	make_graph(3, 0); /* an op that became none ends where another one did */
	ops[2].last = ops[0].last;
	for (int node = first[2]; node <= last[2]; node++)
		destroy_node(node_of(graph.graph, node));
	assert_null(graph_row_order(&graph));
	assert_int_equal(graph.order.path[2].line, -1);
	assert_false(graph_order_before(&graph.order, 0, 2));
}

/* As it is listed, but behind all that it waits for, and rows within it in one piece. */
static void test_listed(void **state)
{
	for (int round = 0; round < 1000; round++) {
		const struct fake *f = &fakes[0];
		int place[NODES], waiting, waits;
		struct graph_row row;

		make_graph(1 + random_below(OPS), 5 + random_below(40));
		assert_true(graph_row_read(&row, graph.graph, NULL));
		assert_int_equal(row.count, f->count);
		for (int i = 0; i < row.count; i++)
			place[number_of(row.entry[i].node)] = i;
		for (int a = 0; a < f->count; a++)
			for (int b = 0; b < f->count; b++) {
				if (!f->edge[a][b])
					continue;
				assert_true(place[a] < place[b]);
				waiting = waits = 0;
				for (int i = 0; i < f->count; i++) {
					waiting += f->edge[a][i];
					waits += f->edge[i][b];
				}
				if (waiting == 1 && waits == 1)
					assert_int_equal(place[a] + 1, place[b]);
				assert_int_equal(graph_row_linked(&row, place[b]),
						 waits == 1 && place[a] + 1 == place[b]);
			}
		graph_row_close(&row);
	}
}

/* ---- a part of a graph ---------------------------------------------------------------------- */

/* What the last few ops of the graph are, behind some of the others and in a row, was captured into
 * it. */
static void make_part(struct recorded_graph *part, struct recorded_behind *behind, int from)
{
	struct fake *f = &fakes[0];

	*part = graph;
	part->op = ops + from;
	part->op_count = graph.op_count - from;
	behind->count = 0;
	for (int op = from; op < graph.op_count; op++)
		for (int before = 0; before < op; before++) {
			bool *edge = &f->edge[last[before]][first[op]];

			*edge = op == from ? *edge : before + 1 == op;
			if (*edge && op == from)
				behind->node[behind->count++] = node_of(graph.graph, last[before]);
		}
}

static void test_part(void **state)
{
	for (int round = 0; round < 1000; round++) {
		struct recorded_behind behind;
		struct recorded_graph part;
		CUgraphNode begin;
		int from, other;

		make_graph(4 + random_below(OPS - 4), 20 + random_below(40));
		from = 2 + random_below(graph.op_count - 3);
		make_part(&part, &behind, from);
		if (!behind.count || behind.count > RECORDED_BEHIND)
			continue;
		fakes[0].edge[last[0]][first[1]] = false; /* surely no row */
		assert_true(graph_row_count(&part, &behind, &begin));
		assert_ptr_equal(begin, node_of(graph.graph, first[from]));
		for (int op = from; op < graph.op_count; op++)
			assert_int_equal(ops[op].nodes, last[op] - first[op] + 1);
		assert_false(graph_row_count(&part, NULL, &begin)); /* there is more */
		other = from + 1;
		if (other < graph.op_count) { /* somebody else before its second op */
			fakes[0].edge[last[0]][first[other]] = true;
			assert_false(graph_row_count(&part, &behind, &begin));
			fakes[0].edge[last[0]][first[other]] = false;
		}
		if (behind.count > 1) { /* behind less than it is */
			behind.count--;
			assert_false(graph_row_count(&part, &behind, &begin));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_before),	cmocka_unit_test(test_changes),
		cmocka_unit_test(test_unknown), cmocka_unit_test(test_listed),
		cmocka_unit_test(test_part),
	};

	return cmocka_run_group_tests_name("graph rows", tests, begin, NULL);
}
