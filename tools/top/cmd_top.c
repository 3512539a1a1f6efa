/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim top: what the shim does in a process that is running, again and again.
 */
#include "tools/commands.h"
#include "tools/base/help_option.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/top/find_log.h"
#include "tools/top/look.h"
#include "tools/top/screen.h"

#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct top_arguments {
	const char *what; /* NULL: the newest that runs here */
	double interval;  /* seconds */
	bool once, interval_named;
};

/* A look may take at most this part of the time between two. */
#define SHARE 0.1

static const struct argp_option top_options[] = {
	{"once", '1', NULL, 0, "look once; so it does where stdout is no terminal", 0},
	{"interval", 'i', "SECONDS", 0,
	 "how long between two looks (default 1); where stdout is no terminal, one line each", 0},
	{0},
};

static const char top_doc[] =
	"Shows what the shim does in a process that is running: calls, what was replaced and "
	"saved, "
	"what it cost, how far the numbers moved, and why calls were left alone. The process is "
	"named by its log or its number; without a name it is the newest that runs here. q "
	"leaves.\v"
	"Rates are of the time since the look before, at the first look since the program's "
	"start. The view ends when the process does; fashim report then tells all.\n\n"
	"Exit status: 0; 1 when there is no such process or log; 2 for wrong usage.\n\nExamples:\n"
	"  fashim top\n"
	"  fashim top 4242\n"
	"  fashim top --once fashim.python3.4242.jsonl\n"
	"  fashim top --interval 10 >>rates.txt";

static error_t top_parse(int key, char *arg, struct argp_state *state)
{
	struct top_arguments *arguments = state->input;
	char *end;

	switch (key) {
	case '1':
		arguments->once = true;
		return 0;
	case 'i':
		arguments->interval = strtod(arg, &end);
		arguments->interval_named = true;
		if (*end || !(arguments->interval >= 0.1 && arguments->interval <= 86400))
			argp_error(state, "--interval takes 0.1 to 86400 seconds, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->what)
			argp_error(state, "one process at a time, not '%s' as well", arg);
		arguments->what = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A look as text, for free(); its result in *result. */
static char *look_text(struct look *look, enum look_result *result)
{
	FILE *before = stdout;
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	*result = LOOK_FAILED;
	if (!memory)
		return NULL;
	stdout = memory;
	*result = look_print(look, false);
	stdout = before;
	fclose(memory);
	return text;
}

static enum look_result watch(struct look *look, double interval)
{
	enum look_result result;
	double wait = interval;
	bool left = false;
	char *text = look_text(look, &result);

	if (result == LOOK_RUNS && screen_open() == 0) {
		while (result == LOOK_RUNS && !left) {
			double begin;

			screen_show(text);
			left = screen_wait(wait);
			if (left)
				break;
			free(text);
			begin = now();
			text = look_text(look, &result);
			/* Long logs take a while to read. */
			wait = fmax(interval, (now() - begin) / SHARE);
		}
		screen_close();
		if (result == LOOK_FAILED)
			look_print(look, true); /* what it had to say was not seen */
	}
	/* The last look stays on the terminal. */
	if (text)
		fputs(text, stdout);
	free(text);
	return left ? LOOK_RUNS : result;
}

static enum look_result write_lines(struct look *look, double interval)
{
	enum look_result result;

	while ((result = look_print(look, true)) == LOOK_RUNS && !fflush(stdout))
		usleep((useconds_t)(interval * 1e6));
	return result;
}

int cmd_top(int argc, char **argv)
{
	const struct argp parser = {top_options, top_parse, "[LOG|PID]", top_doc,
				    help_option, NULL,	    NULL};
	struct top_arguments arguments = {.interval = 1};
	struct look look = {.color = color_wanted("auto", stdout) > 0};
	enum look_result result;
	char *path;

	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	path = find_log(arguments.what, &look.others);
	if (!path)
		return EXIT_FAILED;
	look.path = path;
	if (isatty(STDOUT_FILENO) && !arguments.once)
		result = watch(&look, arguments.interval);
	else if (arguments.interval_named && !arguments.once)
		result = write_lines(&look, arguments.interval);
	else
		result = look_print(&look, false);
	look_free(&look);
	free(path);
	return finish_output("look") || result == LOOK_FAILED ? EXIT_FAILED : EXIT_OK;
}
