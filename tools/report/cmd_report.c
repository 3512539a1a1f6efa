/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim report: which attention sites a program has, what replacing them gained, how far the
 * numbers moved, and why the others were left alone.
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/progress.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/read/log_arguments.h"
#include "tools/read/log_paths.h"
#include "tools/report/report_bundle.h"
#include "tools/report/report_forms.h"
#include "tools/sites/report.h"
#include "tools/sites/report_select.h"
#include "tools/sites/symbolise.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct report_arguments {
	enum format format;
	bool format_named; /* else the name of the output may tell it */
	struct report_selection selection;
	const char *output;
	bool headers_only, no_pager, bundled;
	struct bundle bundle;
	struct log_arguments logs;
};

enum { KEY_SORT = 256, KEY_FILTER, KEY_HEADER, KEY_NO_PAGER, KEY_BUNDLE, KEY_TRACE, KEY_PRIVATE };

#define OTHER_FORMATS ", json, csv, md or html"

static const struct argp_option report_options[] = {
	FORMAT_OPTION(OTHER_FORMATS, 0),
	{"output", 'o', "FILE", 0,
	 "where to, - (default) is stdout; its ending tells the format where -f does not", 0},
	{"site", 's', "N", 0, "only site N (LOG:N of several logs), with all that is known of it",
	 0},
	{"sort", KEY_SORT, "COLUMN", 0,
	 "order of the sites, largest first; -COLUMN turns it round (default: by time saved)", 0},
	{"filter", KEY_FILTER, "CONDITION", 0,
	 "only sites with COLUMN=VALUE, !=, ~ (a part), <, <=, > or >=; may be repeated", 0},
	{"header", KEY_HEADER, NULL, 0, "only who ran, where, and with which options", 0},
	LOG_COLOR_OPTION(0),
	QUIET_OPTION(0),
	{"no-pager", KEY_NO_PAGER, NULL, 0, "do not page through $PAGER on a terminal", 0},
	{NULL, 0, NULL, 0, "To send a report to somebody:", 1},
	{"bundle", KEY_BUNDLE, NULL, 0,
	 "make one file of the logs, their report, the trace where one was recorded, and the "
	 "versions; -o names it (default: fashim-bundle.tar.gz)",
	 1},
	{"trace", KEY_TRACE, "TRACE", 0, "the recorded trace that goes with the logs", 1},
	{"private", KEY_PRIVATE, NULL, 0, "leave arguments, host name and folders in it", 1},
	{0},
};

static const char report_doc[] =
	"Tells what the shim found and did, from one log or many; a directory stands for its "
	"*.jsonl, - for standard input, and a log may be packed (.gz). Without a name it is the "
	"newest log here. Logs of one job's ranks are put together.\v"
	"JSON (\"format\":\"fashim-report\",\"version\":1) has the members \"logs\", \"total\", "
	"\"sites\" (in the table's order, \"log\" is an index into \"logs\") and \"not_replaced\"; "
	"times are in microseconds, what is unknown is null, later versions only add members.\n\n"
	"Columns of --format=csv, --sort and --filter:\n"
#define NUMBER(key, expression, doc) "  " #key ": " doc "\n"
#define TEXT(key, expression, doc)   "  " #key ": " doc "\n"
#include "tools/sites/report_columns.def"
#undef NUMBER
#undef TEXT
	"\nExit status: 0; 1 when a log cannot be read (the others are still reported); 2 for "
	"wrong usage.\n\nExamples:\n"
	"  fashim report\n"
	"  fashim report -o page.html run.jsonl\n"
	"  fashim report --site 1 run.jsonl\n"
	"  fashim report --bundle --trace app.trace run.jsonl\n"
	"  fashim report -f csv --sort=-speedup --filter 'calls>=100' logs/";

/* "page.html" is HTML. */
static enum format format_of_file(const char *path)
{
	const char *dot = strrchr(path, '.');
	const int format = dot && !strchr(dot, '/') ? format_named(dot + 1, OTHER_FORMATS) : -1;

	return format < 0 ? FORMAT_TABLE : (enum format)format;
}

/* A word that was refused has been complained of; argp only has to stop. */
static error_t stop_if(int refused)
{
	return refused ? EINVAL : 0;
}

static error_t report_parse(int key, char *arg, struct argp_state *state)
{
	struct report_arguments *arguments = state->input;

	switch (key) {
	case 'f':
		arguments->format = format_argument(state, arg, OTHER_FORMATS);
		arguments->format_named = true;
		return 0;
	case 'o':
		arguments->output = arg;
		return 0;
	case 's':
		return stop_if(report_select_site(&arguments->selection, arg));
	case KEY_SORT:
		return stop_if(report_select_sort(&arguments->selection, arg));
	case KEY_FILTER:
		return stop_if(report_select_filter(&arguments->selection, arg));
	case KEY_HEADER:
		arguments->headers_only = true;
		return 0;
	case KEY_NO_PAGER:
		arguments->no_pager = true;
		return 0;
	case KEY_BUNDLE:
		arguments->bundled = true;
		return 0;
	case KEY_TRACE:
		arguments->bundle.trace = arg;
		return 0;
	case KEY_PRIVATE:
		arguments->bundle.private_parts = true;
		return 0;
	case ARGP_KEY_END:
		if (!arguments->bundled &&
		    (arguments->bundle.trace || arguments->bundle.private_parts))
			argp_error(state, "--trace and --private are for --bundle");
		if (arguments->bundled &&
		    (arguments->format_named || report_selects(&arguments->selection)))
			argp_error(state, "a bundle takes no format and no selection");
		if (!arguments->format_named && arguments->output)
			arguments->format = format_of_file(arguments->output);
		return 0;
	default:
		return log_arguments_parse(&arguments->logs, key, arg, state);
	}
}

static void print_text(const struct report *report, const struct report_arguments *arguments)
{
	const struct report_style style = {
		.details = arguments->selection.site != 0,
		.headers_only = arguments->headers_only,
		.color = color_wanted(arguments->logs.color, stdout) > 0,
		.width = terminal_width(stdout),
	};
	struct pager pager = {0};

	if (!arguments->no_pager)
		pager_open(&pager);
	report_text(report, &style);
	pager_close(&pager);
}

static void print_report(const struct report *report, const struct report_arguments *arguments)
{
	switch (arguments->format) {
	case FORMAT_JSON:
		report_json(report);
		break;
	case FORMAT_CSV:
		report_csv(report, stdout);
		break;
	case FORMAT_MARKDOWN:
		report_markdown(report, stdout);
		break;
	case FORMAT_HTML:
		report_html(report, stdout);
		break;
	default:
		print_text(report, arguments);
	}
}

/* What there is to say about a selection that leaves nothing. */
static void say_none(const struct report *report, const struct report_selection *selection)
{
	const char *logs = report->set.count > 1 ? "these logs" : "this log";

	if (selection->site && selection->log)
		complain("no site %d:%u in %s", selection->log, selection->site, logs);
	else if (selection->site)
		complain("no site %u in %s", selection->site, logs);
	else
		complain("no site of %s fulfils the filter", logs);
}

int cmd_report(int argc, char **argv)
{
	const struct argp parser = {report_options, report_parse, "[LOG...]", report_doc,
				    help_option,    NULL,	  NULL};
	struct report_arguments arguments = {.logs.newest = true};
	const struct report_selection *selection = &arguments.selection;
	struct report report = {0};
	int code = EXIT_OK;

	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	if (log_arguments_name(&arguments.logs, arguments.output))
		return EXIT_USAGE;
	report.set.heads_only =
		arguments.headers_only && !arguments.bundled && arguments.format == FORMAT_TABLE;
	for (int i = 0; i < arguments.logs.count; i++) {
		if (log_set_read(&report.set, arguments.logs.paths[i], selection->site))
			code = EXIT_FAILED;
	}
	symbolise(&report.set);
	if (!report.set.count)
		code = EXIT_FAILED; /* every log was complained of */
	else if (report_merge_ranks(&report.set) || report_build(&report, selection)) {
		complain("out of memory");
		code = EXIT_FAILED;
	} else if (report_selects(selection) && !report.row_count) {
		say_none(&report, selection);
		code = EXIT_FAILED;
	} else if (arguments.bundled) {
		arguments.bundle.output = arguments.output;
		if (report_bundle(&report, &arguments.bundle))
			code = EXIT_FAILED;
	} else if (arguments.output && strcmp(arguments.output, "-") &&
		   !freopen(arguments.output, "w", stdout)) {
		complain("%s: %s", arguments.output, strerror(errno));
		code = EXIT_FAILED;
	} else {
		print_report(&report, &arguments);
	}
	report_free(&report);
	free(arguments.logs.found);
	return finish_output("report") ? EXIT_FAILED : code;
}
