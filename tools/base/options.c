/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table, expanded from config.def, the check of a value by its kind, and the check that
 * catches misspelt names: the shim speaks of those only once a program uses CUDA.
 */
#include "tools/base/options.h"
#include "tools/base/tool.h"

#include <string.h>

const struct option_row option_rows[] = {
#define OPTION(field, KIND, name, standard, doc) {name, standard, doc, OPTION_##KIND},
#include "shim/base/config.def"
#undef OPTION
};
const int option_row_count = sizeof(option_rows) / sizeof(option_rows[0]);

const struct option_row *option_find(const char *name)
{
	for (int i = 0; i < option_row_count; i++) {
		if (!strcmp(option_rows[i].name, name))
			return &option_rows[i];
	}
	return NULL;
}

bool option_valid(const struct option_row *row, const char *text)
{
	union {
		int word;
		uint64_t count;
		bool flag;
		double number;
	} value;

	return option_parse(row->kind, text, &value);
}

const char *option_instead(const struct option_row *row)
{
	return option_otherwise(row->kind, row->standard);
}

const char *option_kind_name(enum option_kind kind)
{
	static const char *const names[] = {"mode",  "ask",  "graphs", "string",
					    "count", "flag", "number"};

	return names[kind];
}

bool option_known(const char *assignment)
{
	const char *names[sizeof(option_rows) / sizeof(option_rows[0])];
	size_t length = strcspn(assignment, "=");
	const char *near;
	char name[64];

	if (strncmp(assignment, "FASHIM", 6) || length >= sizeof(name) ||
	    (length > 6 && assignment[6] != '_'))
		return true;
	memcpy(name, assignment, length);
	name[length] = '\0';
	if (option_find(name))
		return true;
	/* The common prefix would make every name look alike; row 0 is FASHIM itself. */
	for (int i = 1; i < option_row_count; i++)
		names[i - 1] = option_rows[i].name + sizeof("FASHIM_") - 1;
	near = did_you_mean(name + sizeof("FASHIM_") - 1, names, option_row_count - 1);
	if (near)
		complain("%s is no option; did you mean FASHIM_%s?", name, near);
	else
		complain("%s is no option; see 'fashim env'", name);
	return false;
}
