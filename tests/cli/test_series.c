/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tool keeps of samples in bounded space: thinned points, joined series, histograms.
 */
#include <math.h>
#include <string.h>

#include "tests/cmocka.h"
#include "tools/base/histogram.h"
#include "tools/read/sample_points.h"
#include "tools/base/series.h"

static struct sample sample_of(uint64_t occurrence)
{
	return (struct sample){.occurrence = occurrence,
			       .app_us = 100 + (double)(occurrence % 7),
			       .fused_us = 50,
			       .max_rel = 1e-4,
			       .app_rmse = NAN,
			       .fused_rmse = NAN,
			       .app_max = NAN,
			       .fused_max = NAN};
}

static void few_points_are_all_there(void **state)
{
	struct sample_points points = {0};

	for (uint64_t i = 0; i < MOST_POINTS; i++) {
		struct sample sample = sample_of(i);

		assert_int_equal(sample_points_add(&points, &sample, i == 0), 0);
	}
	assert_int_equal(points.count, MOST_POINTS);
	assert_int_equal(points.stride, 1);
	for (uint64_t i = 0; i < MOST_POINTS; i++) {
		assert_int_equal(points.points[i].occurrence, i);
		assert_int_equal(points.points[i].warm_up, i == 0);
	}
	sample_points_free(&points);
}

static void many_points_are_spread_and_keep_the_worst(void **state)
{
	enum { MANY = 1000003, WORST = 765432 };
	struct sample_points points = {0};
	uint64_t stride, worst = UINT64_MAX;

	for (uint64_t i = 0; i < MANY; i++) {
		struct sample sample = sample_of(i);

		if (i == WORST)
			sample.max_rel = 0.5;
		assert_int_equal(sample_points_add(&points, &sample, i == 0), 0);
	}
	stride = points.stride;
	assert_true(points.count <= MOST_POINTS && points.count > MOST_POINTS / 2);
	assert_true(stride >= MANY / MOST_POINTS && (stride & (stride - 1)) == 0);
	for (size_t i = 0; i < points.count; i++) {
		const struct sample_point *point = &points.points[i];

		assert_int_equal(point->occurrence, i * stride);
		assert_true(point->app_us == 100 + (double)(point->occurrence % 7));
		assert_int_equal(point->warm_up, i == 0);
		assert_true(isnan(point->app_rmse));
		if (point->max_rel == 0.5)
			worst = point->occurrence;
	}
	assert_true(worst <= WORST && worst + stride > WORST);
	sample_points_free(&points);
}

static void joined_points_are_all_there(void **state)
{
	struct sample_points one = {0}, two = {0}, none = {0};

	for (uint64_t i = 0; i < 3 * MOST_POINTS; i++) {
		struct sample sample = sample_of(i);

		assert_int_equal(sample_points_add(&one, &sample, false), 0);
		if (i < 5)
			assert_int_equal(sample_points_add(&two, &sample, false), 0);
	}
	size_t before = one.count;

	assert_int_equal(sample_points_join(&two, &one), 0);
	assert_int_equal(two.count, 5 + before);
	assert_int_equal(two.stride, one.stride);
	assert_int_equal(two.points[4].occurrence, 4);
	assert_int_equal(two.points[5].occurrence, 0);
	assert_int_equal(sample_points_join(&two, &none), 0);
	assert_int_equal(two.count, 5 + before);
	sample_points_free(&one);
	sample_points_free(&two);
}

static void joined_series_are_one_series(void **state)
{
	static const double values[] = {3, 1e9, 1e9 + 1, 1e9 + 2, -4, 0.5, 7};
	enum { COUNT = sizeof(values) / sizeof(*values) };

	for (int cut = 0; cut <= COUNT; cut++) {
		struct series all = {0}, left = {0}, right = {0};

		for (int i = 0; i < COUNT; i++) {
			series_add(&all, values[i]);
			series_add(i < cut ? &left : &right, values[i]);
		}
		series_join(&left, &right);
		assert_int_equal(left.count, all.count);
		assert_true(left.min == all.min && left.max == all.max);
		assert_true(fabs(left.mean - all.mean) < 1e-6);
		assert_true(fabs(series_deviation(&left) - series_deviation(&all)) < 1e-3);
	}
}

static void bins_are_equal_steps(void **state)
{
	struct histogram linear = histogram_over(0, 10, 5, false);
	struct histogram logarithmic = histogram_over(1, 1000, 3, true);
	struct histogram point = histogram_over(4, 4, 9, false);

	for (int i = 0; i < 10; i++)
		histogram_add(&linear, i);
	histogram_add(&linear, 10);
	histogram_add(&linear, -1);
	histogram_add(&linear, 1e300);
	histogram_add(&linear, NAN);
	assert_int_equal(linear.total, 13);
	assert_int_equal(linear.counts[0], 3);
	assert_int_equal(linear.counts[4], 4);
	assert_int_equal(linear.largest, 4);
	histogram_add(&logarithmic, 2);
	histogram_add(&logarithmic, 20);
	histogram_add(&logarithmic, 200);
	histogram_add(&logarithmic, 0);
	histogram_add(&logarithmic, -5);
	assert_int_equal(logarithmic.total, 3);
	assert_int_equal(logarithmic.largest, 1);
	histogram_add(&point, 4);
	assert_int_equal(point.counts[4], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_points_are_all_there),
		cmocka_unit_test(many_points_are_spread_and_keep_the_worst),
		cmocka_unit_test(joined_points_are_all_there),
		cmocka_unit_test(joined_series_are_one_series),
		cmocka_unit_test(bins_are_equal_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
