/* SPDX-License-Identifier: Apache-2.0
 *
 * What scores that were never written are made of: Q, K, masks, what GEMM1 adds to. An op that
 * overwrites or frees one of these makes the shim keep a copy, and a reader of P is served from it.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/hazard/held.h"
#include "shim/site/site.h"

/* The op overwrites an input that lies at [begin, begin + bytes): it is saved, and a later reader
 * of P is served from the copy. */
static const struct act *saved(struct op op, uint64_t begin, uint64_t bytes)
{
	const struct act *copy;

	core_replaced();
	assert_false(core_send(op));
	assert_string_equal(core_acts(), "C");
	copy = core_act(ACT_COPY, 0);
	assert_int_equal(copy->a, begin);
	assert_int_equal(copy->bytes, bytes);
	assert_true(copy->b >= BELOW_SCRATCH);
	assert_int_equal(sites[0].live->snapshots, 1);
	assert_false(core_send(op)); /* again: already saved */
	assert_string_equal(core_acts(), "C");
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_memory_equal(core_acts(), "C" CORE_FORWARD, 5);
	assert_int_equal(below.scratch, 0);
	return copy;
}

static void test_input_overwritten(void **state)
{
	uint64_t scratch;

	core_begin();
	scratch = saved(core_from_host(core.k, core.k_bytes), core.k, core.k_bytes)->b;
	assert_int_equal(core_act(ACT_GEMM, 0)->a, scratch);
	assert_int_equal(core_act(ACT_GEMM, 0)->b, core.q);
	scratch = saved(core_memset(core.q + 2, 2), core.q, core.q_bytes)->b;
	assert_int_equal(core_act(ACT_GEMM, 0)->b, scratch);
	saved(core_fill(core.q, core.H * core.Sq * core.D), core.q, core.q_bytes);
	saved(core_copy(CORE_OTHER, core.mask + 64, 8), core.mask, core.mask_bytes);
}

/* GEMM1 added to what S held: an input that lies in S's own memory. */
static void test_preload(void **state)
{
	uint64_t scratch;

	core_begin();
	core.beta = 1;
	core_learn();
	assert_int_equal(core_chain(), 5);
	assert_string_equal(core_acts(), "F");
	assert_int_equal(below.args.spec.bias[0].base, core.s);
	/* Nothing was touched: S is computed where the addend still lies. */
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_string_equal(core_acts(), "F" CORE_FORWARD);
	assert_int_equal(core_act(ACT_GEMM, 0)->c, core.s);
	/* Its memory is given to somebody else: a copy is kept and put where S is made again. */
	assert_int_equal(core_chain(), 5);
	below_reset();
	assert_false(core_send(core_memset(core.s, core.score_bytes)));
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.s);
	scratch = core_act(ACT_COPY, 0)->b;
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_string_equal(core_acts(), "CC" CORE_FORWARD); /* X and P in their own place */
	assert_int_equal(core_act(ACT_LAUNCH, 2)->a, core.p);
	assert_int_equal(core_act(ACT_COPY, 1)->a, scratch);
	assert_int_equal(core_act(ACT_COPY, 1)->b, core_act(ACT_GEMM, 0)->c);
	assert_true(core_act(ACT_GEMM, 0)->c >= BELOW_SCRATCH);
	assert_int_equal(below.scratch, 0);
}

/* Memory that the host writes without a call: what lies there is kept at once. */
static void test_unwatched(void **state)
{
	core_begin();
	core_allocate(CORE_APART, 1 << 20, MEMORY_MANAGED);
	core.k = CORE_APART;
	core.mask = CORE_APART + (1 << 19);
	core_learn();
	assert_int_equal(core_send(core_scores()), true);
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.k);
	core_send(core_scale(core.x, core.s, core.scale));
	core_send(core_add_mask(core.m, core.x, core.mask));
	assert_string_equal(core_acts(), "CC");
	assert_int_equal(core_act(ACT_COPY, 1)->a, core.mask);
	core_send(core_softmax(core.p, core.m));
	assert_int_equal(core_send(core_context()), true);
	assert_int_equal(core_act(ACT_FUSED, 0)->c, core_act(ACT_COPY, 0)->b);
	below_reset();
	assert_false(core_send(core_to_host(core.p, core.score_bytes)));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_true(core_act(ACT_GEMM, 0)->a >= BELOW_SCRATCH);
}

/* While the site is learned the program's own GEMM1 destroys the addend: it is saved before. */
static void test_preload_learned(void **state)
{
	core_begin();
	core.beta = 1;
	assert_int_equal(core_chain(), 0);
	assert_string_equal(core_acts(), ""); /* not known yet that this is an attention */
	assert_false(core_send(core_from_host(core.s, core.score_bytes)));
	assert_false(core_send(core_scores()));
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.s);
	assert_int_equal(core_act(ACT_COPY, 0)->bytes, core.score_bytes);
}

/* A kernel without a rule is handed K's own address, in K's own allocation. */
static void test_input_handed_over(void **state)
{
	core_begin();
	core.k = CORE_APART;
	core_learn();
	assert_int_equal(core_chain(), 5);
	below_reset();
	assert_false(core_send(core_unknown(core.k, 0, 1)));
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.k);
	assert_int_equal(core_act(ACT_COPY, 0)->bytes, core.k_bytes);
}

static void test_input_freed(void **state)
{
	core_begin();
	core_allocate(CORE_APART, 1 << 20, MEMORY_DEVICE);
	core.k = CORE_APART; /* K in its own allocation */
	core_learn();
	assert_int_equal(core_chain(), 5);
	below_reset();
	assert_false(core_send(core_free(CORE_APART)));
	assert_string_equal(core_acts(), "C");
	assert_int_equal(core_act(ACT_COPY, 0)->a, core.k);
	assert_false(core_send(core_to_host(core.p, 2)));
	assert_int_equal(core_act(ACT_GEMM, 0)->a, core_act(ACT_COPY, 0)->b);
}

/* Once nothing is virtual any more nobody needs the inputs. */
static void test_input_of_the_dead(void **state)
{
	core_replaced();
	assert_false(core_send(core_memset(core.s, core.p + core.score_bytes - core.s)));
	assert_false(core_send(core_from_host(core.k, core.k_bytes)));
	assert_false(core_send(core_from_host(core.q, core.q_bytes)));
	assert_string_equal(core_acts(), "");
}

/* Without scratch memory the scores are written before the input goes. */
static void test_no_scratch(void **state)
{
	core_replaced();
	below.no_scratch = true;
	assert_false(core_send(core_from_host(core.k, core.k_bytes)));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(core_act(ACT_GEMM, 0)->a, core.k);
	assert_int_equal(held_count, 0);
}

/* V has been used up: a copy of it would be for nothing. */
static void test_v_overwritten(void **state)
{
	core_replaced();
	assert_false(core_send(core_from_host(core.v, core.v_bytes)));
	assert_string_equal(core_acts(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_input_overwritten), cmocka_unit_test(test_preload),
		cmocka_unit_test(test_unwatched),	  cmocka_unit_test(test_preload_learned),
		cmocka_unit_test(test_input_handed_over), cmocka_unit_test(test_input_freed),
		cmocka_unit_test(test_input_of_the_dead), cmocka_unit_test(test_no_scratch),
		cmocka_unit_test(test_v_overwritten),
	};

	return CORE_MAIN("held inputs", tests);
}
