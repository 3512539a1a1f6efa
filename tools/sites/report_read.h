/* SPDX-License-Identifier: Apache-2.0
 *
 * From the names of logs to a report, for the commands that take them as they are.
 */
#ifndef FASHIM_REPORT_READ_H
#define FASHIM_REPORT_READ_H

#include "tools/sites/report.h"

/* Reads the logs (log_paths.h), puts ranks together and builds the report of all sites. What cannot
 * be read is said on stderr; report->set.count is 0 where that is everything. 0 or -errno, the
 * report being that of the others; report_free() in both cases. */
int report_read(struct report *report, char *const *paths, int count);

#endif
