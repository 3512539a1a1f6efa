/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels whose module comes and goes: each time another kernel, with its own number, and no more
 * memory than before.
 */
#include "tests/unit/core.h"

#include <malloc.h>

#include "shim/rules/function.h"
#include "tools/replay/below.h"

static void unload(void)
{
	assert_false(core_send(core_event(OP_TEARDOWN, "cuModuleUnload")));
}

static void test_another_number(void **state)
{
	const size_t offset[] = {0, 8, 16}, size[] = {8, 8, 4}, wide[] = {8, 8, 8};
	const CUfunction first = below_function("reloaded_kernel", 3, offset, size);
	const CUfunction other = below_function("reloaded_kernel", 3, offset, wide);
	const struct function *function;
	uint32_t id, beside;

	core_begin();
	core_send(core_scores()); /* from then on there is a driver */
	function = function_get(first);
	id = function->id;
	assert_ptr_equal(function_get(first), function);
	beside = function_get(other)->id;
	assert_int_not_equal(beside, id);
	unload();
	function = function_get(first);
	assert_true(function->id > id && function->id > beside);
	assert_int_equal(function->param_size[2], 4);
	assert_ptr_equal(function->handle, first);
	assert_int_equal(function_get(other)->param_size[2], 8);
	assert_int_not_equal(function_get(other)->id, function->id);
}

static void reload(int times)
{
	const size_t offset[] = {0, 8, 16}, size[] = {8, 8, 4};
	char name[32];

	for (int i = 0; i < times; i++) {
		for (int k = 0; k < 10; k++) {
			snprintf(name, sizeof(name), "reloaded_%d", k);
			assert_non_null(function_get(below_function(name, 3, offset, size)));
		}
		unload();
	}
}

static void test_no_growth(void **state)
{
	size_t before;

	core_begin();
	core_send(core_scores()); /* from then on there is a driver */
	reload(10);
	before = mallinfo2().uordblks;
	reload(400);
	assert_true(mallinfo2().uordblks <= before + 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_number),
		cmocka_unit_test(test_no_growth),
	};

	return CORE_MAIN("function", tests);
}
