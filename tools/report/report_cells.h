/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tables of all forms say of a site, a property a cell.
 */
#ifndef FASHIM_REPORT_CELLS_H
#define FASHIM_REPORT_CELLS_H

#include "tools/sites/report.h"

enum { CELL = 256 };

struct cell_style {
	const struct report *report;
	const char *none; /* what stands for the unknown */
	const char *plus_minus, *times, *to;
};

/* One property; leaves the cell as it is where that is unknown. */
typedef void write_cell(const struct cell_style *style, const struct report_row *row, char *cell);

write_cell cell_site, cell_shape, cell_dtype, cell_mask, cell_calls, cell_app, cell_fused,
	cell_speedup, cell_interval, cell_saved, cell_abs, cell_rel, cell_closer, cell_verdict,
	cell_where;

/* The cell, which has room for CELL bytes. */
char *cell_text(const struct cell_style *style, write_cell *write, const struct report_row *row,
		char *cell);

#endif
