/* SPDX-License-Identifier: Apache-2.0
 *
 * From a FASHIM_OUT pattern to the logs that a run left behind.
 */
#ifndef FASHIM_LOG_NAME_H
#define FASHIM_LOG_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* `pattern` with the parts that only the program's own process knows (%e %p %h %r %n %t) replaced
 * by `*` and everything else literal, as glob(3) wants it. %q{VAR} is looked up with getenv.
 * Malloc'ed, or NULL. */
char *log_name_glob(const char *pattern);

/* A path for use inside a pattern: '%' doubled. Malloc'ed, or NULL. */
char *log_name_escape(const char *path);

/* Sorted, each once. */
struct log_names {
	char **names;
	size_t count;
};

/* The files that match now, or match with a number or rank before the extension; none when memory
 * is short. LOG.live files are no logs and not listed. For log_names_free(). */
struct log_names log_names_find(const char *pattern);
bool log_names_hold(const struct log_names *list, const char *path);
void log_names_free(struct log_names *list);

#endif
