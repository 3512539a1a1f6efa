/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of JSON as the lines of a table, for people and as comma-separated values.
 */
#ifndef FASHIM_RECORDS_H
#define FASHIM_RECORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct record_column {
	const char *title, *key;
	int flags; /* SCOLS_FL_* */
};

/* A member as text: "-" for null. number: room for one. */
enum { RECORD_NUMBER = 32 };
const char *record_text(const json_t *value, char number[RECORD_NUMBER]);

/* Prints a line for each object of `records` on stdout: the members that the columns name. On a
 * terminal that is too narrow for such a table, long texts stand below what is short. */
void print_records(const struct record_column *columns, size_t count, const json_t *records,
		   bool markdown);

/* One line of names and one for each object of `records`, which it drops. A member of an object
 * inside is a column "outer_inner"; null is empty; arrays are left out. like: an object with
 * the names for where there may be no records, which it drops, too; NULL: nothing is written then.
 */
void csv_records(FILE *out, json_t *records, json_t *like);

#endif
