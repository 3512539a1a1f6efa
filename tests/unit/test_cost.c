/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs by purpose: each moment is counted once, whatever begins inside what.
 */
#include <pthread.h>
#include <time.h>

#include "tests/cmocka.h"
#include "shim/base/cost.h"

#define MS 1000000ull

/* Each thread has a clock of its own, which goes when the test says so: cost.c gets the C library's
 * by this name. */
static __thread uint64_t now;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){.tv_sec = (time_t)(now / 1000000000u),
				  .tv_nsec = (long)(now % 1000000000u)};
	return 0;
}

static void pass(uint64_t ns)
{
	now += ns;
}

static int fresh(void **state)
{
	cost_forget();
	return 0;
}

static void one_inside_pauses_the_outer(void **state)
{
	const struct cost program = cost_begin(PURPOSE_HOOKS);

	pass(MS);
	{
		COST(PURPOSE_LEARNING);
		pass(2 * MS);
		{
			COST(PURPOSE_LOG);
			pass(3 * MS);
		}
		pass(2 * MS);
	}
	cost_end(program);
	assert_int_equal(cost_ns(PURPOSE_HOOKS), MS);
	assert_int_equal(cost_ns(PURPOSE_LEARNING), 4 * MS);
	assert_int_equal(cost_ns(PURPOSE_LOG), 3 * MS);
	assert_int_equal(cost_host_ns(), 8 * MS);
}

static void the_program_pays_for_nothing(void **state)
{
	{
		COST(PURPOSE_HOOKS);
	}
	pass(MS);
	assert_int_equal(cost_host_ns(), 0);
}

/* Where the clock was asked for it; else it is asked. */
static void its_moment_is_when_it_began(void **state)
{
	struct cost outer;
	uint64_t began;

	pass(MS);
	assert_int_equal(cost_moment_ns(), now);
	outer = cost_begin(PURPOSE_HOOKS);
	began = now;
	pass(MS);
	assert_int_equal(cost_moment_ns(), began);
	cost_end(outer);
	assert_int_equal(cost_moment_ns(), now);
	outer = cost_begin_weighted(PURPOSE_HOOKS, 0);
	pass(MS);
	assert_int_equal(cost_moment_ns(), now);
	cost_end(outer);
}

static void what_is_under_way_is_in_the_sum(void **state)
{
	const struct cost program = cost_begin(PURPOSE_ASKING);

	pass(MS);
	assert_int_equal(cost_ns(PURPOSE_ASKING), 0);
	assert_int_equal(cost_host_ns(), MS);
	cost_end(program);
}

/* A dear thing in an op that stands for sixteen counts once, in one that is not timed too. */
static void lots_are_for_the_cheap(void **state)
{
	static const unsigned weights[] = {0, 16};

	for (int i = 0; i < 2; i++) {
		struct cost program;

		cost_forget();
		program = cost_begin_weighted(PURPOSE_HOOKS, weights[i]);
		{
			COST(PURPOSE_ASKING);
			pass(2 * MS);
		}
		pass(MS);
		cost_end(program);
		assert_int_equal(cost_ns(PURPOSE_ASKING), 2 * MS);
		assert_int_equal(cost_ns(PURPOSE_HOOKS), weights[i] * MS);
	}
}

/* A time slice that was lost in an op that stands for sixteen was lost once. */
static void what_is_rare_counts_once(void **state)
{
	struct cost program = cost_begin_weighted(PURPOSE_HOOKS, 16);

	pass(30 * MS);
	cost_end(program);
	assert_int_equal(cost_ns(PURPOSE_HOOKS), 30 * MS);
	program = cost_begin_weighted(PURPOSE_HOOKS, 16);
	pass(MS / 1000);
	cost_end(program);
	assert_int_equal(cost_ns(PURPOSE_HOOKS), 30 * MS + 16 * MS / 1000);
}

static void shared_is_timed_as_its_outer(void **state)
{
	struct cost program = cost_begin_weighted(PURPOSE_HOOKS, 0);

	{
		COST_SHARED(PURPOSE_REPLACING);
		pass(MS);
	}
	cost_end(program);
	assert_int_equal(cost_ns(PURPOSE_REPLACING), 0);
	program = cost_begin_weighted(PURPOSE_HOOKS, 16);
	{
		COST_SHARED(PURPOSE_REPLACING);
		pass(MS);
	}
	cost_end(program);
	assert_int_equal(cost_ns(PURPOSE_REPLACING), 16 * MS);
	cost_forget();
	{
		COST_SHARED(PURPOSE_REPLACING);
		pass(MS);
	}
	assert_int_equal(cost_ns(PURPOSE_REPLACING), MS);
}

static void *spend(void *argument)
{
	(void)argument;
	for (int i = 0; i < 1000; i++) {
		COST(PURPOSE_IMAGES);
		pass(3);
		cost_add_gpu(PURPOSE_LEARNING, 7);
	}
	return NULL;
}

static void threads_have_meters_of_their_own(void **state)
{
	const struct cost program = cost_begin(PURPOSE_HAZARDS);
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, spend, NULL), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	pass(MS);
	cost_end(program);
	assert_int_equal(cost_gpu_ns(PURPOSE_LEARNING), 28000);
	assert_int_equal(cost_ns(PURPOSE_IMAGES), 12000);
	assert_int_equal(cost_ns(PURPOSE_HAZARDS), MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_inside_pauses_the_outer, fresh),
		cmocka_unit_test_setup(the_program_pays_for_nothing, fresh),
		cmocka_unit_test_setup(its_moment_is_when_it_began, fresh),
		cmocka_unit_test_setup(what_is_under_way_is_in_the_sum, fresh),
		cmocka_unit_test_setup(lots_are_for_the_cheap, fresh),
		cmocka_unit_test_setup(what_is_rare_counts_once, fresh),
		cmocka_unit_test_setup(shared_is_timed_as_its_outer, fresh),
		cmocka_unit_test_setup(threads_have_meters_of_their_own, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
