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
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/child.h"
#include "zoo_run.h"

/* fp16 outputs of order one: a few rounding steps. */
#define TOLERANCE 4e-3

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

/* ---- one run against another
 * --------------------------------------------------------------------- */

static void run_plain(struct outcome *outcome, const char *const *argv, const char *more)
{
	const char *const environment[] = {more, NULL};

	zoo_run(outcome, argv, environment, true);
}

/* Under the shim; `log` is begun anew. `more`: further variables, NULL at the end. */
static void run_under(struct outcome *outcome, const char *const *argv, const char *const *more,
		      const char *log)
{
	char preload[600], out[600], *library = zoo_path("libfashim.so");
	const char *environment[16] = {preload, out, "FASHIM_MIN_SPEEDUP=0", NULL};
	int count = 3;

	for (; more && *more && count < 14; more++)
		environment[count++] = *more;
	environment[count++] = "FASHIM_BUDGET=0"; /* where `more` has not said otherwise */
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	snprintf(out, sizeof(out), "FASHIM_OUT=%s", log);
	unlink(log);
	zoo_run(outcome, argv, environment, true);
	free(library);
}

static void assert_same(const struct outcome *plain, const struct outcome *under,
			const struct verdict *verdict, bool exact)
{
	const double difference = zoo_difference(plain, under);
	int where;

	if (plain->status != under->status)
		fail_msg("status 0x%x, plain 0x%x; stderr: %s", (unsigned)under->status,
			 (unsigned)plain->status, under->errors);
	if (strcmp(plain->errors, under->errors) != 0)
		fail_msg("other stderr: %s", under->errors);
	if (verdict->violations)
		fail_msg("violation: %s", verdict->violation);
	if (exact || verdict->replaced == 0) {
		if (strcmp(plain->text, under->text) != 0)
			fail_msg("nothing was replaced, yet results differ by %g", difference);
		return;
	}
	if (!(difference <= TOLERANCE))
		fail_msg("results differ by %g", difference);
	if (!zoo_same_text(plain->text, under->text, true, &where))
		fail_msg("line %d differs", where);
}

static const char *record_of(struct verdict *verdict, const char *log)
{
	static char text[800];

	zoo_read_log(log, verdict);
	snprintf(text, sizeof(text), "replaced %ld of %ld, materialised %ld, reasons:%s",
		 verdict->replaced, verdict->seen, verdict->materialised, verdict->reasons);
	return text;
}

/* The words that a call log has and that must not be in it. */
static bool mentions(const char *path, const char *word)
{
	FILE *file = fopen(path, "r");
	bool found = false;
	char line[4096];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		found = found || strstr(line, word);
	fclose(file);
	return found;
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
	const char *said;
	int count = 0, least;

	snprintf(wanted, sizeof(wanted), "SIMGPU_LOG=%s", calls);
	unlink(calls);
	more[count++] = wanted;
	for (int i = 0; i < 3 && group->shim[i]; i++)
		more[count++] = group->shim[i];
	if (group->app[0])
		more[count++] = group->app[0];
	run_plain(&plain, argv, group->app[0]);
	assert_int_equal(plain.status, 0);
	assert_true(plain.dump_count > 0);
	run_under(&under, argv, more, log);
	said = record_of(&verdict, log);
	print_message("# %s: %s\n", hazard->name, said);
	assert_same(&plain, &under, &verdict, group->exact);
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
		assert_false(mentions(calls, "fashim_"));
	least = group->app[0] ? hazard->replaced_own : hazard->replaced;
	if (group->expect && verdict.replaced < least)
		fail_msg("expected %d: %s", least, said);
	if (group->expect && least > 0)
		assert_int_equal(verdict.materialised > verdict.replaced, 0);
	if (group->expect && least == 0)
		assert_int_equal(verdict.replaced, 0);
	if (group->expect && hazard->reason && !group->app[0] &&
	    !strstr(verdict.reasons, hazard->reason))
		fail_msg("expected the reason %s: %s", hazard->reason, said);
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
	{"wider_again", 0, "unaccounted_pointer"},
	{"in_three", 12, NULL},
	{"in_two", 12, NULL},
	{"scaled_sums", 0, "not_explained"},
	{"rounded_scores", 12, NULL},
	{"fp32_products", 12, NULL},
	{"lengths", 12, NULL},
	{"full_lengths", 12, NULL},
	{"sequences", 12, NULL},
	{"hidden_keys", 12, NULL},
	{"moving_mask", 12, NULL},
	{"bias_over_q", 11, NULL}, /* at the first sighting Q was not kept */
	{"shared_keys", 11, NULL}, /* the first arrays are not known yet */
	{"shown", 12, NULL},
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

	run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	run_under(&under, argv, NULL, log);
	said = record_of(&verdict, log);
	print_message("# %s: %s\n", row->name, said);
	assert_same(&plain, &under, &verdict, false);
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

	(void)state;
	run_plain(&plain, argv, NULL);
	run_under(&under, argv, more, log);
	said = record_of(&verdict, log);
	print_message("# unasked: %s\n", said);
	assert_same(&plain, &under, &verdict, false);
	assert_int_equal(verdict.replaced, 0);
	if (!strstr(verdict.reasons, "unaccounted_pointer"))
		fail_msg("expected the reason unaccounted_pointer: %s", said);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* ---- graphs, by proof
 * -------------------------------------------------------------------------------- */

/* How many occurrences are replaced, those before the capture included, and in a graph. */
static const struct proved {
	const char *name;
	int replaced; /* at least */
	bool in_graph;
} proved[] = {
	{"graph", 4, true},
	{"graph_half", 6, false},
	{"graph_o_alone", 18, true},
	{"graph_apart", 18, false},
	{"graph_layers", 65, true},
	{"graph_reader", 1, false},
	{"graph_loop", 1, false},
	{"graph_part", 12, true},
	{"graph_inputs_go", 11, true},
	{"graph_v_over_q", 11, true},
	{"graph_changes_outside", 20, true},
	{"graph_update", 9, true},
	{"graph_by_hand", 1, false},
	{"graph_node_added", 1, false},
	{"graph_branches", 1, false},
	{"graphs_in_turn", 21, true},
	{"graph_v_over_q_alone", 11, true},
	{"graph_waits", 60, true},
	{"graph_gone", 20, true},
};

#define PROVED ((int)(sizeof(proved) / sizeof(*proved)))

static void check_proved(void **state)
{
	static const char *const ways[][4] = {
		{NULL},
		{"FASHIM_POISON=1", "SIMGPU_ASYNC=100", NULL},
		{"APP_KERNELS=own", "FASHIM_POISON=1", NULL},
	};
	const struct proved *row = *state;
	const char *const argv[] = {"apps/sim/hazards", row->name, NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		const char *more[6] = {"FASHIM_GRAPHS=prove", NULL};
		const char *said;

		for (int k = 0; ways[i][k]; k++)
			more[k + 1] = ways[i][k];
		run_under(&under, argv, more, log);
		said = record_of(&verdict, log);
		print_message("# %s, %u: %s\n", row->name, i, said);
		assert_same(&plain, &under, &verdict, false);
		if (i < 2 && verdict.replaced < row->replaced)
			fail_msg("expected %d: %s", row->replaced, said);
		if (mentions(log, "\"state\":\"replaced\"") != row->in_graph && i < 2)
			fail_msg("%sreplaced in the graph", row->in_graph ? "not " : "");
		if (!row->in_graph && !strstr(verdict.reasons, "capture") &&
		    strcmp(row->name, "graph_apart") != 0)
			fail_msg("expected the reason capture: %s", said);
		zoo_free(&under);
	}
	zoo_free(&plain);
	free(log);
}

/* ---- whole programs
 * -------------------------------------------------------------------------------- */

/* Every case there is has a row above. */
static void test_list(void **state)
{
	const char *const argv[] = {"apps/sim/hazards", "--list", NULL};
	struct outcome outcome;
	int count = 0;

	(void)state;
	run_plain(&outcome, argv, NULL);
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

static void compare_program(const char *const *argv, const char *const *more, int least,
			    double tolerance)
{
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;
	const char *said;
	int where;

	run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	run_under(&under, argv, more, log);
	said = record_of(&verdict, log);
	print_message("# %s: %s\n", argv[0], said);
	assert_int_equal(under.status, 0);
	assert_int_equal(verdict.violations, 0);
	assert_int_equal(verdict.summaries, 1);
	assert_true(zoo_same_text(plain.text, under.text, false, &where));
	if (!(zoo_difference(&plain, &under) <= tolerance))
		fail_msg("differs by %g", zoo_difference(&plain, &under));
	if (verdict.replaced < least)
		fail_msg("expected %d: %s", least, said);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* Its result is the sum of 24 outputs, hence the wider tolerance. */
static void test_demo(void **state)
{
	const char *const argv[] = {"apps/sim/demo", NULL};

	(void)state;
	compare_program(argv, NULL, 18, 24 * TOLERANCE);
}

static void test_demo_sm80(void **state)
{
	const char *const argv[] = {"apps/sim/demo", NULL}, *const more[] = {"SIMGPU_ARCH=80",
									     NULL};

	(void)state;
	compare_program(argv, more, 18, 24 * TOLERANCE);
}

static void test_plain_softmax_f16(void **state)
{
	const char *const argv[] = {"apps/sim/plain_softmax", "f16", NULL};

	(void)state;
	compare_program(argv, NULL, 8, TOLERANCE);
}

/* A step of the ladder by its number: its module is loaded, a kernel before it runs in scratch. */
static void test_ladder_forced(void **state)
{
	const char *const argv[] = {"apps/sim/plain_softmax", "f16", NULL};
	const char *const more[] = {"FASHIM_KERNEL=ladder/08", NULL};

	(void)state;
	compare_program(argv, more, 8, TOLERANCE);
}

/* With the user's word chains are replaced in a capture: the first of three here. Of the second an
 * input is overwritten on the way, the third ends without a product: both run as they were. */
static void test_graphs(void **state)
{
	const char *const argv[] = {"apps/sim/hazards", "graph_o_alone", NULL};
	const char *const more[] = {"FASHIM_GRAPHS=1", NULL};

	(void)state;
	compare_program(argv, more, 4, TOLERANCE);
}

/* The user says what the program's own kernels do. In this case nothing else would tell: V lands in
 * the memory of S. */
static void test_user_rules(void **state)
{
	static const char text[] =
		"app_scale_f16    mul     out=p0 in=p1 factor=p2 count=p3 dtype=f16\n"
		"app_add_mask_f16 add     out=p0 in=p1 with=p2 count=p3 period=p4 dtype=f16\n"
		"app_softmax_f16  softmax out=p0 in=p1 columns=p2 rows=grid.x dtype=f16\n"
		"app_copy_f16     copy    out=p0 in=p1 count=p2 dtype=f16\n"
		"app_split_heads  other   out=p0 in=p1 count=7680 dtype=f16 # 3 * 80 * 32\n";
	const char *const argv[] = {"apps/sim/hazards", "bert", NULL};
	char *path = zoo_scratch("rules"), rules[600];
	const char *const more[] = {"APP_KERNELS=own", rules, NULL};
	FILE *file = fopen(path, "w");

	(void)state;
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	snprintf(rules, sizeof(rules), "FASHIM_RULES=%s", path);
	compare_program(argv, more, 9, TOLERANCE);
	free(path);
}

/* As exact as fp32 was. */
static void test_plain_softmax_f32(void **state)
{
	const char *const argv[] = {"apps/sim/plain_softmax", NULL};

	(void)state;
	compare_program(argv, NULL, 8, 2e-6);
}

/* A program that is killed leaves a log that can be read, and the counters beside it. */
static void test_killed(void **state)
{
	char *log = zoo_scratch("killed"), *live = zoo_scratch("killed.live");
	char *library = zoo_path("libfashim.so"), *libraries = zoo_path("simgpu");
	char *program = zoo_path("apps/sim/demo");
	const char *const argv[] = {"fashim", "report", log, NULL};
	const char *const none[] = {"LC_ALL=C.UTF-8", NULL};
	struct outcome report;
	struct verdict verdict;
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(1);
		setenv("LD_PRELOAD", library, 1);
		setenv("LD_LIBRARY_PATH", libraries, 1);
		setenv("FASHIM_OUT", log, 1);
		setenv("FASHIM_MIN_SPEEDUP", "0", 1);
		setenv("FASHIM_BUDGET", "0", 1);
		alarm(CHILD_HANGS);
		execl(program, program, "1000000", (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 10 * CHILD_HANGS; i++) { /* until it has replaced something */
		FILE *file = fopen(log, "r");
		char line[8192];
		bool verified = false;

		while (file && fgets(line, sizeof(line), file))
			verified = verified || strstr(line, "\"verified\"");
		if (file)
			fclose(file);
		if (verified)
			break;
		usleep(100000);
	}
	usleep(300000);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(access(live, F_OK), 0);
	zoo_read_log(log, &verdict);
	assert_int_equal(verdict.headers, 1);
	assert_int_equal(verdict.summaries, 0);
	zoo_run(&report, argv, none, false);
	if (report.status)
		fail_msg("report: 0x%x %s", (unsigned)report.status, report.errors);
	assert_non_null(strstr(report.text, "killed"));
	zoo_free(&report);
	free(log);
	free(live);
	free(library);
	free(libraries);
	free(program);
}

/* A child of fork() goes its own way; the parent's log stays the parent's. */
static void test_fork(void **state)
{
	const char *const argv[] = {"apps/sim/forks", NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	(void)state;
	run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	run_under(&under, argv, NULL, log);
	print_message("# forks: %s\n", record_of(&verdict, log));
	assert_same(&plain, &under, &verdict, false);
	assert_true(verdict.there);
	assert_int_equal(verdict.headers, 1);
	assert_int_equal(verdict.summaries, 1);
	assert_true(verdict.replaced >= 9);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* What the shim gives back while the device is busy keeps no other thread from its calls. */
static void test_waits(void **state)
{
	const char *const argv[] = {"apps/sim/waits", NULL};
	const char *const environment[] = {"SIMGPU_ASYNC=1", "APP_KERNELS=own", NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	(void)state;
	zoo_run(&plain, argv, environment, true);
	assert_int_equal(plain.status, 0);
	assert_non_null(strstr(plain.text, "stuck 0\n"));
	run_under(&under, argv, environment, log);
	print_message("# waits: %s\n", record_of(&verdict, log));
	assert_same(&plain, &under, &verdict, false);
	assert_non_null(strstr(under.text, "stuck 0\n"));
	assert_true(verdict.replaced > 0);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* With nothing to spend but what is spent once no kernel of ours is even loaded, and the log says
 * why. */
static void test_budget_waits(void **state)
{
	const char *const argv[] = {"apps/sim/demo", NULL};
	const char *const modes[] = {"FASHIM=replace", "FASHIM=compare"};
	char *log = zoo_scratch("log");

	(void)state;
	for (int i = 0; i < 2; i++) {
		const char *const more[] = {modes[i], "FASHIM_BUDGET=1e-9", NULL};
		struct outcome plain, under;
		struct verdict verdict;
		const char *said;

		run_plain(&plain, argv, NULL);
		run_under(&under, argv, more, log);
		said = record_of(&verdict, log);
		print_message("# %s: %s\n", modes[i], said);
		assert_same(&plain, &under, &verdict, true);
		assert_int_equal(verdict.summaries, 1);
		assert_int_equal(verdict.replaced, 0);
		assert_int_equal(verdict.compared, 0);
		assert_non_null(strstr(verdict.reasons, " budget"));
		zoo_free(&plain);
		zoo_free(&under);
	}
	free(log);
}

/* What the stand-in takes says nothing: there nothing waits that was not told to. */
static void test_budget_of_stand_in(void **state)
{
	const char *const argv[] = {"apps/sim/demo", NULL};

	(void)state;
	compare_program(argv, (const char *const[]){"FASHIM_BUDGET=", NULL}, 18, 24 * TOLERANCE);
}

/* The number in "key":number, after `from`. */
static double number_after(const char *from, const char *key)
{
	const char *at = from ? strstr(from, key) : NULL;

	return at ? strtod(at + strlen(key), NULL) : NAN;
}

/* With more than a program could ever spend it is as without a limit; and what was spent adds up,
 * purpose by purpose, to what is said to have been spent. */
static void test_budget_suffices(void **state)
{
	static const char *const purposes[] = {
#define PURPOSE(id, name, what) "\"" name "\":",
#include "shim/base/purposes.def"
#undef PURPOSE
	};
	const char *const argv[] = {"apps/sim/demo", NULL}, *const more[] = {"FASHIM_BUDGET=1e9",
									     NULL};
	char *log = zoo_scratch("log"), *text, *gpu;
	double sum = 0, all;
	size_t bytes;

	(void)state;
	compare_program(argv, more, 18, 24 * TOLERANCE);
	text = zoo_read(log, &bytes);
	text = strstr(text, "\"type\":\"summary\"");
	assert_non_null(text);
	all = number_after(text, "\"overhead_us\":");
	assert_true(number_after(strstr(text, "\"gpu\":"), "\"learning\":") > 0);
	gpu = strstr(text, "\"gpu\":");
	*gpu = '\0';
	for (size_t i = 0; i < sizeof(purposes) / sizeof(*purposes); i++) {
		const double us = number_after(text, purposes[i]);

		sum += us > 0 ? us : 0;
	}
	assert_true(number_after(text, "\"learning\":") > 0);
	assert_true(number_after(text, "\"images\":") > 0);
	assert_true(number_after(text, "\"naming\":") > 0);
	assert_true(number_after(text, "\"replacing\":") > 0);
	if (!(fabs(sum - all) <= 1e-3 * all))
		fail_msg("%g us by purpose, %g us in all", sum, all);
	free(log);
}

static int run_programs(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_demo),
		cmocka_unit_test(test_demo_sm80),
		cmocka_unit_test(test_plain_softmax_f16),
		cmocka_unit_test(test_ladder_forced),
		cmocka_unit_test(test_user_rules),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_plain_softmax_f32),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_budget_waits),
		cmocka_unit_test(test_budget_suffices),
		cmocka_unit_test(test_budget_of_stand_in),
	};

	return cmocka_run_group_tests_name("zoo programs", tests, NULL, NULL);
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
		return run_programs();
	for (int i = 0; i < UNSEEN && !strcmp(name, "unseen"); i++)
		add(unseen[i].name, check_unseen, &unseen[i], only);
	if (!strcmp(name, "unseen"))
		add("unasked", check_unasked, NULL, only);
	for (int i = 0; i < PROVED && !strcmp(name, "graphs"); i++)
		add(proved[i].name, check_proved, &proved[i], only);
	for (unsigned i = 0; i < sizeof(groups) / sizeof(*groups); i++)
		if (!strcmp(name, groups[i].name))
			group = &groups[i];
	for (int i = 0; i < HAZARDS && group; i++)
		if (!zoo_driver || strcmp(hazards[i].name, "two_contexts")) /* cuCtxCreate_v4() */
			add(hazards[i].name, check_hazard, &hazards[i], only);
	if (!test_count) {
		fprintf(stderr, "usage: zoo replace|async|poison|compare|audit|off|own|unseen|"
				"graphs|programs[@DRIVER] [CASE]\n");
		return 64;
	}
	return _cmocka_run_group_tests(name, tests, test_count, NULL, NULL);
}
