/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows under named columns, printed on stdout as a table, JSON, CSV or Markdown.
 */
#ifndef FASHIM_TUNE_GRID_H
#define FASHIM_TUNE_GRID_H

#include "tools/base/format.h"

#include <jansson.h>
#include <stddef.h>

struct grid_column {
	const char *title, *key; /* of the table; of JSON and CSV */
	/* One of them; a number that is NAN is unknown. */
	const char *(*text)(const void *row);
	double (*number)(const void *row);
	int digits; /* of a number, behind the point; in tables */
};

struct grid {
	const struct grid_column *columns;
	int column_count;
	const void *rows;
	int row_count;
	size_t row_size;
};

/* The rows as an array of objects; NULL when memory is short. */
json_t *grid_json(const struct grid *grid);

/* Any format but JSON. CSV with the line of names only where `names`. */
void grid_print(const struct grid *grid, enum format format, int names);

#endif
