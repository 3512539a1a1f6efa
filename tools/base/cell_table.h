/* SPDX-License-Identifier: Apache-2.0
 *
 * A table whose columns each know how to write their cell, so that a new column is a row of a list.
 */
#ifndef FASHIM_CELL_TABLE_H
#define FASHIM_CELL_TABLE_H

#include <stdbool.h>
#include <stdio.h>

/* All cells are called alike, whatever they look at. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct libscols_table;

struct cell_column {
	const char *title;
	int flags; /* SCOLS_FL_* */
	void (*put)(FILE *out, const void *whole, const void *row);
};

struct cell_table {
	struct libscols_table *table;
	const struct cell_column *columns;
	int count;
};

/* An empty table; table is NULL when memory is short, and everything below then does nothing. */
struct cell_table cell_table_new(const struct cell_column *columns, int count, bool color);

/* A line of what the columns write of `row`, a part of `whole`. ink: a colour of libsmartcols for
 * the cell in `inked`, or NULL. */
void cell_table_add(const struct cell_table *cells, const void *whole, const void *row, int inked,
		    const char *ink);

/* Prints it on stdout, for a terminal or as Markdown, behind an empty line, unless it has no lines;
 * and frees it. */
void cell_table_print(struct cell_table *cells, bool markdown);

/* The same for a table of libsmartcols, with or without lines, and no empty line in front. */
void print_lines(struct libscols_table *table, bool markdown);

#endif
