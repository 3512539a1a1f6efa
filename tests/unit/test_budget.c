/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits where more was spent than is allowed, and what does not. What is spent is the test's
 * word.
 */
#include "tests/unit/core.h"

#include <stdlib.h>

#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/log/log.h"
#include "shim/site/site.h"

#define SECOND 1000000000ull
#define KEPT   5 /* ops of a replaced chain */

static void overspend(void)
{
	cost_add(PURPOSE_ASKING, 1000 * SECOND);
}

static void begin(void)
{
	core_begin();
	cost_forget();
}

static uint64_t put_off(void)
{
	return log_live()->reasons[REASON_BUDGET];
}

/* Nothing is looked at closely, and nothing held against it: later it is learned like any other. */
static void test_new_sites_wait(void **state)
{
	begin();
	overspend();
	for (int i = 0; i < 6; i++)
		assert_int_equal(core_chain(), 0);
	assert_int_equal(site_count, 0);
	assert_int_equal(chain_live, 0);
	assert_int_equal(put_off(), 1); /* who knows whether it was attention */
	cost_forget();
	core_learn();
	assert_int_equal(core_chain(), KEPT);
}

static void test_learning_waits(void **state)
{
	begin();
	core_chain();
	assert_int_equal(site_count, 1);
	assert_int_equal(sites[0].live->reason, REASON_LEARNING);
	overspend();
	for (int i = 0; i < 6; i++)
		assert_int_equal(core_chain(), 0);
	assert_int_equal(put_off(), 6);
	assert_int_equal(sites[0].live->seen, 1);
	assert_int_equal(sites[0].live->compared, 0);
	assert_int_equal(sites[0].live->state, SITE_LEARNING);
	assert_int_equal(sites[0].live->reason, REASON_BUDGET);
	cost_forget();
	core_chain();
	assert_int_equal(sites[0].live->compared, 1);
	assert_int_equal(sites[0].live->reason, REASON_LEARNING);
	core_chain();
	assert_int_equal(sites[0].live->state, SITE_VERIFIED);
	assert_int_equal(sites[0].live->reason, REASON_NONE);
	assert_int_equal(core_chain(), KEPT);
}

/* Replaced all the same; the sample that is due comes later. */
static void test_samples_are_deferred(void **state)
{
	uint64_t compared;

	begin();
	core_learn();
	compared = sites[0].live->compared;
	overspend();
	for (int i = 0; i < 20; i++)
		assert_int_equal(core_chain(), KEPT);
	assert_int_equal(sites[0].live->compared, compared);
	assert_int_equal(put_off(), 0);
	cost_forget();
	assert_int_equal(core_chain(), 0);
	assert_int_equal(sites[0].live->compared, compared + 1);
	assert_int_equal(core_chain(), KEPT);
}

/* Of comparisons only so many are made as are needed; and none is waited for longer than is
 * affordable. */
static void test_verdicts_under_way(void **state)
{
	int verdicts;

	begin();
	core_chain();
	core_chain();
	assert_int_equal(sites[0].passed, 1);
	verdicts = below.verdicts;
	sites[0].pending = 1;
	core_chain();
	assert_int_equal(below.verdicts, verdicts);
	assert_int_equal(sites[0].live->compared, 1);
	assert_int_equal(sites[0].live->seen, 3);
	assert_true(below.waited_ns > 0);
	assert_true(below.waited_ns <= ledger_left());
	below.waited_ns = 0;
	overspend();
	core_chain();
	assert_true(below.waited_ns == 0);
	cost_forget();
	sites[0].pending = 0;
	core_chain();
	assert_int_equal(below.verdicts, verdicts + 1);
	assert_int_equal(core_chain(), KEPT);
}

/* A kernel without a rule that is told another number each time: each is another chain, and what it
 * computes is not asked of all of them. */
static void test_varying_constants(void **state)
{
	struct op op;
	int asked = 0;

	begin();
	for (int i = 0; i < 300; i++) {
		below.guesses = 0;
		core_send(core_scores());
		core_send(core_unknown(core.s, 0, 1.5f + (float)i));
		op = core_context();
		op.gemm.b = core.s;
		core_send(op);
		if (!below.guesses)
			continue;
		asked++;
		cost_add(PURPOSE_ASKING, SECOND);
	}
	assert_int_equal(asked, 1);
	assert_int_equal(site_count, 1);
	assert_true(put_off() > 0);
	cost_forget();
}

/* The last test: what was saved stays saved. */
static void test_savings_pay(void **state)
{
	begin();
	overspend();
	for (int i = 0; i < 3; i++)
		core_chain();
	assert_int_equal(site_count, 0);
	ledger_saved(1001 * SECOND);
	core_learn();
	assert_int_equal(core_chain(), KEPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_sites_wait),
		cmocka_unit_test(test_learning_waits),
		cmocka_unit_test(test_samples_are_deferred),
		cmocka_unit_test(test_verdicts_under_way),
		cmocka_unit_test(test_varying_constants),
		cmocka_unit_test(test_savings_pay),
	};

	setenv("FASHIM_BUDGET", "5", 1);
	setenv("FASHIM_SAMPLE", "8", 1);
	return CORE_MAIN("budget", tests);
}
