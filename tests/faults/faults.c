/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a program when calls that the shim makes are refused (fault.c): of each of some
 * programs, every call of every kind in turn. The program's output is right, or the program was
 * told: a call of its own returned an error, the log names a violation where but one call was
 * refused, and what it saw before was right. A crash, a hang or another answer is a failure and is
 * listed.
 *
 *     faults [--jobs N] [--seconds N] [--slice N | --share K/N | --brief]
 *            [PROGRAM[:CASE] [KIND[:HOW[:N]]]]
 *
 * --jobs: so many programs at a time; --seconds: none is begun later than that; --slice: only N
 * calls for each program, kind and way, spread over all; --share: every N-th call from the K-th on,
 * so that N runs together try all; --brief: of a few programs, two of each. KIND locks refuses
 * nothing: no program may see the shim call a function of the driver, with a lock of its own, that
 * is not known to come back while the device is busy (quick_calls.def). KIND fills: see
 * lose_fills(); launches, copies: see refuse_launches(). Ends with "N passed, N failed"; passed are
 * faults.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/apps/zoo_run.h"
#include "tests/faults/fault.h"

#define TOLERANCE   4e-3 /* as in zoo.c */
#define TIME_LIMIT  120	 /* seconds, also where the machine has other things to do */
#define APP_FAILED  2	 /* a CHECK() of the program's: it received an error */
#define FAULTS_MOST 100000

static const struct program {
	const char *name, *example; /* NULL: none */
	const char *environment[2];
	double tolerance;
} programs[] = {
	/* in --brief too */
	{"demo", "10", {NULL}, 10 * TOLERANCE}, /* the sum of 10 outputs */
	{"hazards", "p_copied", {NULL}, TOLERANCE},
	{"hazards", "outputs_edited", {NULL}, TOLERANCE},
	{"hazards", "graph_o_alone", {"FASHIM_GRAPHS=trust"}, TOLERANCE},
	{"hazards", "graph_inputs_go", {NULL}, TOLERANCE},
	{"hazards", "graph_launched_again", {NULL}, TOLERANCE},
	/* not in it */
	{"hazards", "graph_fork_two", {NULL}, TOLERANCE},
	{"hazards", "graph_hand_fork_onto", {NULL}, TOLERANCE},
	{"hazards", "k_rewritten", {NULL}, TOLERANCE},
	{"hazards", "copies_read", {NULL}, TOLERANCE},
	{"hazards", "address_array", {NULL}, TOLERANCE},
	{"hazards", "mask_uploaded", {"APP_KERNELS=own"}, TOLERANCE},
	{"unseen", "lengths", {NULL}, TOLERANCE},
};
#define PROGRAMS (sizeof(programs) / sizeof(*programs))
#define BRIEF	 6 /* of them */
#define SLICE	 2
/* Of them, those in which the shim fills only what comparisons count in. */
#define COMPARING 3
/* The one that launches once more what was refused. */
#define LAUNCHING 5

static const struct way {
	const char *kind, *how;
} ways[] = {
	{"driver", "once"}, {"driver", "from"}, {"driver", "sticky"}, {"memory", "once"},
	{"memory", "from"}, {"file", "once"},	{"file", "from"},
};
#define WAYS (sizeof(ways) / sizeof(*ways))

static const struct way locks = {"locks", "once"}, fills = {"fills", "from"},
			launches = {"launches", "once"}, copies = {"copies", "once"},
			late = {"launches", "late"};

/* What may be called with a lock of the shim's. */
static const char *const quick[] = {
#define QUICK(name) #name,
#define WAITS(name, where, times)
#include "tests/faults/quick_calls.def"
};

static struct fault_found *found;
static char *found_path, *log_path;

/* What all workers did. */
static struct shared {
	atomic_long passed, failed;
	struct sweep {
		atomic_long next; /* of those to be tried, which is the next */
		atomic_long calls, tried, told, failed;
	} sweep[PROGRAMS][WAYS];
	atomic_int locks[PROGRAMS], fills[PROGRAMS], launches, late; /* were they looked at? */
} * shared;

static void *share(size_t bytes, int fd)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static void share_found(void)
{
	int fd;

	found_path = zoo_scratch("found");
	log_path = zoo_scratch("log");
	fd = open(found_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*found)))
		abort();
	found = share(sizeof(*found), fd);
	close(fd);
}

/* way NULL: without the shim. number 0: nothing is refused. */
static void run(struct outcome *outcome, const struct program *program, const struct way *way,
		long number)
{
	char path[64], preload[1200], fault[64], told[600], out[600];
	char *library = zoo_path("sim/libfashim.so"), *refuser = zoo_path("tests/faults/fault.so");
	const char *const argv[] = {path, program->example, NULL};
	const char *environment[10] = {"SIMGPU_ARCH=80"};
	int count = 1;

	for (int i = 0; i < 2 && program->environment[i]; i++)
		environment[count++] = program->environment[i];
	snprintf(path, sizeof(path), "apps/sim/%s", program->name);
	if (way) {
		snprintf(preload, sizeof(preload), "LD_PRELOAD=%s:%s", library, refuser);
		snprintf(fault, sizeof(fault), "FAULT=%s:%s:%ld", way->kind, way->how, number);
		snprintf(told, sizeof(told), "FAULT_FOUND=%s", found_path);
		snprintf(out, sizeof(out), "FASHIM_OUT=%s", log_path);
		environment[count++] = preload;
		environment[count++] = fault;
		environment[count++] = told;
		environment[count++] = out;
		environment[count++] = "FASHIM_MIN_SPEEDUP=0";
		if (way == &locks)
			environment[count++] = "FASHIM_BUDGET=0"; /* all that it may do */
	}
	unlink(log_path);
	memset(found, 0, sizeof(*found));
	zoo_run(outcome, argv, environment, true);
	free(library);
	free(refuser);
}

/* Is there a line on stderr that is neither the shim's nor that of a CHECK()? */
static bool other_errors(const char *errors, bool check)
{
	while (*errors) {
		const size_t length = strcspn(errors, "\n");
		const char *status = strstr(errors, ": status ");

		if (strncmp(errors, "fashim", 6) != 0 &&
		    !(check && status && status < errors + length))
			return true;
		errors += length + (errors[length] == '\n');
	}
	return false;
}

/* NULL, or what is wrong with it. *told: the program received an error. */
static const char *judge(const struct program *program, const struct way *way,
			 const struct outcome *plain, struct outcome *under, bool *told)
{
	const size_t whole = plain->dump_count;
	struct outcome seen = *plain;
	struct verdict verdict;
	int where;

	*told = false;
	if (WIFSIGNALED(under->status))
		return WTERMSIG(under->status) == SIGALRM ? "hang" : "crash";
	zoo_read_log(log_path, &verdict);
	*told = WEXITSTATUS(under->status) == APP_FAILED;
	if (under->status != plain->status && !*told)
		return "another exit status";
	if (other_errors(under->errors, *told))
		return "another word on stderr";
	if (*told && strcmp(way->kind, "driver") != 0)
		return "an error for what the program need not know";
	/* Where all fails the shim cannot tell its own failure from the program's. */
	if (*told && !strcmp(way->how, "once") && !verdict.violations)
		return "an error without a violation in the log";
	if (!*told &&
	    !zoo_same_text(plain->text, under->text, program->tolerance <= TOLERANCE, &where))
		return "another text";
	if (*told && under->dump_count < whole)
		seen.dump_count = under->dump_count; /* up to the error */
	return zoo_difference(&seen, under) <= program->tolerance ? NULL : "silent wrong result";
}

static void try(const struct program *program, const struct way *way, const struct outcome *plain,
		long number, struct sweep *all)
{
	struct outcome under;
	const char *wrong;
	bool error;

	run(&under, program, way, number);
	wrong = judge(program, way, plain, &under, &error);
	all->told += error;
	all->tried++;
	if (wrong) {
		printf("%s%s%s %s:%s:%ld %s at 0x%lx: %s; status 0x%x; %.200s\n", program->name,
		       program->example ? ":" : "", program->example ? program->example : "",
		       way->kind, way->how, number, found->name, (unsigned long)found->caller,
		       wrong, (unsigned)under.status, under.errors);
		fflush(stdout);
		all->failed++;
		shared->failed++;
	} else {
		shared->passed++;
	}
	zoo_free(&under);
}

/* How many calls of the kind there are; 0: none, or the program fails by itself. */
static long count_calls(const struct program *program, const struct way *way,
			const struct outcome *plain)
{
	struct outcome under;
	const char *wrong;
	bool error;

	run(&under, program, way, 0);
	wrong = judge(program, way, plain, &under, &error);
	if (wrong || error)
		printf("%s %s: without a fault: %s; status 0x%x, plain 0x%x\n%s%s", program->name,
		       program->example ? program->example : "", wrong ? wrong : "an error",
		       (unsigned)under.status, (unsigned)plain->status, plain->errors,
		       under.errors);
	zoo_free(&under);
	return wrong || error ? 0 : found->count;
}

static time_t latest; /* 0: no matter when */

static bool too_late(void)
{
	return latest && time(NULL) >= latest;
}

/* What was asked for. */
static struct {
	const char *program, *way;
	long only, slice, share, shares, jobs;
	unsigned programs;
} asked = {.share = 1, .shares = 1, .jobs = 1, .programs = PROGRAMS};

/* The calls that nobody has tried yet. */
static void sweep(const struct program *program, const struct way *way, const struct outcome *plain,
		  struct sweep *all)
{
	const long calls = all->calls, slice = asked.slice;
	long at;

	if (asked.only) {
		if (!atomic_fetch_add(&all->next, 1))
			try(program, way, plain, asked.only, all);
		return;
	}
	while (!too_late()) {
		at = atomic_fetch_add(&all->next, 1) * asked.shares + asked.share - 1;
		if (slice && slice < calls) {
			if (at >= slice)
				break;
			at = (2 * at + 1) * calls / (2 * slice);
		}
		if (at >= calls || at >= FAULTS_MOST)
			break;
		try(program, way, plain, at + 1, all);
	}
}

static void report(const struct program *program, const struct way *way, const struct sweep *all)
{
	printf("%s%s%s %s %s: %ld of %ld calls refused, %ld times told, %ld failed\n",
	       program->name, program->example ? " " : "", program->example ? program->example : "",
	       way->kind, way->how, all->tried, all->calls, all->told, all->failed);
}

static bool is_quick(const char *name)
{
	for (size_t i = 0; i < sizeof(quick) / sizeof(*quick); i++)
		if (!strcmp(quick[i], name))
			return true;
	return false;
}

static void look_at_locks(const struct program *program)
{
	struct outcome under;
	long calls = 0, bad = 0;

	run(&under, program, &locks, 0);
	for (; calls < FAULT_LOCKED && found->locked[calls][0]; calls++)
		if (!is_quick(found->locked[calls])) {
			printf("%s%s%s: %s is called with a lock\n", program->name,
			       program->example ? ":" : "",
			       program->example ? program->example : "", found->locked[calls]);
			bad++;
		}
	shared->failed += bad + !calls;
	shared->passed += calls - bad;
	zoo_free(&under);
}

/* What a comparison counts in is not zero before, from the number-th one on: it holds what lay
 * there, or what an earlier one counted. Nothing is verified, and nothing waits for ever. */
static void lose_fills(const struct program *program, const struct outcome *plain, long number)
{
	struct outcome under;
	struct verdict verdict;
	bool right;

	run(&under, program, &fills, number);
	zoo_read_log(log_path, &verdict);
	right = found->count && under.status == plain->status && !verdict.replaced &&
		zoo_difference(plain, &under) == 0;
	if (!right)
		printf("%s: %ld fills lost from %ld on: status 0x%x, %d replaced, %g apart\n",
		       program->name, atomic_load(&found->count), number, (unsigned)under.status,
		       (int)verdict.replaced, zoo_difference(plain, &under));
	shared->passed += right;
	shared->failed += !right;
	zoo_free(&under);
}

/* A graph is replaced as ever, where the driver refused one of the program's own launches of it,
 * and the program launched it again; and no more, where it refused one of ours. The log says no
 * more than that. */
static void refuse_launches(const struct program *program, const struct way *way,
			    const struct outcome *plain, long number)
{
	const bool ours = way == &copies;
	struct outcome under;
	struct verdict verdict;
	bool right;

	run(&under, program, way, number);
	zoo_read_log(log_path, &verdict);
	right = found->name[0] && under.status == plain->status && !verdict.violations &&
		zoo_mentions(log_path, "\"state\":\"replaced\"") == (!ours || number > 2) &&
		zoo_mentions(log_path, "the driver refuses its copy") == ours &&
		!zoo_mentions(log_path, "two threads") &&
		zoo_difference(plain, &under) <= program->tolerance;
	if (!right)
		printf("%s:%s: %s %ld of %ld refused: status 0x%x, %d replaced, reasons %s\n",
		       program->name, program->example, way->kind, number,
		       atomic_load(&found->count), (unsigned)under.status, (int)verdict.replaced,
		       verdict.reasons);
	shared->passed += right;
	shared->failed += !right;
	zoo_free(&under);
}

/* What the driver makes of it is the program's, however long another thread's launch is under way.
 */
static void launch_late(void)
{
	const struct program program = {
		"hazards", "graph_late_launch", {"SIMGPU_ASYNC=2000"}, TOLERANCE};
	struct outcome plain, under;
	struct verdict verdict;
	bool right;

	run(&plain, &program, NULL, 0);
	run(&under, &program, &late, 1);
	zoo_read_log(log_path, &verdict);
	right = found->count && !under.status && !verdict.violations &&
		zoo_mentions(log_path, "\"state\":\"replaced\"") &&
		zoo_difference(&plain, &under) <= program.tolerance;
	if (!right)
		printf("%s:%s: status 0x%x, %d replaced, %g apart, reasons %s\n", program.name,
		       program.example, (unsigned)under.status, (int)verdict.replaced,
		       zoo_difference(&plain, &under), verdict.reasons);
	shared->passed += right;
	shared->failed += !right;
	zoo_free(&plain);
	zoo_free(&under);
}

static bool wanted(const char *pattern, const char *first, const char *second)
{
	const size_t length = strlen(first);

	if (!pattern)
		return true;
	if (strncmp(pattern, first, length) != 0)
		return false;
	if (!pattern[length])
		return true;
	return pattern[length] == ':' && second &&
	       strncmp(pattern + length + 1, second, strlen(second)) == 0 &&
	       strchr(":", pattern[length + 1 + strlen(second)]);
}

static void work(void)
{
	long calls = 0;

	share_found();
	for (unsigned p = 0; p < asked.programs; p++) {
		struct outcome plain;

		if (!wanted(asked.program, programs[p].name, programs[p].example) || too_late())
			continue;
		run(&plain, &programs[p], NULL, 0);
		for (unsigned w = 0; w < WAYS; w++) {
			struct sweep *all = &shared->sweep[p][w];

			if (!w || strcmp(ways[w].kind, ways[w - 1].kind) != 0)
				calls = -1;
			if (!wanted(asked.way, ways[w].kind, ways[w].how) || too_late())
				continue;
			if (calls < 0)
				calls = count_calls(&programs[p], &ways[w], &plain);
			if (calls > all->calls)
				all->calls = calls;
			shared->failed += !calls;
			sweep(&programs[p], &ways[w], &plain, all);
		}
		if (wanted(asked.way, locks.kind, locks.how) &&
		    !atomic_fetch_add(&shared->locks[p], 1))
			look_at_locks(&programs[p]);
		if (p < COMPARING && wanted(asked.way, fills.kind, fills.how) &&
		    !atomic_fetch_add(&shared->fills[p], 1))
			for (long number = 1; number <= 2; number++)
				lose_fills(&programs[p], &plain, number);
		if (p == LAUNCHING && wanted(asked.way, launches.kind, launches.how) &&
		    !atomic_fetch_add(&shared->launches, 1))
			for (long number = 1; number <= 3; number++) {
				refuse_launches(&programs[p], &launches, &plain, number);
				refuse_launches(&programs[p], &copies, &plain, number);
			}
		if (p == LAUNCHING && wanted(asked.way, late.kind, late.how) &&
		    !atomic_fetch_add(&shared->late, 1))
			launch_late();
		zoo_free(&plain);
	}
}

/* The locks of all other hazards, too. */
static void look_at_hazards(void)
{
	const char *const argv[] = {"apps/sim/hazards", "--list", NULL}, *const none[] = {NULL};
	struct program program = {"hazards", NULL, {NULL}, TOLERANCE};
	struct outcome list;
	char *rest, *line;

	zoo_run(&list, argv, none, false);
	for (line = strtok_r(list.text, "\n", &rest); line && !too_late();
	     line = strtok_r(NULL, "\n", &rest)) {
		line[strcspn(line, " ")] = '\0';
		program.example = line;
		if (wanted(asked.program, program.name, program.example))
			look_at_locks(&program);
	}
	zoo_free(&list);
}

static bool take_options(int argc, char **argv)
{
	const char *colon;
	int at = 1;

	for (; at < argc && argv[at][0] == '-'; at++) {
		const long number = at + 1 < argc ? atol(argv[at + 1]) : 0;

		if (!strcmp(argv[at], "--brief")) {
			asked.slice = SLICE;
			asked.programs = BRIEF;
			continue;
		}
		if (number <= 0)
			return false;
		if (!strcmp(argv[at], "--share")) {
			if (sscanf(argv[at + 1], "%ld/%ld", &asked.share, &asked.shares) != 2 ||
			    asked.share > asked.shares)
				return false;
		} else if (!strcmp(argv[at], "--slice"))
			asked.slice = number;
		else if (!strcmp(argv[at], "--jobs"))
			asked.jobs = number;
		else if (!strcmp(argv[at], "--seconds"))
			latest = time(NULL) + number;
		else
			return false;
		at++;
	}
	asked.program = at < argc ? argv[at] : NULL;
	asked.way = at + 1 < argc ? argv[at + 1] : NULL;
	colon = asked.way ? strrchr(asked.way, ':') : NULL;
	asked.only = colon ? atol(colon + 1) : 0;
	return true;
}

int main(int argc, char **argv)
{
	int status;

	if (!take_options(argc, argv))
		return 64;
	zoo_time_limit = TIME_LIMIT;
	shared = share(sizeof(*shared), -1);
	for (long i = 1; i < asked.jobs; i++)
		if (fork() == 0) {
			work();
			exit(0);
		}
	work();
	if (asked.programs == PROGRAMS && wanted(asked.way, locks.kind, locks.how))
		look_at_hazards();
	while (wait(&status) > 0)
		shared->failed += status != 0;
	for (unsigned p = 0; p < PROGRAMS; p++)
		for (unsigned w = 0; w < WAYS; w++)
			if (shared->sweep[p][w].calls)
				report(&programs[p], &ways[w], &shared->sweep[p][w]);
	printf("%ld passed, %ld failed\n", shared->passed, shared->failed);
	return shared->failed || !shared->passed;
}
