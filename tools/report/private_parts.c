/* SPDX-License-Identifier: Apache-2.0
 *
 * Every string of a record is looked at, also in members that a later version adds.
 */
#include "tools/report/private_parts.h"
#include "tools/sites/report_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Members whose words have slashes and are no paths. */
static bool holds_no_path(const char *key)
{
	static const char *const keys[] = {"kernel", "chain", "mask", "form", "gpu", "by", NULL};

	for (int i = 0; keys[i]; i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

/* Members that are one path, which may hold blanks. */
static bool is_path(const char *key)
{
	return !strcmp(key, "python") || !strcmp(key, "stack") || !strcmp(key, "exe") ||
	       !strcmp(key, "cache") || !strncmp(key, "FASHIM", 6);
}

static const char *file_of(const char *path)
{
	const char *inside = name_inside_package(path), *slash = strrchr(path, '/');

	return inside != path || !slash ? inside : slash + 1;
}

/* A sentence: each word that begins with a slash is a path. In place. */
static void shorten_words(char *text)
{
	char *to = text;

	while (*text) {
		const size_t blank = strspn(text, " '\"(=,"),
			     length = strcspn(text + blank, " '\"(=,");
		const char *word = text + blank;

		memmove(to, text, blank);
		to += blank;
		if (*word == '/') {
			const char *slash = memrchr(word, '/', length);
			const size_t rest = length - (size_t)(slash + 1 - word);

			memmove(to, slash + 1, rest);
			to += rest;
		} else {
			memmove(to, word, length);
			to += length;
		}
		text += blank + length;
	}
	*to = '\0';
}

static int shorten(json_t *value, const char *key)
{
	char *text = strdup(json_string_value(value));
	int result;

	if (!text)
		return -ENOMEM;
	if (!is_path(key))
		shorten_words(text);
	result = json_string_set(value, is_path(key) ? file_of(text) : text);
	free(text);
	return result ? -ENOMEM : 0;
}

static int walk(json_t *value, const char *key)
{
	int result = 0;
	const char *name;
	json_t *member;
	size_t index;

	json_object_foreach(value, name, member)
	{
		result = result ? result : walk(member, name);
	}
	json_array_foreach(value, index, member)
	{
		result = result ? result : walk(member, key);
	}
	if (json_is_string(value) && !holds_no_path(key))
		result = shorten(value, key);
	return result;
}

int private_parts_remove(json_t *record)
{
	json_object_del(record, "argv");
	if (json_object_get(record, "host"))
		json_object_set_new(record, "host", json_string("(left out)"));
	json_object_del(record, "uuid");
	return walk(record, "");
}
