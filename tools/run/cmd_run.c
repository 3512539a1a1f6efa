/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim run: LD_PRELOAD and the options spelt for you, then the program as if it had been started
 * without us, then at most six lines on stderr. Standard input and output are the program's
 * alone.
 */
#include "tools/commands.h"
#include "tools/base/help_option.h"
#include "tools/base/options.h"
#include "tools/base/quote.h"
#include "tools/base/shim_library.h"
#include "tools/base/tool.h"
#include "tools/doctor/doctor.h"
#include "tools/read/log_name.h"
#include "tools/read/log_place.h"
#include "tools/run/child.h"
#include "tools/run/closing.h"
#include "tools/run/page.h"
#include "tools/sites/report.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* Set for programs below a `fashim run`: another one among them leaves the last words to it. */
#define OUTER_RUN "_FASHIM_RUN"

/* At most six lines in all: two here, one on the rest, three of report_closing(). */
enum { SAID_UNREADABLE = 2, TYPED_LOGS = 8 };

enum { EXIT_TOOL = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

struct run_arguments {
	const char *mode, *out;
	bool dry, quiet, open;
	char **assignments; /* NAME=VALUE of -e, into argv */
	int assignment_count;
	char **program; /* into argv */
};

enum { KEY_OPEN = 256 };

static const struct argp_option run_options[] = {
	{"mode", 'm', "MODE", 0, "off, audit, compare or replace (default)", 0},
	{"output", 'o', "LOG", 0, "the log; %p pid, %e program, %h host, %r rank, %q{VAR}, %%", 0},
	{"env", 'e', "NAME=VALUE", 0, "set a variable of the program's environment", 0},
	{"quiet", 'q', NULL, 0, "say nothing at the end", 0},
	{"open", KEY_OPEN, NULL, 0, "write the report as a page of HTML at the end, and open it",
	 0},
	{"dry-run", 'n', NULL, 0, "print the command line that would run, and run nothing", 0},
	{0},
};

static const char run_doc[] =
	"Starts PROGRAM with libfashim.so preloaded. Its standard streams, signals and exit status "
	"are passed through unchanged; at its end a few lines on stderr say what was found and "
	"what to type next. Under mpirun rank 0 speaks, of its own process; below another fashim "
	"run only the outer one speaks.\v"
	"Exit status: the program's own, or its signal; 125 when fashim itself fails, 126 when the "
	"program cannot be executed, 127 when it is not found.\n\nExamples:\n"
	"  fashim run python3 model.py\n"
	"  fashim run --open ./app\n"
	"  fashim run -m audit -o run.%p.jsonl -- ./serve\n"
	"  mpirun -n 8 fashim run python3 serve.py";

static error_t run_parse(int key, char *arg, struct argp_state *state)
{
	struct run_arguments *arguments = state->input;

	switch (key) {
	case 'm':
		if (!option_valid(option_find("FASHIM"), arg))
			argp_error(state, "no mode '%s'; off, audit, compare or replace", arg);
		arguments->mode = arg;
		return 0;
	case 'o':
		arguments->out = arg;
		return 0;
	case 'e':
		if (!strchr(arg, '=') || *arg == '=')
			argp_error(state, "-e takes NAME=VALUE, not '%s'", arg);
		if (!option_known(arg))
			exit(EXIT_TOOL);
		arguments->assignments[arguments->assignment_count++] = arg;
		return 0;
	case 'q':
		arguments->quiet = true;
		return 0;
	case KEY_OPEN:
		arguments->open = true;
		return 0;
	case 'n':
		arguments->dry = true;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->program = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no program named");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Our library in front of what is preloaded already; once, however deep runs are nested. */
static int set_preload(const char *library)
{
	const char *before = getenv("LD_PRELOAD");
	char *value;
	int result;

	if (strpbrk(library, " :")) {
		complain("LD_PRELOAD cannot hold the path %s: it has a space or a colon", library);
		return -EINVAL;
	}
	if (!before || !*before)
		return setenv("LD_PRELOAD", library, 1) ? -errno : 0;
	if (!strncmp(before, library, strlen(library)) && strchr(" :", before[strlen(library)]))
		return 0;
	if (asprintf(&value, "%s:%s", library, before) < 0)
		return -ENOMEM;
	result = setenv("LD_PRELOAD", value, 1) ? -errno : 0;
	free(value);
	return result;
}

/* "FOLDER/PATTERN" as FASHIM_OUT. */
static int set_pattern(const char *folder, const char *pattern)
{
	char *escaped = log_name_escape(folder), *value = NULL;
	int result = -ENOMEM;

	if (escaped &&
	    asprintf(&value, "%s/%s", strcmp(escaped, "/") ? escaped : "", pattern) >= 0) {
		result = setenv("FASHIM_OUT", value, 1) ? -errno : 0;
		free(value);
	}
	free(escaped);
	return result;
}

/* Mode off, or what is no mode and taken for it. */
static bool nothing_watched(void)
{
	const char *mode = getenv("FASHIM");

	return mode && *mode &&
	       (!strcasecmp(mode, "off") || !option_valid(option_find("FASHIM"), mode));
}

static bool is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* FASHIM_OUT as an absolute pattern: the program may change its directory before the log opens.
 * Where nobody named a place and this folder takes no log, the folder for such things does. */
static int set_output(const char *asked, bool dry, struct log_place *here)
{
	const char *pattern = asked ? asked : getenv("FASHIM_OUT");
	const bool usual = !pattern || !*pattern;
	char folder[PATH_MAX], *instead;
	int result;

	if (usual)
		pattern = option_find("FASHIM_OUT")->standard;
	if (!strcmp(pattern, "none"))
		return setenv("FASHIM_OUT", pattern, 1) ? -errno : 0;
	if (!strcmp(pattern, "-")) {
		complain("the log cannot go to standard output, which is the program's; name a "
			 "file, or none");
		return -EINVAL;
	}
	if (*pattern == '/' || !getcwd(folder, sizeof(folder)))
		result = setenv("FASHIM_OUT", pattern, 1) ? -errno : 0;
	else
		result = set_pattern(folder, pattern);
	/* The usual name in it, as the shim has it: what was written is looked for under that name.
	 */
	if (!result && !usual && is_folder(getenv("FASHIM_OUT")))
		result = set_pattern(getenv("FASHIM_OUT"), option_find("FASHIM_OUT")->standard);
	if (result || nothing_watched() || log_place_look(here, getenv("FASHIM_OUT")) == 0)
		return result;
	if (!usual) {
		complain("%s", here->problem);
		return -EINVAL;
	}
	instead = log_place_state(!dry);
	if (instead) {
		result = set_pattern(instead, pattern);
	}
	free(instead);
	return result;
}

/* Our own environment is the program's: we use nothing of it afterwards but what we set. */
static int set_environment(const struct run_arguments *arguments, const char *library,
			   struct log_place *here)
{
	int result = 0;

	for (int i = 0; i < arguments->assignment_count; i++) {
		char *name = strdup(arguments->assignments[i]);

		if (!name)
			return -ENOMEM;
		name[strcspn(name, "=")] = '\0';
		result = setenv(name, strchr(arguments->assignments[i], '=') + 1, 1) ? -errno
										     : result;
		free(name);
	}
	if (!result && arguments->mode)
		result = setenv("FASHIM", arguments->mode, 1) ? -errno : 0;
	if (!result)
		result = set_output(arguments->out, arguments->dry, here);
	return result ? result : set_preload(library);
}

static void print_dry(const struct run_arguments *arguments)
{
	static const char *const always[] = {"LD_PRELOAD", "FASHIM", "FASHIM_OUT"};

	fputs("env", stdout);
	for (int i = 0; i < arguments->assignment_count; i++) {
		putchar(' ');
		print_quoted(stdout, arguments->assignments[i]);
	}
	for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++) {
		const char *value = getenv(always[i]);

		if (!value)
			continue;
		printf(" %s=", always[i]);
		print_quoted(stdout, value);
	}
	for (char **word = arguments->program; *word; word++) {
		putchar(' ');
		print_quoted(stdout, *word);
	}
	putchar('\n');
}

/* Why nobody was watching, or could write down what was seen. Whether that is so. */
static bool say_not_watched(void)
{
	const char *mode = getenv("FASHIM"), *pattern = getenv("FASHIM_OUT");
	struct log_place place;

	if (nothing_watched() && strcasecmp(mode, "off"))
		complain("FASHIM=%s is no mode (off, audit, compare or replace): nothing was "
			 "watched",
			 mode);
	else if (nothing_watched())
		complain("mode off: nothing was watched");
	else if (!strcmp(pattern, "none"))
		complain("FASHIM_OUT=none: no log was written");
	else if (log_place_look(&place, pattern))
		complain("no log: %s; what the program did is not known", place.problem);
	else if (place.device)
		complain("the log went to %s; what the program did is not known", pattern);
	else
		return false;
	return true;
}

/* Why there is no log, as far as one can tell now, and what tells more. */
static void say_nothing_seen(const char *program)
{
	struct findings findings = {0};
	char *word;

	if (say_not_watched())
		return;
	doctor_app(&findings, program, NULL);
	if (finding_broken(&findings))
		complain("no CUDA GEMM was seen: %s", finding_broken(&findings)->text);
	else
		complain("no CUDA GEMM was seen, so there is nothing to report");
	word = quoted(program);
	complain("next: %s doctor %s", quoted_tool(), word ? word : program);
	free(word);
	findings_free(&findings);
}

/* Under mpirun every rank has a `fashim run` of its own. The first one speaks at the end, of its
 * own process alone, for others may still run; whoever has something to complain of says who it is.
 * NULL: this is no rank. */
static const char *rank(void)
{
	static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					    "SLURM_PROCID"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (getenv(names[i]))
			return getenv(names[i]);
	return NULL;
}

static bool speaks(void)
{
	return !rank() || !strcmp(rank(), "0");
}

/* The logs that are new, and the command that reads them. */
struct closing {
	struct report report;
	struct log_names paths;
	int unreadable;
};

/* A path as one would type it: below the current directory without the directory. */
static const char *as_typed(const char *path)
{
	static char here[PATH_MAX];
	size_t length;

	if (!getcwd(here, sizeof(here)))
		return path;
	length = strlen(here);
	return !strncmp(path, here, length) && path[length] == '/' ? path + length + 1 : path;
}

/* "fashim report LOG…"; of very many the pattern that they have in common. Malloc'ed. */
static char *next_command(const struct closing *closing)
{
	char *wildcard = log_name_glob(getenv("FASHIM_OUT")), *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	if (stream && wildcard && closing->paths.count > TYPED_LOGS &&
	    !wildcard[strcspn(wildcard, " '\"\\$`;&|<>()#!\t\n")]) {
		fputs(as_typed(wildcard), stream);
	} else if (stream) {
		for (size_t i = 0; i < closing->paths.count; i++) {
			fputs(i ? " " : "", stream);
			print_quoted(stream, as_typed(closing->paths.names[i]));
		}
	}
	if (stream)
		fclose(stream);
	free(wildcard);
	return text;
}

/* Takes in one log that is new. */
static void read_new(struct closing *closing, const char *name)
{
	struct log_set *set = &closing->report.set;
	const int read = set->count;

	const int error = log_read(set, name, 0);
	struct log_place place;

	if (error) {
		const bool full = error == -ENODATA &&
				  (log_place_look(&place, getenv("FASHIM_OUT")) == -ENOSPC ||
				   log_place_full(&place));

		if (closing->unreadable++ < SAID_UNREADABLE)
			complain("%s: %s", name, full ? "empty: the disk is full" : set->problem);
		return;
	}
	if (set->count > read)
		closing->paths.names[closing->paths.count++] = strdup(name);
}

/* Keeps the logs in whose header a number is this one, if there are any. */
static bool keep_those(struct log_set *set, const char *key, double value)
{
	bool any = false;

	for (int i = 0; i < set->count; i++)
		any |= number_of(set->runs[i]->header, key, -1) == value;
	for (int i = set->count - 1; any && i >= 0; i--)
		if (number_of(set->runs[i]->header, key, -1) != value)
			log_set_remove(set, i);
	return any;
}

/* A rank's logs: that of its own process; where that left none, as a script does, those of what
 * has the same rank; of a launcher in a batch script, which is a rank as well, all. */
static void keep_own(struct log_set *set, pid_t pid)
{
	if (!keep_those(set, "pid", (double)pid))
		keep_those(set, "rank", strtod(rank(), NULL));
}

/* Reads the logs that are new since `before`, and says what is in them, or shows it. */
static void say_closing(pid_t pid, const struct run_arguments *arguments,
			const struct log_names *before, const struct log_place *here)
{
	struct log_names after = log_names_find(getenv("FASHIM_OUT"));
	struct closing closing = {.paths.names = calloc(after.count + 1, sizeof(char *))};
	char *next;

	for (size_t i = 0; closing.paths.names && i < after.count; i++)
		if (!log_names_hold(before, after.names[i]))
			read_new(&closing, after.names[i]);
	if (rank())
		keep_own(&closing.report.set, pid);
	if (closing.unreadable > SAID_UNREADABLE)
		complain("%d more logs cannot be read", closing.unreadable - SAID_UNREADABLE);
	next = next_command(&closing);
	if (closing.report.set.count && next && !report_merge_ranks(&closing.report.set) &&
	    report_build(&closing.report, NULL) == 0) {
		if (*here->problem && !closing.unreadable && !arguments->quiet)
			complain("the log is not here: %s", here->problem);
		if (!arguments->quiet)
			report_closing(&closing.report, next);
		if (arguments->open)
			page_open(&closing.paths);
	} else if (!closing.unreadable && !arguments->quiet) {
		say_nothing_seen(arguments->program[0]);
	}
	free(next);
	log_names_free(&after);
	log_names_free(&closing.paths);
	report_free(&closing.report);
}

static void say_not_started(const char *program, int error)
{
	if (error == ENOENT && strchr(program, '/') && access(program, F_OK) == 0)
		complain("%s: its interpreter does not exist", program);
	else
		complain("%s: %s", program, strerror(error));
}

/* The exit code where the program did not start; else does not return. */
static int start_and_wait(const struct run_arguments *arguments, const struct log_place *here)
{
	struct log_names before = log_names_find(getenv("FASHIM_OUT"));
	const bool nested = getenv(OUTER_RUN);
	int status = 0, result;
	pid_t pid = 0;

	setenv(OUTER_RUN, "1", 1);
	result = child_run(arguments->program, environ, &pid, &status);
	/* Whoever reads our words may be gone; the program's end must be told all the same. */
	signal(SIGPIPE, SIG_IGN);
	complain_as(rank());
	if (result)
		say_not_started(arguments->program[0], -result);
	else if (!nested && speaks() && (arguments->open || !arguments->quiet))
		say_closing(pid, arguments, &before, here);
	log_names_free(&before);
	if (!result)
		child_end_alike(status);
	if (result == -ENOENT)
		return EXIT_NOT_FOUND;
	return pid > 0 ? EXIT_NOT_EXECUTABLE : EXIT_TOOL;
}

static int prepare(const struct run_arguments *arguments, struct log_place *here)
{
	char *library = shim_library();
	int result = library ? set_environment(arguments, library, here) : -ENOENT;

	if (library && result && result != -EINVAL)
		complain("the environment: %s", strerror(-result));
	free(library);
	return result;
}

int cmd_run(int argc, char **argv)
{
	const struct argp parser = {
		run_options, run_parse, "PROGRAM [ARGUMENT...]", run_doc, help_option, NULL, NULL};
	struct run_arguments arguments = {.assignments = calloc((size_t)argc, sizeof(char *))};
	struct log_place here = {.device = false};
	int code = EXIT_TOOL;

	argp_err_exit_status = EXIT_TOOL;
	if (!arguments.assignments)
		return EXIT_TOOL;
	if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments) == 0 &&
	    prepare(&arguments, &here) == 0) {
		code = EXIT_OK;
		if (arguments.dry)
			print_dry(&arguments);
		else
			code = start_and_wait(&arguments, &here);
	}
	free(arguments.assignments);
	return code;
}
