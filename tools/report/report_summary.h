/* SPDX-License-Identifier: Apache-2.0
 *
 * A report in few sentences.
 */
#ifndef FASHIM_REPORT_SUMMARY_H
#define FASHIM_REPORT_SUMMARY_H

#include "tools/sites/report.h"

/* The summary, at most thirteen lines: one name and one sentence each, `tone` says how good the
 * news is.
 */
enum { SUMMARY_LINES = 13 };
enum summary_tone { TONE_PLAIN, TONE_GOOD, TONE_WARNING, TONE_BAD };

struct summary_line {
	const char *name;
	enum summary_tone tone;
	char text[400];
};

/* Fills `lines`, which has room for SUMMARY_LINES; how many there are. */
int report_summary(const struct report *report, struct summary_line *lines);

#endif
