/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of a report's first run, in three lines on stdout.
 */
#ifndef FASHIM_REPORT_IDENTITY_H
#define FASHIM_REPORT_IDENTITY_H

#include "report.h"

/* name: what stands before the log's path, "A: ". The report has a run. */
void print_identity(const char *name, const struct report *report, bool color);

#endif
