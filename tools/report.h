/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report says, before it takes a form: sites in order of what they gained, reasons with what
 * they held back, totals over all logs.
 */
#ifndef FASHIM_REPORT_H
#define FASHIM_REPORT_H

#include "log_reader.h"

struct report_row {
	int run; /* index into set.runs */
	const struct site_log *site;
	struct series app, fused; /* µs */
	bool warm_up_excluded;
	double speedup;	    /* app / fused, NAN unknown */
	double saved_us;    /* NAN unknown */
	double could_us;    /* what replacing the calls not replaced would save, NAN unknown */
	double error_ratio; /* RMS error against float64: fused / app; NAN unknown */
};

struct report_reason {
	const char *name;
	const char *sentence, *hint; /* "" for names that this version does not know */
	uint64_t count;		     /* occurrences held back */
	char details[KEPT_DETAILS][160];
	int *rows; /* sites that were declined for it */
	int row_count;
};

struct report_total {
	uint64_t sites, replaced_sites, verified_sites, learning_sites, declined_sites;
	uint64_t calls, replaced, compared, passed, materialised;
	uint64_t gemms, launches, samples, nonfinite, violations;
	double saved_us, could_us, overhead_us, wall_us, speedup;
	double max_abs, max_rel;
	int worst_row; /* row of max_rel, -1 none */
	int fused_closer, with_reference;
	bool warm_up_excluded, counted;
	bool simulated; /* some times come from a stand-in, not a GPU */
};

struct report {
	struct log_set set;
	struct report_row *rows;
	int row_count;
	struct report_reason *reasons;
	int reason_count;
	struct report_total total;
};

/* Fills rows, reasons and totals from report->set. only_site: 0 for all. 0 or -ENOMEM. */
int report_build(struct report *report, uint32_t only_site);
void report_free(struct report *report);

/* True for logs of the CPU stand-in, whose times say nothing about speed. */
bool run_simulated(const struct run_log *run);

/* "replaced", "verified", "learning", "declined" or "unknown": what became of the site. */
const char *report_verdict(const struct report_row *row);

/* Whose RMS error against float64 is smaller: "app", "fused", "equal" (within 1 %) or "" (unknown).
 */
const char *report_closer(const struct report_row *row);

/* The two forms. text: details adds everything known of each site (`--site`). */
void report_text(const struct report *report, bool details, bool color);
int report_json(const struct report *report);

/* At most three lines on stderr at the end of `fashim run`; next: the arguments for `fashim
 * report`. */
void report_closing(const struct report *report, const char *next);

#endif
