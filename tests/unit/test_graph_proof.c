/* SPDX-License-Identifier: Apache-2.0
 *
 * What a graph's ops prove of a chain among them (graph_proof.h): who may read its scores within
 * the graph and in the replay after, what of them outlives it, which inputs must be saved.
 */
#include "tests/unit/core.h"

#include <stdio.h>
#include <string.h>

#include "shim/act/graph_proof.h"
#include "shim/flow/touch.h"
#include "tests/apps/aten.h"

#define OPS 16

enum { OPERAND_K, OPERAND_Q, MASK }; /* the chain's inputs, as cuBLAS names them */

static struct chain chain; /* of a verified site, as its closing GEMM comes */
static struct recorded_op ops[OPS];
static struct recorded_graph graph;
static struct recorded_chain record;
static struct graph_proof proof;

static void begin(void)
{
	core_begin();
	core_learn();
	chain = *core_replaced();
	graph_order_drop(&graph.order);
	memset(&graph, 0, sizeof(graph));
	graph.op = ops;
}

static void add(struct op op)
{
	const struct sight *sight = touch_see(&op);

	assert_true(op.kind != OP_LAUNCH || sight->params);
	assert_false(sight->list->opaque);
	assert_true(graph_order_add(&graph.order, graph.op_count, sight->list));
	snprintf(ops[graph.op_count++].name, sizeof(ops[0].name), "%s", op.name);
}

/* The five ops of the chain, from number `graph.op_count` on. */
static void add_chain(void)
{
	const struct op five[] = {core_scores(), core_scale(core.x, core.s, core.scale),
				  core_add_mask(core.m, core.x, core.mask),
				  core_softmax(core.p, core.m), core_context()};

	record = (struct recorded_chain){.chain = &chain, .kept_inputs = chain.input_count};
	for (int i = 0; i < 5; i++) {
		record.step[i] = graph.op_count;
		add(five[i]);
	}
	record.close = graph.op_count - 1;
	record.reader[OPERAND_K] = record.reader[OPERAND_Q] = record.step[0];
	record.reader[MASK] = record.step[2];
}

static const char *prove(void)
{
	return graph_prove(&proof, &graph, &record);
}

static bool any_saved(void)
{
	for (int i = 0; i < CHAIN_INPUTS; i++)
		if (proof.saved[i])
			return true;
	return false;
}

static void test_alone(void **state)
{
	begin();
	add_chain();
	assert_null(prove());
	assert_true(proof.outlives); /* whoever asks behind a launch gets them made of Q, K, mask */
	assert_false(any_saved());
}

static void overwrite_scores(void)
{
	add(core_memset(core.s, core.score_bytes));
	add(core_memset(core.x, core.score_bytes));
	add(core_memset(core.m, core.score_bytes));
	add(core_memset(core.p, core.score_bytes));
}

static void test_overwritten(void **state)
{
	begin();
	add_chain();
	overwrite_scores();
	add(core_memset(core.q, core.q_bytes)); /* nobody will ask again */
	assert_null(prove());
	assert_false(proof.outlives);
	assert_false(any_saved());
}

static void test_reader_behind(void **state)
{
	begin();
	add_chain();
	add(core_kernel_copy(CORE_OTHER, core.p + 64, 100));
	assert_non_null(prove());
	begin();
	add_chain();
	overwrite_scores();
	add(core_kernel_copy(CORE_OTHER, core.p + 64,
			     100)); /* of what is somebody else's by then */
	assert_null(prove());
}

/* The same ahead of the chain reads what the replay before has left. */
static void test_reader_ahead(void **state)
{
	begin();
	add(core_kernel_copy(CORE_OTHER, core.p + 64, 100));
	add_chain();
	assert_non_null(prove());
	begin();
	add(core_memset(core.p, core.score_bytes));
	add(core_kernel_copy(CORE_OTHER, core.p + 64, 100));
	add_chain();
	assert_null(prove());
	begin();
	add(core_kernel_copy(CORE_OTHER, core.p + 64, 100));
	add_chain();
	overwrite_scores();
	assert_null(prove());
}

/* A write of unknown length, or of every other byte, leaves nobody knows what. */
static void test_partly_overwritten(void **state)
{
	const unsigned size[2] = {64, 4}, strides[2][2] = {{2, 2}, {256, 256}};
	const unsigned char nothing = 0;

	begin();
	add_chain();
	add(core_memset(core.p, core.score_bytes / 2));
	assert_null(prove());
	assert_true(proof.outlives);
	begin();
	add_chain();
	add(core_unknown(CORE_OTHER, 0, 1)); /* anywhere in the arena */
	assert_non_null(prove());
	begin();
	add_chain();
	add(core_strided(TEXT(ATEN_COPY_STRIDED), 2, 2, size, &strides[0][0],
			 (uint64_t[]){core.p, CORE_APART}, &nothing, 1));
	assert_non_null(prove());
}

static void test_inputs(void **state)
{
	begin();
	add_chain();
	add(core_memset(core.k + core.k_bytes - 2, 2));
	assert_null(prove());
	assert_true(proof.saved[OPERAND_K]);
	assert_false(proof.saved[OPERAND_Q]);
	assert_false(proof.saved[MASK]);
	assert_false(proof.beside[OPERAND_K]); /* a comparison has read it by then */
	begin();
	add(core_memset(core.k, core.k_bytes)); /* ahead: the K that is read */
	add_chain();
	assert_null(prove());
	assert_false(any_saved());
	begin();
	chain.inputs[OPERAND_K].lost = true; /* overwritten between the products */
	add_chain();
	overwrite_scores();
	assert_null(prove());
	assert_true(proof.saved[OPERAND_K]);
	assert_true(proof.beside[OPERAND_K]);
}

/* O over Q: the kernel would read what it writes. */
static void test_output_over_input(void **state)
{
	begin();
	core.o = core.q;
	add_chain();
	overwrite_scores();
	assert_null(prove());
	assert_true(proof.saved[OPERAND_Q]);
	assert_false(proof.saved[OPERAND_K]);
	assert_true(proof.beside[OPERAND_Q]);
	assert_false(proof.beside[OPERAND_K]);
}

static void test_unfit(void **state)
{
	begin();
	add_chain();
	chain.preload = 0;
	assert_non_null(prove());
	chain.preload = -1;
	assert_null(prove());
	chain.gaps = true;
	assert_non_null(prove());
}

/* ---- ops beside each other ------------------------------------------------------------------ */

static struct graph_path paths[OPS];

/* All ops are in a row but this one, which is behind those up to `from` and before those from `to`
 * on, and beside the others. */
static void put_beside(int op, int from, int to)
{
	memset(paths, 0, sizeof(paths));
	for (int i = 0; i < graph.op_count; i++)
		paths[i] = (struct graph_path){.at = i + 1, .begun = {i, i >= to}};
	paths[op] = (struct graph_path){.line = 1, .at = 1, .begun = {from}};
	graph.order.path = paths;
	graph.order.path_count = graph.op_count;
}

static const char *prove_beside(int op, int from, int to)
{
	const char *why;

	put_beside(op, from, to);
	why = prove();
	graph.order.path = NULL;
	return why;
}

enum { OPENS, SCALES, MASKS, SOFTMAX, CLOSES, BEHIND }; /* the chain's ops where it comes first */

static void test_beside_order(void **state)
{
	begin();
	for (int i = 0; i < 4; i++)
		add(core_memset(core.q, 2));
	put_beside(1, 1, 3);
	assert_true(graph_order_before(&graph.order, 0, 1));
	assert_false(graph_order_before(&graph.order, 1, 2));
	assert_false(graph_order_before(&graph.order, 2, 1));
	assert_true(graph_order_before(&graph.order, 1, 3));
	assert_true(graph_order_before(&graph.order, 0, 3));
	assert_false(graph_order_before(&graph.order, 3, 0));
	paths[2] = paths[1]; /* in one child */
	assert_true(graph_order_before(&graph.order, 1, 2));
	assert_false(graph_order_before(&graph.order, 2, 1));
	paths[1].line = -1; /* nothing of it runs */
	assert_false(graph_order_before(&graph.order, 0, 1));
	assert_false(graph_order_before(&graph.order, 1, 3));
	graph.order.path = NULL;
}

static void test_beside_unrelated(void **state)
{
	begin();
	add_chain();
	add(core_kernel_copy(CORE_OTHER, core.q, 100)); /* reads what the chain reads */
	assert_null(prove_beside(BEHIND, 0, BEHIND));
	assert_true(proof.outlives);
	assert_false(any_saved());
}

static void test_beside_scores(void **state)
{
	for (int from = OPENS; from <= CLOSES; from++) {
		begin();
		add_chain();
		add(core_memset(core.p, core.score_bytes));
		assert_non_null(prove_beside(BEHIND, from, BEHIND));
		begin();
		add_chain();
		add(core_memset(core.s, 64));
		assert_non_null(prove_beside(BEHIND, from, BEHIND));
	}
	assert_null(prove_beside(BEHIND, CLOSES + 1, BEHIND));
	begin();
	add_chain();
	add(core_memset(core.o, 2));
	assert_non_null(prove_beside(BEHIND, CLOSES, BEHIND));
	assert_null(prove_beside(BEHIND, CLOSES + 1, BEHIND));
}

/* Who reads what was overwritten must be behind whoever did that. */
static void test_beside_overwriter(void **state)
{
	begin();
	add_chain();
	add(core_memset(core.p, core.score_bytes));
	add(core_kernel_copy(CORE_OTHER, core.p + 64, 100));
	assert_null(prove_beside(BEHIND + 1, BEHIND + 1, BEHIND + 2));
	assert_non_null(prove_beside(BEHIND + 1, BEHIND, BEHIND + 2));
	begin(); /* ahead: what the replay before has left */
	add(core_memset(core.p, core.score_bytes));
	add(core_kernel_copy(CORE_OTHER, core.p + 64, 100));
	add_chain();
	assert_null(prove_beside(1, 1, 2));
	assert_non_null(prove_beside(1, 0, 2));
}

static void test_beside_inputs(void **state)
{
	begin(); /* V is made beside all that comes before the closing product */
	add(core_memset(core.v, core.v_bytes));
	add_chain();
	assert_null(prove_beside(0, 0, 1 + CLOSES));
	assert_non_null(prove_beside(0, 0, 1 + CLOSES + 1));
	begin(); /* Q goes when it was read, and before the closing product, or beside that */
	add_chain();
	add(core_memset(core.q, core.q_bytes));
	assert_non_null(prove_beside(BEHIND, OPENS, BEHIND));
	assert_non_null(prove_beside(BEHIND, SCALES, BEHIND));
	assert_non_null(prove_beside(BEHIND, CLOSES, BEHIND));
	assert_null(prove_beside(BEHIND, CLOSES + 1, BEHIND));
	assert_true(proof.saved[OPERAND_Q]);
	begin(); /* the mask is written before it is read, and beside the first product */
	add(core_memset(core.mask, core.mask_bytes));
	add_chain();
	assert_null(prove_beside(0, 0, 1 + MASKS));
	assert_non_null(prove_beside(0, 0, 1 + SOFTMAX));
}

static void test_beside_steps(void **state)
{
	begin();
	add_chain();
	assert_non_null(prove_beside(SOFTMAX, SCALES, CLOSES));
	assert_null(prove_beside(SOFTMAX, SOFTMAX, CLOSES));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_reader_behind),
		cmocka_unit_test(test_reader_ahead),
		cmocka_unit_test(test_partly_overwritten),
		cmocka_unit_test(test_inputs),
		cmocka_unit_test(test_output_over_input),
		cmocka_unit_test(test_unfit),
		cmocka_unit_test(test_beside_order),
		cmocka_unit_test(test_beside_unrelated),
		cmocka_unit_test(test_beside_scores),
		cmocka_unit_test(test_beside_overwriter),
		cmocka_unit_test(test_beside_inputs),
		cmocka_unit_test(test_beside_steps),
	};

	return CORE_MAIN("graph proof", tests);
}
