/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson, loaded at run time: it has functions of the same names as our writer.
 */
#include "tests/unit/reader.h"

#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The pointer `real_NAME` to jansson's function NAME. */
#define JANSSON(name) __typeof__(&name) real_##name = (__typeof__(&name))symbol(#name)

static void *symbol(const char *name)
{
	static void *library;
	void *found;

	if (!library)
		library = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);
	found = library ? dlsym(library, name) : NULL;
	if (!found)
		abort();
	return found;
}

const struct reader_value *reader_parse(const char *text, size_t length)
{
	JANSSON(json_loadb);
	static json_t **kept; /* so that a leak checker finds them */
	static size_t count;
	json_t *value =
		real_json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);

	if (!(count & (count + 1)))
		kept = realloc(kept, 2 * (count + 1) * sizeof(kept[0]));
	kept[count++] = value;
	return (const struct reader_value *)value;
}

static const json_t *find(const struct reader_value *value, const char *path)
{
	JANSSON(json_object_get);
	JANSSON(json_array_get);
	const json_t *at = (const json_t *)value;
	char key[256];

	while (at && *path) {
		const size_t length = strcspn(path, "/");

		memcpy(key, path, length);
		key[length] = '\0';
		at = json_is_array(at) ? real_json_array_get(at, (size_t)atoi(key))
				       : real_json_object_get(at, key);
		path += length + (path[length] == '/');
	}
	return at;
}

const char *reader_string(const struct reader_value *value, const char *path)
{
	JANSSON(json_string_value);

	return real_json_string_value(find(value, path));
}

double reader_number(const struct reader_value *value, const char *path)
{
	JANSSON(json_number_value);
	const json_t *found = find(value, path);

	return json_is_number(found) ? real_json_number_value(found) : (double)NAN;
}

bool reader_is_null(const struct reader_value *value, const char *path)
{
	return json_is_null(find(value, path));
}

long reader_count(const struct reader_value *value, const char *path)
{
	JANSSON(json_array_size);
	JANSSON(json_object_size);
	const json_t *found = find(value, path);

	if (json_is_array(found))
		return (long)real_json_array_size(found);
	return json_is_object(found) ? (long)real_json_object_size(found) : -1;
}

const struct reader_value *reader_line(const char *text, int number)
{
	for (; number > 0 && text; number--) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text && *text ? reader_parse(text, strcspn(text, "\n")) : NULL;
}

int reader_lines(const char *text)
{
	int lines = 0;

	for (; *text; text = strchr(text, '\n') + 1, lines++)
		if (!strchr(text, '\n') || !reader_parse(text, strcspn(text, "\n")))
			return -1;
	return lines;
}
