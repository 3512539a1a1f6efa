/* SPDX-License-Identifier: Apache-2.0
 *
 * The page that a report is printed on: what the terminal can show, and the parts that the summary,
 * the table and the details of a site have in common.
 */
#ifndef FASHIM_REPORT_PAGE_H
#define FASHIM_REPORT_PAGE_H

#include "tools/base/histogram.h"
#include "tools/base/terminal.h"
#include "tools/report/report_cells.h"

struct page {
	const struct report *report;
	FILE *out;
	int width; /* columns, 0 without limit */
	bool color, utf8;
	const char *micro, *arrow;
	struct cell_style cells;
};

/* The colour's escape sequence, and that back to plain text; "" on a page without colours. */
const char *ink(const struct page *page, const char *color);
const char *plain(const struct page *page);

/* "  name      " in front of a line. */
void label(const struct page *page, const char *name);

/* A whole line of what may be a stranger's text. */
void line(const struct page *page, const char *name, const char *text);

/* The bins as a row of bars, one column each. */
void print_bars(const struct page *page, const struct histogram *histogram);

/* The table of all sites, and everything known of one. */
void print_table(const struct page *page);
void print_site(const struct page *page, const struct report_row *row);

#endif
