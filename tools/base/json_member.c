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
