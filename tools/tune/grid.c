/* SPDX-License-Identifier: Apache-2.0
 *
 * One list of columns makes every format.
 */
#include "tools/tune/grid.h"
#include "tools/base/cell_table.h"
#include "tools/base/csv_text.h"
#include "tools/base/json_text.h"

#include <libsmartcols/libsmartcols.h>
#include <math.h>

enum { CELL = 256 };

static const void *row_of(const struct grid *grid, int row)
{
	return (const char *)grid->rows + (size_t)row * grid->row_size;
}

/* A cell for people. */
static const char *cell(const struct grid_column *column, const void *row, char text[CELL])
{
	if (column->text) {
		snprintf(text, CELL, "%s", column->text(row));
	} else {
		const double number = column->number(row);

		if (isnan(number))
			snprintf(text, CELL, "-");
		else
			snprintf(text, CELL, "%.*f", column->digits, number);
	}
	return text;
}

json_t *grid_json(const struct grid *grid)
{
	json_t *rows = json_array();

	for (int r = 0; rows && r < grid->row_count; r++) {
		json_t *object = json_object();

		for (int c = 0; c < grid->column_count; c++) {
			const struct grid_column *column = &grid->columns[c];
			const void *row = row_of(grid, r);

			json_object_set_new(object, column->key,
					    column->text ? json_text(column->text(row))
							 : json_number(column->number(row)));
		}
		json_array_append_new(rows, object);
	}
	return rows;
}

static void print_table(const struct grid *grid, bool markdown)
{
	struct libscols_table *table = scols_new_table();
	char text[CELL];

	if (!table)
		return;
	for (int c = 0; c < grid->column_count; c++)
		scols_table_new_column(table, grid->columns[c].title, 0,
				       grid->columns[c].number ? SCOLS_FL_RIGHT : 0);
	for (int r = 0; r < grid->row_count; r++) {
		struct libscols_line *line = scols_table_new_line(table, NULL);

		for (int c = 0; line && c < grid->column_count; c++)
			scols_line_set_data(line, (size_t)c,
					    cell(&grid->columns[c], row_of(grid, r), text));
	}
	print_lines(table, markdown);
}

static void print_csv(const struct grid *grid, int names)
{
	for (int c = 0; names && c < grid->column_count; c++)
		printf("%s%s", c ? "," : "", grid->columns[c].key);
	if (names)
		fputs("\r\n", stdout);
	for (int r = 0; r < grid->row_count; r++) {
		for (int c = 0; c < grid->column_count; c++) {
			const struct grid_column *column = &grid->columns[c];
			const void *row = row_of(grid, r);

			if (c)
				putchar(',');
			if (column->text)
				csv_text(stdout, column->text(row));
			else
				csv_number(stdout, column->number(row));
		}
		fputs("\r\n", stdout);
	}
}

void grid_print(const struct grid *grid, enum format format, int names)
{
	if (format == FORMAT_CSV)
		print_csv(grid, names);
	else
		print_table(grid, format == FORMAT_MARKDOWN);
}
