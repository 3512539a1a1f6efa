/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sites, in the order of what they gained. Where the terminal is too narrow for all of
 * it, the less important columns are left out and named below.
 */
#include "tools/report/report_cells.h"
#include "tools/base/safe_text.h"
#include "tools/base/terminal.h"
#include "tools/base/tool.h"
#include "tools/report/report_page.h"
#include "tools/sites/report_names.h"

#include <libsmartcols/libsmartcols.h>
#include <limits.h>
#include <math.h>
#include <string.h>

static const struct column {
	const char *title;
	bool micro; /* "µs" behind the title */
	int flags;
	int weight; /* where there is little room, the heaviest come first */
	write_cell *write;
} columns[] = {
	{"SITE", false, SCOLS_FL_RIGHT, 100, cell_site},
	{"B,H,Sq,Sk,D", false, 0, 80, cell_shape},
	{"DTYPE", false, 0, 50, cell_dtype},
	{"MASK", false, 0, 30, cell_mask},
	{"CALLS", false, SCOLS_FL_RIGHT, 60, cell_calls},
	{"APP", true, SCOLS_FL_RIGHT, 45, cell_app},
	{"FUSED", true, SCOLS_FL_RIGHT, 46, cell_fused},
	{"SPEED-UP", false, SCOLS_FL_RIGHT, 90, cell_speedup},
	{"95 %", false, SCOLS_FL_RIGHT, 25, cell_interval},
	{"SAVED", false, SCOLS_FL_RIGHT, 85, cell_saved},
	{"MAX ABS", false, SCOLS_FL_RIGHT, 20, cell_abs},
	{"MAX REL", false, SCOLS_FL_RIGHT, 70, cell_rel},
	{"CLOSER TO FLOAT64", false, 0, 40, cell_closer},
	{"VERDICT", false, SCOLS_FL_TRUNC, 95, cell_verdict},
	{"WHERE", false, 0, 35, cell_where},
};

enum { COLUMNS = sizeof(columns) / sizeof(*columns), WHERE = COLUMNS - 1 };

static void title_of(const struct page *page, int column, char *title)
{
	snprintf(title, CELL, "%s%s%s", columns[column].title, columns[column].micro ? " " : "",
		 columns[column].micro ? page->micro : "");
}

static void cell_of(const struct page *page, int column, const struct report_row *row, char *cell)
{
	safe_text(cell_text(&page->cells, columns[column].write, row, cell));
}

/* How wide each column is by itself. */
static void measure(const struct page *page, int *widths)
{
	char cell[CELL];

	for (int c = 0; c < COLUMNS; c++) {
		title_of(page, c, cell);
		widths[c] = display_width(cell);
		for (int i = 0; i < page->report->row_count; i++) {
			int width;

			cell_of(page, c, &page->report->rows[i], cell);
			width = display_width(cell);
			if (width > widths[c])
				widths[c] = width;
		}
	}
}

/* Few samples have no interval; then its column is not there at all. */
static bool any_interval(const struct page *page)
{
	for (int i = 0; i < page->report->row_count; i++) {
		if (!isnan(page->report->rows[i].speedup.low))
			return true;
	}
	return false;
}

static bool there(const struct page *page, int column)
{
	return columns[column].write != cell_interval || any_interval(page);
}

/* Takes columns by their weight, as far as they fit; how many do not, but for the last, which is
 * told below the table then. */
static int choose(const struct page *page, bool *shown)
{
	int widths[COLUMNS], left = page->width ? page->width + 1 : INT_MAX, dropped = 0;
	bool seen[COLUMNS] = {false};

	measure(page, widths);
	for (int taken = 0; taken < COLUMNS; taken++) {
		int heaviest = -1;

		for (int c = 0; c < COLUMNS; c++) {
			if (!seen[c] &&
			    (heaviest < 0 || columns[c].weight > columns[heaviest].weight))
				heaviest = c;
		}
		seen[heaviest] = true;
		shown[heaviest] = there(page, heaviest) && widths[heaviest] < left;
		/* Without these two a table says nothing; the verdict may be cut. */
		if (columns[heaviest].write == cell_site || columns[heaviest].write == cell_verdict)
			shown[heaviest] = true;
		left -= shown[heaviest] ? widths[heaviest] + 1 : 0;
		dropped += there(page, heaviest) && !shown[heaviest] && heaviest != WHERE;
	}
	return dropped;
}

static const char *verdict_color(const struct report_row *row)
{
	const char *verdict = report_verdict(row);

	if (!strcmp(verdict, "declined") || row->site->not_ok)
		return "red";
	return !strcmp(verdict, "learning") ? "yellow" : "green";
}

static void add_row(const struct page *page, struct libscols_table *table, const bool *shown,
		    const struct report_row *row)
{
	struct libscols_line *line = scols_table_new_line(table, NULL);
	char cell[CELL];
	size_t at = 0;

	for (int c = 0; line && c < COLUMNS; c++) {
		if (!shown[c])
			continue;
		cell_of(page, c, row, cell);
		scols_line_set_data(line, at, cell);
		if (page->color && columns[c].write == cell_verdict)
			scols_cell_set_color(scols_line_get_cell(line, at), verdict_color(row));
		at++;
	}
}

enum { MOST_PLACES = 6 };

/* The places of the first sites below the table, one a line, where it has no room for them. */
static void print_places(const struct page *page)
{
	const struct report *report = page->report;
	int places = 0;

	for (int i = 0; i < report->row_count; i++) {
		const char *place = report_place(&report->rows[i]);
		char name[CELL];
		bool told = !*place;

		for (int k = 0; k < i && !told; k++)
			told = !strcmp(report_place(&report->rows[k]), place);
		if (told)
			continue;
		if (places++ == MOST_PLACES) {
			fputs("             ...\n", page->out);
			return;
		}
		label(page, places == 1 ? "where" : "");
		for (int k = i; k < report->row_count; k++)
			if (!strcmp(report_place(&report->rows[k]), place))
				fprintf(page->out, "%s%s", k > i ? ", " : "",
					report_site_name(report, &report->rows[k], name,
							 sizeof(name)));
		fputs(": ", page->out);
		print_safe(page->out, place);
		fputc('\n', page->out);
	}
}

static void print_notes(const struct page *page, const bool *shown, int dropped)
{
	const char *separator = " ";

	fprintf(page->out,
		"%s  APP and FUSED: mean %s standard deviation over the samples%s. SPEED-UP: ratio "
		"of the medians%s. MAX REL: of the largest output.\n"
		"  CLOSER TO FLOAT64: whose RMS error is smaller (fused error / app error).\n",
		ink(page, DIM), page->cells.plus_minus,
		page->report->total.warm_up_excluded
			? " but the first, where there are three or more"
			: "",
		any_interval(page) ? " and its bootstrap interval" : "");
	if (dropped) {
		fputs("  Too wide for this terminal, see --format=csv:", page->out);
		for (int c = 0; c < COLUMNS; c++) {
			if (shown[c] || !there(page, c) || c == WHERE)
				continue;
			fprintf(page->out, "%s%s", separator, columns[c].title);
			separator = ", ";
		}
		fputs(".\n", page->out);
	}
	fputs(plain(page), page->out);
}

void print_table(const struct page *page)
{
	const struct report *report = page->report;
	struct libscols_table *table = scols_new_table();
	bool shown[COLUMNS];
	int dropped = choose(page, shown);
	char title[CELL];

	if (!table)
		return;
	scols_table_enable_colors(table, page->color);
	if (page->width) {
		scols_table_set_termforce(table, SCOLS_TERMFORCE_ALWAYS);
		scols_table_set_termwidth(table, (size_t)page->width);
	}
	for (int c = 0; c < COLUMNS; c++) {
		title_of(page, c, title);
		if (shown[c])
			scols_table_new_column(table, title, 0, columns[c].flags);
	}
	for (int i = 0; i < report->row_count; i++)
		add_row(page, table, shown, &report->rows[i]);
	fputc('\n', page->out);
	scols_table_set_stream(table, page->out);
	scols_print_table(table);
	scols_unref_table(table);
	if (!shown[WHERE])
		print_places(page);
	print_notes(page, shown, dropped);
}
