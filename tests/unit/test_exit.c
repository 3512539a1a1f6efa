/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a process: what is held back is computed while the program's libraries still work, and
 * nothing is launched while they are taken down. A process of its own, since exit handlers count.
 */
#include "tests/unit/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/hazard/held.h"
#include "shim/log/log.h"
#include "shim/site/site.h"
#include "tests/unit/child.h"

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

static void replace_and_exit(void *argument)
{
	(void)argument;
	setenv("FASHIM_OUT", "none", 1); /* a child starts without options */
	atexit(see_the_end);
	core_replaced();
	exit(0);
}

static void test_exit(void **state)
{
	static struct child child;

	(void)state;
	child_run(&child, NULL, replace_and_exit, NULL);
	assert_true(child_passed(&child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_exit)};

	return CORE_MAIN("exit", tests);
}
