/* SPDX-License-Identifier: Apache-2.0
 *
 * The last words of `fashim run`: what was found, what it gained, and the command that tells the
 * rest.
 */
#ifndef FASHIM_CLOSING_H
#define FASHIM_CLOSING_H

#include "tools/sites/report.h"

/* At most three lines on stderr at the end of `fashim run`; next: the arguments for `fashim
 * report`. */
void report_closing(const struct report *report, const char *next);

#endif
