/* SPDX-License-Identifier: Apache-2.0
 *
 * An object may lack what another has (a site that is in one of two logs alone): the columns of
 * comma-separated values are those of all, in the order in which they are met. They are quoted as
 * RFC 4180 has it.
 */
#include "tools/base/records.h"
#include "tools/base/cell_table.h"
#include "tools/base/csv_text.h"
#include "tools/base/terminal.h"

#include <libsmartcols/libsmartcols.h>

const char *record_text(const json_t *value, char number[RECORD_NUMBER])
{
	if (json_is_null(value))
		return "-";
	snprintf(number, RECORD_NUMBER, "%.9g", json_number_value(value));
	return json_is_string(value) ? json_string_value(value) : number;
}

static const char *member_text(const json_t *record, const struct record_column *column,
			       char number[RECORD_NUMBER])
{
	return record_text(json_object_get(record, column->key), number);
}

/* Columns that the widest text of a column takes. */
static int widest(const struct record_column *column, const json_t *records)
{
	int most = display_width(column->title);
	char number[RECORD_NUMBER];
	const json_t *record;
	size_t index;

	json_array_foreach(records, index, record)
	{
		int width = display_width(member_text(record, column, number));

		most = width > most ? width : most;
	}
	return most;
}

/* What of a record stands side by side: its name, and what is short. */
static bool beside(size_t column, int width)
{
	enum { SHORT = 26 };

	return column == 0 || width <= SHORT;
}

/* Columns side by side; below them, folded at words, the long texts of the same record. */
static void print_stacked(const struct record_column *columns, size_t count, const int widths[],
			  const json_t *records, int screen)
{
	FILE *out = folded_stream(stdout, screen);

	/* The line of titles is number 0. */
	for (size_t line = 0; out && line <= json_array_size(records); line++) {
		const json_t *record = line ? json_array_get(records, line - 1) : NULL;
		char number[RECORD_NUMBER];
		int missing = 0;

		for (size_t c = 0; c < count; c++) {
			const char *text = record ? member_text(record, &columns[c], number)
						  : columns[c].title;

			if (!beside(c, widths[c]))
				continue;
			fprintf(out, "%*s%s", missing, "", text);
			missing = widths[c] + 2 - display_width(text);
		}
		fputc('\n', out);
		for (size_t c = 0; record && c < count; c++)
			if (!beside(c, widths[c]) && *member_text(record, &columns[c], number))
				fprintf(out, "    %s\n", member_text(record, &columns[c], number));
	}
	if (out)
		fclose(out);
}

void print_records(const struct record_column *columns, size_t count, const json_t *records,
		   bool markdown)
{
	enum { MOST = 32 };
	const int screen = markdown || count > MOST ? 0 : terminal_width(stdout);
	int widths[MOST], all = -1;
	struct libscols_table *table;
	const json_t *record;
	size_t index;

	for (size_t c = 0; screen && c < count; c++)
		all += 1 + (widths[c] = widest(&columns[c], records));
	if (all > screen) {
		print_stacked(columns, count, widths, records, screen);
		return;
	}
	table = scols_new_table();
	if (!table)
		return;
	for (size_t c = 0; c < count; c++)
		scols_table_new_column(table, columns[c].title, 0, columns[c].flags);
	json_array_foreach(records, index, record)
	{
		struct libscols_line *line = scols_table_new_line(table, NULL);

		for (size_t c = 0; line && c < count; c++) {
			char number[RECORD_NUMBER];

			scols_line_set_data(line, c, member_text(record, &columns[c], number));
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
