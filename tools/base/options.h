/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim's options as the tool sees them: the rows of config.def, and what the environment says.
 */
#ifndef FASHIM_OPTIONS_H
#define FASHIM_OPTIONS_H

#include <stdbool.h>

#include "shim/base/option.h"

struct option_row {
	const char *name;     /* "FASHIM_SAMPLE" */
	const char *standard; /* the default */
	const char *doc;
	enum option_kind kind;
};

extern const struct option_row option_rows[];
extern const int option_row_count;

/* The row of that name, or NULL. */
const struct option_row *option_find(const char *name);

/* True when `text` is a value that the option's kind allows, as the shim reads it. */
bool option_valid(const struct option_row *row, const char *text);

/* What the shim takes in place of a value that is not allowed. */
const char *option_instead(const struct option_row *row);

/* "mode", "string", "count", "flag", "number". */
const char *option_kind_name(enum option_kind kind);

/* False, with one line on stderr, when a "NAME=VALUE" is of a FASHIM_* name that is no option. */
bool option_known(const char *assignment);

#endif
