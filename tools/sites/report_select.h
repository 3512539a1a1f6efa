/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sites a report shows and in what order: --site, --filter and --sort.
 */
#ifndef FASHIM_REPORT_SELECT_H
#define FASHIM_REPORT_SELECT_H

#include "tools/sites/report_columns.h"

enum { MOST_CONDITIONS = 16 };

/* KEY=VALUE, KEY!=VALUE, KEY~PART (text), and <, <=, >, >= (numbers). */
struct report_condition {
	const struct report_column *column;
	char operation[3];
	const char *value; /* into the argument */
	double number;
};

struct report_selection {
	int log;					     /* from 1; 0: any */
	uint32_t site;					     /* 0: any */
	struct report_condition conditions[MOST_CONDITIONS]; /* all must hold */
	int condition_count;
	const struct report_column *sort; /* NULL: by gain */
	bool ascending;
};

/* Each reads one argument into the selection. 0, or -EINVAL after a line on stderr. "N" or "LOG:N";
 * a condition; "KEY", largest or alphabetically first at the top, or "-KEY" for the opposite. */
int report_select_site(struct report_selection *selection, const char *text);
int report_select_filter(struct report_selection *selection, const char *text);
int report_select_sort(struct report_selection *selection, const char *text);

/* Whether a row is shown. A value that is unknown fulfils "!=" alone. */
bool report_selected(const struct report_selection *selection, const struct report_row *row);

/* True when a selection may leave rows out. */
bool report_selects(const struct report_selection *selection);

/* Orders rows as --sort says; what is unknown comes last, equals stay as they are. */
void report_order(const struct report_selection *selection, struct report_row *rows, int count);

#endif
