/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded programs: PyTorch models and small scripts, forward passes run often enough for their
 * sites to be learned. What the core makes of each is a row here; each runs in a process of its
 * own, since the core keeps its state.
 */
#include "tests/cmocka.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/child.h"
#include "tests/unit/replay.h"
#include "tools/replay/below.h"

struct row {
	const char *name;
	int rounds;	       /* how often it is played */
	unsigned seen;	       /* chains that the program ran */
	unsigned replaced;     /* at least so many of them */
	unsigned materialised; /* at most so often */
	unsigned declined;     /* sites */
	const char *reason;    /* one that must be named */
};

static const struct row rows[] = {
#define PROGRAM(name, rounds, seen, replaced, late, declined, reason)                              \
	{#name, rounds, seen, replaced, late, declined, reason},
#include "tests/traces/traces.def"
};

#define ROWS ((int)(sizeof(rows) / sizeof(*rows)))

static void replay_row(void *argument)
{
	const struct row *row = argument;
	struct replay got;

	CHECK(replay_trace(trace_path(row->name), row->rounds, &got) == 0);
	fprintf(stderr,
		"{\"%s\", %d, %llu, %llu, %llu, %llu, \"%s\"}, sites %llu, verified %llu, fused "
		"%llu, "
		"snapshots %llu, %llu KiB in %llu copies\n",
		row->name, row->rounds, (unsigned long long)got.seen,
		(unsigned long long)got.replaced, (unsigned long long)got.materialised,
		(unsigned long long)got.declined, got.reasons, (unsigned long long)got.sites,
		(unsigned long long)got.verified, (unsigned long long)got.fused,
		(unsigned long long)got.snapshots, (unsigned long long)(below.saved >> 10),
		(unsigned long long)below.count[ACT_COPY]);
	CHECK(got.seen == row->seen);
	CHECK(got.replaced >= row->replaced);
	CHECK(row->replaced || !got.replaced);
	CHECK(got.materialised <= row->materialised);
	CHECK(got.declined == row->declined);
	CHECK(got.fused == got.replaced);
	CHECK(!row->reason || strstr(got.reasons, row->reason));
	exit(0); /* with the exit handlers: a sanitizer looks for leaks there */
}

static void test_row(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", NULL};
	static struct child child;

	child_run(&child, environment, replay_row, *state);
	print_message("# %s", child.errors);
	assert_true(child_passed(&child));
}

/* Numbers that no program has. What comes of them does not matter, if they are survived. */
static void play_odd(void *argument)
{
	struct replay got;

	replay_trace(argument, 2, &got);
	exit(0);
}

static void test_odd(void **state)
{
	const char *const environment[] = {"FASHIM_OUT=none", NULL};
	static struct child child;
	const struct dirent *entry;
	char path[PATH_MAX];
	DIR *folder = opendir(ODD_TRACES);
	int count = 0;

	assert_non_null(folder);
	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", ODD_TRACES, entry->d_name);
		child_run(&child, environment, play_odd, path);
		if (!child_passed(&child))
			fail_msg("%s: %s", path, child.errors);
		count++;
	}
	closedir(folder);
	assert_true(count > 0);
}

int main(void)
{
	static struct CMUnitTest tests[ROWS + 1] = {[ROWS] = cmocka_unit_test(test_odd)};

	for (int i = 0; i < ROWS; i++)
		tests[i] = (struct CMUnitTest){.name = rows[i].name,
					       .test_func = test_row,
					       .initial_state = (void *)(uintptr_t)&rows[i]};
	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
