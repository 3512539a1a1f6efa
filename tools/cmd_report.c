/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim report: which attention sites a program has, what replacing them gained, how far the
 * numbers moved, and why the others were left alone.
 */
#include "report.h"
#include "tool.h"

#include <argp.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct report_arguments {
	bool json;
	uint32_t site;
	const char *color;
	char **paths; /* into argv */
	int path_count;
};

static const struct argp_option report_options[] = {
	{"format", 'f', "FORMAT", 0, "table (default) or json", 0},
	{"site", 's', "N", 0, "only site N, with all that is known of it", 0},
	{"color", 'c', "WHEN", 0, "auto (default), always or never", 0},
	{0},
};

static const char report_doc[] =
	"Tells what the shim found and did, from one log or many; a directory stands for its "
	"*.jsonl.\v"
	"JSON (\"format\":\"fashim-report\",\"version\":1) has the members \"logs\", \"total\", "
	"\"sites\" (in the table's order, \"log\" is an index into \"logs\") and \"not_replaced\"; "
	"times are in microseconds, what is unknown is null, later versions only add members.\n\n"
	"Exit status: 0; 1 when a log cannot be read (the others are still reported); 2 for wrong "
	"usage.";

static error_t report_parse(int key, char *arg, struct argp_state *state)
{
	struct report_arguments *arguments = state->input;
	char *end;

	switch (key) {
	case 'f':
		arguments->json = !strcmp(arg, "json");
		if (!arguments->json && strcmp(arg, "table"))
			argp_error(state, "no format '%s'; table or json", arg);
		return 0;
	case 's':
		arguments->site = (uint32_t)strtoul(arg, &end, 10);
		if (!arguments->site || *end || *arg == '-')
			argp_error(state, "'%s' is no site number", arg);
		return 0;
	case 'c':
		arguments->color = arg;
		if (color_wanted(arg, stdout) < 0)
			argp_error(state, "--color takes auto, always or never, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARGS:
		arguments->paths = state->argv + state->next;
		arguments->path_count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no log named");
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Reads one file into the set and says on stderr what is wrong with it. */
static int read_file(struct log_set *set, const char *path, uint32_t site)
{
	int before = set->count;
	int result = log_read(set, path, site);

	if (result)
		complain("%s: %s", path, set->problem);
	for (int i = before; i < set->count; i++) {
		if (set->runs[i]->unreadable)
			complain("%s: %llu unreadable lines skipped", path,
				 (unsigned long long)set->runs[i]->unreadable);
		if (set->runs[i]->truncated)
			complain("%s: the last line is cut short and was ignored", path);
	}
	return result;
}

static int is_log(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && !strcmp(dot, ".jsonl");
}

static int read_directory(struct log_set *set, const char *path, uint32_t site)
{
	struct dirent **entries = NULL;
	int count = scandir(path, &entries, is_log, alphasort);
	int result = 0;

	if (count <= 0) {
		complain("%s: %s", path, count ? strerror(errno) : "no *.jsonl in this directory");
		free(entries);
		return -ENOENT;
	}
	for (int i = 0; i < count; i++) {
		char *file;

		if (asprintf(&file, "%s/%s", path, entries[i]->d_name) >= 0) {
			if (read_file(set, file, site))
				result = -EBADMSG;
			free(file);
		}
		free(entries[i]);
	}
	free(entries);
	return result;
}

int cmd_report(int argc, char **argv)
{
	const struct argp parser = {report_options, report_parse, "LOG...", report_doc,
				    NULL,	    NULL,	  NULL};
	struct report_arguments arguments = {.color = "auto"};
	struct report report = {0};
	int code = EXIT_OK;

	argp_err_exit_status = EXIT_USAGE;
	if (argp_parse(&parser, argc, argv, 0, NULL, &arguments))
		return EXIT_USAGE;
	for (int i = 0; i < arguments.path_count; i++) {
		const char *path = arguments.paths[i];
		struct stat info;
		bool directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);

		if (directory ? read_directory(&report.set, path, arguments.site)
			      : read_file(&report.set, path, arguments.site))
			code = EXIT_FAILED;
	}
	if (report.set.count && report_build(&report, arguments.site)) {
		complain("out of memory");
		code = EXIT_FAILED;
	} else if (report.set.count && arguments.site && !report.row_count) {
		complain("no site %u in %s", arguments.site,
			 report.set.count > 1 ? "these logs" : "this log");
		code = EXIT_FAILED;
	} else if (report.set.count && arguments.json) {
		report_json(&report);
	} else if (report.set.count) {
		report_text(&report, arguments.site != 0,
			    color_wanted(arguments.color, stdout) > 0);
	}
	report_free(&report);
	if (fflush(stdout) || ferror(stdout)) {
		complain("writing the report: %s", strerror(errno));
		code = EXIT_FAILED;
	}
	return code;
}
