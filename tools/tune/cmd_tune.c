/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim tune: measures which kernel is the fastest for the calls of a program, and tells the shim.
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/progress.h"
#include "tools/base/tool.h"
#include "tools/tune/files.h"
#include "tools/tune/manage.h"
#include "tools/tune/run.h"
#include "tools/tune/trials.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum tune_key {
	KEY_SHAPE = 's',
	KEY_FROM = 0x100,
	KEY_TOP,
	KEY_ROUNDS,
	KEY_SEED,
	KEY_CACHE,
	KEY_LIBRARY,
	KEY_LIST,
	KEY_CLEAR,
	KEY_DRY_RUN,
	KEY_ARCH
};

enum tune_action { ACTION_TUNE, ACTION_LIST, ACTION_CLEAR, ACTION_DRY_RUN };

/* Exit status of a run that was interrupted: 128 + SIGINT, as shells have it. */
#define EXIT_INTERRUPTED 130

struct tune_arguments {
	struct tune_settings settings;
	struct tune_shapes shapes;
	enum tune_action action;
	enum format format;
	int arch;
	bool asked; /* shapes were named */
	int unread; /* logs that could not be read */
};

#define OTHER_FORMATS ", json, csv or markdown"

static const struct argp_option tune_options[] = {
	{"from", KEY_FROM, "LOG", 0,
	 "tune the calls of this log (or directory of logs); may be repeated", 1},
	{"shape", KEY_SHAPE, "SHAPE", 0,
	 "tune this call: B,H,Sq,Sk,D and then any of f16, bf16, f32, causal, dv=N, k_down, "
	 "softcap, bias=BHqk:f16, mask=BHqk ...; may be repeated (without --from and --shape: ten "
	 "usual ones)",
	 1},
	{"top", KEY_TOP, "N", 0, "kernels that go on behind the first ranking (4)", 2},
	{"rounds", KEY_ROUNDS, "N", 0, "rounds of the last comparison, 10 at least (60)", 2},
	{"seed", KEY_SEED, "N", 0, "of the operands and of the order in a round (1)", 2},
	{"cache", KEY_CACHE, "FILE", 0,
	 "the cache's file ($FASHIM_TUNE_CACHE, else one for this GPU, driver and build in "
	 "$XDG_CACHE_HOME/fashim)",
	 3},
	{"library", KEY_LIBRARY, "FILE", 0,
	 "libfashim_kernels.so (the one that belongs to this command)", 3},
	{"list", KEY_LIST, NULL, 0, "show what the cache holds; needs no GPU", 4},
	{"clear", KEY_CLEAR, NULL, 0, "remove the cache, of all GPUs and builds; needs no GPU", 4},
	{"dry-run", KEY_DRY_RUN, NULL, 0,
	 "show which kernels would be tried, the built-in choice first; needs no GPU", 4},
	{"arch", KEY_ARCH, "N", 0, "with --dry-run: compute capability * 10 (90)", 4},
	FORMAT_OPTION(OTHER_FORMATS, 5),
	QUIET_OPTION(5),
	{0},
};

static const char tune_doc[] =
	"Measures which of the kernels that can serve a call is the fastest on this GPU, and keeps "
	"it in a cache that the shim reads.\v"
	"Every kernel that takes a call is first checked against double precision: its error may "
	"be "
	"twice the built-in choice's, plus a rounding step. Then all are timed for a few rounds, "
	"the top ones for more and more while half of them drop out, and the last one for --rounds "
	"rounds beside the built-in choice, which it replaces if it is faster by 1 % at the upper "
	"end of the 95 % interval (bootstrap of the ratio of medians). Times are of the GPU alone, "
	"by replaying a CUDA graph; contestants take turns.\n\n"
	"Each result is in the cache as soon as it is known: an interrupted run keeps what it has, "
	"and two runs at a time do not lose each other's. A program started afterwards takes the "
	"kernels named there (FASHIM_TUNE_CACHE=off: it does not); its log says \"chosen_by\": "
	"\"tuned\".\n\n"
	"JSON: {\"format\":\"fashim-tune\",\"version\":1,\"caches\":[{\"gpu\",\"driver\",\"build\","
	"\"cache\",\"shapes\":[...]}]}; later versions only add members.\n\n"
	"Exit status: 0 when all was tuned; 1 when some call could not be; 2 for wrong usage, no "
	"GPU "
	"or a log that cannot be read; 130 when interrupted.\n\nExamples:\n"
	"  fashim tune --from run.jsonl\n"
	"  fashim tune -s 1,8,512,512,64,f16\n"
	"  fashim tune --list";

/* ---- arguments ------------------------------------------------------------------------------ */

static int parse_number(struct argp_state *state, const char *option, const char *text, int least)
{
	char *end;
	const long value = strtol(text, &end, 10);

	if (end == text || *end || value < least || value > 1000000)
		argp_error(state, "--%s takes a whole number from %d on, not '%s'", option, least,
			   text);
	return (int)value;
}

static uint64_t parse_seed(struct argp_state *state, const char *text)
{
	char *end;
	const unsigned long long value = strtoull(text, &end, 10);

	if (end == text || *end || *text == '-')
		argp_error(state, "--seed takes a whole number, not '%s'", text);
	return value;
}

static void add_shape(struct argp_state *state, const char *text)
{
	struct tune_arguments *arguments = state->input;
	const int result = tune_shapes_add(&arguments->shapes, text);

	arguments->asked = true;
	if (result == -ENOTSUP)
		argp_error(state, "--shape=%s: operands given by pointers cannot be rebuilt", text);
	else if (result)
		argp_error(state, "'%s' is no shape; write B,H,Sq,Sk,D[,causal][,bf16]...", text);
}

static void set_action(struct argp_state *state, enum tune_action action)
{
	struct tune_arguments *arguments = state->input;

	if (arguments->action != ACTION_TUNE && arguments->action != action)
		argp_error(state, "--list, --clear and --dry-run exclude each other");
	arguments->action = action;
}

static error_t tune_parse(int key, char *arg, struct argp_state *state)
{
	struct tune_arguments *arguments = state->input;
	struct tune_settings *settings = &arguments->settings;

	switch (key) {
	case 'q':
		progress_quiet();
		return 0;
	case KEY_FROM:
		arguments->asked = true;
		arguments->unread += tune_shapes_add_log(&arguments->shapes, arg) != 0;
		return 0;
	case KEY_SHAPE:
		add_shape(state, arg);
		return 0;
	case KEY_TOP:
		settings->top = parse_number(state, "top", arg, 1);
		return 0;
	case KEY_ROUNDS:
		settings->rounds = parse_number(state, "rounds", arg, 2 * BOOTSTRAP_FEWEST);
		return 0;
	case KEY_SEED:
		settings->seed = parse_seed(state, arg);
		return 0;
	case KEY_CACHE:
		settings->cache = arg;
		return 0;
	case KEY_LIBRARY:
		settings->library = arg;
		return 0;
	case KEY_LIST:
		set_action(state, ACTION_LIST);
		return 0;
	case KEY_CLEAR:
		set_action(state, ACTION_CLEAR);
		return 0;
	case KEY_DRY_RUN:
		set_action(state, ACTION_DRY_RUN);
		return 0;
	case KEY_ARCH:
		arguments->arch = parse_number(state, "arch", arg, 75);
		return 0;
	case 'f':
		arguments->format = format_argument(state, arg, OTHER_FORMATS);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'; a log is named by --from", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- tuning --------------------------------------------------------------------------------- */

static void summarise(const struct tune_outcome *outcome, int asked)
{
	const struct tune_section *section = &outcome->section;
	int faster = 0;

	for (int i = 0; i < section->count; i++)
		faster += section->results[i].choice;
	if (outcome->interrupted)
		complain("interrupted: the results of %d of %d calls are kept", section->count,
			 asked);
	if (outcome->simulated)
		complain("this is a CPU stand-in: its times say nothing of a GPU");
	if (faster)
		complain("%d of %d calls: another kernel is faster than the built-in choice%s%s",
			 faster, section->count, outcome->lost ? "" : "; the shim takes it from ",
			 outcome->lost ? "" : section->path);
	else if (section->count)
		complain("the built-in choice stands for all %d calls", section->count);
}

static int tune(const struct tune_arguments *arguments)
{
	struct tune_outcome outcome;
	int code = EXIT_USAGE;

	if (!tune_run(&outcome, &arguments->shapes, &arguments->settings) ||
	    outcome.section.count) {
		tune_print(&outcome.section, 1, arguments->format);
		summarise(&outcome, arguments->shapes.count);
		code = outcome.interrupted		? EXIT_INTERRUPTED
		       : outcome.failed || outcome.lost ? EXIT_FAILED
							: EXIT_OK;
	}
	tune_outcome_free(&outcome);
	return code;
}

static int act(struct tune_arguments *arguments)
{
	if (arguments->action == ACTION_LIST)
		return tune_list(arguments->settings.cache, arguments->format);
	if (arguments->action == ACTION_CLEAR)
		return tune_clear(arguments->settings.cache);
	if (arguments->unread)
		return EXIT_USAGE;
	if (!arguments->asked && tune_shapes_add_usual(&arguments->shapes)) {
		complain("out of memory");
		return EXIT_FAILED;
	}
	if (!arguments->shapes.count) {
		complain("no call to tune");
		return EXIT_FAILED;
	}
	if (arguments->action == ACTION_TUNE)
		return tune(arguments);
	tune_trials_print(&arguments->shapes, arguments->arch, arguments->format);
	return EXIT_OK;
}

int cmd_tune(int argc, char **argv)
{
	const struct argp parser = {tune_options, tune_parse, "",  tune_doc,
				    help_option,  NULL,	      NULL};
	struct tune_arguments arguments = {.settings = {.top = 4, .rounds = 60, .seed = 1},
					   .arch = 90};
	int code;

	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	arguments.settings.cache = tune_named_file(arguments.settings.cache);
	code = act(&arguments);
	tune_shapes_free(&arguments.shapes);
	if ((fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		complain("writing the table: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return code;
}
