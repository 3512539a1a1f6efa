/* SPDX-License-Identifier: Apache-2.0
 *
 * What is affordable, by clocks of the test's own.
 */

#include "tests/cmocka.h"
#include "shim/gpu/ledger.h"

#define MS  1000000ull
#define SEC (1000 * MS)

static void a_share_of_the_run_and_something_once(void **state)
{
	struct ledger ledger;

	ledger_open(&ledger, 5, 7 * SEC);
	assert_true(ledger_allows(&ledger, 7 * SEC, 0, 30 * MS));
	assert_false(ledger_allows(&ledger, 7 * SEC, 0, 30 * MS + 1000));
	assert_false(ledger_allows(&ledger, 7 * SEC, 30 * MS, 1000));
	assert_true(ledger_allows(&ledger, 9 * SEC, 30 * MS, 100 * MS));
	assert_false(ledger_allows(&ledger, 9 * SEC, 30 * MS, 101 * MS));
	assert_false(ledger_allows(&ledger, 9 * SEC, 131 * MS, 0));
	/* A clock that stands before the beginning is no run time. */
	assert_true(ledger_allows(&ledger, 6 * SEC, 0, 30 * MS));
	assert_false(ledger_allows(&ledger, 6 * SEC, 0, 31 * MS));
}

static void what_is_left(void **state)
{
	struct ledger ledger;

	ledger_open(&ledger, 5, 0);
	assert_int_equal(ledger_room(&ledger, SEC, 20 * MS), 60 * MS);
	assert_int_equal(ledger_room(&ledger, SEC, 90 * MS), 0);
	ledger_open(&ledger, 0, 0);
	assert_true(ledger_room(&ledger, SEC, 90 * MS) == UINT64_MAX);
}

static void what_waits_is_affordable_later(void **state)
{
	struct ledger ledger;
	uint64_t now = 0;

	ledger_open(&ledger, 5, 0);
	while (!ledger_allows(&ledger, now, 10 * MS, 120 * MS))
		now += MS;
	assert_int_equal(now, 2 * SEC);
}

static void savings_pay(void **state)
{
	struct ledger ledger;

	ledger_open(&ledger, 5, 0);
	assert_false(ledger_allows(&ledger, SEC, 80 * MS, 20 * MS));
	ledger.saved = 20 * MS;
	assert_true(ledger_allows(&ledger, SEC, 80 * MS, 20 * MS));
	assert_false(ledger_allows(&ledger, SEC, 80 * MS, 21 * MS));
}

static void what_is_under_way_is_spent(void **state)
{
	struct ledger ledger;

	ledger_open(&ledger, 5, 0);
	ledger.promised = 25 * MS;
	assert_true(ledger_allows(&ledger, 0, 0, 5 * MS));
	assert_false(ledger_allows(&ledger, 0, 1 * MS, 5 * MS));
}

static void no_limit(void **state)
{
	struct ledger ledger;

	ledger_open(&ledger, 0, 0);
	assert_true(ledger_allows(&ledger, 0, UINT64_MAX, UINT64_MAX));
}

/* A dear one is expected again at once, a cheap one only by and by. */
static void estimates_are_learnt(void **state)
{
	uint64_t expected = 8 * MS;

	ledger_learn(&expected, 20 * MS);
	assert_int_equal(expected, 20 * MS);
	ledger_learn(&expected, 4 * MS);
	assert_int_equal(expected, 16 * MS);
	for (int i = 0; i < 80; i++)
		ledger_learn(&expected, 4 * MS);
	assert_true(expected >= 4 * MS && expected < 4 * MS + 100);
}

static void before_the_first_they_are_given(void **state)
{
	struct ledger ledger;

	ledger_open(&ledger, 5, 0);
#define ITEM(id, purpose, host_us, gpu_us)                                                         \
	assert_int_equal(ledger.host[LEDGER_##id], host_us * 1000);                                \
	assert_int_equal(ledger.gpu[LEDGER_##id], gpu_us * 1000);
#include "shim/gpu/ledger.def"
#undef ITEM
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_of_the_run_and_something_once),
		cmocka_unit_test(what_is_left),
		cmocka_unit_test(what_waits_is_affordable_later),
		cmocka_unit_test(savings_pay),
		cmocka_unit_test(what_is_under_way_is_spent),
		cmocka_unit_test(no_limit),
		cmocka_unit_test(estimates_are_learnt),
		cmocka_unit_test(before_the_first_they_are_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
