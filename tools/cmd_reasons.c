/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim reasons: every reason for which attention may be left alone, with what one can do about
 * it.
 */
#include "tool.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

static const struct reason_row {
	const char *name, *sentence, *hint;
} reason_rows[] = {
#define REASON(id, name, sentence, hint) {name, sentence, hint},
#include "shim/reasons.def"
#undef REASON
};

enum { REASON_ROWS = sizeof(reason_rows) / sizeof(reason_rows[0]) };
enum reasons_format { REASONS_TEXT, REASONS_JSON, REASONS_MARKDOWN };

static const struct argp_option reasons_options[] = {
	{"format", 'f', "FORMAT", 0, "table (default), json or markdown", 0},
	{0},
};

static const char reasons_doc[] =
	"Prints every reason for which the shim leaves attention alone, and what can be done about "
	"it.\v"
	"JSON: {\"format\":\"fashim-reasons\",\"version\":1,\"reasons\":[{\"name\",\"sentence\","
	"\"hint\"}]}.";

static error_t reasons_parse(int key, char *arg, struct argp_state *state)
{
	enum reasons_format *format = state->input;

	switch (key) {
	case 'f':
		if (!strcmp(arg, "table"))
			*format = REASONS_TEXT;
		else if (!strcmp(arg, "json"))
			*format = REASONS_JSON;
		else if (!strcmp(arg, "markdown") || !strcmp(arg, "md"))
			*format = REASONS_MARKDOWN;
		else
			argp_error(state, "no format '%s'; table, json or markdown", arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void print_json(void)
{
	json_t *rows = json_array();
	json_t *root = json_pack("{s:s,s:i,s:o}", "format", "fashim-reasons", "version", 1,
				 "reasons", rows);

	for (int i = 1; i < REASON_ROWS; i++)
		json_array_append_new(rows, json_pack("{s:s,s:s,s:s}", "name", reason_rows[i].name,
						      "sentence", reason_rows[i].sentence, "hint",
						      reason_rows[i].hint));
	json_dumpf(root, stdout, JSON_INDENT(1));
	putchar('\n');
	json_decref(root);
}

int cmd_reasons(int argc, char **argv)
{
	const struct argp parser = {
		reasons_options, reasons_parse, "", reasons_doc, NULL, NULL, NULL};
	enum reasons_format format = REASONS_TEXT;

	argp_err_exit_status = EXIT_USAGE;
	if (argp_parse(&parser, argc, argv, 0, NULL, &format))
		return EXIT_USAGE;
	if (format == REASONS_JSON) {
		print_json();
		return EXIT_OK;
	}
	if (format == REASONS_MARKDOWN)
		puts("| reason | what it means | what you can do |\n|---|---|---|");
	/* Row 0 is "none", which holds nothing back. */
	for (int i = 1; i < REASON_ROWS; i++) {
		const struct reason_row *row = &reason_rows[i];

		if (format == REASONS_MARKDOWN)
			printf("| `%s` | %s | %s |\n", row->name, row->sentence, row->hint);
		else
			printf("%-24s %s\n%s%s%s", row->name, row->sentence,
			       *row->hint ? "                         -> " : "", row->hint,
			       *row->hint ? "\n" : "");
	}
	return EXIT_OK;
}
