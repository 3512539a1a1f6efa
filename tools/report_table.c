/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sites, in the order of what they gained.
 */
#include "report_page.h"
#include "tool.h"

#include <libsmartcols/libsmartcols.h>
#include <math.h>
#include <string.h>

/* "1.2e-04", or "-" when it is unknown. */
static void error_text(char *buffer, size_t size, double value)
{
	if (isnan(value))
		snprintf(buffer, size, "-");
	else
		snprintf(buffer, size, "%.1e", value);
}

static void verdict_text(char *buffer, size_t size, const struct report_row *row)
{
	const char *verdict = report_verdict(row);

	if (!strcmp(verdict, "declined"))
		snprintf(buffer, size, "declined: %s", row->site->reason);
	else if (row->site->not_ok)
		snprintf(buffer, size, "%s, %llu of %llu samples %s", verdict,
			 (unsigned long long)row->site->not_ok,
			 (unsigned long long)row->site->samples, row->site->bad_verdict);
	else
		snprintf(buffer, size, "%s", verdict);
}

static const char *verdict_color(const struct report_row *row)
{
	const char *verdict = report_verdict(row);

	if (!strcmp(verdict, "declined") || row->site->not_ok)
		return "red";
	return !strcmp(verdict, "learning") ? "yellow" : "green";
}

enum column {
	COLUMN_SITE,
	COLUMN_SHAPE,
	COLUMN_DTYPE,
	COLUMN_MASK,
	COLUMN_CALLS,
	COLUMN_APP,
	COLUMN_FUSED,
	COLUMN_SPEEDUP,
	COLUMN_SAVED,
	COLUMN_ABS,
	COLUMN_REL,
	COLUMN_CLOSER,
	COLUMN_VERDICT
};

static void fill_line(const struct page *page, struct libscols_line *line,
		      const struct report_row *row)
{
	const struct site_log *site = row->site;
	char text[256], number[32];

	site_text(page, text, sizeof(text), row);
	scols_line_set_data(line, COLUMN_SITE, text);
	shape_text(text, sizeof(text), site);
	scols_line_set_data(line, COLUMN_SHAPE, text);
	scols_line_set_data(line, COLUMN_DTYPE, text_of(site->record, "dtype"));
	scols_line_set_data(line, COLUMN_MASK, text_of(site->record, "mask"));
	scols_line_set_data(
		line, COLUMN_CALLS,
		site->counted ? format_count(number, sizeof(number), site->counters.seen) : "-");
	series_text(page, text, sizeof(text), &row->app);
	scols_line_set_data(line, COLUMN_APP, text);
	series_text(page, text, sizeof(text), &row->fused);
	scols_line_set_data(line, COLUMN_FUSED, text);
	if (isnan(row->speedup))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%.2f%s", row->speedup, page->times);
	scols_line_set_data(line, COLUMN_SPEEDUP, text);
	if (isnan(row->saved_us) || !site->counters.replaced)
		snprintf(text, sizeof(text), "-");
	else
		format_duration(text, sizeof(text), row->saved_us);
	scols_line_set_data(line, COLUMN_SAVED, text);
	error_text(text, sizeof(text), site->max_abs);
	scols_line_set_data(line, COLUMN_ABS, text);
	error_text(text, sizeof(text), site->max_rel);
	scols_line_set_data(line, COLUMN_REL, text);
	if (isnan(row->error_ratio))
		snprintf(text, sizeof(text), "-");
	else
		snprintf(text, sizeof(text), "%s (%.2f%s)", report_closer(row), row->error_ratio,
			 page->times);
	scols_line_set_data(line, COLUMN_CLOSER, text);
	verdict_text(text, sizeof(text), row);
	scols_line_set_data(line, COLUMN_VERDICT, text);
	if (page->color)
		scols_cell_set_color(scols_line_get_cell(line, COLUMN_VERDICT), verdict_color(row));
}

void print_table(const struct page *page)
{
	static const struct {
		const char *title;
		int flags;
	} columns[] = {
		[COLUMN_SITE] = {"SITE", SCOLS_FL_RIGHT},
		[COLUMN_SHAPE] = {"B,H,Sq,Sk,D", 0},
		[COLUMN_DTYPE] = {"DTYPE", 0},
		[COLUMN_MASK] = {"MASK", SCOLS_FL_TRUNC},
		[COLUMN_CALLS] = {"CALLS", SCOLS_FL_RIGHT},
		[COLUMN_APP] = {"APP", SCOLS_FL_RIGHT},
		[COLUMN_FUSED] = {"FUSED", SCOLS_FL_RIGHT},
		[COLUMN_SPEEDUP] = {"SPEED-UP", SCOLS_FL_RIGHT},
		[COLUMN_SAVED] = {"SAVED", SCOLS_FL_RIGHT},
		[COLUMN_ABS] = {"MAX ABS", SCOLS_FL_RIGHT},
		[COLUMN_REL] = {"MAX REL", SCOLS_FL_RIGHT},
		[COLUMN_CLOSER] = {"CLOSER TO FLOAT64", 0},
		[COLUMN_VERDICT] = {"VERDICT", 0},
	};
	const struct report *report = page->report;
	struct libscols_table *table = scols_new_table();
	char title[32];

	if (!table)
		return;
	scols_table_enable_colors(table, page->color);
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
		snprintf(title, sizeof(title), "%s", columns[i].title);
		if (i == COLUMN_APP || i == COLUMN_FUSED)
			snprintf(title, sizeof(title), "%s %s", columns[i].title, page->micro);
		scols_table_new_column(table, title, 0, columns[i].flags);
	}
	for (int i = 0; i < report->row_count; i++) {
		struct libscols_line *line = scols_table_new_line(table, NULL);

		if (line)
			fill_line(page, line, &report->rows[i]);
	}
	putchar('\n');
	fflush(stdout);
	scols_print_table(table);
	scols_unref_table(table);
	printf("%s  APP and FUSED: mean %s standard deviation over the samples%s. MAX REL: of the "
	       "largest "
	       "output.\n  CLOSER TO FLOAT64: whose RMS error is smaller (fused error / app "
	       "error).%s\n",
	       ink(page, DIM), page->plus_minus,
	       report->total.warm_up_excluded ? " but the first, where there are three or more"
					      : "",
	       plain(page));
}
