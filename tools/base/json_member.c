/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson gives NULL where an object is none or lacks the member, and takes NULL everywhere.
 */
#include "tools/base/json_member.h"

const char *text_of(const json_t *record, const char *key)
{
	const char *text = json_string_value(json_object_get(record, key));

	return text ? text : "";
}

double number_of(const json_t *record, const char *key, double otherwise)
{
	const json_t *value = json_object_get(record, key);

	return json_is_number(value) ? json_number_value(value) : otherwise;
}

bool same_member(const json_t *a, const json_t *b, const char *key)
{
	const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);

	if (json_is_number(x) && json_is_number(y))
		return json_number_value(x) == json_number_value(y);
	return x == y || json_equal(x, y);
}

bool same_members(const json_t *a, const json_t *b, const char *const *keys)
{
	while (*keys && same_member(a, b, *keys))
		keys++;
	return !*keys;
}

void copy_members(json_t *to, const json_t *from, const char *const *keys)
{
	for (; *keys; keys++) {
		json_t *value = json_object_get(from, *keys);

		json_object_set_new(to, *keys, value ? json_incref(value) : json_null());
	}
}
