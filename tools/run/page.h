/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of a run as a page, for whoever would rather look than read.
 */
#ifndef FASHIM_PAGE_H
#define FASHIM_PAGE_H

#include "tools/read/log_name.h"

/* Writes `fashim report -f html` of the logs beside the first of them, in a file that was not there
 * before, and opens it with xdg-open where that and a desktop are there. Says on stderr where the
 * page is, and why it was not opened. */
void page_open(const struct log_names *logs);

#endif
