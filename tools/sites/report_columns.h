/* SPDX-License-Identifier: Apache-2.0
 *
 * The names under which a site's properties can be asked for; report_columns.def lists them.
 */
#ifndef FASHIM_REPORT_COLUMNS_H
#define FASHIM_REPORT_COLUMNS_H

#include "tools/sites/report.h"

struct report_column {
	const char *key, *doc;
	/* One of the two; NAN and "" where the value is unknown. */
	double (*number)(const struct report_row *row);
	const char *(*text)(const struct report_row *row);
};

extern const struct report_column report_columns[];
extern const int report_column_count;

/* The column of that name, or NULL after a line on stderr that says which is near. */
const struct report_column *report_column_find(const char *key);

#endif
