/* SPDX-License-Identifier: Apache-2.0
 *
 * Which site of one log is which of another. Numbers say nothing (they count in the order of first
 * use); what a site computes and where it is called from does, and of the place the part that
 * survives a new version: functions, not lines; libraries, not offsets.
 */
#ifndef FASHIM_SITE_MATCH_H
#define FASHIM_SITE_MATCH_H

#include "tools/sites/report.h"

enum site_likeness {
	SITE_DIFFERENT,
	SITE_LIKE_SHAPE,   /* shape, dtype, mask and scale */
	SITE_LIKE_CALLERS, /* and the functions and libraries that lead there */
	SITE_LIKE_ALL,	   /* and their lines and offsets */
};

/* How alike two site records are. A site without a record is like no other. */
enum site_likeness site_likeness(const struct site_log *a, const struct site_log *b);

struct site_pair {
	const struct report_row *a, *b; /* NULL: there is none in that log */
	enum site_likeness how;
};

/* Pairs the rows of two reports, the most alike first, every row once: in a's order, then what only
 * b has. *pairs is for free(), in both cases. 0 or -ENOMEM. */
int site_match(const struct report *a, const struct report *b, struct site_pair **pairs,
	       int *count);

#endif
