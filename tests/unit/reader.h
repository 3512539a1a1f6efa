/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads JSON in the tests with another library than the one that wrote it.
 */
#ifndef TEST_READER_H
#define TEST_READER_H

#include <stdbool.h>
#include <stddef.h>

struct reader_value;

/* One whole JSON value, or NULL. Kept until the program ends. */
const struct reader_value *reader_parse(const char *text, size_t length);

/* What lies at `path`: keys and indices divided by '/', "" for the value itself. NULL, NAN or false
 * where there is nothing of that sort. */
const char *reader_string(const struct reader_value *value, const char *path);
double reader_number(const struct reader_value *value, const char *path);
bool reader_is_null(const struct reader_value *value, const char *path);
long reader_count(const struct reader_value *value,
		  const char *path); /* of an array, object; or -1 */

/* Line `number` (from 0) of a JSON Lines text; NULL when there is none or it is no JSON. */
const struct reader_value *reader_line(const char *text, int number);

/* Lines of the text, -1 if one is not whole. */
int reader_lines(const char *text);

#endif
