/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats that -f asks for; a word means the same to every command.
 */
#ifndef FASHIM_FORMAT_H
#define FASHIM_FORMAT_H

#include <argp.h>

enum format {
	FORMAT_TABLE,
	FORMAT_JSON,
	FORMAT_CSV,
	FORMAT_TSV,
	FORMAT_MARKDOWN, /* "markdown" and "md" */
	FORMAT_HTML,
	FORMAT_JUNIT
};

/* A row of a command's options, in group `group`. others: what there is beside the table, in words:
 * ", json, csv or md". */
#define FORMAT_OPTION(others, group)                                                               \
	{                                                                                          \
		"format", 'f', "FORMAT", 0, "table (default)" others, group                        \
	}

/* The format of that name, where it is a table or one of the others; -1: there is none. */
int format_named(const char *word, const char *others);

/* The argument of -f; argp_error() where there is no such format. */
enum format format_argument(struct argp_state *state, const char *word, const char *others);

#endif
