/* SPDX-License-Identifier: Apache-2.0
 *
 * near.h: nothing that lies in a range is left out, whatever its size and however pages share a
 * word.
 */
#include <stdlib.h>

#include "shim/base/near.h"
#include "tests/cmocka.h"

#define PAGE   (1ull << NEAR_PAGE)
#define THINGS 64

static struct near_pages pages;

static int reset(void **state)
{
	(void)state;
	pages = (struct near_pages){{0}};
	return 0;
}

static void test_one_page(void **state)
{
	(void)state;
	near_add(&pages, 3, 5 * PAGE + 100, 5 * PAGE + 200);
	assert_int_equal(near_of(&pages, 5 * PAGE + 150, 5 * PAGE + 151), 1 << 3);
	assert_int_equal(near_of(&pages, 0, 5 * PAGE), 0);
	assert_int_equal(near_of(&pages, 6 * PAGE, 9 * PAGE), 0);
	assert_int_equal(near_of(&pages, 0, 6 * PAGE), 1 << 3);
	assert_int_equal(near_of(&pages, 6 * PAGE, (6 + NEAR_LOOK) * PAGE), 0);
}

static void test_the_end_is_outside(void **state)
{
	(void)state;
	near_add(&pages, 0, PAGE, 2 * PAGE);
	assert_int_equal(near_of(&pages, 2 * PAGE, 2 * PAGE + 1), 0);
	assert_int_equal(near_of(&pages, 2 * PAGE - 1, 2 * PAGE), 1);
}

/* An empty range may be asked for: it lies where it begins. */
static void test_an_empty_range(void **state)
{
	(void)state;
	near_add(&pages, 1, 7 * PAGE, 8 * PAGE);
	assert_int_equal(near_of(&pages, 7 * PAGE + 5, 7 * PAGE + 5), 1 << 1);
}

static void test_larger_than_all_pages(void **state)
{
	(void)state;
	near_add(&pages, 63, 0, UINT64_MAX);
	assert_true(near_of(&pages, 12345 * PAGE, 12345 * PAGE + 1) == 1ull << 63);
	near_add(&pages, 0, 9 * PAGE, 9 * PAGE + 1);
	assert_true(near_of(&pages, 9 * PAGE, 10 * PAGE) == (1ull << 63 | 1));
	assert_true(near_of(&pages, 0, UINT64_MAX) == UINT64_MAX); /* not looked for */
}

static void test_removed(void **state)
{
	(void)state;
	near_add(&pages, 4, 0, 300 * PAGE);
	near_add(&pages, 5, 0, 300 * PAGE);
	near_remove(&pages, 4);
	for (uint64_t page = 0; page < NEAR_PAGES; page++)
		assert_int_equal(near_of(&pages, page * PAGE, (page + 1) * PAGE), 1 << 5);
}

static uint64_t any(uint64_t below)
{
	return ((uint64_t)rand() << 31 ^ (uint64_t)rand()) % below;
}

static void test_none_is_left_out(void **state)
{
	struct {
		uint64_t begin, end;
	} things[THINGS];

	(void)state;
	srand(1);
	for (unsigned i = 0; i < THINGS; i++) {
		things[i].begin = any(1000 * PAGE);
		things[i].end = things[i].begin + 1 + any(i % 2 ? PAGE / 4 : 200 * PAGE);
		near_add(&pages, i, things[i].begin, things[i].end);
	}
	for (int n = 0; n < 20000; n++) {
		const uint64_t begin = any(1300 * PAGE),
			       end = begin + 1 + any(n % 2 ? 4096 : 40 * PAGE);
		const uint64_t near = near_of(&pages, begin, end);

		for (unsigned i = 0; i < THINGS; i++)
			if (begin < things[i].end && things[i].begin < end)
				assert_true(near >> i & 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_one_page, reset),
		cmocka_unit_test_setup(test_the_end_is_outside, reset),
		cmocka_unit_test_setup(test_an_empty_range, reset),
		cmocka_unit_test_setup(test_larger_than_all_pages, reset),
		cmocka_unit_test_setup(test_removed, reset),
		cmocka_unit_test_setup(test_none_is_left_out, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
