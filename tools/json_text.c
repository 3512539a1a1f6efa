/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson refuses what JSON cannot hold; these put something else in its place.
 */
#include "json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *json_text(const char *text)
{
	json_t *string = json_string(text);
	char *copy;

	if (string)
		return string;
	copy = strdup(text);
	for (char *c = copy; copy && *c; c++) {
		if ((unsigned char)*c >= 0x80)
			*c = '?';
	}
	string = copy ? json_string(copy) : NULL;
	free(copy);
	return string;
}

json_t *json_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}
