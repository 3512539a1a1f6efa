/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sites. Every cell carries its plain value for sorting, which is the value that
 * --sort and --format=csv use.
 */
#include "tools/report/report_cells.h"
#include "tools/report/report_html.h"
#include "tools/report/report_svg.h"
#include "tools/sites/report_columns.h"

#include <math.h>

/* The axis that all speed-ups of the table share. */
struct axis {
	double low, high;
};

/* write: NULL for the column's value as it is. */
static const struct cell {
	const char *title, *key;
	write_cell *write;
} cells[] = {
	{"site", "site", cell_site},
	{"verdict", "verdict", cell_verdict},
	{"where", "python", cell_where},
	{"B,H,Sq,Sk,D", "Sq", cell_shape},
	{"dtype", "dtype", NULL},
	{"mask", "mask", NULL},
	{"calls", "calls", cell_calls},
	{"app µs", "app_us", cell_app},
	{"fused µs", "fused_us", cell_fused},
	{"speed-up", "speedup", cell_speedup},
	{"95 % interval", "speedup_low", cell_interval},
	{"saved", "saved_us", cell_saved},
	{"max abs", "max_abs", NULL},
	{"max rel", "max_rel", NULL},
	{"closer to float64", "closer", cell_closer},
};

enum { CELLS = sizeof(cells) / sizeof(*cells) };

/* Numbers stand at the right, but a shape is words that are sorted by a number. */
static const char *alignment(const struct cell *cell, const struct report_column *column)
{
	if (cell->write == cell_where)
		return "text where";
	return column->number && cell->write != cell_shape ? "number" : "text";
}

static void written_cell(FILE *out, const struct cell *cell, const struct report *report,
			 const struct report_row *row, const struct axis *axis)
{
	const struct cell_style style = {report, "–", "±", "×", "–"};
	const char *class = cell->write == cell_verdict ? html_verdict_class(row) : NULL;
	char text[CELL];

	if (cell->write == cell_site) {
		html_site_link(out, report, row);
		if (row->site->ranks > 1)
			fprintf(out, " <span class=\"soft\">×%u</span>", row->site->ranks);
		return;
	}
	if (class)
		fprintf(out, "<span class=\"%s\">", class);
	if (cell->write != cell_interval || !isnan(row->speedup.low))
		html_text(out, cell_text(&style, cell->write, row, text));
	if (class)
		fputs("</span>", out);
	if (cell->write == cell_interval) {
		fputs(isnan(row->speedup.low) ? "" : " ", out);
		svg_interval(out, row, axis->low, axis->high);
	}
}

static void plain_cell(FILE *out, const struct report_column *column, const struct report_row *row)
{
	if (column->text)
		html_text(out, column->text(row));
	else if (isnan(column->number(row)))
		fputs("–", out);
	else
		fprintf(out, "%.1e", column->number(row));
}

static void write_row(FILE *out, const struct report *report, const struct report_row *row,
		      const struct axis *axis)
{
	fputs("<tr>", out);
	for (int c = 0; c < CELLS; c++) {
		const struct report_column *column = report_column_find(cells[c].key);

		fprintf(out, "<td class=\"%s\" data-v=\"", alignment(&cells[c], column));
		if (column->text)
			html_text(out, column->text(row));
		else if (!isnan(column->number(row)))
			fprintf(out, "%.9g", column->number(row));
		fputs("\">", out);
		if (cells[c].write)
			written_cell(out, &cells[c], report, row, axis);
		else
			plain_cell(out, column, row);
		fputs("</td>", out);
	}
	fputs("</tr>\n", out);
}

static struct axis speedup_axis(const struct report *report)
{
	struct axis axis = {0.8, 1.25};

	for (int i = 0; i < report->row_count; i++) {
		const struct bootstrap_interval *speedup = &report->rows[i].speedup;

		axis.low = fmin(axis.low, fmin(speedup->ratio, speedup->low));
		axis.high = fmax(axis.high, fmax(speedup->ratio, speedup->high));
	}
	/* One absurd site must not press all others together. */
	axis.low = fmax(axis.low, 1e-2);
	axis.high = fmin(axis.high, 1e2);
	return axis;
}

void html_table(FILE *out, const struct report *report)
{
	struct axis axis = speedup_axis(report);

	fputs("<div class=\"scroll\"><table class=\"sortable\"><thead><tr>", out);
	for (int c = 0; c < CELLS; c++) {
		const struct report_column *column = report_column_find(cells[c].key);

		fprintf(out,
			"<th scope=\"col\" class=\"%s\" data-key=\"%s\" data-kind=\"%s\" "
			"title=\"%s\">%s</th>",
			alignment(&cells[c], column), cells[c].key,
			column->number ? "number" : "text", column->doc, cells[c].title);
	}
	fputs("</tr></thead>\n<tbody>\n", out);
	for (int i = 0; i < report->row_count && i < HTML_ROWS; i++)
		write_row(out, report, &report->rows[i], &axis);
	fputs("</tbody></table></div>\n", out);
}
