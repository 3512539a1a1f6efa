/* SPDX-License-Identifier: Apache-2.0
 *
 * Where allocations lie (shim/op/memory.h).
 */
#include "tests/cmocka.h"

#include "shim/op/memory.h"

#define MANY 6

static struct memory_stretch stretch[MEMORY_STRETCHES];

static void add(uint64_t base, uint64_t bytes)
{
	assert_int_equal(memory_add(base, bytes, MEMORY_DEVICE, NULL), 0);
}

static void assert_stretch(int n, uint64_t low, uint64_t high)
{
	assert_int_equal(stretch[n].low, low);
	assert_int_equal(stretch[n].high, high);
}

/* One that grows, until a gap lies in it that is wide. */
static void test_stretches(void **state)
{
	assert_int_equal(memory_stretches(stretch), 0);
	add(0x7f0000000000, 0x1000);
	assert_int_equal(memory_stretches(stretch), 1);
	assert_stretch(0, 0x7f0000000000, 0x7f0000001000);
	add(0x7f0000001000 + MEMORY_GAP - 1, 0x100);
	assert_int_equal(memory_stretches(stretch), 1);
	assert_stretch(0, 0x7f0000000000, 0x7f0000001000 + MEMORY_GAP + 0xff);
	add(0x302000000, 0x200);
	assert_int_equal(memory_stretches(stretch), 2);
	assert_stretch(0, 0x302000000, 0x302000200);
	assert_stretch(1, 0x7f0000000000, 0x7f0000001000 + MEMORY_GAP + 0xff);
	memory_remove(0x302000000, 0x200);
	assert_int_equal(memory_stretches(stretch), 1);
}

/* More than there is room for: those that lie nearest to each other are one. */
static void test_many(void **state)
{
	static const uint64_t base[MANY] = {0x1000000000, 0x3000000000,	 0x3400000000,
					    0x9000000000, 0x20000000000, 0x20200000000};

	memory_remove(0x7f0000000000, 2 * MEMORY_GAP);
	for (int i = MANY - 1; i >= 0; i--)
		add(base[i], 16);
	assert_int_equal(memory_stretches(stretch), MEMORY_STRETCHES);
	assert_stretch(0, base[0], base[0] + 16);
	assert_stretch(1, base[1], base[2] + 16);
	assert_stretch(2, base[3], base[3] + 16);
	assert_stretch(3, base[4], base[5] + 16);
}

static void assert_kind(uint64_t address, uint64_t base, enum memory_kind kind)
{
	const struct allocation *allocation = memory_find(address);

	assert_non_null(allocation);
	assert_int_equal(allocation->base, base);
	assert_int_equal(allocation->kind, kind);
}

/* A texture of a part, a range in several mappings: all that they lie in is shared, and stays
 * known. */
static void test_shared_part(void **state)
{
	add(0x50000000, 0x1000);
	add(0x50001000, 0x1000);
	add(0x50002000, 0x1000);
	add(0x50004000, 0x1000);
	assert_int_equal(memory_add(0x50000800, 0x100, MEMORY_SHARED, NULL), 0);
	assert_kind(0x50000000, 0x50000000, MEMORY_SHARED);
	assert_kind(0x50000fff, 0x50000000, MEMORY_SHARED);
	assert_kind(0x50001000, 0x50001000, MEMORY_DEVICE);
	assert_int_equal(memory_add(0x50001800, 0x1000, MEMORY_SHARED, NULL), 0);
	assert_kind(0x50001000, 0x50001000, MEMORY_SHARED);
	assert_kind(0x50002fff, 0x50002000, MEMORY_SHARED);
	assert_kind(0x50004000, 0x50004000, MEMORY_DEVICE);
	/* What is not known was freed unseen, and something else is there. */
	assert_int_equal(memory_add(0x50003800, 0x1000, MEMORY_SHARED, NULL), 0);
	assert_kind(0x50004000, 0x50003800, MEMORY_SHARED);
	assert_null(memory_find(0x50004800));
	assert_false(memory_watchable_range(0x50000000, 0x50001000));
	memory_remove(0x50000000, 0x5000);
	add(0x50000000, 0x1000);
	add(0x50001000, 0x1000);
	assert_true(memory_watchable_range(0x50000800, 0x50001800));
	assert_int_equal(memory_add(0x50001000, 0x1000, MEMORY_MANAGED, NULL), 0);
	assert_false(memory_watchable_range(0x50000800, 0x50001800));
	assert_true(memory_watchable_range(0x50000800, 0x50001000));
	/* From a little before it, too, whatever ends there; a row before it where nothing does. */
	for (unsigned i = 0; i < 4; i++) {
		const uint64_t from[] = {0x50000ff0, 0x50000fef, 0x4fff0000, 0x4ffeffff};
		uint64_t begin = 0, end = 0;

		assert_int_equal(memory_reach(from[i], &begin, &end), i < 3);
		assert_int_equal(begin, i < 3 ? 0x50000000 : 0);
		assert_int_equal(end, i == 0 ? 0x50002000 : i < 3 ? 0x50001000 : 0);
	}
	assert_true(memory_holds(0x50000800, 0x800));
	assert_false(memory_holds(0x50000800, 0x801)); /* in two */
	assert_false(memory_holds(0x50000800, UINT64_MAX));
	for (uint64_t at = 0x50000000; at < 0x50002000; at += 0x1000) {
		memory_remove(at, 0);
		assert_int_equal(memory_add(at, 0x1000, MEMORY_MAPPED, NULL), 0);
	}
	assert_true(memory_holds(0x50000800, 0x1800));
	assert_false(memory_holds(0x50000800, 0x1801));
	memory_remove(0x50000000, 0);
	add(0x50000000, 0x1000);
	/* All that came of pools. */
	assert_int_equal(memory_add(0x50002000, 0x1000, MEMORY_ASYNC, NULL), 0);
	assert_int_equal(memory_add(0, UINT64_MAX, MEMORY_SHARED, NULL), 0);
	assert_kind(0x50002000, 0x50002000, MEMORY_SHARED);
	assert_kind(0x50000000, 0x50000000, MEMORY_DEVICE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stretches),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_shared_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
