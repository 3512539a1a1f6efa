/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim export: the log in the forms that other tools read: a Chrome trace for Perfetto, folded
 * stacks for flame graphs, a SQLite database for questions of one's own.
 */
#include "tools/commands.h"
#include "tools/base/help_option.h"
#include "tools/base/progress.h"
#include "tools/base/tool.h"
#include "tools/export/export.h"
#include "tools/read/log_arguments.h"
#include "tools/read/log_paths.h"

#include <argp.h>
#include <errno.h>
#include <string.h>

static const struct export_form *const forms[] = {&export_perfetto, &export_folded, &export_sqlite};

enum { FORM_COUNT = sizeof(forms) / sizeof(*forms) };

struct export_arguments {
	const struct export_form *form;
	enum export_weight weight;
	const char *output;
	struct log_arguments logs;
};

static const struct argp_option export_options[] = {
	{"format", 'f', "FORMAT", 0, "perfetto (default; chrome is the same), folded or sqlite", 0},
	{"output", 'o', "FILE", 0,
	 "where to; - (default) is stdout, which sqlite cannot take; .db, .sqlite and .folded tell "
	 "the "
	 "format where -f does not",
	 0},
	{"weight", 'w', "WHAT", 0,
	 "what a folded stack counts: time (default; GPU time in us) or calls", 0},
	QUIET_OPTION(0),
	{0},
};

static const char export_doc[] =
	"Writes logs in the form of another tool; a directory stands for its *.jsonl.\v"
	"perfetto: Chrome trace JSON for ui.perfetto.dev and chrome://tracing; a process a log, a "
	"track a stream, a slice a measured call with the program's own chain and the fused kernel "
	"in it, times in us since each log began. Logs that do not tell when a call was made have "
	"one track instead, on "
	"which the measured calls follow each other without gaps.\n\n"
	"folded: a line a call path, for flamegraph.pl, speedscope, inferno. Time is the calls of "
	"the "
	"site times the mean of its samples.\n\n"
	"sqlite: tables run, option, site, frame, sample, event, reason and site_speed, which has "
	"the times that "
	"report quotes; an "
	"existing FILE is replaced.\n\n"
	"Exit status: 0; 1 when a log cannot be read (the others are still exported) or FILE "
	"cannot "
	"be "
	"written; 2 for wrong usage.\n\nExamples:\n"
	"  fashim export run.jsonl >trace.json\n"
	"  fashim export -f folded run.jsonl | flamegraph.pl >flames.svg\n"
	"  fashim export -o run.db run.jsonl";

static const struct export_form *form_named(const char *name)
{
	for (int i = 0; i < FORM_COUNT; i++) {
		if (!strcmp(forms[i]->name, name) || !strcmp(forms[i]->alias, name))
			return forms[i];
	}
	return NULL;
}

/* "log.db" is SQLite. */
static const struct export_form *form_of_file(const char *path)
{
	static const struct {
		const char *ending;
		const struct export_form *form;
	} endings[] = {{".db", &export_sqlite},
		       {".sqlite", &export_sqlite},
		       {".sqlite3", &export_sqlite},
		       {".folded", &export_folded}};
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof(endings) / sizeof(*endings); i++) {
		if (!strcmp(dot, endings[i].ending))
			return endings[i].form;
	}
	return &export_perfetto;
}

static error_t export_parse(int key, char *arg, struct argp_state *state)
{
	struct export_arguments *arguments = state->input;

	switch (key) {
	case 'f':
		arguments->form = form_named(arg);
		if (!arguments->form)
			argp_error(state, "no format '%s'; perfetto, folded or sqlite", arg);
		return 0;
	case 'o':
		arguments->output = arg;
		if (!*arg)
			argp_error(state, "--output takes a file name, or - for stdout");
		return 0;
	case 'w':
		arguments->weight = !strcmp(arg, "calls") ? EXPORT_CALLS : EXPORT_TIME;
		if (arguments->weight == EXPORT_TIME && strcmp(arg, "time"))
			argp_error(state, "--weight takes time or calls, not '%s'", arg);
		return 0;
	case ARGP_KEY_END:
		if (!arguments->form)
			arguments->form = form_of_file(arguments->output);
		if (arguments->form->needs_file && !strcmp(arguments->output, "-"))
			argp_error(state, "%s needs --output=FILE; it cannot be written to stdout",
				   arguments->form->name);
		return 0;
	default:
		return log_arguments_parse(&arguments->logs, key, arg, state);
	}
}

static int run_export(struct export *export, const struct export_arguments *arguments)
{
	const struct export_form *form = arguments->form;
	const struct log_observer observer = {form->sample, form->record, export};
	int code = EXIT_OK, result;

	if (form->open(export)) {
		complain("%s: %s", export->path, export->problem);
		form->close(export);
		return EXIT_FAILED;
	}
	export->set.observer = &observer;
	for (int i = 0; i < arguments->logs.count; i++) {
		if (log_set_read(&export->set, arguments->logs.paths[i], 0))
			code = EXIT_FAILED;
	}
	export->set.observer = NULL;
	result = export->set.count ? form->write(export) : 0;
	/* A reader that has gone has had enough. */
	if (result && result != -EPIPE) {
		complain("%s: %s", strcmp(export->path, "-") ? export->path : "writing to stdout",
			 export->problem);
		code = EXIT_FAILED;
	}
	form->close(export);
	return code;
}

int cmd_export(int argc, char **argv)
{
	const struct argp parser = {export_options, export_parse, "LOG...", export_doc,
				    help_option,    NULL,	  NULL};
	struct export_arguments arguments = {.output = "-"};
	struct export export = {0};
	int code;

	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	if (log_arguments_name(&arguments.logs, arguments.output))
		return EXIT_USAGE;
	export.path = arguments.output;
	export.weight = arguments.weight;
	code = run_export(&export, &arguments);
	log_set_free(&export.set);
	return code;
}
