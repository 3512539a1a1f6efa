/* SPDX-License-Identifier: Apache-2.0
 *
 * The forms that a report can take.
 */
#ifndef FASHIM_REPORT_FORMS_H
#define FASHIM_REPORT_FORMS_H

#include "tools/sites/report.h"

#include <stdio.h>

/* All on `out`. text: details adds everything known of each site (`--site`), width 0 is
 * without limit. */
struct report_style {
	bool details, color, headers_only;
	int width;
};

void report_text(const struct report *report, const struct report_style *style);
void report_json(const struct report *report);
void report_csv(const struct report *report, FILE *out);
void report_markdown(const struct report *report, FILE *out);
void report_html(const struct report *report, FILE *out);

#endif
