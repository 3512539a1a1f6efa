/* SPDX-License-Identifier: Apache-2.0
 *
 * An object may lack what another has (a site that is in one of two logs alone): the columns of
 * comma-separated values are those of all, in the order in which they are met. They are quoted as
 * RFC 4180 has it.
 */
#include "tools/base/records.h"
#include "tools/base/cell_table.h"
#include "tools/base/csv_text.h"

#include <libsmartcols/libsmartcols.h>

const char *record_text(const json_t *value, char number[RECORD_NUMBER])
{
	if (json_is_null(value))
		return "-";
	snprintf(number, RECORD_NUMBER, "%.9g", json_number_value(value));
	return json_is_string(value) ? json_string_value(value) : number;
}

void print_records(const struct record_column *columns, size_t count, const json_t *records,
		   bool markdown)
{
	struct libscols_table *table = scols_new_table();
	const json_t *record;
	size_t index;

	if (!table)
		return;
	for (size_t c = 0; c < count; c++)
		scols_table_new_column(table, columns[c].title, 0, columns[c].flags);
	json_array_foreach(records, index, record)
	{
		struct libscols_line *line = scols_table_new_line(table, NULL);

		for (size_t c = 0; line && c < count; c++) {
			const json_t *value = json_object_get(record, columns[c].key);
			char number[RECORD_NUMBER];

			scols_line_set_data(line, c, record_text(value, number));
		}
	}
	print_lines(table, markdown);
}

/* Puts the members of `record` into `flat`, one below the other. */
static void flatten(json_t *flat, const char *prefix, json_t *record)
{
	const char *key;
	json_t *value;

	json_object_foreach(record, key, value)
	{
		char name[128];

		snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "_" : "", key);
		if (json_is_object(value))
			flatten(flat, name, value);
		else if (!json_is_array(value))
			json_object_set(flat, name, value);
	}
}

static void put_value(FILE *out, const json_t *value)
{
	if (json_is_string(value))
		csv_text(out, json_string_value(value));
	else if (json_is_number(value))
		csv_number(out, json_number_value(value));
	else if (json_is_boolean(value))
		fputs(json_is_true(value) ? "true" : "false", out);
}

void csv_records(FILE *out, json_t *records, json_t *like)
{
	json_t *lines = json_array(), *columns = like ? like : json_object(), *record;
	const char *key;
	json_t *value;
	size_t index;

	json_array_foreach(records, index, record)
	{
		json_t *flat = json_object();

		flatten(flat, "", record);
		json_array_append_new(lines, flat);
		json_object_update_missing(columns, flat);
	}
	/* "b" is null where the other line has "b_site". */
	json_array_foreach(lines, index, record)
	{
		void *next;

		json_object_foreach_safe(columns, next, key, value)
		{
			const json_t *whole = json_object_get(json_array_get(records, index), key);

			if (json_is_object(whole))
				json_object_del(columns, key);
		}
	}
	index = 0;
	json_object_foreach(columns, key, value)
	{
		fprintf(out, "%s%s", index++ ? "," : "", key);
	}
	if (index)
		fputs("\r\n", out);
	json_array_foreach(lines, index, record)
	{
		bool first = true;

		json_object_foreach(columns, key, value)
		{
			if (!first)
				fputc(',', out);
			first = false;
			put_value(out, json_object_get(record, key));
		}
		fputs("\r\n", out);
	}
	json_decref(lines);
	json_decref(columns);
	json_decref(records);
}
