/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report says, before it takes a form: sites in order of what they gained, reasons with what
 * they held back, totals over all logs.
 */
#ifndef FASHIM_REPORT_H
#define FASHIM_REPORT_H

#include "tools/base/bootstrap.h"
#include "tools/read/log_reader.h"

#include <stdio.h>

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
	double saved_us, could_us, overhead_us, speedup;
	double wall_us;		    /* 0 where one run's is not known */
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

/* True for logs of the CPU stand-in, whose times say nothing about speed. */
bool run_simulated(const struct run_log *run);

/* "replaced", "verified", "learning", "declined" or "unknown": what became of the site. */
const char *report_verdict(const struct report_row *row);

/* Whose RMS error against float64 is smaller: "app", "fused", "equal" (within 1 %) or "" (unknown).
 */
const char *report_closer(const struct report_row *row);

/* The times behind `app`, `fused` and `speedup`, in the log's order: of each pair of samples one
 * value in either array, which have room for site->points.count. How many there are. */
size_t report_times(const struct report_row *row, double *app, double *fused);

/* True when only some sites are asked for; then reasons without a site are left out. */
bool report_partial(const struct report *report);

/* "3", or "2:3" (log 2, site 3) where several logs are shown that are not one job's ranks. Returns
 * buffer. */
char *report_site_name(const struct report *report, const struct report_row *row, char *buffer,
		       size_t size);

/* "[B,H,Sq,Sk,D]", with "/Dv" where that differs; "?" for a site without a record. Returns buffer.
 */
char *report_shape(const struct report_row *row, char *buffer, size_t size);

/* "replaced", "declined: scores_read_by", "verified, 1 of 4 samples drift". Returns buffer. */
char *report_judgement(const struct report_row *row, char *buffer, size_t size);

/* The sample with the largest max_rel, in words: how much, where, and how many elements were beyond
 * the tolerance. Only where max_rel is known. Returns buffer. */
char *report_worst(const struct report_row *row, char *buffer, size_t size);

/* The program and its arguments as one line; the executable where the log has none. The caller
 * frees it; NULL when memory is short. */
char *report_command(const struct run_log *run);

/* "NVIDIA H200 (sm_90), driver 13.0, cuBLAS 13.1.0". Returns buffer. */
char *report_device(const struct run_log *run, char *buffer, size_t size);

/* The innermost Python line, or C frame, that the site is called from, a package's file by its path
 * inside the package; "" where the log has neither. Static storage of the log's. */
const char *report_place(const struct report_row *row);

/* A reason's detail as an addition to its sentence: "read by cuMemcpyDtoH_v2", "in masked_fill"; ""
 * where it says no more than the reason's name. Returns buffer. */
char *report_detail(const char *reason, const char *detail, char *buffer, size_t size);

/* The reason's sentence, or one for a reason that this version does not know. */
const char *report_sentence(const struct report_reason *reason);

/* What people call the parts of a chain. */
extern const char *const chain_part_names[PART_COUNT];

/* "GEMM1 9.1, softmax 3.0 µs" without those that take no time; "" where the log does not tell.
 * Returns buffer. */
char *report_parts(const struct report_row *row, const char *micro, char *buffer, size_t size);

/* "102.0 ± 2.8", without the spread where one value has none; `none` for an empty series. Returns
 * buffer. */
char *report_series(const struct series *series, const char *plus_minus, const char *none,
		    char *buffer, size_t size);

/* "ended", "killed", "still running" or "no summary". */
const char *report_end(const struct run_log *run);

/* What follows it: " after 1.5 s", " after more than 1.5 s", or "" where no time is known. Returns
 * buffer. */
char *report_after(const struct run_log *run, char *buffer, size_t size);

/* The summary, at most ten lines: one name and one sentence each, `tone` says how good the news is.
 */
enum { SUMMARY_LINES = 11 };
enum summary_tone { TONE_PLAIN, TONE_GOOD, TONE_WARNING, TONE_BAD };

struct summary_line {
	const char *name;
	enum summary_tone tone;
	char text[400];
};

/* Fills `lines`, which has room for SUMMARY_LINES; how many there are. */
int report_summary(const struct report *report, struct summary_line *lines);

/* The forms, all on `out`. text: details adds everything known of each site (`--site`), width 0 is
 * without limit. */
struct report_style {
	bool details, color, headers_only;
	int width;
};

void report_text(const struct report *report, const struct report_style *style);
int report_json(const struct report *report);
void report_csv(const struct report *report, FILE *out);
void report_markdown(const struct report *report, FILE *out);
void report_html(const struct report *report, FILE *out);

/* At most three lines on stderr at the end of `fashim run`; next: the arguments for `fashim
 * report`. */
void report_closing(const struct report *report, const char *next);

#endif
