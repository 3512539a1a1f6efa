/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of GPU libraries with declared operands: what becomes of scores that were never written
 * when such a call overwrites, reads, or touches them; and how operands are told from dimensions.
 */
#include "tests/unit/core.h"

#include <string.h>

#include "shim/hazard/held.h"
#include "shim/operands/operands.h"
#include "shim/site/site.h"

static struct op library_call(struct op_library *library)
{
	struct op op = core_event(OP_LIBRARY, "cudnnBackendExecute");

	library->call = op.name;
	op.library = library;
	op.stream = core.stream;
	return op;
}

static struct op touching(uint64_t begin, uint64_t bytes, bool read, bool written, bool whole)
{
	static struct op_library library;

	library.count = 1;
	library.operand[0] = (struct op_operand){begin, begin + bytes, read, written, whole};
	return library_call(&library);
}

static void test_elsewhere(void **state)
{
	core_replaced();
	assert_false(core_send(touching(CORE_OTHER, 4096, true, true, false)));
	assert_false(core_send(touching(core.k, core.k_bytes, true, false, false)));
	assert_string_equal(core_acts(), "");
	assert_true(held_virtual(core_only_chain()));
}

/* Memory below a buffer is no longer enough to suspect it: operands end where they end. */
static void test_right_beside(void **state)
{
	core_replaced();
	assert_false(core_send(touching(core.p - 4096, 4096, true, true, false)));
	assert_false(core_send(touching(core.p + core.score_bytes, 64, true, true, false)));
	assert_string_equal(core_acts(), "");
	assert_true(held_virtual(core_only_chain()));
}

static void test_overwritten(void **state)
{
	core_begin();
	core_replaced();
	assert_false(core_send(touching(core.p, core.score_bytes, false, true, true)));
	assert_false(core_send(touching(core.x, core.score_bytes, false, true, true)));
	assert_true(held_virtual(core_only_chain()));
	assert_false(core_send(touching(core.s, core.score_bytes, false, true, true)));
	assert_string_equal(core_acts(), "");
	assert_int_equal(held_count, 0);
	assert_int_equal(sites[0].live->materialised, 0);
}

/* What the library works in may lie where a part of the scores does: that part is gone, and the
 * rest is made for whoever reads it. Where something is read as well, it is no room to work in. */
static void test_workspace(void **state)
{
	static struct operands operands;

	(void)state;
	for (int read = 0; read < 2; read++) {
		char *half;
		struct op op;

		core_begin();
		core_replaced();
		half = (char *)(uintptr_t)(core.p + core.score_bytes / 2);
		operands.library.count = 0;
		operands.unknown = false;
		operands_add(&operands, half, core.score_bytes, OPERAND_SCRATCH);
		if (read)
			operands_add(&operands, half, 16, OPERAND_READ);
		assert_true(operands_settle(&operands));
		op = library_call(&operands.library);
		assert_false(core_send(op));
		assert_string_equal(core_acts(), read ? CORE_FORWARD : "");
		if (read)
			continue;
		assert_true(held_virtual(core_only_chain()));
		assert_false(
			core_send(touching((uint64_t)(uintptr_t)half, 64, true, false, false)));
		assert_string_equal(core_acts(), "");
		assert_false(core_send(touching(core.p, 64, true, false, false)));
		assert_string_not_equal(core_acts(), "");
		assert_int_equal(sites[0].live->materialised, 1);
	}
}

/* P is made before a call that reads it, or that may leave some of it as it is. */
static void test_read(void **state)
{
	static const struct {
		bool read, written, whole;
	} uses[] = {{true, false, false}, {false, true, false}, {true, true, false}};

	for (unsigned i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		core_begin();
		core_replaced();
		assert_false(core_send(
			touching(core.p + 64, 64, uses[i].read, uses[i].written, uses[i].whole)));
		assert_string_equal(core_acts(), CORE_FORWARD);
		assert_int_equal(held_count, 0);
	}
}

/* Read first, overwritten then: the order in which operands stand. */
static void test_in_place(void **state)
{
	static struct op_library library;

	core_begin();
	core_replaced();
	library.count = 2;
	library.operand[0] =
		(struct op_operand){core.p, core.p + core.score_bytes, true, false, false};
	library.operand[1] =
		(struct op_operand){core.p, core.p + core.score_bytes, false, true, false};
	assert_false(core_send(library_call(&library)));
	assert_string_equal(core_acts(), CORE_FORWARD);
}

/* An open chain does not take the call for one of its steps. */
static void test_inside_a_chain(void **state)
{
	core_begin();
	core_waiting();
	assert_false(core_send(touching(core.p, core.score_bytes, true, false, false)));
	assert_string_equal(core_acts(), CORE_FORWARD);
	assert_int_equal(held_count, 0);
}

/* ---- extents -------------------------------------------------------------------------------- */

static void extent(struct tensor tensor, int64_t low, int64_t high, bool dense)
{
	int64_t got_low, got_high;
	bool got_dense;

	assert_true(tensor_extent(&tensor, &got_low, &got_high, &got_dense));
	assert_int_equal(got_low, low);
	assert_int_equal(got_high, high);
	assert_int_equal(got_dense, dense);
}

static void test_extents(void **state)
{
	int64_t low, high;
	bool dense;

	extent((struct tensor){2, {3, 4}, {4, 1}, 2}, 0, 24, true);
	extent((struct tensor){2, {3, 4}, {1, 3}, 2}, 0, 24, true);
	extent((struct tensor){2, {3, 4}, {5, 1}, 2}, 0, 28, false);
	extent((struct tensor){2, {3, 4}, {2, 1}, 2}, 0, 16, false);   /* rows overlap */
	extent((struct tensor){2, {3, 4}, {0, 1}, 2}, 0, 8, false);    /* one row, thrice */
	extent((struct tensor){2, {3, 4}, {-4, 1}, 2}, -16, 8, true);  /* upside down */
	extent((struct tensor){2, {3, 4}, {-4, -1}, 2}, -22, 2, true); /* and back to front */
	extent((struct tensor){3, {1, 4, 1}, {99, 1, -7}, 8}, 0, 32, true);
	extent((struct tensor){2, {0, 4}, {4, 1}, 2}, 0, 0, false);
	extent((struct tensor){0, {0}, {0}, 4}, 0, 4, true);
	/* 2 x 3 x 2, the middle one innermost */
	extent((struct tensor){3, {2, 3, 2}, {3, 1, 6}, 4}, 0, 48, true);
	/* as many bytes as elements, and yet one is met twice and another never */
	extent((struct tensor){2, {2, 2}, {1, 2}, 1}, 0, 4, true);
	extent((struct tensor){2, {3, 2}, {1, 2}, 1}, 0, 5, false);
	extent((struct tensor){3, {2, 2, 2}, {1, 1, 5}, 1}, 0, 8, false);
	assert_false(tensor_extent(&(struct tensor){1, {-1}, {1}, 2}, &low, &high, &dense));
	assert_false(tensor_extent(&(struct tensor){1, {4}, {1}, 0}, &low, &high, &dense));
	assert_false(tensor_extent(&(struct tensor){2, {1ll << 40, 1ll << 40}, {1ll << 40, 1}, 2},
				   &low, &high, &dense));
}

static void test_settling(void **state)
{
	static struct operands operands;
	char *const base = (char *)(uintptr_t)0x10000;

	operands.library.count = 0;
	operands.unknown = false;
	operands_add(&operands, base, 100, OPERAND_WHOLE);
	operands_add(&operands, base + 200, 100, OPERAND_WHOLE);
	operands_add(&operands, base + 299, 10, OPERAND_READ);
	operands_add(&operands, NULL, 10, OPERAND_READ);
	operands_add(&operands, base, 0, OPERAND_READ);
	assert_true(operands_settle(&operands));
	assert_int_equal(operands.library.count, 3);
	assert_true(operands.library.operand[0].read);
	for (int i = 1; i < 3; i++)
		assert_int_equal(operands.library.operand[i].whole,
				 operands.library.operand[i].begin == (uintptr_t)base);
	while (operands.library.count < OPERANDS_MAX)
		operands_add(&operands, base, 4, OPERAND_READ);
	assert_true(operands_settle(&operands));
	operands_add(&operands, base, 4, OPERAND_READ);
	assert_false(operands_settle(&operands));
	operands.library.count = 0;
	operands.unknown = false;
	operands_add_array(&operands, base, -1, 4, OPERAND_READ);
	assert_false(operands_settle(&operands));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elsewhere),      cmocka_unit_test(test_right_beside),
		cmocka_unit_test(test_overwritten),    cmocka_unit_test(test_read),
		cmocka_unit_test(test_workspace),      cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_inside_a_chain), cmocka_unit_test(test_extents),
		cmocka_unit_test(test_settling),
	};

	return CORE_MAIN("library", tests);
}
