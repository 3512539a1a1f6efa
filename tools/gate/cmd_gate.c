/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim gate: the step of a test pipeline that fails when attention got slower, drifted, or is no
 * longer replaced.
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/progress.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/gate/gate.h"
#include "tools/read/log_arguments.h"
#include "tools/sites/report_read.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What applies where nothing was asked for. */
#define USUAL_MAX_RATIO	       0.95
#define USUAL_MAX_SLOWDOWN     1.05
#define USUAL_MAX_DRIFT_GROWTH 2.0

enum gate_key {
	KEY_MAX_RATIO = 'r',
	KEY_MAX_DRIFT = 'd',
	KEY_MIN_REPLACED = 'm',
	KEY_BASELINE = 'b',
	KEY_MAX_SLOWDOWN = 0x100,
	KEY_MAX_DRIFT_GROWTH
};

struct gate_arguments {
	struct gate_limits limits;
	enum format format;
	char *baseline;
	struct log_arguments logs;
};

#define OTHER_FORMATS ", json, csv, junit or markdown"

static const struct argp_option gate_options[] = {
	{"max-ratio", KEY_MAX_RATIO, "R", 0,
	 "fused time / app time, at each site and at all together: the upper end of the 95 % "
	 "interval may be R at most (0.95 where no threshold is named)",
	 1},
	{"max-drift", KEY_MAX_DRIFT, "R", 0,
	 "largest difference of a sample, as a share of the largest output", 1},
	{"min-replaced", KEY_MIN_REPLACED, "SHARE", 0,
	 "share of the calls (0.9 or 90%) that must have been replaced; calls that were run twice "
	 "to compare them do not count",
	 1},
	{"baseline", KEY_BASELINE, "OLD", 0,
	 "an earlier log (or directory): a site that it shows replaced must still be, none may be "
	 "slower or drift more than then",
	 2},
	{"max-slowdown", KEY_MAX_SLOWDOWN, "R", 0,
	 "with --baseline: fused time / OLD's; the lower end of the interval may be R at most "
	 "(1.05)",
	 2},
	{"max-drift-growth", KEY_MAX_DRIFT_GROWTH, "R", 0,
	 "with --baseline: drift / OLD's, judged alike (2)", 2},
	FORMAT_OPTION(OTHER_FORMATS, 3),
	LOG_COLOR_OPTION(3),
	QUIET_OPTION(3),
	{0},
};

static const char gate_doc[] =
	"Judges a log against thresholds; several logs, or a directory, are judged as one.\v"
	"An interval is the percentile bootstrap of the ratio of medians, 10 000 resamples, always "
	"from the same seed; it takes 5 timed samples (FASHIM_SAMPLE, or mode compare, give more). "
	"What cannot be judged at a site is skipped and said; a threshold that could be judged "
	"nowhere counts as broken.\n\n"
	"JSON: {\"format\":\"fashim-gate\",\"version\":1,\"passed\",\"checks\":[...]}; later "
	"versions "
	"only add members. JUnit: a test case a check.\n\n"
	"Exit status: 0 when every threshold is kept; 1 when one is broken; 2 for wrong usage or a "
	"log that cannot be read.\n\nExamples:\n"
	"  fashim gate --max-ratio=0.95 --max-drift=1e-3 run.jsonl\n"
	"  fashim gate --baseline=main.jsonl -f junit run.jsonl >gate.xml";

/* A finite decimal number of at least `least`; a trailing '%' where allowed. */
static double parse_limit(struct argp_state *state, const char *option, const char *text,
			  double least, bool percent)
{
	char *end;
	double value = strtod(text, &end);
	bool decimal = end != text && !text[strspn(text, "0123456789.eE+-%")];

	if (percent && decimal && !strcmp(end, "%")) {
		value /= 100;
		end++;
	}
	if (!decimal || *end || !isfinite(value))
		argp_error(state, "--%s takes a number, not '%s'", option, text);
	else if (value < least)
		argp_error(state, "--%s=%s: below %g it means nothing", option, text, least);
	return value;
}

static error_t gate_parse(int key, char *arg, struct argp_state *state)
{
	struct gate_arguments *arguments = state->input;
	struct gate_limits *limits = &arguments->limits;

	switch (key) {
	case KEY_MAX_RATIO:
		limits->max_ratio = parse_limit(state, "max-ratio", arg, 0, false);
		if (limits->max_ratio == 0)
			argp_error(state, "--max-ratio=0: no kernel takes no time");
		return 0;
	case KEY_MAX_DRIFT:
		limits->max_drift = parse_limit(state, "max-drift", arg, 0, false);
		return 0;
	case KEY_MIN_REPLACED:
		limits->min_replaced = parse_limit(state, "min-replaced", arg, 0, true);
		if (limits->min_replaced > 1)
			argp_error(state, "--min-replaced=%s: a share is 1 (100%%) at most", arg);
		return 0;
	case KEY_BASELINE:
		arguments->baseline = arg;
		return 0;
	case KEY_MAX_SLOWDOWN:
		limits->max_slowdown = parse_limit(state, "max-slowdown", arg, 1, false);
		return 0;
	case KEY_MAX_DRIFT_GROWTH:
		limits->max_drift_growth = parse_limit(state, "max-drift-growth", arg, 1, false);
		return 0;
	case 'f':
		arguments->format = format_argument(state, arg, OTHER_FORMATS);
		return 0;
	case ARGP_KEY_END:
		if (!arguments->baseline &&
		    !(isnan(limits->max_slowdown) && isnan(limits->max_drift_growth)))
			argp_error(state, "--max-slowdown and --max-drift-growth compare with a "
					  "--baseline, which is not named");
		return 0;
	default:
		return log_arguments_parse(&arguments->logs, key, arg, state);
	}
}

static void fill_usual(struct gate_limits *limits, bool baseline)
{
	if (!baseline && isnan(limits->max_ratio) && isnan(limits->max_drift) &&
	    isnan(limits->min_replaced))
		limits->max_ratio = USUAL_MAX_RATIO;
	if (baseline && isnan(limits->max_slowdown))
		limits->max_slowdown = USUAL_MAX_SLOWDOWN;
	if (baseline && isnan(limits->max_drift_growth))
		limits->max_drift_growth = USUAL_MAX_DRIFT_GROWTH;
}

static void print_gate(const struct gate *gate, const struct gate_arguments *arguments)
{
	switch (arguments->format) {
	case FORMAT_CSV:
		gate_csv(gate);
		break;
	case FORMAT_JSON:
		gate_json(gate);
		break;
	case FORMAT_JUNIT:
		gate_junit(gate);
		break;
	case FORMAT_MARKDOWN:
		gate_markdown(gate);
		break;
	default:
		gate_table(gate, color_wanted(arguments->logs.color, stdout) > 0);
	}
}

static int judge(const struct gate_arguments *arguments, const struct report *report,
		 const struct report *baseline)
{
	struct gate gate = {.report = report, .baseline = baseline, .limits = arguments->limits};
	int code = EXIT_USAGE;

	if (gate_build(&gate)) {
		complain("out of memory");
	} else {
		print_gate(&gate, arguments);
		code = gate_passed(&gate) ? EXIT_OK : EXIT_FAILED;
	}
	gate_free(&gate);
	return code;
}

int cmd_gate(int argc, char **argv)
{
	const struct argp parser = {gate_options, gate_parse, "LOG...", gate_doc,
				    help_option,  NULL,	      NULL};
	struct gate_arguments arguments = {.limits = {NAN, NAN, NAN, NAN, NAN}};
	struct report report = {0}, baseline = {0};
	int code = EXIT_USAGE, unreadable;

	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	fill_usual(&arguments.limits, arguments.baseline != NULL);
	unreadable = report_read(&report, arguments.logs.paths, arguments.logs.count);
	if (arguments.baseline && report_read(&baseline, &arguments.baseline, 1))
		unreadable = -EBADMSG;
	/* A verdict on half of the logs would be read as one on all of them. */
	if (!unreadable)
		code = judge(&arguments, &report, arguments.baseline ? &baseline : NULL);
	report_free(&report);
	report_free(&baseline);
	return finish_output("verdict") ? EXIT_USAGE : code;
}
