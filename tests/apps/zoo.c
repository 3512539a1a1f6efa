/* SPDX-License-Identifier: Apache-2.0
 *
 * The hazard zoo under the whole shim, black box: every case of tests/apps/hazards runs plain and
 * then with LD_PRELOAD, over the simulated GPU, and must show the same: its exit status, its lines,
 * its O within rounding, and whatever else it looks at (P, copies, sums of P) bit for bit. The log
 * must not speak of an error, must say that what can be replaced was, and why not where it was not.
 *
 *     zoo GROUP      replace, async, poison, compare, audit, off, own, unseen, graphs, programs
 *     zoo GROUP CASE one case of it
 *     zoo GROUP@12.2 on a driver of that CUDA
 */
#include "tests/cmocka.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/child.h"
#include "zoo_compare.h"

/* At least how many occurrences are replaced, and a reason that the log must name: a reader that
 * comes every time, a capture. */
static const struct hazard {
	const char *name;
	int replaced;	    /* with ATen's kernels, which have rules */
	int replaced_own;   /* with kernels nobody has a rule for; -1: as many as may be */
	const char *reason; /* NULL: none asked for */
} hazards[] = {
#include "zoo_hazards.def"
};

#define HAZARDS ((int)(sizeof(hazards) / sizeof(*hazards)))

/* Ways of running all of them. */
static const struct group {
	const char *name;
	const char *app[2];  /* set for the plain run too */
	const char *shim[3]; /* for the other */
	bool exact;	     /* nothing may be replaced, every byte is the same */
	bool expect;	     /* hold the table's counts against it */
} groups[] = {
	{"replace", {NULL}, {"FASHIM=replace", NULL}, false, true},
	{"async", {NULL}, {"FASHIM=replace", "SIMGPU_ASYNC=200", NULL}, false, false},
	{"poison", {NULL}, {"FASHIM=replace", "FASHIM_POISON=1", NULL}, false, true},
	{"compare", {NULL}, {"FASHIM=compare", NULL}, true, false},
	{"audit", {NULL}, {"FASHIM=audit", NULL}, true, false},
	{"off", {NULL}, {"FASHIM=off", NULL}, true, false},
	{"own", {"APP_KERNELS=own", NULL}, {"FASHIM=replace", NULL}, false, true},
};

static const struct group *group;

/* ---- graphs
 * -------------------------------------------------------------------------------- */

/* How many occurrences are replaced where graphs are left alone; otherwise, also in a graph? */
static const struct proved {
	const char *name;
	int outside; /* at least */
	bool in_graph;
} proved[] = {
	{"graph", 4, true},
	{"graph_half", 6, false},
	{"graph_o_alone", 3, true},
	{"graph_apart", 21, false},
	{"graph_layers", 1, true},
	{"graph_cache", 1, true},
	{"graph_reader", 1, false},
	{"graph_loop", 1, false},
	{"graph_part", 1, true},
	{"graph_inputs_go", 1, true},
	{"graph_v_over_q", 1, true},
	{"graph_changes_outside", 1, true},
	{"graph_update", 1, true},
	{"graph_by_hand", 1, true},
	{"graph_hand_nodes", 1, true},
	{"graph_hand_onto", 1, true},
	{"graph_hand_nested", 1, true},
	{"graph_hand_reader", 1, false},
	{"graph_hand_inside", 1, false},
	{"graph_hand_update", 1, true},
	{"graph_never_outside", 0, true},
	{"graph_hand_alone", 0, true},
	{"graph_node_added", 1, false},
	{"graph_fork", 1, true},
	{"graph_fork_overwritten", 1, true},
	{"graph_fork_aside", 1, true},
	{"graph_fork_thread", 1, true},
	{"graph_fork_two", 1, true},
	{"graph_fork_inputs", 1, true},
	{"graph_fork_input_goes", 1, false},
	{"graph_fork_input_gone", 1, true},
	{"graph_fork_inputs_go", 1, true},
	{"graph_fork_race", 1, false},
	{"graph_fork_reader", 1, false},
	{"graph_fork_loop", 1, false},
	{"graph_fork_scores", 1, false},
	{"graph_fork_middle", 1, false},
	{"graph_fork_unjoined", 1, true},
	{"graph_fork_late", 1, false},
	{"graph_hand_fork", 1, true},
	{"graph_hand_fork_reader", 1, false},
	{"graph_hand_fork_onto", 1, true},
	{"graphs_in_turn", 1, true},
	{"graph_v_over_q_alone", 1, true},
	{"graph_waits", 1, true},
	{"graph_no_context", 1, true},
	{"graph_other_context", 1, true},
	{"graph_aliased", 1, true},
	{"graph_learned", 0, true},
	{"graph_unknown", 1, false},
	{"graph_managed", 1, true},
	{"graph_host", 1, false},
	{"graph_overflow", 1, false},
	{"graph_little_memory", 1, false},
	{"graph_memory_full", 1, true},
	{"graph_launched_again", 1, true},
	{"graph_stream_captured", 1, true},
	{"graph_stream_joins", 1, true},
	{"graph_gone", 1, true},
};

#define PROVED ((int)(sizeof(proved) / sizeof(*proved)))

static int least_proved(const char *name)
{
	for (int i = 0; i < HAZARDS; i++)
		if (!strcmp(hazards[i].name, name))
			return hazards[i].replaced;
	fail_msg("%s has no row", name);
	return 0;
}

/* Drivers before 12.3 do not tell what a graph holds: it is left as it is, for that reason. */
static bool tells_graphs(void)
{
	return !zoo_driver || atof(zoo_driver) >= 12.3;
}

static int least_of(const struct hazard *hazard)
{
	for (int i = 0; i < PROVED && !tells_graphs(); i++)
		if (!strcmp(proved[i].name, hazard->name))
			return proved[i].outside;
	return group->app[0] ? hazard->replaced_own : hazard->replaced;
}

static const char *reason_of(const struct hazard *hazard)
{
	return !tells_graphs() && !strncmp(hazard->name, "graph", 5) ? NULL : hazard->reason;
}

/* Is there one that is not "none" among the words? */
static bool names_any(const char *reasons)
{
	for (size_t length; *(reasons += strspn(reasons, " ")); reasons += length) {
		length = strcspn(reasons, " ");
		if (length != 4 || strncmp(reasons, "none", 4) != 0)
			return true;
	}
	return false;
}

static void check_hazard(void **state)
{
	const struct hazard *hazard = *state;
	const char *const argv[] = {"apps/sim/hazards", hazard->name, NULL};
	char *log = zoo_scratch("log"), *calls = zoo_scratch("calls"), wanted[600];
	const char *more[8] = {NULL};
	struct outcome plain, under;
	struct verdict verdict;
	const char *said, *reason;
	int count = 0, least;

	snprintf(wanted, sizeof(wanted), "SIMGPU_LOG=%s", calls);
	unlink(calls);
	more[count++] = wanted;
	for (int i = 0; i < 3 && group->shim[i]; i++)
		more[count++] = group->shim[i];
	if (group->app[0])
		more[count++] = group->app[0];
	zoo_run_plain(&plain, argv, group->app[0]);
	assert_int_equal(plain.status, 0);
	assert_true(plain.dump_count > 0);
	zoo_run_under(&under, argv, more, log);
	said = zoo_record_of(&verdict, log);
	print_message("# %s: %s\n", hazard->name, said);
	zoo_assert_same(&plain, &under, &verdict, group->exact);
	if (group->exact) {
		assert_int_equal(verdict.replaced, 0);
		assert_int_equal(verdict.materialised, 0);
	}
	if (!strcmp(group->name, "off")) {
		assert_int_equal(access(log, F_OK), -1);
	} else {
		assert_true(verdict.there);
		assert_int_equal(verdict.headers, 1);
		assert_int_equal(verdict.summaries, 1);
	}
	if (!strcmp(group->name, "off") || !strcmp(group->name, "audit"))
		assert_false(zoo_mentions(calls, "fashim_"));
	least = least_of(hazard);
	if (group->expect && verdict.replaced < least)
		fail_msg("expected %d: %s", least, said);
	if (group->expect && least > 0)
		assert_int_equal(verdict.materialised > verdict.replaced, 0);
	if (group->expect && least == 0)
		assert_int_equal(verdict.replaced, 0);
	reason = reason_of(hazard);
	if (group->expect && reason && !group->app[0] && !strstr(verdict.reasons, reason))
		fail_msg("expected the reason %s: %s", reason, said);
	if (!group->exact && !group->expect && least > 0)
		assert_true(verdict.replaced > 0);
	if (!group->exact && verdict.seen && !verdict.replaced && !names_any(verdict.reasons))
		fail_msg("nothing replaced, and no reason: %s", said);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
	free(calls);
}

/* ---- kernels that are asked what they do
 * --------------------------------------------------------- */

/* Of 14 occurrences; 0: none may be, for the reason. */
static const struct unseen {
	const char *name;
	int replaced;
	const char *reason;
} unseen[] = {
	{"bent", 12, NULL},
	{"bent_over_k", 11, NULL}, /* K was not kept; the half of X where it lay is looked at */
	{"wider_again", 0, "unaccounted_pointer"},
	{"in_three", 12, NULL},
	{"in_two", 12, NULL},
	{"scaled_sums", 0, "not_explained"},
	{"rounded_scores", 12, NULL},
	{"by_sequences", 12, NULL},
	{"by_sequences_over", 12, NULL},
	{"fp32_products", 12, NULL},
	{"lengths", 12, NULL},
	{"full_lengths", 12, NULL},
	{"sequences", 12, NULL},
	{"hidden_keys", 12, NULL},
	{"moving_mask", 12, NULL},
	{"bias_over_q", 11, NULL}, /* at the first sighting Q was not kept */
	{"shared_keys", 11, NULL}, /* the first arrays are not known yet */
	{"shown", 12, NULL},
	{"shown_wide", 12, NULL},
	{"slopes", 12, NULL},
	{"slopes_over_q", 11, NULL},
	{"slopes_replaced", 12, NULL},
	{"own_slopes", 12, NULL},
	{"usual_slopes", 12, NULL},
	{"odd_slopes", 0, "not_explained"},
	{"bent_slopes", 0, "not_explained"},
	{"two_slopes", 0, "not_explained"},
	{"turned", 0, "not_explained"},
	{"zeros", 0, "mask_not_discriminated"},
	{"every_other", 0, "not_explained"},
	{"squares", 0, "not_explained"},
	{"cut", 12, NULL},
	{"kept_bytes", 12, NULL},
	{"near_bytes", 0, "not_explained"},
	{"hidden_later", 12, NULL},
	{"hiding_ones", 12, NULL},
	{"hiding_near", 0, "not_explained"},
	{"showing_above", 12, NULL},
	{"hidden_bytes", 12, NULL},
	{"kept_words", 12, NULL},
	{"kept_longs", 12, NULL},
	{"kept_triangle", 12, NULL},
	{"lowest_triangle", 12, NULL},
	{"kept_window", 12, NULL},
	{"longs_before_lengths", 12, NULL},
	{"half_longs", 0, "not_explained"},
	{"counted_longs", 0, "not_explained"},
	{"kept_floats", 12, NULL},
	{"kept_corner", 12, NULL},
	{"hidden_halves", 12, NULL},
	{"counted_floats", 12, NULL},
	{"half_floats", 0, "not_explained"},
};

#define UNSEEN ((int)(sizeof(unseen) / sizeof(*unseen)))

static void check_unseen(void **state)
{
	const struct unseen *row = *state;
	const char *const argv[] = {"apps/sim/unseen", row->name, NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;
	const char *said;

	zoo_run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	zoo_run_under(&under, argv, NULL, log);
	said = zoo_record_of(&verdict, log);
	print_message("# %s: %s\n", row->name, said);
	zoo_assert_same(&plain, &under, &verdict, false);
	if (verdict.replaced < row->replaced || (!row->replaced && verdict.replaced))
		fail_msg("expected %d: %s", row->replaced, said);
	if (row->reason && !strstr(verdict.reasons, row->reason))
		fail_msg("expected the reason %s: %s", row->reason, said);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* FASHIM_ASK=off: none is, and a kernel that nobody knows stays one. */
static void check_unasked(void **state)
{
	const char *const argv[] = {"apps/sim/unseen", "in_two", NULL};
	const char *const more[] = {"FASHIM_ASK=off", NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;
	const char *said;

	zoo_run_plain(&plain, argv, NULL);
	zoo_run_under(&under, argv, more, log);
	said = zoo_record_of(&verdict, log);
	print_message("# unasked: %s\n", said);
	zoo_assert_same(&plain, &under, &verdict, false);
	assert_int_equal(verdict.replaced, 0);
	if (!strstr(verdict.reasons, "unaccounted_pointer"))
		fail_msg("expected the reason unaccounted_pointer: %s", said);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

static void check_proved(void **state)
{
	static const struct {
		const char *more[3];
		bool off, any; /* as many as may be */
	} ways[] = {
		{.more = {NULL}},
		{.more = {"FASHIM_POISON=1", "SIMGPU_ASYNC=100"}},
		{.more = {"APP_KERNELS=own", "FASHIM_POISON=1"}, .any = true},
		{.more = {"FASHIM_GRAPHS=off"}, .off = true},
		{.more = {"FASHIM_POISON=1", "SIMGPU_REST=6"}, .any = true},
	};
	const struct proved *row = *state;
	const char *const argv[] = {"apps/sim/hazards", row->name, NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	zoo_run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		const bool in_graph = row->in_graph && !ways[i].off;
		const int least = ways[i].off ? row->outside : least_proved(row->name);
		const char *said;

		zoo_run_under(&under, argv, ways[i].more, log);
		said = zoo_record_of(&verdict, log);
		print_message("# %s, %u: %s\n", row->name, i, said);
		zoo_assert_same(&plain, &under, &verdict, false);
		if (!ways[i].any && verdict.replaced < least)
			fail_msg("expected %d: %s", least, said);
		if (!ways[i].any && zoo_mentions(log, "\"state\":\"replaced\"") != in_graph)
			fail_msg("%sreplaced in the graph", in_graph ? "not " : "");
		/* Of one the graph has but PV, of the other nothing was to be said. */
		if (!in_graph && !strstr(verdict.reasons, "capture") &&
		    strcmp(row->name, "graph_apart") != 0 && strcmp(row->name, "graph_half") != 0)
			fail_msg("expected the reason capture: %s", said);
		zoo_free(&under);
	}
	zoo_free(&plain);
	free(log);
}

/* What the log must say where streams run beside each other. */
static const struct at_once {
	const char *name, *said;
} at_once[] = {
	{"graph_two_threads", "launched by two threads at once"},
	{"graph_per_thread", "\"reason\":\"stream\""},
	{"graph_each_step", "graphs that change before they are known"},
	{"graph_two_threads_later", "\"state\":\"replaced\""},
};

#define AT_ONCE ((int)(sizeof(at_once) / sizeof(*at_once)))

static void check_at_once(void **state)
{
	const struct at_once *row = *state;
	const char *const argv[] = {"apps/sim/hazards", row->name, NULL};
	const char *const more[] = {"SIMGPU_ASYNC=2000", NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	zoo_run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	zoo_run_under(&under, argv, more, log);
	print_message("# %s: %s\n", row->name, zoo_record_of(&verdict, log));
	zoo_assert_same(&plain, &under, &verdict, false);
	assert_true(zoo_mentions(log, row->said));
	zoo_free(&under);
	zoo_free(&plain);
	free(log);
}

/* A program that uses graphs, but not for attention, is left alone as others are. */
static void check_rests(void **state)
{
	const char *const argv[] = {"apps/sim/hazards", "mask_by_graph", NULL};
	const char *const more[] = {"SIMGPU_REST=6", "FASHIM_POISON=1", NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	(void)state;
	zoo_run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	zoo_run_under(&under, argv, more, log);
	print_message("# mask_by_graph: %s\n", zoo_record_of(&verdict, log));
	zoo_assert_same(&plain, &under, &verdict, false);
	assert_true(zoo_mentions(log, "\"rests\":{\"count\":"));
	zoo_free(&under);
	zoo_free(&plain);
	free(log);
}

void zoo_test_list(void **state)
{
	const char *const argv[] = {"apps/sim/hazards", "--list", NULL};
	struct outcome outcome;
	int count = 0;

	zoo_run_plain(&outcome, argv, NULL);
	assert_int_equal(outcome.status, 0);
	for (char *line = strtok(outcome.text, "\n"); line; line = strtok(NULL, "\n"), count++) {
		bool known = false;

		line[strcspn(line, " ")] = '\0';
		for (int i = 0; i < HAZARDS; i++)
			known = known || !strcmp(hazards[i].name, line);
		if (!known)
			fail_msg("no row for %s", line);
	}
	assert_int_equal(count, HAZARDS);
	zoo_free(&outcome);
}

static struct CMUnitTest tests[HAZARDS];
static size_t test_count;

/* One more test, unless another is asked for. */
static void add(const char *name, CMUnitTestFunction function, const void *row, const char *only)
{
	if (!only || !strcmp(only, name))
		tests[test_count++] = (struct CMUnitTest){.name = name,
							  .test_func = function,
							  .initial_state = (void *)(uintptr_t)row};
}

int main(int argc, char **argv)
{
	const char *const only = argc > 2 ? argv[2] : NULL;
	char *name = argc > 1 ? argv[1] : argv[0], *const at = strchr(name, '@');

	if (at) {
		*at = '\0';
		zoo_driver = at + 1;
	}
	if (!strcmp(name, "programs"))
		return zoo_programs();
	for (int i = 0; i < UNSEEN && !strcmp(name, "unseen"); i++)
		add(unseen[i].name, check_unseen, &unseen[i], only);
	if (!strcmp(name, "unseen"))
		add("unasked", check_unasked, NULL, only);
	if (!strcmp(name, "graphs"))
		add("rests", check_rests, NULL, only);
	for (int i = 0; i < AT_ONCE && !strcmp(name, "graphs"); i++)
		add(at_once[i].name, check_at_once, &at_once[i], only);
	for (int i = 0; i < PROVED && !strcmp(name, "graphs"); i++)
		add(proved[i].name, check_proved, &proved[i], only);
	for (unsigned i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		if (!strcmp(name, groups[i].name))
			group = &groups[i];
	for (int i = 0; i < HAZARDS && group; i++)
		add(hazards[i].name, check_hazard, &hazards[i], only);
	if (!test_count) {
		fprintf(stderr, "usage: zoo replace|async|poison|compare|audit|off|own|unseen|"
				"graphs|programs[@DRIVER] [CASE]\n");
		return 64;
	}
	return _cmocka_run_group_tests(name, tests, test_count, NULL, NULL);
}
