/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim env: every option with its value here and now, where that comes from and what it does; the
 * rows are those the shim itself is compiled from.
 */
#include "tools/commands.h"
#include "tools/base/format.h"
#include "tools/base/help_option.h"
#include "tools/base/json_text.h"
#include "tools/base/options.h"
#include "tools/base/records.h"
#include "tools/base/tool.h"

#include <argp.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

#define OTHER_FORMATS ", json, csv or markdown"

static const struct argp_option env_options[] = {
	FORMAT_OPTION(OTHER_FORMATS, 0),
	{0},
};

static const char env_doc[] =
	"Prints every option of the shim: its value in this environment, whether that is the "
	"default, "
	"and what it does.\v"
	"JSON: {\"format\":\"fashim-env\",\"version\":1,\"options\":[{\"name\",\"kind\",\"value\","
	"\"default\",\"source\":\"default\"|\"env\"|\"invalid\",\"doc\"}]}; a value that its kind "
	"does "
	"not allow has the source \"invalid\".\n\nExamples:\n"
	"  FASHIM=audit fashim env\n"
	"  fashim env -f json";

static error_t env_parse(int key, char *arg, struct argp_state *state)
{
	enum format *format = state->input;

	switch (key) {
	case 'f':
		*format = format_argument(state, arg, OTHER_FORMATS);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char *source_of(const struct option_row *row)
{
	const char *text = getenv(row->name);

	if (!text || !*text)
		return "default";
	return option_valid(row, text) ? "env" : "invalid";
}

static const char *value_of(const struct option_row *row)
{
	const char *text = getenv(row->name);

	return text && *text ? text : row->standard;
}

/* Every option as an object. */
static json_t *rows_of_options(void)
{
	json_t *rows = json_array();

	for (int i = 0; i < option_row_count; i++) {
		const struct option_row *row = &option_rows[i];
		json_t *value = json_string(value_of(row));

		json_array_append_new(
			rows, json_pack("{s:s,s:s,s:o,s:s,s:s,s:s}", "name", row->name, "kind",
					option_kind_name(row->kind), "value",
					value ? value : json_string("(not UTF-8)"), "default",
					row->standard, "source", source_of(row), "doc", row->doc));
	}
	return rows;
}

static int print_json(void)
{
	json_document(json_pack("{s:s,s:i,s:o}", "format", "fashim-env", "version", 1, "options",
				rows_of_options()),
		      0);
	return EXIT_OK;
}

/* The README's table; a test compares the two. */
static int print_markdown(void)
{
	puts("| option | default | what it does |\n|---|---|---|");
	for (int i = 0; i < option_row_count; i++) {
		const struct option_row *row = &option_rows[i];

		printf("| `%s` | %s%s%s | %s |\n", row->name, *row->standard ? "`" : "",
		       row->standard, *row->standard ? "`" : "", row->doc);
	}
	return EXIT_OK;
}

static int print_table(void)
{
	static const struct record_column columns[] = {{"OPTION", "name", 0},
						       {"VALUE", "value", 0},
						       {"SOURCE", "source", 0},
						       {"WHAT IT DOES", "doc", 0}};
	json_t *rows = rows_of_options(), *row;
	size_t index;

	json_array_foreach(rows, index, row)
	{
		if (!*json_string_value(json_object_get(row, "value")))
			json_object_set_new(row, "value", json_null());
	}
	print_records(columns, sizeof(columns) / sizeof(*columns), rows, false);
	json_decref(rows);
	return EXIT_OK;
}

int cmd_env(int argc, char **argv)
{
	const struct argp parser = {env_options, env_parse, "", env_doc, help_option, NULL, NULL};
	enum format format = FORMAT_TABLE;
	int result;

	if (argp_parse(&parser, argc, argv, 0, NULL, &format))
		return EXIT_USAGE;
	for (char *const *entry = environ; *entry; entry++)
		option_known(*entry);
	for (int i = 0; i < option_row_count; i++) {
		if (!strcmp(source_of(&option_rows[i]), "invalid"))
			complain("%s=%s is no %s; the shim takes %s", option_rows[i].name,
				 value_of(&option_rows[i]), option_kind_name(option_rows[i].kind),
				 option_instead(&option_rows[i]));
	}
	if (format == FORMAT_CSV)
		csv_records(stdout, rows_of_options(), NULL);
	result = format == FORMAT_JSON	     ? print_json()
		 : format == FORMAT_CSV	     ? EXIT_OK
		 : format == FORMAT_MARKDOWN ? print_markdown()
					     : print_table();
	return finish_output("options") ? EXIT_FAILED : result;
}
