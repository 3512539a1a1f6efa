/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim run: LD_PRELOAD and the options spelt for you, then the program as if it had been started
 * without us, then at most three lines on stderr. Standard input and output are the program's
 * alone.
 */
#include "child.h"
#include "log_name.h"
#include "options.h"
#include "report.h"
#include "tool.h"

#include <argp.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { EXIT_TOOL = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

struct run_arguments {
	const char *mode, *out;
	bool dry;
	char **assignments; /* NAME=VALUE of -e, into argv */
	int assignment_count;
	char **program; /* into argv */
};

static const struct argp_option run_options[] = {
	{"mode", 'm', "MODE", 0, "off, audit, compare or replace (default)", 0},
	{"output", 'o', "LOG", 0, "the log; %p pid, %e program, %h host, %r rank, %q{VAR}, %%", 0},
	{"env", 'e', "NAME=VALUE", 0, "set a variable of the program's environment", 0},
	{"dry-run", 'n', NULL, 0, "print the command line that would run, and run nothing", 0},
	{0},
};

static const char run_doc[] =
	"Starts PROGRAM with libfashim.so preloaded. Its standard streams, signals and exit status "
	"are "
	"passed through unchanged; at its end up to three lines on stderr say what was found.\v"
	"Exit status: the program's own, or its signal; 125 when fashim itself fails, 126 when the "
	"program cannot be executed, 127 when it is not found.";

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

/* libfashim.so beside this executable (a build tree) or in ../lib/fashim (installed). Malloc'ed. */
static char *find_library(void)
{
	static const char *const places[] = {"libfashim.so", "../lib/fashim/libfashim.so"};
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length <= 0)
		return NULL;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%s/%s", self, places[i]);
		if (access(path, R_OK) == 0)
			return realpath(path, NULL);
	}
	complain("libfashim.so is neither in %s nor in %s/../lib/fashim", self, self);
	return NULL;
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

/* FASHIM_OUT as an absolute pattern: the program may change its directory before the log opens. */
static int set_output(const char *asked)
{
	const char *pattern = asked ? asked : getenv("FASHIM_OUT");
	char here[PATH_MAX];
	char *escaped, *value;
	int result = -ENOMEM;

	if (!pattern || !*pattern)
		pattern = option_find("FASHIM_OUT")->standard;
	if (*pattern == '/' || !strcmp(pattern, "none") || !getcwd(here, sizeof(here)))
		return setenv("FASHIM_OUT", pattern, 1) ? -errno : 0;
	escaped = log_name_escape(here);
	if (escaped &&
	    asprintf(&value, "%s/%s", strcmp(escaped, "/") ? escaped : "", pattern) >= 0) {
		result = setenv("FASHIM_OUT", value, 1) ? -errno : 0;
		free(value);
	}
	free(escaped);
	return result;
}

/* Our own environment is the program's: we use nothing of it afterwards but what we set. */
static int set_environment(const struct run_arguments *arguments, const char *library)
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
		result = set_output(arguments->out);
	return result ? result : set_preload(library);
}

/* One word as a shell reads it back. */
static void print_quoted(const char *word)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				   "%+,-./:=@_{}";

	if (*word && strspn(word, safe) == strlen(word)) {
		fputs(word, stdout);
		return;
	}
	putchar('\'');
	for (; *word; word++) {
		if (*word == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*word);
	}
	putchar('\'');
}

static void print_dry(const struct run_arguments *arguments)
{
	static const char *const always[] = {"LD_PRELOAD", "FASHIM", "FASHIM_OUT"};

	fputs("env", stdout);
	for (int i = 0; i < arguments->assignment_count; i++) {
		putchar(' ');
		print_quoted(arguments->assignments[i]);
	}
	for (size_t i = 0; i < sizeof(always) / sizeof(*always); i++) {
		const char *value = getenv(always[i]);

		if (!value)
			continue;
		printf(" %s=", always[i]);
		print_quoted(value);
	}
	for (char **word = arguments->program; *word; word++) {
		putchar(' ');
		print_quoted(*word);
	}
	putchar('\n');
}

/* True for an ELF program without an interpreter: the loader never runs, nor does LD_PRELOAD. */
static bool is_static(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool interpreted = false;
	Elf64_Ehdr header;

	if (fd < 0)
		return false;
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    header.e_phnum > 256) {
		close(fd);
		return false;
	}
	for (int i = 0; i < header.e_phnum && !interpreted; i++) {
		Elf64_Phdr segment;
		off_t at = (off_t)(header.e_phoff + (size_t)i * header.e_phentsize);

		interpreted =
			pread(fd, &segment, sizeof(segment), at) == (ssize_t)sizeof(segment) &&
			segment.p_type == PT_INTERP;
	}
	close(fd);
	return !interpreted;
}

/* One line on why there is no log. */
static void say_nothing_seen(const char *program)
{
	const char *mode = getenv("FASHIM");
	struct stat info;

	if (mode && !strcasecmp(mode, "off"))
		complain("mode off: nothing was watched");
	else if (!strcmp(getenv("FASHIM_OUT"), "none"))
		complain("FASHIM_OUT=none: no log was written");
	else if (strchr(program, '/') && is_static(program))
		complain("no CUDA GEMM was seen: %s is statically linked, LD_PRELOAD cannot reach "
			 "it",
			 program);
	else if (strchr(program, '/') && stat(program, &info) == 0 &&
		 (info.st_mode & (S_ISUID | S_ISGID)))
		complain("no CUDA GEMM was seen: %s is set-uid or set-gid, LD_PRELOAD is ignored",
			 program);
	else
		complain("no CUDA GEMM was seen, so there is nothing to report");
}

/* Under mpirun every rank has a `fashim run` of its own; each then speaks of its own process alone.
 */
static bool is_rank(void)
{
	static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					    "SLURM_PROCID"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (getenv(names[i]))
			return true;
	}
	return false;
}

/* Appends a path as one would type it: below the current directory without the directory. */
static void append_path(char *line, size_t size, const char *path)
{
	char here[PATH_MAX];
	size_t used = strlen(line), length;

	if (getcwd(here, sizeof(here))) {
		length = strlen(here);
		if (!strncmp(path, here, length) && path[length] == '/')
			path += length + 1;
	}
	snprintf(line + used, size - used, "%s%s", used ? " " : "", path);
}

/* Reads the logs that are new since `before` and says what is in them. */
static void say_closing(pid_t pid, const char *program, const struct log_names *before)
{
	struct report report = {0};
	struct log_set *set = &report.set;
	char next[4096] = "";
	struct log_names after = log_names_find(getenv("FASHIM_OUT"));
	int unreadable = 0;

	for (size_t i = 0; i < after.count; i++) {
		const char *name = after.names[i];
		int read = set->count;

		if (log_names_hold(before, name))
			continue;
		if (log_read(set, name, 0)) {
			complain("%s: %s", name, set->problem);
			unreadable++;
		}
		if (set->count > read && is_rank() &&
		    (pid_t)number_of(set->runs[read]->header, "pid", 0) != pid)
			log_set_remove(set, read);
		else if (set->count > read && strlen(next) + strlen(name) + 2 < 1024)
			append_path(next, sizeof(next), name);
	}
	log_names_free(&after);
	if (set->count && report_build(&report, 0) == 0)
		report_closing(&report, next);
	else if (!unreadable)
		say_nothing_seen(program);
	report_free(&report);
}

static void say_not_started(const char *program, int error)
{
	if (error == ENOENT && strchr(program, '/') && access(program, F_OK) == 0)
		complain("%s: its interpreter does not exist", program);
	else
		complain("%s: %s", program, strerror(error));
}

/* The exit code where the program did not start; else does not return. */
static int start_and_wait(const struct run_arguments *arguments)
{
	struct log_names before = log_names_find(getenv("FASHIM_OUT"));
	int status = 0, result;
	pid_t pid = 0;

	result = child_run(arguments->program, environ, &pid, &status);
	if (result)
		say_not_started(arguments->program[0], -result);
	else
		say_closing(pid, arguments->program[0], &before);
	log_names_free(&before);
	if (!result)
		child_end_alike(status);
	if (result == -ENOENT)
		return EXIT_NOT_FOUND;
	return pid > 0 ? EXIT_NOT_EXECUTABLE : EXIT_TOOL;
}

static int prepare(const struct run_arguments *arguments)
{
	char *library = find_library();
	int result = library ? set_environment(arguments, library) : -ENOENT;

	if (library && result && result != -EINVAL)
		complain("the environment: %s", strerror(-result));
	free(library);
	return result;
}

int cmd_run(int argc, char **argv)
{
	const struct argp parser = {run_options, run_parse, "PROGRAM [ARGUMENT...]", run_doc, NULL,
				    NULL,	 NULL};
	struct run_arguments arguments = {.assignments = calloc((size_t)argc, sizeof(char *))};
	int code = EXIT_TOOL;

	argp_err_exit_status = EXIT_TOOL;
	if (!arguments.assignments)
		return EXIT_TOOL;
	if (argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &arguments) == 0 &&
	    prepare(&arguments) == 0) {
		code = EXIT_OK;
		if (arguments.dry)
			print_dry(&arguments);
		else
			code = start_and_wait(&arguments);
	}
	free(arguments.assignments);
	return code;
}
