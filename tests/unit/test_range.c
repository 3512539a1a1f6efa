/* SPDX-License-Identifier: Apache-2.0
 *
 * Interval sets: cuts in every position, what does not fit, and a comparison with a plain bit map
 * under random cuts.
 */
#include "tests/cmocka.h"

#include <errno.h>
#include <string.h>

#include "shim/base/range.h"

static void assert_ranges(const struct range_set *set, int count, const uint64_t *ends)
{
	assert_int_equal(set->count, count);
	for (int i = 0; i < count; i++) {
		assert_int_equal(set->item[i].begin, ends[2 * i]);
		assert_int_equal(set->item[i].end, ends[2 * i + 1]);
	}
}

static void test_overlap(void **state)
{
	assert_true(range_overlap(0, 10, 9, 20));
	assert_true(range_overlap(9, 20, 0, 10));
	assert_true(range_overlap(0, 10, 3, 4));
	assert_false(range_overlap(0, 10, 10, 20));
	assert_false(range_overlap(10, 20, 0, 10));
	assert_false(range_overlap(5, 5, 5, 5));
}

static void test_one(void **state)
{
	struct range_set set;

	range_set_one(&set, 100, 200);
	assert_ranges(&set, 1, (uint64_t[]){100, 200});
	assert_int_equal(range_set_bytes(&set), 100);
	range_set_one(&set, 100, 100);
	assert_int_equal(set.count, 0);
	assert_int_equal(range_set_bytes(&set), 0);
	range_set_one(&set, 200, 100);
	assert_int_equal(set.count, 0);
}

static void test_cut(void **state)
{
	static const struct {
		uint64_t begin, end;
		int count;
		uint64_t left[4];
	} cuts[] = {
		{0, 100, 1, {100, 200}},	     /* before */
		{200, 300, 1, {100, 200}},	     /* behind */
		{100, 200, 0, {0}},		     /* all of it */
		{0, 1000, 0, {0}},		     /* more than that */
		{100, 150, 1, {150, 200}},	     /* its beginning */
		{50, 101, 1, {101, 200}},	     /* a byte of it */
		{150, 200, 1, {100, 150}},	     /* its end */
		{199, 201, 1, {100, 199}},	     /* the last byte */
		{120, 130, 2, {100, 120, 130, 200}}, /* its middle */
		{150, 150, 1, {100, 200}},	     /* nothing */
		{160, 140, 1, {100, 200}},	     /* less than nothing */
		{150, UINT64_MAX, 1, {100, 150}},    /* to the end of the world */
	};

	for (unsigned i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
		struct range_set set;

		range_set_one(&set, 100, 200);
		assert_int_equal(range_set_cut(&set, cuts[i].begin, cuts[i].end), 0);
		assert_ranges(&set, cuts[i].count, cuts[i].left);
	}
}

static void test_touches_and_covers(void **state)
{
	struct range_set set;

	range_set_one(&set, 0, 100);
	assert_int_equal(range_set_cut(&set, 40, 60), 0);
	assert_true(range_set_touches(&set, 39, 40));
	assert_false(range_set_touches(&set, 40, 60));
	assert_true(range_set_touches(&set, 40, 61));
	assert_false(range_set_touches(&set, 100, 200));
	assert_true(range_set_covers(&set, 0, 40));
	assert_true(range_set_covers(&set, 60, 100));
	assert_false(range_set_covers(&set, 0, 41));
	assert_false(range_set_covers(&set, 39, 61));
	assert_false(range_set_covers(&set, 50, 55));
	assert_false(range_set_covers(&set, 90, 101));
	assert_false(range_set_covers(&set, 0, 100));
	assert_true(range_set_covers(&set, 50, 50));
}

/* The last piece that fits, the one that does not, and that the set is then as it was. */
static void test_overflow(void **state)
{
	struct range_set set, before;

	range_set_one(&set, 0, 1000);
	for (uint64_t i = 1; i < RANGE_MAX; i++)
		assert_int_equal(range_set_cut(&set, 20 * i, 20 * i + 10), 0);
	assert_int_equal(set.count, RANGE_MAX);
	before = set;
	assert_int_equal(range_set_cut(&set, 900, 910), -ENOSPC);
	assert_memory_equal(&set, &before, sizeof(set));
	assert_int_equal(range_set_cut(&set, 5, 6), -ENOSPC);
	assert_memory_equal(&set, &before, sizeof(set));
	/* What makes no more pieces still works, and makes room. */
	assert_int_equal(range_set_cut(&set, 900, 1000), 0);
	assert_int_equal(set.count, RANGE_MAX);
	assert_int_equal(range_set_cut(&set, 0, 45), 0);
	assert_int_equal(set.count, RANGE_MAX - 2);
	assert_int_equal(range_set_cut(&set, 800, 810), 0);
	assert_int_equal(set.count, RANGE_MAX - 1);
}

static uint32_t next(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void test_random(void **state)
{
	uint32_t seed = 1;

	for (int round = 0; round < 2000; round++) {
		unsigned char bytes[256];
		struct range_set set;

		memset(bytes, 1, sizeof(bytes));
		range_set_one(&set, 0, sizeof(bytes));
		for (int i = 0; i < 12; i++) {
			uint64_t begin = next(&seed) % 256, end = begin + next(&seed) % 60, sum = 0;

			assert_int_equal(range_set_cut(&set, begin, end), 0);
			for (uint64_t k = begin; k < end && k < 256; k++)
				bytes[k] = 0;
			for (uint64_t k = 0; k < 256; k++) {
				sum += bytes[k];
				assert_int_equal(range_set_touches(&set, k, k + 1), bytes[k]);
			}
			assert_int_equal(range_set_bytes(&set), sum);
			begin = next(&seed) % 256;
			end = begin + 1 + next(&seed) % 9;
			sum = 0;
			for (uint64_t k = begin; k < end && k < 256; k++)
				sum += bytes[k];
			assert_int_equal(range_set_covers(&set, begin, end), sum == end - begin);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlap),	 cmocka_unit_test(test_one),
		cmocka_unit_test(test_cut),	 cmocka_unit_test(test_touches_and_covers),
		cmocka_unit_test(test_overflow), cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
