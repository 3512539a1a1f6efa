/* SPDX-License-Identifier: Apache-2.0
 *
 * The shim expands FASHIM_OUT in each process of a run; the tool sees only the directory
 * afterwards. So the unknown parts become wildcards; the shim never writes to a file that is there
 * already, so what is new after the run is of this run.
 */
#include "tools/read/log_name.h"

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Appends text to *at, with glob's special characters quoted. */
static char *append_quoted(char *at, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (strchr("*?[]\\", text[i]))
			*at++ = '\\';
		*at++ = text[i];
	}
	return at;
}

/* The value of VAR for "%q{VAR}" at `from`, and where the pattern goes on; NULL when it is
 * malformed. */
static const char *quoted_variable(const char *from, const char **after)
{
	const char *closing = strchr(from, '}');
	char name[128];
	const char *value;

	if (from[2] != '{' || !closing || closing - from - 3 >= (ptrdiff_t)sizeof(name))
		return NULL;
	memcpy(name, from + 3, (size_t)(closing - from - 3));
	name[closing - from - 3] = '\0';
	*after = closing + 1;
	value = getenv(name);
	return value ? value : "";
}

char *log_name_glob(const char *pattern)
{
	/* Every %q may bring a whole variable; two passes would be no shorter than this bound. */
	size_t size = 2 * strlen(pattern) + 1;
	char *result, *at;

	for (const char *c = pattern; *c; c++) {
		const char *after,
			*value = *c == '%' && c[1] == 'q' ? quoted_variable(c, &after) : NULL;

		size += value ? 2 * strlen(value) : 0;
	}
	result = at = malloc(size);
	if (!result)
		return NULL;
	for (const char *c = pattern; *c;) {
		const char *after, *value;

		if (*c == '%' && c[1] && strchr("ephrnt", c[1])) {
			*at++ = '*';
			c += 2;
		} else if (*c == '%' && c[1] == '%') {
			*at++ = '%';
			c += 2;
		} else if (*c == '%' && c[1] == 'q' && (value = quoted_variable(c, &after))) {
			at = append_quoted(at, value, strlen(value));
			c = after;
		} else {
			at = append_quoted(at, c++, 1);
		}
	}
	*at = '\0';
	return result;
}

char *log_name_escape(const char *path)
{
	char *result = malloc(2 * strlen(path) + 1), *at = result;

	if (!result)
		return NULL;
	for (; *path; path++) {
		if (*path == '%')
			*at++ = '%';
		*at++ = *path;
	}
	*at = '\0';
	return result;
}

static bool is_live(const char *path)
{
	size_t length = strlen(path);

	return length > 5 && !strcmp(path + length - 5, ".live");
}

/* The pattern with ".*" before the extension: where the shim puts a number when the file is there
 * already, and a rank when the pattern has none. */
static char *with_suffix(const char *wildcard)
{
	const char *slash = strrchr(wildcard, '/');
	const char *base = slash ? slash + 1 : wildcard;
	const char *dot = strrchr(base, '.');
	char *result;

	if (!dot || dot == base)
		dot = base + strlen(base);
	if (asprintf(&result, "%.*s.*%s", (int)(dot - wildcard), wildcard, dot) < 0)
		return NULL;
	return result;
}

static bool is_log(const char *path)
{
	struct stat info;

	return !is_live(path) && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static int by_name(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

bool log_names_hold(const struct log_names *list, const char *path)
{
	return list->count && bsearch(&path, list->names, list->count, sizeof(path), by_name);
}

struct log_names log_names_find(const char *pattern)
{
	char *wildcard = log_name_glob(pattern),
	     *suffixed = wildcard ? with_suffix(wildcard) : NULL;
	struct log_names list = {NULL, 0};
	glob_t found;

	if (suffixed && glob(wildcard, 0, NULL, &found) != GLOB_NOSPACE &&
	    glob(suffixed, GLOB_APPEND, NULL, &found) != GLOB_NOSPACE) {
		list.names = calloc(found.gl_pathc + 1, sizeof(*list.names));
		if (found.gl_pathc)
			qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), by_name);
		for (size_t i = 0; list.names && i < found.gl_pathc; i++) {
			const char *path = found.gl_pathv[i];

			/* Both patterns may have found it. */
			if ((i && !strcmp(path, found.gl_pathv[i - 1])) || !is_log(path))
				continue;
			list.names[list.count] = strdup(path);
			list.count += list.names[list.count] != NULL;
		}
		globfree(&found);
	}
	free(wildcard);
	free(suffixed);
	return list;
}

void log_names_free(struct log_names *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct log_names){NULL, 0};
}
