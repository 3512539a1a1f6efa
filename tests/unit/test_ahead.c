/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked for under the lock and made without it: it comes to whoever asked, once, and to no
 * context that has the same address later.
 */
#include "tests/unit/core.h"

#include <errno.h>

#include "shim/gpu/ahead.h"
#include "shim/real/driver.h"

#define CONTEXT BELOW_CONTEXT

static int made_count;
static int results[8];

static int make(const void *what, void **made)
{
	if (!what)
		return -EIO;
	*made = &results[made_count++];
	return 0;
}

static int refuse(const void *what, void **made)
{
	made_count++;
	*made = (void *)(uintptr_t)what; /* what a failed call leaves is not looked at */
	return -EIO;
}

static int begin(void **state)
{
	driver_resolve();
	ahead_forget(CONTEXT);
	made_count = 0;
	return state ? 0 : -1;
}

static void turn(void)
{
	struct ahead_wants wants;

	ahead_take(&wants);
	if (!wants.count)
		return;
	ahead_make(&wants);
	ahead_keep(&wants);
}

static void test_next_turn(void **state)
{
	void *made;

	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), -EAGAIN);
	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), -EAGAIN);
	assert_int_equal(made_count, 0);
	turn();
	assert_int_equal(made_count, 1);
	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), 0);
	assert_ptr_equal(made, &results[0]);
	turn();
	assert_int_equal(made_count, 1);
}

static void test_failed(void **state)
{
	void *made;

	assert_int_equal(ahead_get(&made, CONTEXT, "image", refuse), -EAGAIN);
	turn();
	assert_int_equal(ahead_get(&made, CONTEXT, "image", refuse), -EIO);
	turn();
	assert_int_equal(made_count, 1);
}

static void test_made_by_another_thread(void **state)
{
	struct ahead_wants wants, none;
	void *made;

	ahead_get(&made, CONTEXT, "image", make);
	ahead_take(&wants);
	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), -EAGAIN);
	ahead_take(&none);
	assert_int_equal(none.count, 0);
	ahead_make(&wants);
	ahead_keep(&wants);
	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), 0);
}

/* The context goes while a module is loaded in it; the next one has its address. */
static void test_forgotten_meanwhile(void **state)
{
	struct ahead_wants wants;
	void *made;

	ahead_get(&made, CONTEXT, "image", make);
	ahead_take(&wants);
	ahead_make(&wants);
	ahead_forget(CONTEXT);
	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), -EAGAIN);
	ahead_keep(&wants);
	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), -EAGAIN);
	turn();
	assert_int_equal(ahead_get(&made, CONTEXT, "image", make), 0);
	assert_ptr_equal(made, &results[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_next_turn, begin),
		cmocka_unit_test_setup(test_failed, begin),
		cmocka_unit_test_setup(test_made_by_another_thread, begin),
		cmocka_unit_test_setup(test_forgotten_meanwhile, begin),
	};

	return CORE_MAIN("ahead", tests);
}
