/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim: one command in front of the shim and its logs. This file finds the subcommand: by name,
 * by any unique prefix, or, when the word is a program instead, `run`.
 */
#include "tools/commands.h"
#include "tools/base/tool.h"

#include <argp.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{"run", cmd_run, "start a program with the shim and say at its end what was gained"},
	{"report", cmd_report, "read logs: every attention site, its gain, its drift, or why not"},
	{"top", cmd_top, "look at a process that is running, again and again"},
	{"diff", cmd_diff, "compare two logs: speed, drift and verdict of each site"},
	{"gate", cmd_gate, "judge a log against thresholds, for test pipelines"},
	{"export", cmd_export, "write a log as Perfetto trace, folded stacks or SQLite"},
	{"bench", cmd_bench,
	 "measure the kernels on this GPU beside the libraries, and judge one of them"},
	{"doctor", cmd_doctor, "look at this machine and at a program: what the shim will see"},
	{"replay", cmd_replay,
	 "run the recogniser over a recorded trace and explain its decisions"},
	{"tune", cmd_tune,
	 "measure which kernels are the fastest for a program's calls, for the shim"},
	{"list", cmd_list, "kernels, kernel rules, reasons and options that are compiled in"},
	{"env", cmd_env, "every option: value, where it comes from, what it does"},
	{"reasons", cmd_reasons, "why attention may be left alone, and what to do about it"},
	{"help", cmd_help, "this text, or `fashim help COMMAND`"},
	{"version", cmd_version, "the version"},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static int cmd_version(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("fashim " FASHIM_VERSION);
	return finish_output("version") ? EXIT_FAILED : EXIT_OK;
}

static void print_help(FILE *stream)
{
	fputs("usage: fashim COMMAND [OPTION...]\n"
	      "       fashim PROGRAM [ARGUMENT...]    the same as `fashim run PROGRAM`\n\n"
	      "Runs unmodified CUDA programs with their attention fused, and tells what came of "
	      "it.\n\n",
	      stream);
	for (int i = 0; i < COMMAND_COUNT; i++)
		fprintf(stream, "  %-9s %s\n", commands[i].name, commands[i].help);
	fputs("\nA command may be shortened as long as it is unique. `fashim help COMMAND` tells "
	      "its\n"
	      "options. Without this tool: LD_PRELOAD=libfashim.so PROGRAM\n",
	      stream);
}

static const struct command *command_named(const char *word)
{
	for (int i = 0; i < COMMAND_COUNT; i++) {
		if (!strcmp(commands[i].name, word))
			return &commands[i];
	}
	return NULL;
}

/* The only command that starts with `word`, or NULL. */
static const struct command *command_prefixed(const char *word)
{
	const struct command *found = NULL;

	for (int i = 0; i < COMMAND_COUNT; i++) {
		if (strncmp(commands[i].name, word, strlen(word)))
			continue;
		if (found)
			return NULL;
		found = &commands[i];
	}
	return found;
}

static int no_such_command(const char *word)
{
	const char *names[COMMAND_COUNT];
	char both[64] = "";
	const char *near;

	for (int i = 0; i < COMMAND_COUNT; i++) {
		names[i] = commands[i].name;
		if (*word && !strncmp(names[i], word, strlen(word))) {
			if (*both)
				strcat(both, ", ");
			strcat(both, names[i]);
		}
	}
	near = did_you_mean(word, names, COMMAND_COUNT);
	if (*both)
		complain("'%s' is ambiguous: %s", word, both);
	else if (near)
		complain("no command '%s'; did you mean '%s'?", word, near);
	else
		complain("'%s' is no command, no file here and no program in PATH; see 'fashim "
			 "help'",
			 word);
	return EXIT_USAGE;
}

static int call(const struct command *command, int argc, char **argv)
{
	char name[32];

	snprintf(name, sizeof(name), "fashim %s", command->name);
	argv[0] = name;
	return command->run(argc, argv);
}

static int cmd_help(int argc, char **argv)
{
	const struct command *command;
	char help[] = "--help";
	char *asked[] = {NULL, help, NULL};

	if (argc < 2) {
		print_help(stdout);
		return finish_output("help") ? EXIT_FAILED : EXIT_OK;
	}
	command = command_named(argv[1]);
	if (!command)
		command = command_prefixed(argv[1]);
	if (!command)
		return no_such_command(argv[1]);
	if (command->run == cmd_help || command->run == cmd_version) {
		print_help(stdout);
		return EXIT_OK;
	}
	return call(command, 2, asked);
}

/* Whether `run` would find a program of this name. */
static bool in_path(const char *word)
{
	const char *path = getenv("PATH");
	char place[PATH_MAX];

	while (path && *path && *word) {
		const size_t length = strcspn(path, ":");
		const int size = snprintf(place, sizeof(place), "%.*s/", (int)length, path);
		struct stat info;

		if (size > 0 && (size_t)size + strlen(word) < sizeof(place)) {
			strcpy(place + size, word);
			if (stat(place, &info) == 0 && S_ISREG(info.st_mode) &&
			    access(place, X_OK) == 0)
				return true;
		}
		path += length + (path[length] == ':');
	}
	return false;
}

static bool is_file(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

int main(int argc, char **argv)
{
	const struct command *command;
	const char *word;
	char here[PATH_MAX + 2];

	setlocale(LC_CTYPE, "");
	argp_err_exit_status = EXIT_USAGE; /* run has another */
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	word = argv[1];
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		return cmd_help(1, argv);
	if (!strcmp(word, "--version") || !strcmp(word, "-V"))
		return cmd_version(argc, argv);
	command = command_named(word);
	if (!command && !strchr(word, '/') && *word)
		command = command_prefixed(word);
	if (command)
		return call(command, argc - 1, argv + 1);
	if (!strchr(word, '/') && is_file(word)) {
		/* Typed as one names a file, not as PATH would find it. */
		snprintf(here, sizeof(here), "./%s", word);
		argv[1] = here;
		word = here;
	}
	if (strchr(word, '/') || *word == '-' || in_path(word))
		return call(&commands[0], argc, argv); /* argv[0] becomes "fashim run" */
	return no_such_command(word);
}
