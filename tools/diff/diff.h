/* SPDX-License-Identifier: Apache-2.0
 *
 * What changed from one log (or job) to another: its sites in pairs, each with how its times and
 * its drift moved and how sure that is.
 */
#ifndef FASHIM_DIFF_H
#define FASHIM_DIFF_H

#include "tools/base/bootstrap.h"
#include "tools/sites/site_match.h"

/* A change counts when its interval leaves out 1. */
enum diff_change { DIFF_UNKNOWN, DIFF_SAME, DIFF_LESS, DIFF_MORE };

struct diff_site {
	struct site_pair pair;
	/* B / A of the medians; unknown where a side is missing or has too few samples. */
	struct bootstrap_interval app, fused, drift;
};

/* A member of the headers in which the two differ. */
struct diff_header {
	const char *name; /* "GPU", "cuBLAS", "option FASHIM_TOL" */
	char a[160], b[160];
};

enum { MOST_DIFF_HEADERS = 24 };

struct diff {
	const struct report *a, *b;
	struct diff_site *sites;
	int site_count;
	struct diff_header headers[MOST_DIFF_HEADERS];
	int header_count;
	bool other_machine; /* another GPU model: times differ for that reason alone */
	bool simulated;	    /* a side ran on a stand-in, whose times mean nothing */
	int common, by_shape, only_a, only_b;
	/* B / A of all sites with enough samples on both sides together, each weighing as A's calls
	 * do. */
	struct bootstrap_interval app, fused;
	int timed; /* how many sites that is */
};

/* Fills everything; both reports must outlive it. 0 or -ENOMEM; diff_free() in both cases. */
int diff_build(struct diff *diff, const struct report *a, const struct report *b);
void diff_free(struct diff *diff);

enum diff_change diff_change(const struct bootstrap_interval *interval);

/* Whether anything of the site is other than before: a change that counts, a side that is missing,
 * a verdict that is another. */
bool diff_changed(const struct diff_site *site);

struct diff_style {
	bool color, changed_only;
	bool markdown; /* the table as Markdown, the rest as a block of text */
};

void diff_table(const struct diff *diff, const struct diff_style *style);
void diff_csv(const struct diff *diff, bool changed_only);
void diff_json(const struct diff *diff, bool changed_only);

#endif
