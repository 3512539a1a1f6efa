/* SPDX-License-Identifier: Apache-2.0
 *
 * The fuzzer from the outside: runs the programs of seeds plain and under the shim, and holds all
 * that can be seen of the one against the other: status, stdout, stderr, every byte that the
 * program looked at. The shim's log must be whole and speak of no violation.
 *
 *     run SEEDS [--modes MODE,…|all] [--jobs N] [--trace FILE] [--stop] [--quiet]
 *         [--without-occurrences N,…] [--without-events N,…] [--only KIND] [--count]
 *
 * SEEDS: 7, 1-200, 3,9,12-14. Without --modes a seed runs in `replace` and in one of the others.
 * Ends with the share of chains that were replaced, and "N passed, N failed"; where several seeds
 * ran and nothing was replaced, that is a failure, too. FASHIM_LIBRARY: another shim than the one
 * built here.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/apps/zoo_run.h"
#include "tests/fuzz/differ.h"

static const struct mode {
	const char *name;
	const char *environment[5];
	bool exact, promised;
} modes[] = {
	{"replace", {"FASHIM=replace", NULL}, false, false},
	{"poison", {"FASHIM=replace", "FASHIM_POISON=1", NULL}, false, false},
	{"tight", {"FASHIM=replace", "FASHIM_SCRATCH_MB=1", NULL}, false, false},
	{"sample", {"FASHIM=replace", "FASHIM_SAMPLE=3", NULL}, false, false},
	{"async", {"FASHIM=replace", "SIMGPU_ASYNC=200", NULL}, false, false},
	{"rest",
	 {"FASHIM=replace", "FASHIM_POISON=1", "SIMGPU_REST=6", "SIMGPU_ASYNC=200", NULL},
	 false,
	 false},
	{"graphs", {"FASHIM=replace", "FASHIM_GRAPHS=trust", NULL}, false, true},
	{"prove",
	 {"FASHIM_GRAPHS=prove", "FASHIM_POISON=1", "SIMGPU_ASYNC=200", NULL},
	 false,
	 false},
	{"compare", {"FASHIM=compare", NULL}, true, false},
	{"audit", {"FASHIM=audit", NULL}, true, false},
};
#define MODES	     (sizeof(modes) / sizeof(*modes))
#define ASYNCHRONOUS "SIMGPU_ASYNC=200"
#define DEVICES	     "SIMGPU_DEVICES=2"

static struct {
	const char *seeds, *modes, *trace;
	const char *program[8]; /* options of the program itself */
	int program_count, jobs;
	bool stop, quiet;
} options = {.jobs = 1};

struct total {
	long seeds, passed, failed, seen, replaced, differing;
	double share;
	struct {
		char what[48];
		int seeds, times;
	} occurs[64]; /* with --count, in the plain runs */
};

/* ---- one run -----------------------------------------------------------------------------------
 */

static void run_program(struct outcome *outcome, const char *seed, const char *trace,
			const char *const *environment)
{
	const char *argv[15] = {"apps/sim/fuzz", seed};
	int count = 2;

	for (int i = 0; i < options.program_count; i++)
		argv[count++] = options.program[i];
	if (trace) {
		argv[count++] = "--trace";
		argv[count++] = trace;
	}
	zoo_run(outcome, argv, environment, true);
}

static void run_under(struct outcome *outcome, const char *seed, const struct mode *mode,
		      const char *log)
{
	const char *environment[12] = {DEVICES, "FASHIM_MIN_SPEEDUP=0", "FASHIM_BUDGET=0"}, *given;
	char preload[700], out[700], *built = zoo_path("sim/libfashim.so");
	int count = 3;

	given = getenv("FASHIM_LIBRARY");
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", given ? given : built);
	snprintf(out, sizeof(out), "FASHIM_OUT=%s", log);
	environment[count++] = preload;
	environment[count++] = out;
	for (int i = 0; mode->environment[i]; i++)
		environment[count++] = mode->environment[i];
	unlink(log);
	run_program(outcome, seed, NULL, environment);
	free(built);
}

/* Does the program differ from itself where streams really run beside each other? */
static bool own_fault(const char *seed, const struct outcome *plain)
{
	const char *const environment[] = {DEVICES, ASYNCHRONOUS, NULL};
	struct difference difference;
	struct outcome other;
	bool same;

	run_program(&other, seed, NULL, environment);
	same = dumps_agree(plain->dump, plain->dump_count * sizeof(float), other.dump,
			   other.dump_count * sizeof(float), true, false, &difference);
	zoo_free(&other);
	return !same;
}

/* What is wrong with it, in `text`; "": nothing. */
static void judge(const struct outcome *plain, const struct outcome *under,
		  const struct verdict *verdict, const struct mode *mode, char *text, size_t size,
		  double *share)
{
	struct difference difference;

	*text = '\0';
	if (plain->status != under->status || strcmp(plain->text, under->text) != 0 ||
	    strcmp(plain->errors, under->errors) != 0)
		snprintf(text, size, "status 0x%x, plain 0x%x; stderr: %.300s",
			 (unsigned)under->status, (unsigned)plain->status, under->errors);
	else if (!dumps_agree(plain->dump, plain->dump_count * sizeof(float), under->dump,
			      under->dump_count * sizeof(float), mode->exact, mode->promised,
			      &difference))
		snprintf(text, size, "%s", difference.text);
	else if (verdict->violations)
		snprintf(text, size, "the log tells of a violation: %s", verdict->violation);
	else if (!verdict->there || verdict->headers != 1 || verdict->summaries != 1)
		snprintf(text, size, "the log has %d headers and %d summaries", verdict->headers,
			 verdict->summaries);
	else if (mode->exact && verdict->replaced)
		snprintf(text, size, "%ld chains were replaced", verdict->replaced);
	else
		*share = difference.share > *share ? difference.share : *share;
}

static bool wanted(const struct mode *mode, int seed)
{
	const size_t length = strlen(mode->name);
	const char *at = options.modes;

	if (!at) /* replace, and each of the others in turn */
		return mode == modes || mode == &modes[1 + (unsigned)seed % (MODES - 1)];
	if (!strcmp(at, "all"))
		return true;
	for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (!strncmp(at, mode->name, length) && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

static void run_mode(const char *seed, const struct outcome *plain, const struct mode *mode,
		     const char *log, struct total *total)
{
	struct outcome under;
	struct verdict verdict;
	char text[900];

	run_under(&under, seed, mode, log);
	zoo_read_log(log, &verdict);
	judge(plain, &under, &verdict, mode, text, sizeof(text), &total->share);
	if (!mode->exact) {
		total->seen += verdict.seen;
		total->replaced += verdict.replaced;
	}
	if (*text) {
		total->failed++;
		printf("seed %s %s: %s\n", seed, mode->name, text);
		if (own_fault(seed, plain))
			printf("    the program itself depends on timing: a fault of the fuzzer\n");
		printf("    again: build/tests/fuzz/run %s --modes %s --trace trace; "
		       "tests/fuzz/minimise.py %s %s\n",
		       seed, mode->name, seed, mode->name);
	} else {
		total->passed++;
		if (!options.quiet)
			printf("seed %s %s: %ld of %ld replaced\n", seed, mode->name,
			       verdict.replaced, verdict.seen);
	}
	zoo_free(&under);
}

static void add_occurring(struct total *total, const char *what, int seeds, int times)
{
	for (unsigned i = 0; i < sizeof(total->occurs) / sizeof(*total->occurs); i++) {
		if (*total->occurs[i].what && strcmp(total->occurs[i].what, what) != 0)
			continue;
		snprintf(total->occurs[i].what, sizeof(total->occurs[i].what), "%s", what);
		total->occurs[i].seeds += seeds;
		total->occurs[i].times += times;
		return;
	}
}

static void count_occurring(struct total *total, const char *text)
{
	char what[48];
	int times;

	for (; text; text = strchr(text, '\n'), text += text != NULL)
		if (sscanf(text, "occurs %d %47[^\n]", &times, what) == 2)
			add_occurring(total, what, 1, times);
}

static void run_seed(int number, struct total *total)
{
	const char *const environment[] = {DEVICES, NULL};
	char seed[16], *log = zoo_scratch("log");
	struct outcome plain;
	long failed = total->failed;

	snprintf(seed, sizeof(seed), "%d", number);
	total->seeds++;
	run_program(&plain, seed, options.trace, environment);
	if (plain.status) {
		printf("seed %s: the plain run ends with status 0x%x: %s\n", seed,
		       (unsigned)plain.status, plain.errors);
		total->failed++;
	} else {
		count_occurring(total, plain.text);
		for (unsigned m = 0; m < MODES; m++)
			if (wanted(&modes[m], number))
				run_mode(seed, &plain, &modes[m], log, total);
	}
	if (total->failed > failed)
		total->differing++;
	fflush(stdout);
	zoo_free(&plain);
	free(log);
}

/* ---- all of them
 * --------------------------------------------------------------------------------- */

/* Every jobs-th of the seeds, from the job-th. */
static void run_seeds(int job, struct total *total)
{
	int count = 0;

	for (const char *at = options.seeds; at && *at;) {
		char *end;
		long from = strtol(at, &end, 10), to = from;

		if (*end == '-')
			to = strtol(end + 1, &end, 10);
		for (long seed = from; seed <= to; seed++) {
			if (options.stop && total->failed)
				return;
			if (count++ % options.jobs == job)
				run_seed((int)seed, total);
		}
		at = *end ? end + 1 : NULL;
	}
}

static void add(struct total *sum, const struct total *part)
{
	sum->seeds += part->seeds;
	sum->passed += part->passed;
	sum->failed += part->failed;
	sum->seen += part->seen;
	sum->replaced += part->replaced;
	sum->differing += part->differing;
	sum->share = part->share > sum->share ? part->share : sum->share;
	for (unsigned i = 0; i < sizeof(part->occurs) / sizeof(*part->occurs); i++)
		if (*part->occurs[i].what)
			add_occurring(sum, part->occurs[i].what, part->occurs[i].seeds,
				      part->occurs[i].times);
}

static bool run_jobs(struct total *sum)
{
	int pipes[2];

	if (options.jobs == 1) {
		run_seeds(0, sum);
		return true;
	}
	if (pipe(pipes))
		return false;
	for (int job = 0; job < options.jobs; job++) {
		fflush(stdout);
		if (fork() == 0) {
			struct total part = {0};

			run_seeds(job, &part);
			exit(write(pipes[1], &part, sizeof(part)) != sizeof(part));
		}
	}
	for (int job = 0; job < options.jobs; job++) {
		struct total part;
		int status;

		if (wait(&status) < 0 || status ||
		    read(pipes[0], &part, sizeof(part)) != sizeof(part))
			return false;
		add(sum, &part);
	}
	return true;
}

static bool for_program(const char *word, const char *value)
{
	static const char *const with_value[] = {"--without-occurrences", "--without-events",
						 "--only"};

	if (!strcmp(word, "--count")) {
		options.program[options.program_count++] = word;
		return true;
	}
	for (unsigned i = 0; value && i < 3; i++)
		if (!strcmp(word, with_value[i])) {
			options.program[options.program_count++] = word;
			options.program[options.program_count++] = value;
			return true;
		}
	return false;
}

static bool read_options(int argc, char **argv)
{
	options.seeds = argv[1];
	for (int i = 2; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--stop"))
			options.stop = true;
		else if (!strcmp(argv[i], "--quiet"))
			options.quiet = true;
		else if (!strcmp(argv[i], "--count"))
			for_program(argv[i], NULL);
		else if (!value)
			return false;
		else if (!strcmp(argv[i], "--modes"))
			options.modes = argv[++i];
		else if (!strcmp(argv[i], "--trace"))
			options.trace = argv[++i];
		else if (!strcmp(argv[i], "--jobs"))
			options.jobs = atoi(argv[++i]);
		else if (for_program(argv[i], value))
			i++;
		else
			return false;
	}
	return options.jobs > 0;
}

int main(int argc, char **argv)
{
	struct total total = {0};

	if (argc < 2 || !read_options(argc, argv)) {
		fprintf(stderr, "usage: run SEEDS [--modes MODE,...|all] [--jobs N] [--trace FILE] "
				"[--stop] [--quiet] [options of the program]\n");
		return 64;
	}
	if (options.trace && options.trace[0] != '/') {
		char *folder = getcwd(NULL, 0), *path = NULL;

		if (!folder || asprintf(&path, "%s/%s", folder, options.trace) < 0)
			return 1;
		options.trace = path;
		free(folder);
	}
	if (!run_jobs(&total)) {
		printf("a job ended early\n");
		total.failed++;
	}
	if (total.seeds > 1 && total.seen && !total.replaced) {
		printf("nothing was replaced\n");
		total.failed++;
	}
	for (unsigned i = 0; i < sizeof(total.occurs) / sizeof(*total.occurs); i++)
		if (*total.occurs[i].what)
			printf("%4d times in %d seeds: %s\n", total.occurs[i].times,
			       total.occurs[i].seeds, total.occurs[i].what);
	printf("%ld of %ld chains replaced (%ld %%); %ld seeds differ; at most %.2f of a "
	       "tolerance\n",
	       total.replaced, total.seen, total.seen ? 100 * total.replaced / total.seen : 0,
	       total.differing, total.share);
	printf("%ld passed, %ld failed\n", total.passed, total.failed);
	return total.failed != 0;
}
