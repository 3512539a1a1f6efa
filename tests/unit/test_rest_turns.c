/* SPDX-License-Identifier: Apache-2.0
 *
 * When a rest begins, what it is tried by, and when products need not even ask: with a clock and
 * a GPU of the test's own. Times are those of small models on one H100, in their order.
 */
#include "shim/flow/rest.h"

#include <stdlib.h>
#include <time.h>

#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/real/driver.h"
#include "tests/cmocka.h"

#define US 1000ull
#define MS (1000 * US)

static uint64_t now = 1000 * MS;
static bool gpu_idle = true;

/* In the place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){(time_t)(now / 1000000000), (long)(now % 1000000000)};
	return 0;
}

static CUresult query(CUstream stream)
{
	(void)stream;
	return gpu_idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static enum rest product(uint64_t us, uint64_t ours)
{
	const struct op op = {.kind = OP_GEMM};

	now += us * US;
	if (ours)
		cost_add(PURPOSE_HOOKS, ours * US);
	return rest_turn(&op, true);
}

/* Products until a rest begins; 0: none did. */
static int awake_for(int most, uint64_t us, uint64_t ours, uint64_t pause)
{
	for (int n = 1; n <= most; n++) {
		if (n % 25 == 0)
			now += pause;
		if (product(us, ours) == REST_BEGINS) {
			assert_true(rest_begun());
			assert_false(rest_now());
			assert_int_equal(product(us, ours), REST_NOT); /* all is made now */
			assert_true(rest_now());
			return n;
		}
	}
	return 0;
}

static void wake_up(void)
{
	rest_break();
	assert_false(rest_begun());
}

/* Of 64 in a row. */
static int pass_unasked(void)
{
	int count = 0;

	for (int n = 0; n < 64; n++)
		count += rest_passes();
	return count;
}

static void a_program_at_the_host_is_left_alone(void **state)
{
	const int begun = awake_for(1000, 150, 20, 0);

	(void)state;
	assert_in_range(begun, 3 * 64, 5 * 64);
	for (int n = 0; n < 200; n++) {
		assert_int_equal(pass_unasked(), 0); /* it is not known yet to be faster */
		assert_int_equal(product(120, 0), REST_ON);
	}
	for (int n = 0; n < 100; n++)
		assert_int_equal(product(120, 0), REST_ON);
	assert_int_equal(pass_unasked(), 60);
	wake_up();
}

/* It looks at what comes out for five times as long as that takes. After a rest that paid, one
 * window is enough. */
static void what_else_it_does_is_not_counted(void **state)
{
	(void)state;
	assert_int_equal(awake_for(1000, 150, 20, 20 * MS), 64);
	for (int n = 0; n < 300; n++) {
		if (n % 25 == 0)
			now += 20 * MS;
		assert_int_equal(product(120, 0), REST_ON);
	}
	assert_int_equal(pass_unasked(), 60);
	wake_up();
}

static void a_rest_that_is_slower_ends(void **state)
{
	int n = 0;

	(void)state;
	assert_true(awake_for(1000, 150, 20, 0) > 0);
	/* Others on the machine made it slow at first. */
	for (; n < 300; n++)
		assert_int_equal(product(160, 0), REST_ON);
	for (; n < 700; n++)
		assert_int_equal(product(120, 0), REST_ON);
	assert_int_equal(pass_unasked(), 60);
	wake_up();
	assert_true(awake_for(1000, 150, 20, 0) > 0);
	for (n = 0; n < 1023; n++)
		assert_int_equal(product(160, 0), REST_ON);
	assert_int_equal(product(160, 0), REST_NOT);
	assert_false(rest_begun());
	/* Then nothing is decided for a while. */
	assert_int_equal(awake_for(128 * 64, 150, 20, 0), 0);
	assert_true(awake_for(1000, 150, 20, 0) > 0);
	wake_up();
}

static void a_busy_gpu_is_worked_for(void **state)
{
	(void)state;
	gpu_idle = false;
	assert_int_equal(awake_for(1000, 150, 20, 0), 0);
	gpu_idle = true;
	/* Nor is what costs next to nothing worth it. */
	assert_int_equal(awake_for(1000, 150, 1, 0), 0);
}

/* A forward of 25 products in 3.75 ms, then 8 ms for the GPU that was given them. */
static int awake_forwards(int most, uint64_t saved)
{
	for (int n = 1; n <= most; n++) {
		for (int i = 0; i < 25; i++)
			if (product(150, 20) == REST_BEGINS)
				return n;
		now += 8 * MS;
		rest_waited(8 * MS);
		ledger_saved(saved);
	}
	return 0;
}

static void waiting_for_the_gpu_is_no_pause(void **state)
{
	(void)state;
	/* What is saved would be waited for, … */
	assert_int_equal(awake_forwards(100, 5 * MS), 0);
	/* … where it is more than the shim took. */
	assert_in_range(awake_forwards(100, 0), 3, 20);
	wake_up();
}

/* It takes less of the host, and the GPU longer. */
static void a_rest_in_which_the_gpu_is_waited_for_ends(void **state)
{
	int n;

	(void)state;
	assert_true(awake_for(128 * 64, 150, 20, 0) > 0);
	for (n = 1; n < 1100; n++) {
		if (n % 25 == 0) {
			now += 10 * MS;
			rest_waited(10 * MS);
		}
		if (product(120, 0) == REST_NOT)
			break;
	}
	assert_int_equal(n, 1024);
	assert_false(rest_begun());
}

/* Several threads wait at once. */
static void no_more_is_waited_than_passed(void **state)
{
	(void)state;
	for (int n = 0; n < 300 * 64; n++) { /* for most of them a rest before was slower */
		rest_waited(MS);
		assert_int_equal(product(150, 20), REST_NOT);
	}
	assert_int_equal(awake_for(10 * 64, 150, 20, 0), 3 * 64);
	wake_up();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_at_the_host_is_left_alone),
		cmocka_unit_test(what_else_it_does_is_not_counted),
		cmocka_unit_test(a_rest_that_is_slower_ends),
		cmocka_unit_test(a_busy_gpu_is_worked_for),
		cmocka_unit_test(waiting_for_the_gpu_is_no_pause),
		cmocka_unit_test(a_rest_in_which_the_gpu_is_waited_for_ends),
		cmocka_unit_test(no_more_is_waited_than_passed),
	};

	setenv("FASHIM_BUDGET", "5", 1);
	driver.cuStreamQuery = query;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
