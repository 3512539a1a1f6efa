/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a process: what is held back is computed while the program's libraries still work, and
 * nothing is launched while they are taken down. A process of its own, since exit handlers count.
 */
#include "tests/unit/core.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/hazard/held.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"
#include "tests/unit/child.h"

/* A child starts without options. However slow the machine is, it learns. */
static const char *const options[] = {"FASHIM_OUT=none", "FASHIM_BUDGET=0", NULL};

/* What a library registered long ago sees when the process ends. */
static void see_the_end(void)
{
	CHECK(strcmp(core_acts(), CORE_FORWARD) == 0);
	CHECK(chain_live == 0 && held_count == 0);
	CHECK(sites[0].live->materialised == 0 && sites[0].state == SITE_VERIFIED);
	CHECK(!core_send(core_event(OP_TEARDOWN, "cuLibraryUnload")));
	CHECK(!core_send(core_scores()) && chain_live == 0);
	CHECK(strcmp(core_acts(), CORE_FORWARD) == 0); /* nothing was launched any more */
}

/* As the hook of exit() does, which is not in this program. */
static void leave(void)
{
	flow_exits();
	exit(0);
}

static void replace_and_exit(void *argument)
{
	(void)argument;
	atexit(see_the_end);
	core_replaced();
	leave();
}

static void test_exit(void **state)
{
	static struct child child;

	child_run(&child, options, replace_and_exit, NULL);
	assert_true(child_passed(&child));
}

/* ---- a thread that goes on ------------------------------------------------------------------- */

static __typeof__(driver.cuLaunchKernel) launch_below;
static pthread_t late_thread;
static bool late_taken;

static void *come_late(void *unused)
{
	late_taken = core_send(core_scores());
	return unused;
}

/* What is held is being computed for the last time: now another thread waits for its turn. */
static CUresult launch_and_be_waited_for(CUfunction function, unsigned x, unsigned y, unsigned z,
					 unsigned a, unsigned b, unsigned c, unsigned shared,
					 CUstream stream, void **params, void **extra)
{
	if (!late_thread) {
		CHECK(pthread_create(&late_thread, NULL, come_late, NULL) == 0);
		usleep(100000);
	}
	return launch_below(function, x, y, z, a, b, c, shared, stream, params, extra);
}

static void see_the_late_one(void)
{
	CHECK(late_thread && pthread_join(late_thread, NULL) == 0);
	CHECK(!late_taken && chain_live == 0 && held_count == 0);
}

static void exit_while_one_waits(void *argument)
{
	(void)argument;
	atexit(see_the_late_one);
	core_replaced();
	launch_below = driver.cuLaunchKernel;
	driver.cuLaunchKernel = launch_and_be_waited_for;
	leave();
}

static void test_exit_while_one_waits(void **state)
{
	static struct child child;

	child_run(&child, options, exit_while_one_waits, NULL);
	assert_true(child_passed(&child));
}

/* ---- a handler that ends the process --------------------------------------------------------- */

static void end_here(int number)
{
	exit(number == SIGTERM ? 0 : 1);
}

/* In the midst of a call of the program's. */
static CUresult launch_and_be_ended(CUfunction function, unsigned x, unsigned y, unsigned z,
				    unsigned a, unsigned b, unsigned c, unsigned shared,
				    CUstream stream, void **params, void **extra)
{
	raise(SIGTERM);
	return launch_below(function, x, y, z, a, b, c, shared, stream, params, extra);
}

static void see_nothing_launched(void)
{
	CHECK(strchr(core_acts(), 'L') == NULL);
	CHECK(!core_send(core_scores()) && !core_send(core_copy(core.p, CORE_APART, 64)));
	CHECK(strchr(core_acts(), 'L') == NULL);
}

static void exit_in_a_handler(void *argument)
{
	(void)argument;
	alarm(60); /* where it waits for itself */
	atexit(see_nothing_launched);
	core_replaced();
	launch_below = driver.cuLaunchKernel;
	driver.cuLaunchKernel = launch_and_be_ended;
	signal(SIGTERM, end_here);
	core_send(core_copy(core.p, CORE_APART, 64));
	CHECK(false);
}

static void test_exit_in_a_handler(void **state)
{
	static struct child child;

	child_run(&child, options, exit_in_a_handler, NULL);
	assert_true(child_passed(&child));
	assert_non_null(strstr(child.errors, "are not computed"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_exit),
					   cmocka_unit_test(test_exit_while_one_waits),
					   cmocka_unit_test(test_exit_in_a_handler)};

	return CORE_MAIN("exit", tests);
}
