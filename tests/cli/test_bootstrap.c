/* SPDX-License-Identifier: Apache-2.0
 *
 * The bootstrap against its own definition: intervals of the short cut (middle order statistics
 * drawn directly) must be those of drawing every index, and cover the truth as often as they say.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tools/base/bootstrap.h"

static uint64_t random_state = 88172645463325252u;

static double uniform(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return ((double)(random_state >> 12) + 0.5) / 4503599627370496.0;
}

/* A time as a GPU gives them: a floor and a tail. */
static double some_time(double floor)
{
	return floor * (1 - 0.05 * log(uniform()));
}

static void fill(double *values, size_t count, double floor)
{
	for (size_t i = 0; i < count; i++)
		values[i] = some_time(floor);
}

static double naive_median(const double *values, size_t count, double *resample)
{
	for (size_t i = 0; i < count; i++)
		resample[i] = values[(size_t)(uniform() * (double)count)];
	sort_values(resample, count);
	return median_of_sorted(resample, count);
}

static void is_that_of_drawing_every_index(void **state)
{
	static const size_t counts[][2] = {{5, 5}, {6, 7}, {20, 33}, {64, 64}};
	enum { MANY = 40000 };
	double *ratios = calloc(MANY, sizeof(*ratios));

	assert_non_null(ratios);
	for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
		double a[64], b[64], resample[64];
		size_t n = counts[c][0], m = counts[c][1];
		struct bootstrap_interval interval;
		int inside = 0;

		fill(a, n, 100);
		fill(b, m, 50);
		assert_int_equal(bootstrap_ratio(a, n, b, m, 7, &interval), 0);
		for (int i = 0; i < MANY; i++) {
			ratios[i] = naive_median(a, n, resample) / naive_median(b, m, resample);
			inside += ratios[i] >= interval.low && ratios[i] <= interval.high;
		}
		/* Steps of the small cases are wide: the closed interval may hold more. */
		assert_true(inside > 0.94 * MANY);
		inside = 0;
		for (int i = 0; i < MANY; i++)
			inside += ratios[i] > interval.low && ratios[i] < interval.high;
		assert_true(inside < 0.96 * MANY);
	}
	free(ratios);
}

static void covers_the_truth(void **state)
{
	enum { TRIALS = 400, SAMPLES = 40 };
	int covered = 0;

	for (int i = 0; i < TRIALS; i++) {
		double a[SAMPLES], b[SAMPLES];
		struct bootstrap_interval interval;

		fill(a, SAMPLES, 120);
		fill(b, SAMPLES, 60);
		assert_int_equal(bootstrap_ratio(a, SAMPLES, b, SAMPLES, 1, &interval), 0);
		assert_true(interval.low <= interval.ratio && interval.ratio <= interval.high);
		covered += interval.low <= 2 && interval.high >= 2;
	}
	assert_true(covered > 0.92 * TRIALS);
}

static void same_seed_same_interval(void **state)
{
	double a[9], b[9], a_before[9];
	struct bootstrap_interval one, two, other;

	fill(a, 9, 10);
	fill(b, 9, 5);
	memcpy(a_before, a, sizeof(a));
	assert_int_equal(bootstrap_ratio(a, 9, b, 9, BOOTSTRAP_SEED, &one), 0);
	assert_memory_equal(a, a_before, sizeof(a));
	assert_int_equal(bootstrap_ratio(a, 9, b, 9, BOOTSTRAP_SEED, &two), 0);
	assert_memory_equal(&one, &two, sizeof(one));
	assert_int_equal(bootstrap_ratio(a, 9, b, 9, 2, &other), 0);
	assert_true(other.ratio == one.ratio);
}

static void constant_times_have_no_width(void **state)
{
	static const double a[] = {4, 4, 4, 4, 4}, b[] = {2, 2, 2, 2, 2, 2};
	struct bootstrap_interval interval;

	assert_int_equal(bootstrap_ratio(a, 5, b, 6, 3, &interval), 0);
	assert_true(interval.ratio == 2 && interval.low == 2 && interval.high == 2);
}

static void refuses_what_is_no_sample(void **state)
{
	static const double few[] = {3, 1, 2, 9}, five[] = {1, 1, 1, 1, 1};
	static const double zero[] = {1, 1, 0, 1, 1}, infinite[] = {1, 1, INFINITY, 1, 1};
	struct bootstrap_interval interval;

	assert_int_equal(bootstrap_ratio(few, 4, five, 5, 1, &interval), -ENODATA);
	assert_true(interval.ratio == 2.5 && isnan(interval.low) && isnan(interval.high));
	assert_int_equal(bootstrap_ratio(few, 0, five, 5, 1, &interval), -ENODATA);
	assert_true(isnan(interval.ratio));
	assert_int_equal(bootstrap_ratio(zero, 5, five, 5, 1, &interval), -EDOM);
	assert_int_equal(bootstrap_ratio(five, 5, infinite, 5, 1, &interval), -EDOM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_that_of_drawing_every_index),
		cmocka_unit_test(covers_the_truth),
		cmocka_unit_test(same_seed_same_interval),
		cmocka_unit_test(constant_times_have_no_width),
		cmocka_unit_test(refuses_what_is_no_sample),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
