/* SPDX-License-Identifier: Apache-2.0
 *
 * Text of the log stands in a cell as it is; the form makes it safe.
 */
#include "tools/report/report_cells.h"
#include "tools/base/tool.h"
#include "tools/sites/report_names.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* All cells are called alike, whatever they look at. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

void cell_site(const struct cell_style *style, const struct report_row *row, char *cell)
{
	report_site_name(style->report, row, cell, CELL);
	if (row->site->ranks > 1)
		snprintf(cell + strlen(cell), CELL - strlen(cell), " %s%u", style->times,
			 row->site->ranks);
}

void cell_shape(const struct cell_style *style, const struct report_row *row, char *cell)
{
	report_shape(row, cell, CELL);
}

void cell_dtype(const struct cell_style *style, const struct report_row *row, char *cell)
{
	snprintf(cell, CELL, "%s", text_of(row->site->record, "dtype"));
}

void cell_mask(const struct cell_style *style, const struct report_row *row, char *cell)
{
	snprintf(cell, CELL, "%s", text_of(row->site->record, "mask"));
}

void cell_calls(const struct cell_style *style, const struct report_row *row, char *cell)
{
	if (row->site->counted)
		format_count(cell, CELL, row->site->counters.seen);
}

void cell_app(const struct cell_style *style, const struct report_row *row, char *cell)
{
	report_series(&row->app, style->plus_minus, style->none, cell, CELL);
}

void cell_fused(const struct cell_style *style, const struct report_row *row, char *cell)
{
	report_series(&row->fused, style->plus_minus, style->none, cell, CELL);
}

void cell_speedup(const struct cell_style *style, const struct report_row *row, char *cell)
{
	if (!isnan(row->speedup.ratio))
		snprintf(cell, CELL, "%.2f%s", row->speedup.ratio, style->times);
}

void cell_interval(const struct cell_style *style, const struct report_row *row, char *cell)
{
	if (!isnan(row->speedup.low))
		snprintf(cell, CELL, "%.2f%s%.2f", row->speedup.low, style->to, row->speedup.high);
}

void cell_saved(const struct cell_style *style, const struct report_row *row, char *cell)
{
	if (!isnan(row->saved_us) && row->site->counters.replaced)
		format_duration(cell, CELL, row->saved_us);
}

void cell_abs(const struct cell_style *style, const struct report_row *row, char *cell)
{
	if (!isnan(row->site->max_abs))
		snprintf(cell, CELL, "%.1e", row->site->max_abs);
}

void cell_rel(const struct cell_style *style, const struct report_row *row, char *cell)
{
	if (!isnan(row->site->max_rel))
		snprintf(cell, CELL, "%.1e", row->site->max_rel);
}

void cell_closer(const struct cell_style *style, const struct report_row *row, char *cell)
{
	if (!isnan(row->error_ratio))
		snprintf(cell, CELL, "%s (%.2f%s)", report_closer(row), row->error_ratio,
			 style->times);
}

void cell_verdict(const struct cell_style *style, const struct report_row *row, char *cell)
{
	report_judgement(row, cell, CELL);
}

void cell_where(const struct cell_style *style, const struct report_row *row, char *cell)
{
	const char *place = report_place(row);

	if (*place)
		snprintf(cell, CELL, "%s", place);
}

char *cell_text(const struct cell_style *style, write_cell *write, const struct report_row *row,
		char *cell)
{
	strcpy(cell, style->none);
	write(style, row, cell);
	return cell;
}
