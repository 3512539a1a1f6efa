/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the two products: a deferred chain waits for its last op while inputs change, scores are
 * read or overwritten, O lies over what is still needed; and several chains at once.
 */
#include "tests/unit/core.h"

#include "shim/hazard/held.h"
#include "shim/log/log.h"
#include "shim/site/site.h"

static uint64_t materialised(void)
{
	return sites[0].live->materialised;
}

/* ---- in the window
 * --------------------------------------------------------------------------------- */

/* K changes between the products: the fused kernel gets the old one. */
static void test_window_input(void **state)
{
	core_waiting();
	assert_false(core_send(core_from_host(core.k, core.k_bytes)));
	assert_string_equal(core_acts(), "C");
	assert_true(core_send(core_context()));
	assert_string_equal(core_acts(), "CF");
	assert_int_equal(core_act(ACT_FUSED, 0)->c, core_act(ACT_COPY, 0)->b);
	assert_int_equal(core_act(ACT_FUSED, 0)->a, core.q);
}

/* V is made where Q was: Q is saved first. */
static void test_window_v_into_q(void **state)
{
	core_waiting();
	core.v = core.q;
	assert_false(core_send(core_kernel_copy(core.q, CORE_OTHER, core.H * core.Sk * core.D)));
	assert_true(core_send(core_context()));
	assert_string_equal(core_acts(), "CF");
	assert_int_equal(core_act(ACT_FUSED, 0)->a, core_act(ACT_COPY, 0)->b);
}

/* Somebody reads S in the window: all so far is run; the rest runs as the program asks. */
static void test_window_read(void **state)
{
	core_waiting();
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(held_count, 0);
	assert_false(core_send(core_context()));
	assert_string_equal(core_acts(), CORE_FORWARD);
}

/* P is overwritten before it is used: the chain is broken, the product takes what is there. */
static void test_window_p_overwritten(void **state)
{
	core_waiting();
	assert_false(core_send(core_memset(core.p, core.score_bytes)));
	assert_false(core_send(core_context()));
	assert_int_equal(below.count[ACT_FUSED], 0);
	for (int i = 0; i < below.acts; i++) /* nothing lands on the new P */
		if (below.act[i].kind == ACT_WRITE_BACK)
			assert_false(range_overlap(below.act[i].b,
						   below.act[i].b + below.act[i].bytes, core.p,
						   core.p + core.score_bytes));
	if (below.count[ACT_GEMM])
		assert_true(core_act(ACT_GEMM, 0)->c >= BELOW_SCRATCH);
}

/* The last product reads scores, but from another place, or is another product. */
static void test_window_other_product(void **state)
{
	struct op op;

	core_waiting();
	op = core_context();
	op.gemm.b += 2;
	assert_false(core_send(op));
	assert_string_equal(core_acts(), CORE_FORWARD);
	core_waiting();
	op = core_context();
	op.gemm.beta = 0.5;
	assert_false(core_send(op));
	assert_string_equal(core_acts(), CORE_FORWARD);
	core_waiting();
	op = core_context();
	op.gemm.alpha = 0.5;
	assert_false(core_send(op));
	assert_string_equal(core_acts(), CORE_FORWARD);
}

/* O over Q: the fused kernel must not read what it writes in another block. */
static void test_o_over_inputs(void **state)
{
	core_begin();
	core.o = core.k;
	core_learn();
	assert_int_equal(core_chain(), 5);
	assert_string_equal(core_acts(), "CF");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.k);
	assert_int_equal(core_act(ACT_FUSED, 0)->c, core_act(ACT_COPY, 0)->b);
	assert_int_equal(core_act(ACT_FUSED, 0)->b, core.k);
}

/* O over S: those scores are dead, the others are not. */
static void test_o_over_s(void **state)
{
	const struct chain *chain;

	core_begin();
	core.o = core.s;
	core_learn();
	assert_int_equal(core_chain(), 5);
	chain = core_only_chain();
	for (int i = 0; i < chain->value_count; i++)
		assert_false(
			range_set_touches(&chain->values[i].live, core.o, core.o + core.o_bytes));
	below_reset();
	assert_false(core_send(core_to_host(core.o, core.o_bytes)));
	assert_string_equal(core_acts(), "");
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_memory_equal(core_acts(), CORE_FORWARD "S", 5);
	for (int i = 0; i < below.acts; i++)
		if (below.act[i].kind == ACT_WRITE_BACK)
			assert_false(range_overlap(below.act[i].b,
						   below.act[i].b + below.act[i].bytes, core.o,
						   core.o + core.o_bytes));
}

static void test_fused_fails(void **state)
{
	core_waiting();
	below.no_fused = true;
	assert_false(core_send(core_context()));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(held_count, 0);
	assert_int_equal(sites[0].live->replaced, 0);
}

/* ---- more than one chain
 * ----------------------------------------------------------------------------- */

/* The same buffers again: the next S, X and P take the place of the last ones, nothing is run. */
static void test_reuse(void **state)
{
	core_replaced();
	for (int i = 1; i < 64; i++)
		assert_int_equal(core_chain(), 5);
	assert_int_equal(below.count[ACT_FUSED], 63);
	assert_int_equal(below.acts, 63);
	assert_int_equal(held_count, 1);
	assert_int_equal(materialised(), 0);
	assert_int_equal(below.verdicts, 0);
	assert_int_equal(core_chain(), 0); /* FASHIM_SAMPLE: one in 64 is compared again */
	assert_int_equal(below.verdicts, 1);
	assert_int_equal(core_chain(), 5);
}

/* New buffers each time: when the table of chains is full, the oldest is written. */
static void test_many(void **state)
{
	const int most = CHAIN_COUNT + 10;

	core_replaced();
	for (int i = 0; i < most; i++) {
		const uint64_t by = 3 * core.score_bytes;

		core.s += by + 0x40000 * (i == 0);
		core.x = core.s + core.score_bytes;
		core.m = core.s;
		core.p = core.x + core.score_bytes;
		assert_int_equal(core_chain(), 5);
	}
	assert_int_equal(below.count[ACT_FUSED], most);
	assert_true(chain_live <= CHAIN_COUNT);
	assert_true(held_count <= CHAIN_COUNT);
	core_send(core_event(OP_OPAQUE, "anything"));
	assert_int_equal(held_count, 0);
	assert_int_equal(below.count[ACT_GEMM], most + 1);
}

/* P of one chain is K of the next: it is real before it is used. */
static void test_chain_reads_chain(void **state)
{
	struct op op;

	core_replaced();
	op = core_scores();
	op.gemm.a = core.p;
	op.gemm.c = CORE_OTHER;
	assert_true(core_send(op)); /* the opening product of a verified site */
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(held_count, 1);
	assert_int_equal(core_only_chain()->inputs[0].begin, core.p);
	core_send(core_to_host(CORE_OTHER, 2));
	assert_string_equal(core_acts(), CORE_FORWARD "G");
}

/* Managed memory may be read by the host unseen. */
static void test_managed(void **state)
{
	core_begin();
	core_allocate(CORE_ARENA, CORE_ROOM, MEMORY_MANAGED);
	for (int i = 0; i < 6; i++)
		assert_int_equal(core_chain(), 0);
	assert_true(log_live()->reasons[REASON_MEMORY] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_window_input),
		cmocka_unit_test(test_window_v_into_q),
		cmocka_unit_test(test_window_read),
		cmocka_unit_test(test_window_p_overwritten),
		cmocka_unit_test(test_window_other_product),
		cmocka_unit_test(test_o_over_inputs),
		cmocka_unit_test(test_o_over_s),
		cmocka_unit_test(test_fused_fails),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_chain_reads_chain),
		cmocka_unit_test(test_managed),
	};

	return CORE_MAIN("window", tests);
}
