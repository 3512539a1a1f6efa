/* SPDX-License-Identifier: Apache-2.0
 *
 * One launch through its rule.
 */
#include "tests/unit/rule_op.h"

#include <string.h>

#include "shim/real/driver.h"
#include "shim/rules/function.h"
#include "tests/unit/core.h"

struct access_list list;
struct meaning meaning;

bool read_op(const struct op *op)
{
	static unsigned char params[FUNCTION_MAX_BYTES];
	const struct function *function;

	driver_resolve();
	function = function_get(op->launch.function);
	memset(&list, 0, sizeof(list));
	assert_non_null(function->rule);
	assert_true(function_read_params(function, &op->launch, params));
	rules_meaning(function, &op->launch, params, &meaning);
	return rules_access(function, &op->launch, params, &list, NULL);
}

void assert_touch(int n, enum access_mode mode, uint64_t begin, uint64_t bytes)
{
	assert_true(n < list.count);
	assert_int_equal(list.item[n].mode, mode);
	assert_int_equal(list.item[n].begin, begin);
	assert_int_equal(list.item[n].end - begin, bytes);
	assert_true(list.item[n].bounded);
	if (mode == ACCESS_WRITE)
		assert_int_equal(list.item[n].sure_end, list.item[n].end);
}
