/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report says, before it takes a form: sites in order of what they gained, reasons with what
 * they held back, totals over all logs.
 */
#ifndef FASHIM_REPORT_H
#define FASHIM_REPORT_H

#include "tools/base/bootstrap.h"
#include "tools/read/log_reader.h"

struct report_selection;

struct report_row {
	int run;  /* index into set.runs; the first of several where ranks were merged */
	int rank; /* its place by gain */
	const struct run_log *log;
	const struct site_log *site;
	struct series app, fused; /* µs */
	double app_us, fused_us;  /* medians of the same; NAN unknown */
	bool warm_up_excluded;
	struct bootstrap_interval speedup; /* median app / median fused; NAN unknown */
	double saved_us;		   /* NAN unknown */
	double could_us;    /* what replacing the calls not replaced would save, NAN unknown */
	double before_us;   /* GPU time of all calls without the shim, NAN unknown */
	double after_us;    /* the same with it: chains that ran, and fused kernels; NAN unknown */
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
	uint64_t copies_held, copies_made, copies_unfit;
	uint64_t rests; /* times that the shim stood aside … */
	double rest_us; /* … for so long together */
	double saved_us, could_us, overhead_us, speedup;
	double cost_us[PURPOSE_COUNT], cost_gpu_us[PURPOSE_COUNT];
	double spent_us; /* overhead_us and what the GPU took for comparisons and questions */
	double wall_us;	 /* 0 where one run's is not known */
	double before_us, after_us; /* of the sites that were measured */
	double max_abs, max_rel;
	int worst_row; /* row of max_rel, -1 none */
	int fused_closer, with_reference;
	bool warm_up_excluded, counted;
	bool simulated; /* some times come from a stand-in, not a GPU */
};

struct report {
	struct log_set set;
	const struct report_selection *selection; /* NULL: everything */
	struct report_row *rows;
	int row_count;
	int site_count; /* rows before the selection's conditions */
	struct report_reason *reasons;
	int reason_count;
	struct report_total total;
};

/* Puts the logs of one job's ranks together: a site that they share becomes one site of the first
 * of them. 0 or -ENOMEM. */
int report_merge_ranks(struct log_set *set);

/* Fills rows, reasons and totals from report->set: what `selection` (report_select.h) asks for, or,
 * with NULL, all of it, the largest gain first. 0 or -ENOMEM. */
int report_build(struct report *report, const struct report_selection *selection);
void report_free(struct report *report);

/* True when only some sites are asked for; then reasons without a site are left out. */
bool report_partial(const struct report *report);

#endif
