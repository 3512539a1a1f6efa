/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells are written into memory and handed to libsmartcols, which owns them from then on.
 */
#include "tools/base/cell_table.h"
#include "tools/base/markdown_text.h"

#include <libsmartcols/libsmartcols.h>
#include <stdlib.h>

struct cell_table cell_table_new(const struct cell_column *columns, int count, bool color)
{
	struct cell_table cells = {scols_new_table(), columns, count};

	if (!cells.table)
		return cells;
	scols_table_enable_colors(cells.table, color);
	for (int i = 0; i < count; i++)
		scols_table_new_column(cells.table, columns[i].title, 0, columns[i].flags);
	return cells;
}

void cell_table_add(const struct cell_table *cells, const void *whole, const void *row, int inked,
		    const char *ink)
{
	struct libscols_line *line = cells->table ? scols_table_new_line(cells->table, NULL) : NULL;

	for (int i = 0; line && i < cells->count; i++) {
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		if (!out)
			return;
		cells->columns[i].put(out, whole, row);
		if (fclose(out) || scols_line_refer_data(line, (size_t)i, text))
			free(text);
	}
	if (line && ink)
		scols_cell_set_color(scols_line_get_cell(line, (size_t)inked), ink);
}

static const char *text_in(const struct libscols_cell *cell)
{
	const char *text = scols_cell_get_data(cell);

	return text ? text : "";
}

static void print_markdown(struct libscols_table *table)
{
	struct libscols_iter *lines = scols_new_iter(SCOLS_ITER_FORWARD);
	const size_t columns = scols_table_get_ncols(table);
	struct libscols_line *line;

	for (size_t i = 0; i < columns; i++)
		printf("| %s ", text_in(scols_column_get_header(scols_table_get_column(table, i))));
	puts("|");
	for (size_t i = 0; i < columns; i++)
		fputs(scols_column_is_right(scols_table_get_column(table, i)) ? "|---:" : "|---",
		      stdout);
	puts("|");
	while (lines && scols_table_next_line(table, lines, &line) == 0) {
		for (size_t i = 0; i < columns; i++) {
			fputs("| ", stdout);
			markdown_text(stdout, text_in(scols_line_get_cell(line, i)));
			putchar(' ');
		}
		puts("|");
	}
	scols_free_iter(lines);
}

void print_lines(struct libscols_table *table, bool markdown)
{
	fflush(stdout);
	if (markdown)
		print_markdown(table);
	else
		scols_print_table(table);
	scols_unref_table(table);
}

void cell_table_print(struct cell_table *cells, bool markdown)
{
	if (cells->table && !scols_table_is_empty(cells->table)) {
		putchar('\n');
		print_lines(cells->table, markdown);
	} else {
		scols_unref_table(cells->table);
	}
	cells->table = NULL;
}
