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

static void print_markdown(const struct cell_table *cells)
{
	struct libscols_iter *lines = scols_new_iter(SCOLS_ITER_FORWARD);
	struct libscols_line *line;

	for (int i = 0; i < cells->count; i++)
		printf("| %s ", cells->columns[i].title);
	puts("|");
	for (int i = 0; i < cells->count; i++)
		fputs(cells->columns[i].flags & SCOLS_FL_RIGHT ? "|---:" : "|---", stdout);
	puts("|");
	while (lines && scols_table_next_line(cells->table, lines, &line) == 0) {
		for (int i = 0; i < cells->count; i++) {
			const char *text =
				scols_cell_get_data(scols_line_get_cell(line, (size_t)i));

			fputs("| ", stdout);
			markdown_text(stdout, text ? text : "");
			putchar(' ');
		}
		puts("|");
	}
	scols_free_iter(lines);
}

void cell_table_print(struct cell_table *cells, bool markdown)
{
	if (!cells->table)
		return;
	if (!scols_table_is_empty(cells->table)) {
		putchar('\n');
		fflush(stdout);
		if (markdown)
			print_markdown(cells);
		else
			scols_print_table(cells->table);
	}
	scols_unref_table(cells->table);
	cells->table = NULL;
}
