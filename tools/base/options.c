/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table, expanded from config.def, the check of a value by its kind, and the check that
 * catches misspelt names: the shim speaks of those only once a program uses CUDA.
 */
#include "tools/base/options.h"
#include "tools/base/tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static bool one_of(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (!strcasecmp(text, *words))
			return true;
	}
	return false;
}

bool option_valid(const struct option_row *row, const char *text)
{
	static const char *const modes[] = {"off", "audit", "compare", "replace", NULL};
	static const char *const asks[] = {"off", "chain", "all", NULL};
	static const char *const graphs[] = {"off", "trust", "prove", NULL};
	static const char *const flags[] = {"0",   "1",	    "off",  "on", "no",
					    "yes", "false", "true", NULL};
	char *end;

	switch (row->kind) {
	case OPTION_MODE:
		return one_of(text, modes);
	case OPTION_ASK:
		return one_of(text, asks);
	case OPTION_GRAPHS:
		return one_of(text, graphs) || one_of(text, flags);
	case OPTION_FLAG:
		return one_of(text, flags);
	case OPTION_COUNT:
		errno = 0;
		strtoull(text, &end, 10);
		return text[strspn(text, "0123456789")] == '\0' && !errno;
	case OPTION_NUMBER:
		/* Decimal notation only: strtod would take "nan" and "0x1p3" too. */
		return !text[strspn(text, "0123456789.eE+-")] && *text != '-' &&
		       isfinite(strtod(text, &end)) && *end == '\0';
	case OPTION_STRING:
		break;
	}
	return true;
}

const char *option_instead(const struct option_row *row)
{
	return row->kind == OPTION_MODE ? "off" : row->standard;
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
