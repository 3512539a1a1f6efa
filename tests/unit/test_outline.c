/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a closed chain can be met: what is left of its values by anybody, what is not saved of its
 * inputs by whoever writes; nowhere else between its ends.
 */
#include "tests/unit/core.h"

#include "shim/hazard/held.h"
#include "shim/hazard/outline.h"

static bool meets(const struct chain *chain, uint64_t begin, uint64_t bytes, enum access_mode mode)
{
	static struct access_list list;

	list.count = 0;
	access_add(&list, (struct access){.begin = begin, .end = begin + bytes, .mode = mode});
	return outline_meets(chain, &list);
}

static struct chain *outlined(void)
{
	struct chain *chain = core_replaced();

	outline_draw(chain);
	assert_true(chain->outline.drawn);
	return chain;
}

static void test_ends(void **state)
{
	const struct chain *chain = core_replaced();
	const uint64_t hole = core.q + core.q_bytes;

	assert_false(chain->outline.drawn);
	assert_true(meets(chain, hole, 16, ACCESS_READ)); /* somewhere between its ends */
	assert_false(meets(chain, chain->high, 16, ACCESS_UNKNOWN));
}

static void test_drawn(void **state)
{
	const struct chain *chain = outlined();

	assert_false(meets(chain, core.q + core.q_bytes, 16, ACCESS_UNKNOWN));
	assert_true(meets(chain, core.p, 16, ACCESS_READ));
	assert_true(meets(chain, core.p + core.score_bytes - 1, 1, ACCESS_WRITE));
	assert_false(meets(chain, core.q, core.q_bytes, ACCESS_READ));
	assert_true(meets(chain, core.q, 16, ACCESS_WRITE));
	assert_true(meets(chain, core.k + core.k_bytes - 1, 16, ACCESS_UNKNOWN));
	/* O was written: nobody needs V */
	assert_false(meets(chain, core.v, core.v_bytes, ACCESS_WRITE));
}

/* What an op overwrites of the values, or has saved of the inputs, is met no more. */
static void test_shrinks(void **state)
{
	const struct chain *chain = outlined();

	core_send(core_memset(core.p, core.score_bytes));
	assert_true(chain->outline.drawn);
	assert_false(meets(chain, core.p, core.score_bytes, ACCESS_UNKNOWN));
	assert_true(meets(chain, core.s, 16, ACCESS_READ));
	core_send(core_memset(core.q, core.q_bytes));
	assert_false(meets(chain, core.q, core.q_bytes, ACCESS_UNKNOWN));
	assert_true(meets(chain, core.k, 16, ACCESS_WRITE));
}

/* A chain that may still grow has none, and what is added is met at once. */
static void test_grows(void **state)
{
	struct chain *chain = core_waiting();

	outline_draw(chain);
	assert_false(chain->outline.drawn);
	chain = outlined();
	assert_false(meets(chain, CORE_OTHER, 64, ACCESS_WRITE));
	assert_true(chain_add_input(chain, CORE_OTHER, CORE_OTHER + 64) >= 0);
	assert_true(meets(chain, CORE_OTHER, 64, ACCESS_WRITE));
	outline_draw(chain);
	assert_true(meets(chain, CORE_OTHER, 64, ACCESS_WRITE));
	assert_false(meets(chain, CORE_OTHER, 64, ACCESS_READ));
}

/* More than there is place for: nothing is left out. */
static void test_many(void **state)
{
	struct chain *chain = outlined();

	for (uint64_t i = 0; i < 8; i++)
		chain_add_input(chain, CORE_OTHER + 4096 * i, CORE_OTHER + 4096 * i + 64);
	outline_draw(chain);
	assert_true(chain->outline.drawn);
	for (int i = 0; i < chain->input_count; i++)
		assert_true(meets(chain, chain->inputs[i].begin, 1, ACCESS_WRITE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends), cmocka_unit_test(test_drawn),
		cmocka_unit_test(test_shrinks), cmocka_unit_test(test_grows),
		cmocka_unit_test(test_many)};

	return CORE_MAIN("outline", tests);
}
