/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the fastest kernel, over times and errors that are made up: it finds the fastest,
 * keeps the built-in choice where the difference is small or uncertain, leaves out what is wrong,
 * fails or is hopeless, stops when told to, and does the same again for the same seed.
 */
#include "tests/cmocka.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "tools/tune/sweep.h"

#define MOST 24

static volatile sig_atomic_t stop;

/* What a GPU would do. */
struct world {
	double us[MOST], noise[MOST], error[MOST], first_us[MOST];
	bool infinite[MOST];
	int broken;	/* cannot be launched; -1: none */
	int stop_after; /* timed rounds; 0: never */
	int fail_after; /* likewise: the GPU is lost */

	int checks, times, timed[MOST];
	int trace[8192]; /* who was timed, in order */
	bool unchecked;	 /* somebody was timed before all were checked */
	uint64_t state;
};

static double uniform(struct world *world)
{
	world->state = world->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (double)(world->state >> 11) / 9007199254740992.0;
}

static int check(void *context, int candidate, struct sweep_check *found)
{
	struct world *world = context;

	world->checks++;
	if (world->times)
		world->unchecked = true;
	if (candidate == world->broken)
		return -EIO;
	*found = (struct sweep_check){
		.error = world->error[candidate],
		.finite = !world->infinite[candidate],
		.us = world->first_us[candidate] > 0 ? world->first_us[candidate]
						     : world->us[candidate] + 4,
		.rounding = 5e-4,
	};
	return 0;
}

static int time_once(void *context, int candidate, double *us)
{
	struct world *world = context;

	if (world->fail_after && world->times >= world->fail_after)
		return -ENODEV;
	world->trace[world->times++ % 8192] = candidate;
	world->timed[candidate]++;
	if (world->stop_after && world->times >= world->stop_after)
		stop = 1;
	*us = world->us[candidate] * (1 + world->noise[candidate] * (uniform(world) - 0.5));
	return 0;
}

struct fixture {
	struct world world;
	struct sweep_candidate candidates[MOST];
	struct sweep sweep;
	struct sweep_measure measure;
};

/* Candidate i takes 10 + i µs, give or take 1 %. */
static void set_up(struct fixture *f, int count)
{
	memset(f, 0, sizeof(*f));
	stop = 0;
	f->world.broken = -1;
	f->world.state = 42;
	for (int i = 0; i < count; i++) {
		f->world.us[i] = 10 + i;
		f->world.noise[i] = 0.01;
		f->world.error[i] = 1e-3;
		f->candidates[i].name = "kernel";
	}
	f->sweep = (struct sweep){.candidates = f->candidates,
				  .count = count,
				  .top = 4,
				  .rounds = 40,
				  .seed = 7,
				  .stop = &stop};
	f->measure = (struct sweep_measure){check, time_once, &f->world};
}

static int run(struct fixture *f)
{
	return sweep_run(&f->sweep, &f->measure);
}

/* ---- who wins ------------------------------------------------------------------------------- */

static void test_finds_the_fastest(void **state)
{
	struct fixture f;

	for (int fastest = 1; fastest < 16; fastest++) {
		set_up(&f, 16);
		f.world.us[fastest] = 9;
		assert_int_equal(run(&f), 0);
		assert_int_equal(f.sweep.best, fastest);
		assert_int_equal(f.sweep.rival, fastest);
		assert_true(fabs(f.sweep.interval.ratio - 0.9) < 0.01);
		assert_true(f.sweep.interval.low <= f.sweep.interval.ratio);
		assert_true(f.sweep.interval.high <= SWEEP_WIN);
		assert_true(fabs(f.candidates[fastest].us - 9) < 0.1);
		assert_true(f.candidates[fastest].spread > 0);
		assert_int_equal(f.candidates[fastest].fate, SWEEP_DECIDED);
		assert_int_equal(f.candidates[0].fate, SWEEP_DECIDED);
	}
}

static void test_keeps_the_built_in_choice(void **state)
{
	struct fixture f;

	set_up(&f, 8);
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.sweep.best, 0);
	assert_int_equal(f.sweep.rival, 1);
	assert_true(f.sweep.interval.ratio > 1.05);
}

/* Half a percent is none, however certain. */
static void test_a_small_gain_is_none(void **state)
{
	struct fixture f;

	set_up(&f, 4);
	f.world.us[2] = 9.95;
	for (int i = 0; i < 4; i++)
		f.world.noise[i] = 0.0005;
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.sweep.rival, 2);
	assert_true(f.sweep.interval.high < 1);
	assert_int_equal(f.sweep.best, 0);
}

/* A median that is 3 % lower among times that scatter by 100 % proves nothing. */
static void test_an_uncertain_gain_is_none(void **state)
{
	struct fixture f;

	set_up(&f, 2);
	f.sweep.rounds = 10;
	f.world.us[1] = 9.7;
	f.world.noise[0] = f.world.noise[1] = 1;
	assert_int_equal(run(&f), 0);
	assert_true(f.sweep.interval.high > SWEEP_WIN);
	assert_int_equal(f.sweep.best, 0);
}

static void test_a_single_kernel(void **state)
{
	struct fixture f;

	set_up(&f, 1);
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.sweep.best, 0);
	assert_int_equal(f.sweep.rival, -1);
	assert_true(isnan(f.sweep.interval.ratio));
	assert_true(fabs(f.candidates[0].us - 10) < 0.1);
}

static void test_the_built_in_choice_may_stand_anywhere(void **state)
{
	struct fixture f;

	set_up(&f, 8);
	f.sweep.built_in = 5;
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.sweep.best, 0);
	assert_true(fabs(f.sweep.interval.ratio - 10.0 / 15) < 0.02);
}

/* ---- who takes part ------------------------------------------------------------------------- */

static void test_wrong_ones_are_left_out(void **state)
{
	struct fixture f;

	set_up(&f, 6);
	f.world.us[2] = f.world.us[3] = f.world.us[4] = 5;
	f.world.error[2] = 2.6e-3; /* more than 2 * 1e-3 + 5e-4 */
	f.world.infinite[3] = true;
	f.world.error[4] = NAN;
	f.world.us[5] = 8;
	f.world.error[5] = 2.4e-3;
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.sweep.best, 5);
	for (int i = 2; i <= 4; i++) {
		assert_int_equal(f.candidates[i].fate, SWEEP_WRONG);
		assert_int_equal(f.world.timed[i], 0);
		assert_true(isnan(f.candidates[i].us));
	}
	assert_false(f.world.unchecked);
}

static void test_failing_ones_are_left_out(void **state)
{
	struct fixture f;

	set_up(&f, 4);
	f.world.us[1] = 5;
	f.world.broken = 1;
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.sweep.best, 0);
	assert_int_equal(f.candidates[1].fate, SWEEP_FAILED);
	assert_int_equal(f.world.timed[1], 0);
}

static void test_hopeless_ones_are_not_timed(void **state)
{
	struct fixture f;

	set_up(&f, 4);
	f.world.first_us[3] = SWEEP_HOPELESS * 14 + 1; /* the built-in choice takes 14 */
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.candidates[3].fate, SWEEP_SLOW);
	assert_int_equal(f.world.timed[3], 0);
	assert_int_equal(f.world.checks, 4);
}

static void test_the_built_in_choice_must_work(void **state)
{
	struct fixture f;

	set_up(&f, 3);
	f.world.broken = 0;
	assert_int_equal(run(&f), -EIO);
	set_up(&f, 3);
	f.world.infinite[0] = true;
	assert_int_equal(run(&f), -EIO);
	assert_int_equal(f.world.times, 0);
}

/* ---- how much is measured ------------------------------------------------------------------- */

static void test_halving(void **state)
{
	struct fixture f;
	int ranked = 0, halved = 0, decided = 0;

	set_up(&f, 12);
	assert_int_equal(run(&f), 0);
	for (int i = 0; i < 12; i++) {
		ranked += f.candidates[i].fate == SWEEP_RANKED;
		halved += f.candidates[i].fate == SWEEP_HALVED;
		decided += f.candidates[i].fate == SWEEP_DECIDED;
	}
	assert_int_equal(ranked, 12 - 1 - 4);
	assert_int_equal(halved, 3);
	assert_int_equal(decided, 2);
	/* Who gets further is measured more; the two of the decision alike. */
	assert_true(f.world.timed[11] < f.world.timed[3]);
	assert_true(f.world.timed[4] < f.world.timed[2]);
	assert_true(f.world.timed[3] < f.world.timed[1]);
	assert_int_equal(f.world.timed[1], f.world.timed[0]);
}

/* In each of the last rounds both are timed once, now the one first, now the other. */
static void test_rounds_take_turns(void **state)
{
	struct fixture f;
	int first[2] = {0, 0};

	set_up(&f, 2);
	assert_int_equal(run(&f), 0);
	assert_int_equal(f.world.times % 2, 0);
	for (int n = 0; n < f.world.times; n += 2) {
		assert_int_not_equal(f.world.trace[n], f.world.trace[n + 1]);
		first[f.world.trace[n]]++;
	}
	assert_true(first[0] > 5 && first[1] > 5);
}

static void test_the_seed_decides_the_order(void **state)
{
	struct fixture a, b, c;

	set_up(&a, 10);
	set_up(&b, 10);
	set_up(&c, 10);
	c.sweep.seed = 8;
	assert_int_equal(run(&a), 0);
	assert_int_equal(run(&b), 0);
	assert_int_equal(run(&c), 0);
	assert_memory_equal(a.world.trace, b.world.trace, sizeof(a.world.trace));
	assert_true(memcmp(a.world.trace, c.world.trace, sizeof(a.world.trace)) != 0);
	assert_true(a.sweep.interval.high == b.sweep.interval.high);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void test_stops_when_told(void **state)
{
	struct fixture f;

	set_up(&f, 10);
	f.world.stop_after = 17;
	assert_int_equal(run(&f), -EINTR);
	assert_int_equal(f.world.times, 17);
	stop = 1;
	set_up(&f, 10);
	stop = 1;
	assert_int_equal(run(&f), -EINTR);
	assert_int_equal(f.world.checks, 0);
}

static void test_a_lost_gpu_ends_it(void **state)
{
	struct fixture f;

	set_up(&f, 10);
	f.world.fail_after = 40;
	assert_int_equal(run(&f), -ENODEV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_the_fastest),
		cmocka_unit_test(test_keeps_the_built_in_choice),
		cmocka_unit_test(test_a_small_gain_is_none),
		cmocka_unit_test(test_an_uncertain_gain_is_none),
		cmocka_unit_test(test_a_single_kernel),
		cmocka_unit_test(test_the_built_in_choice_may_stand_anywhere),
		cmocka_unit_test(test_wrong_ones_are_left_out),
		cmocka_unit_test(test_failing_ones_are_left_out),
		cmocka_unit_test(test_hopeless_ones_are_not_timed),
		cmocka_unit_test(test_the_built_in_choice_must_work),
		cmocka_unit_test(test_halving),
		cmocka_unit_test(test_rounds_take_turns),
		cmocka_unit_test(test_the_seed_decides_the_order),
		cmocka_unit_test(test_stops_when_told),
		cmocka_unit_test(test_a_lost_gpu_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
