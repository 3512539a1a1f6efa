/* SPDX-License-Identifier: Apache-2.0
 *
 * One listing in the format that was asked for.
 */
#include "tools/base/json_text.h"
#include "tools/base/records.h"
#include "tools/list/listing.h"

#include <ctype.h>
#include <libsmartcols/libsmartcols.h>

static void print_table(const json_t *rows)
{
	enum { MOST = 8 };
	struct record_column columns[MOST];
	char titles[MOST][32];
	const char *key;
	json_t *value;
	size_t count = 0;

	json_object_foreach(json_array_get(rows, 0), key, value)
	{
		char *title = titles[count];

		columns[count++] = (struct record_column){
			title, key, json_is_number(value) ? SCOLS_FL_RIGHT : 0};
		for (const char *c = key; *c; c++)
			*title++ = *c == '_' ? ' ' : (char)toupper((unsigned char)*c);
		*title = '\0';
	}
	print_records(columns, count, rows, false);
}

/* A line for each row, which begins with `begin`; the first column is a name that one types. */
static void print_lines_of(const json_t *rows, bool markdown)
{
	const char *key;
	json_t *row, *value;
	size_t index;

	json_array_foreach(rows, index, row)
	{
		size_t left = json_object_size(row);

		json_object_foreach(row, key, value)
		{
			char number[RECORD_NUMBER];
			const bool first = left == json_object_size(row), last = !--left;
			const char *text = record_text(value, number);

			if (markdown)
				printf(first ? "| `%s` |" : " %s |", text);
			else
				printf("%s%s", text, last ? "" : "\t");
		}
		putchar('\n');
	}
}

static void print_markdown(const struct listing *listing, const json_t *rows)
{
	puts(listing->titles);
	for (size_t i = 0; i < json_object_size(json_array_get(rows, 0)); i++)
		fputs("|---", stdout);
	puts("|");
	print_lines_of(rows, true);
}

void listing_print(const struct listing *listing, enum format format)
{
	json_t *rows = listing->rows();

	if (format == FORMAT_JSON)
		json_document(json_pack("{s:o,s:i,s:O}", "format",
					json_sprintf("fashim-%s", listing->name), "version", 1,
					listing->name, rows),
			      0);
	else if (format == FORMAT_MARKDOWN)
		print_markdown(listing, rows);
	else if (format == FORMAT_TSV)
		print_lines_of(rows, false);
	else if (format == FORMAT_CSV)
		csv_records(stdout, json_incref(rows), NULL);
	else
		print_table(rows);
	json_decref(rows);
}
