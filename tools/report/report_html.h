/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the HTML report share.
 */
#ifndef FASHIM_REPORT_HTML_H
#define FASHIM_REPORT_HTML_H

#include "tools/base/html_text.h"
#include "tools/sites/report.h"

/* A page that a browser still turns: what a run of many sites has beyond is named, and left to the
 * other formats. */
enum { HTML_ROWS = 2000, HTML_SITES = 200, HTML_LINKS = 50 };

extern const char report_html_style[], report_html_script[];

/* The class that colours a verdict. */
const char *html_verdict_class(const struct report_row *row);

/* Writes a link to the site's section, where it has one; else its name. */
void html_site_link(FILE *out, const struct report *report, const struct report_row *row);

/* The table of the first sites, and the section of one. */
void html_table(FILE *out, const struct report *report);
void html_site(FILE *out, const struct report *report, const struct report_row *row);

#endif
