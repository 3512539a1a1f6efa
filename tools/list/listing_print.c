/* SPDX-License-Identifier: Apache-2.0
 *
 * One listing in the format that was asked for.
 */
#include "tools/list/listing.h"
#include "tools/base/json_text.h"

#include <ctype.h>
#include <jansson.h>
#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>

static int columns_of(const struct listing *listing)
{
	int count = 0;

	while (count < LISTING_COLUMNS && listing->columns[count])
		count++;
	return count;
}

static void print_table(const struct listing *listing)
{
	struct libscols_table *table = scols_new_table();
	char cells[LISTING_COLUMNS][LISTING_CELL];
	const int columns = columns_of(listing);

	if (!table)
		return;
	for (int i = 0; i < columns; i++) {
		char title[32];
		int length = 0;

		for (const char *c = listing->columns[i]; *c; c++)
			title[length++] = *c == '_' ? ' ' : (char)toupper((unsigned char)*c);
		title[length] = '\0';
		scols_table_new_column(table, title, 0,
				       listing->number[i] ? SCOLS_FL_RIGHT
				       : i + 1 == columns ? SCOLS_FL_WRAP
							  : 0);
	}
	for (int index = 0; listing->row(index, cells); index++) {
		struct libscols_line *line = scols_table_new_line(table, NULL);

		for (int i = 0; line && i < columns; i++)
			scols_line_set_data(line, (size_t)i, cells[i]);
	}
	scols_print_table(table);
	scols_unref_table(table);
}

static void print_json(const struct listing *listing)
{
	char cells[LISTING_COLUMNS][LISTING_CELL], format[64];
	json_t *rows = json_array(), *root;

	for (int index = 0; listing->row(index, cells); index++) {
		json_t *row = json_object();

		for (int i = 0; i < columns_of(listing); i++)
			json_object_set_new(row, listing->columns[i],
					    listing->number[i] ? json_integer(atoi(cells[i]))
							       : json_string(cells[i]));
		json_array_append_new(rows, row);
	}
	snprintf(format, sizeof(format), "fashim-%s", listing->name);
	root = json_pack("{s:s,s:i,s:o}", "format", format, "version", 1, listing->name, rows);
	json_document(root, 0);
}

/* The first column is a name that one types. */
static void print_markdown(const struct listing *listing)
{
	char cells[LISTING_COLUMNS][LISTING_CELL];

	puts(listing->titles);
	for (int i = 0; i < columns_of(listing); i++)
		fputs("|---", stdout);
	puts("|");
	for (int index = 0; listing->row(index, cells); index++) {
		printf("| `%s` |", cells[0]);
		for (int i = 1; i < columns_of(listing); i++)
			printf(" %s |", cells[i]);
		putchar('\n');
	}
}

static void print_tsv(const struct listing *listing)
{
	char cells[LISTING_COLUMNS][LISTING_CELL];

	for (int index = 0; listing->row(index, cells); index++)
		for (int i = 0; i < columns_of(listing); i++)
			printf("%s%c", cells[i], i + 1 < columns_of(listing) ? '\t' : '\n');
}

void listing_print(const struct listing *listing, enum format format)
{
	switch (format) {
	case FORMAT_JSON:
		print_json(listing);
		break;
	case FORMAT_MARKDOWN:
		print_markdown(listing);
		break;
	case FORMAT_TSV:
		print_tsv(listing);
		break;
	default:
		print_table(listing);
	}
}
