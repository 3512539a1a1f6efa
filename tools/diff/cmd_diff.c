/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim diff: two logs side by side, as two versions of a library, two GPUs, or before and after.
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/progress.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/diff/diff.h"
#include "tools/read/log_arguments.h"
#include "tools/sites/report_read.h"

#include <argp.h>
#include <errno.h>

struct diff_arguments {
	enum format format;
	struct diff_style style;
	struct log_arguments logs; /* two */
};

#define OTHER_FORMATS ", json, csv or markdown"

static const struct argp_option diff_options[] = {
	FORMAT_OPTION(OTHER_FORMATS, 0),
	{"changed", 'd', NULL, 0, "leave out sites that are the same in both", 0},
	LOG_COLOR_OPTION(0),
	QUIET_OPTION(0),
	{0},
};

static const char diff_doc[] =
	"Tells what changed from log A to log B, site by site: speed, drift, verdict, and sites "
	"that "
	"came or went. A directory stands for its *.jsonl, one per rank.\v"
	"Sites are paired by what they compute (shape, dtype, mask, scale) and where they are "
	"called "
	"from. A change counts where the 95 % interval of the ratio of medians, by 10 000 "
	"bootstrap "
	"resamples, leaves out 1.\n\n"
	"JSON: {\"format\":\"fashim-diff\",\"version\":1,\"a\",\"b\",\"headers\",\"total\","
	"\"sites\"}; what is unknown is null, later versions only add members. csv has the sites, "
	"a "
	"member of a member as a_calls.\n\n"
	"Exit status: 0, whatever differs ('fashim gate --baseline' judges); 1 when a log cannot "
	"be "
	"read; 2 for wrong usage.\n\nExamples:\n"
	"  fashim diff before.jsonl after.jsonl\n"
	"  fashim diff --changed -f markdown before/ after/";

static error_t diff_parse(int key, char *arg, struct argp_state *state)
{
	struct diff_arguments *arguments = state->input;

	switch (key) {
	case 'f':
		arguments->format = format_argument(state, arg, OTHER_FORMATS);
		return 0;
	case 'd':
		arguments->style.changed_only = true;
		return 0;
	case ARGP_KEY_END:
		if (arguments->logs.count != 2)
			argp_error(state, "two logs are compared, not %d", arguments->logs.count);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "two logs are compared; none is named");
		return EINVAL;
	default:
		return log_arguments_parse(&arguments->logs, key, arg, state);
	}
}

static int print_diff(const struct diff_arguments *arguments, const struct report *a,
		      const struct report *b)
{
	struct diff diff;
	int result = diff_build(&diff, a, b);

	if (result)
		complain("out of memory");
	else if (arguments->format == FORMAT_JSON)
		diff_json(&diff, arguments->style.changed_only);
	else if (arguments->format == FORMAT_CSV)
		diff_csv(&diff, arguments->style.changed_only);
	else
		diff_table(&diff, &arguments->style);
	diff_free(&diff);
	return result ? EXIT_FAILED : EXIT_OK;
}

int cmd_diff(int argc, char **argv)
{
	const struct argp parser = {diff_options, diff_parse, "A B", diff_doc,
				    help_option,  NULL,	      NULL};
	struct diff_arguments arguments = {0};
	struct report reports[2] = {0};
	int code = EXIT_OK;

	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	arguments.style.markdown = arguments.format == FORMAT_MARKDOWN;
	arguments.style.color =
		!arguments.style.markdown && color_wanted(arguments.logs.color, stdout) > 0;
	for (int i = 0; i < 2; i++) {
		if (report_read(&reports[i], &arguments.logs.paths[i], 1))
			code = EXIT_FAILED;
	}
	if (reports[0].set.count && reports[1].set.count &&
	    print_diff(&arguments, &reports[0], &reports[1]))
		code = EXIT_FAILED;
	for (int i = 0; i < 2; i++)
		report_free(&reports[i]);
	return finish_output("comparison") ? EXIT_FAILED : code;
}
