/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the HTML report share.
 */
#ifndef FASHIM_REPORT_HTML_H
#define FASHIM_REPORT_HTML_H

#include "tools/sites/report.h"

extern const char report_html_style[], report_html_script[];

/* Text as it stands, whatever it holds: markup is escaped, control characters and bytes that are no
 * UTF-8 become U+FFFD. Serves attributes in double quotes too. */
void html_text(FILE *out, const char *text);

/* "102.0 ± 2.8", "102.0" or "–". */
void html_series(FILE *out, const struct series *series);

/* The fragment name of a site: "site-1-3". Returns buffer. */
char *html_site_id(const struct report_row *row, char *buffer, size_t size);

/* The class that colours a verdict. */
const char *html_verdict_class(const struct report_row *row);

/* The table of all sites, and the section of one. */
void html_table(FILE *out, const struct report *report);
void html_site(FILE *out, const struct report *report, const struct report_row *row);

#endif
