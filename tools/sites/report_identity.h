/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of a report's first run, in three lines on stdout.
 */
#ifndef FASHIM_REPORT_IDENTITY_H
#define FASHIM_REPORT_IDENTITY_H

#include "tools/sites/report.h"

/* name: what stands before the log's path, "A: ". The report has a run. */
void print_identity(const char *name, const struct report *report, bool color);

/* Prints what stands above a table: as it is, or, in Markdown, line by line with nothing in it that
 * is markup. stdout is memory then while `print` runs. */
void print_above(void (*print)(const void *context), const void *context, bool markdown);

#endif
