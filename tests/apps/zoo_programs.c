/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole programs under the shim: demos, forks, kills, budgets, rules of the user's.
 */
#include "tests/cmocka.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/child.h"
#include "zoo_compare.h"

static void compare_program(const char *const *argv, const char *const *more, int least,
			    double tolerance)
{
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;
	const char *said;
	int where;

	zoo_run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	zoo_run_under(&under, argv, more, log);
	said = zoo_record_of(&verdict, log);
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

	compare_program(argv, NULL, 18, 24 * ZOO_TOLERANCE);
}

static void test_demo_sm80(void **state)
{
	const char *const argv[] = {"apps/sim/demo", NULL}, *const more[] = {"SIMGPU_ARCH=80",
									     NULL};

	compare_program(argv, more, 18, 24 * ZOO_TOLERANCE);
}

static void test_plain_softmax_f16(void **state)
{
	const char *const argv[] = {"apps/sim/plain_softmax", "f16", NULL};

	compare_program(argv, NULL, 8, ZOO_TOLERANCE);
}

/* A step of the ladder by its number: its module is loaded, a kernel before it runs in scratch. */
static void test_ladder_forced(void **state)
{
	const char *const argv[] = {"apps/sim/plain_softmax", "f16", NULL};
	const char *const more[] = {"FASHIM_KERNEL=ladder/08", NULL};

	compare_program(argv, more, 8, ZOO_TOLERANCE);
}

/* With the user's word chains are replaced in a capture: the first of three here. Of the second an
 * input is overwritten on the way, the third ends without a product: both run as they were. */
static void test_graphs(void **state)
{
	const char *const argv[] = {"apps/sim/hazards", "graph_o_alone", NULL};
	const char *const more[] = {"FASHIM_GRAPHS=trust", NULL};

	compare_program(argv, more, 4, ZOO_TOLERANCE);
}

/* Between products that are captured into a graph the program asks where the graph ends, and puts
 * nodes of its own behind: what was held back has to be there by then. */
static void test_graphs_asked(void **state)
{
	const char *const argv[] = {"apps/sim/hazards", "graph_hand_onto", NULL};
	const char *const more[] = {"FASHIM_GRAPHS=trust", NULL};

	compare_program(argv, more, 1, ZOO_TOLERANCE);
}

/* The examples of docs/rules.md: lines between "```rules" and "```". */
static void write_documented_rules(const char *path)
{
	FILE *docs = fopen(RULES_DOCS, "r"), *rules = fopen(path, "w");
	bool inside = false;
	char line[256];

	assert_non_null(docs);
	assert_non_null(rules);
	while (fgets(line, sizeof(line), docs)) {
		if (strncmp(line, "```", 3) == 0)
			inside = strcmp(line, "```rules\n") == 0;
		else if (inside)
			fputs(line, rules);
	}
	fclose(docs);
	fclose(rules);
}

/* The user says what the program's own kernels do. In this case nothing else would tell: V lands in
 * the memory of S. */
static void test_user_rules(void **state)
{
	const char *const argv[] = {"apps/sim/hazards", "bert", NULL};
	char *path = zoo_scratch("rules"), rules[600];
	const char *const more[] = {"APP_KERNELS=own", rules, NULL};

	write_documented_rules(path);
	snprintf(rules, sizeof(rules), "FASHIM_RULES=%s", path);
	compare_program(argv, more, 9, ZOO_TOLERANCE);
	free(path);
}

/* As exact as fp32 was. */
static void test_plain_softmax_f32(void **state)
{
	const char *const argv[] = {"apps/sim/plain_softmax", NULL};

	compare_program(argv, NULL, 8, 2e-6);
}

/* A program that is killed leaves a log that can be read, and the counters beside it. */
static void test_killed(void **state)
{
	char *log = zoo_scratch("killed"), *live = zoo_scratch("killed.live");
	char *library = zoo_path("sim/libfashim.so"), *libraries = zoo_path("simgpu");
	char *program = zoo_path("apps/sim/demo");
	const char *const argv[] = {"fashim", "report", log, NULL};
	const char *const none[] = {"LC_ALL=C.UTF-8", NULL};
	struct outcome report;
	struct verdict verdict;
	int status;
	pid_t pid;

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

	zoo_run_plain(&plain, argv, NULL);
	assert_int_equal(plain.status, 0);
	zoo_run_under(&under, argv, NULL, log);
	print_message("# forks: %s\n", zoo_record_of(&verdict, log));
	zoo_assert_same(&plain, &under, &verdict, false);
	assert_true(verdict.there);
	assert_int_equal(verdict.headers, 1);
	assert_int_equal(verdict.summaries, 1);
	assert_true(verdict.replaced >= 9);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* FASHIM_MIN_SPEEDUP holds where the driver has but the older function that tells times. */
static void test_slower_on_older_driver(void **state)
{
	char *library = zoo_path("sim/libfashim.so"), *log = zoo_scratch("log"), preload[1100],
	     out[600];
	const char *const argv[] = {"apps/sim/demo", "10", NULL};
	const char *const environment[] = {
		preload, out, "SIMGPU_ARCH=80", "FASHIM_BUDGET=0", "FASHIM_MIN_SPEEDUP=100000",
		NULL};
	struct outcome under;
	struct verdict verdict;

	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	snprintf(out, sizeof(out), "FASHIM_OUT=%s", log);
	unlink(log);
	zoo_driver = "12.2";
	zoo_run(&under, argv, environment, false);
	zoo_driver = NULL;
	zoo_read_log(log, &verdict);
	assert_int_equal(under.status, 0);
	assert_int_equal(verdict.replaced, 0);
	assert_non_null(strstr(verdict.reasons, " slower "));
	zoo_free(&under);
	free(library);
	free(log);
}

/* One of the shims that lie in text/, which have no machine code: the demo under it, and what the
 * log says. */
static void run_text(struct verdict *verdict, const struct outcome *plain, const char *cache,
		     const char *more)
{
	const char *const argv[] = {"apps/sim/demo", NULL};
	char *library = zoo_path("text/libfashim.so"), *log = zoo_scratch("log"), preload[1100],
	     out[600];
	const char *const environment[] = {
		preload, out, cache, "SIMGPU_JIT=off", "FASHIM_BUDGET=0", "FASHIM_MIN_SPEEDUP=0",
		more,	 NULL};
	struct outcome under;

	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	snprintf(out, sizeof(out), "FASHIM_OUT=%s", log);
	unlink(log);
	zoo_run(&under, argv, environment, true);
	zoo_read_log(log, verdict);
	assert_int_equal(under.status, 0);
	assert_int_equal(verdict->violations, 0);
	assert_true(zoo_difference(plain, &under) <= 24 * ZOO_TOLERANCE);
	zoo_free(&under);
	free(library);
	free(log);
}

/* `fashim doctor --prepare` beside it, which says `words`. */
static void prepare_text(const char *cache, int status, const char *words)
{
	const char *const argv[] = {"text/fashim", "doctor", "--prepare", NULL};
	const char *const environment[] = {cache, "SIMGPU_JIT=off", "LC_ALL=C.UTF-8", NULL};
	struct outcome doctor;

	zoo_run(&doctor, argv, environment, false);
	assert_true(WIFEXITED(doctor.status));
	if (WEXITSTATUS(doctor.status) != status || !strstr(doctor.errors, words))
		fail_msg("%d: %s%s", WEXITSTATUS(doctor.status), doctor.text, doctor.errors);
	zoo_free(&doctor);
}

/* The files of a folder but the oldest, which has the helpers, are cut short. Their number. */
static int spoil(const char *folder)
{
	char command[2048], line[32] = "0";
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "cd %s && set -- $(ls -tr *.cubin) && shift && echo $# && truncate -s 3000 $*",
		 folder);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof(line), pipe));
	assert_int_equal(pclose(pipe), 0);
	return atoi(line);
}

/* A GPU for which there is PTX alone: no driver is asked to compile it in a call of the program's,
 * and what `fashim doctor --prepare` compiled is loaded, if it is whole. */
static void test_prepared(void **state)
{
	const char *const argv[] = {"apps/sim/demo", NULL};
	char *folder = zoo_scratch("cache"), cache[600], files[700], words[64];
	struct verdict verdict;
	struct outcome plain;
	int spoilt;

	snprintf(cache, sizeof(cache), "XDG_CACHE_HOME=%s", folder);
	snprintf(files, sizeof(files), "%s/fashim", folder);
	zoo_run_plain(&plain, argv, NULL);
	run_text(&verdict, &plain, cache, NULL);
	assert_int_equal(verdict.replaced, 0);
	assert_non_null(strstr(verdict.reasons, " not_prepared "));
	run_text(&verdict, &plain, cache, "SIMGPU_ARCH=75"); /* too old for that text */
	assert_int_equal(verdict.replaced, 0);
	assert_non_null(strstr(verdict.reasons, " no_image "));

	prepare_text(cache, 0, "kernels for sm_90: ");
	run_text(&verdict, &plain, cache, NULL);
	assert_true(verdict.replaced >= 18);
	run_text(&verdict, &plain, cache, "SIMGPU_DRIVER=12.2"); /* older than what compiled */
	assert_int_equal(verdict.replaced, 0);
	run_text(&verdict, &plain, cache, "SIMGPU_ARCH=120"); /* another GPU */
	assert_int_equal(verdict.replaced, 0);

	prepare_text(cache, 0, "0 parts compiled (0.0 MiB)");
	spoilt = spoil(files);
	assert_true(spoilt > 5);
	run_text(&verdict, &plain, cache, NULL);
	assert_int_equal(verdict.replaced, 0);
	assert_non_null(strstr(verdict.reasons, " not_prepared "));
	snprintf(words, sizeof(words), " %d parts compiled", spoilt);
	prepare_text(cache, 0, words);
	run_text(&verdict, &plain, cache, NULL);
	assert_true(verdict.replaced >= 18);
	zoo_free(&plain);
	free(folder);
}

/* A program that says whether something that it waits for did not come. */
static void not_stuck(const char *const *argv, const char *const *environment, int least)
{
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	zoo_run(&plain, argv, environment, true);
	assert_int_equal(plain.status, 0);
	assert_non_null(strstr(plain.text, "stuck 0\n"));
	zoo_run_under(&under, argv, environment, log);
	print_message("# %s: %s\n", argv[0], zoo_record_of(&verdict, log));
	assert_non_null(strstr(under.text, "stuck 0\n"));
	zoo_assert_same(&plain, &under, &verdict, false);
	assert_true(verdict.replaced >= least);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* What the shim gives back while the device is busy keeps no other thread from its calls. */
static void test_waits(void **state)
{
	const char *const argv[] = {"apps/sim/waits", NULL};
	const char *const environment[] = {"SIMGPU_ASYNC=1", "APP_KERNELS=own", NULL};

	not_stuck(argv, environment, 1);
}

/* Nor does what is made after all where the device has no memory left. */
static void test_waits_without_memory(void **state)
{
	const char *const argv[] = {"apps/sim/waits", "memory", NULL};
	const char *const environment[] = {"SIMGPU_ASYNC=1", NULL};

	not_stuck(argv, environment, 1);
}

/* Two devices meet in each repetition; a second one's op waits for no more of the first than it
 * must. */
static void test_collective(void **state)
{
	const char *const argv[] = {"apps/sim/collective", NULL};
	const char *const environment[] = {"SIMGPU_ASYNC=1", "SIMGPU_DEVICES=2", NULL};

	not_stuck(argv, environment, 40);
}

/* Whoever leaves a call of theirs half way leaves nothing behind that stops the others. */
static void test_unwound(void **state)
{
	const char *const argv[] = {"apps/sim/unwound", NULL};
	const char *const environment[] = {"SIMGPU_LOG=/dev/null", NULL};
	char *log = zoo_scratch("log");
	struct outcome plain, under;
	struct verdict verdict;

	zoo_run(&plain, argv, environment, true);
	assert_int_equal(plain.status, 0);
	assert_non_null(strstr(plain.text, "faults 4\n"));
	zoo_run_under(&under, argv, environment, log);
	print_message("# unwound: %s\n", zoo_record_of(&verdict, log));
	zoo_assert_same(&plain, &under, &verdict, false);
	assert_true(verdict.replaced > 0);
	zoo_free(&plain);
	zoo_free(&under);
	free(log);
}

/* What was held back is made with the library that the program has; nothing is where that has no
 * way to run the product. */
static void test_lt_alone(void **state)
{
	static const char *const finds[] = {"SIMGPU_LT_FINDS=yes", "SIMGPU_LT_FINDS=no"};
	const char *const argv[] = {"apps/sim/lt_alone", NULL};
	char *log = zoo_scratch("log");

	for (int i = 0; i < 2; i++) {
		const char *const environment[] = {finds[i], NULL};
		struct outcome plain, under;
		struct verdict verdict;

		zoo_run(&plain, argv, environment, true);
		zoo_run_under(&under, argv, environment, log);
		print_message("# lt_alone: %s\n", zoo_record_of(&verdict, log));
		zoo_assert_same(&plain, &under, &verdict, false);
		if (i == 0)
			assert_true(verdict.replaced >= 16 && verdict.materialised >= 3);
		else
			assert_int_equal(verdict.replaced, 0);
		zoo_free(&plain);
		zoo_free(&under);
	}
	free(log);
}

/* What is held back when a program leaves is there for its exit handlers, and is not computed with
 * a library that was torn down: the simulated cuBLAS ends the process then. */
static void test_leaves(void **state)
{
	static const char *const ways[] = {"return", "exit", "error"};
	char *log = zoo_scratch("log");

	for (int i = 0; i < 3; i++) {
		const char *const argv[] = {"apps/sim/leaves", ways[i], NULL}, *const none[] = {
										       NULL};
		struct outcome plain, under;
		struct verdict verdict;

		zoo_run(&plain, argv, none, true);
		assert_int_equal(WEXITSTATUS(plain.status), 3);
		zoo_run_under(&under, argv, none, log);
		print_message("# leaves %s: %s\n", ways[i], zoo_record_of(&verdict, log));
		zoo_assert_same(&plain, &under, &verdict, false);
		assert_int_equal(under.status, plain.status);
		assert_true(verdict.replaced > 0);
		zoo_free(&plain);
		zoo_free(&under);
	}
	free(log);
}

/* With nothing to spend but what is spent once, a few comparisons are all: most occurrences are
 * passed on, and the log says why. */
static void test_budget_waits(void **state)
{
	const char *const argv[] = {"apps/sim/demo", NULL};
	const char *const modes[] = {"FASHIM=replace", "FASHIM=compare"};
	char *log = zoo_scratch("log");

	for (int i = 0; i < 2; i++) {
		const char *const more[] = {modes[i], "FASHIM_BUDGET=1e-9", "FASHIM_LEARN=20",
					    NULL};
		struct outcome plain, under;
		struct verdict verdict;
		const char *said;

		zoo_run_plain(&plain, argv, NULL);
		zoo_run_under(&under, argv, more, log);
		said = zoo_record_of(&verdict, log);
		print_message("# %s: %s\n", modes[i], said);
		zoo_assert_same(&plain, &under, &verdict, true);
		assert_int_equal(verdict.summaries, 1);
		assert_int_equal(verdict.replaced, 0);
		assert_in_range(verdict.compared, 0, 10);
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

	compare_program(argv, (const char *const[]){"FASHIM_BUDGET=", NULL}, 18,
			24 * ZOO_TOLERANCE);
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

	compare_program(argv, more, 18, 24 * ZOO_TOLERANCE);
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

int zoo_programs(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zoo_test_list),
		cmocka_unit_test(test_demo),
		cmocka_unit_test(test_demo_sm80),
		cmocka_unit_test(test_plain_softmax_f16),
		cmocka_unit_test(test_ladder_forced),
		cmocka_unit_test(test_user_rules),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_graphs_asked),
		cmocka_unit_test(test_plain_softmax_f32),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_slower_on_older_driver),
		cmocka_unit_test(test_prepared),
		cmocka_unit_test(test_waits),
		cmocka_unit_test(test_waits_without_memory),
		cmocka_unit_test(test_collective),
		cmocka_unit_test(test_unwound),
		cmocka_unit_test(test_lt_alone),
		cmocka_unit_test(test_leaves),
		cmocka_unit_test(test_budget_waits),
		cmocka_unit_test(test_budget_suffices),
		cmocka_unit_test(test_budget_of_stand_in),
	};

	return cmocka_run_group_tests_name("zoo programs", tests, NULL, NULL);
}
