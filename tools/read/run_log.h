/* SPDX-License-Identifier: Apache-2.0
 *
 * What is kept of one run of a program: its sites, its reasons, its counts. Bounded space per site,
 * however many samples there are.
 */
#ifndef FASHIM_RUN_LOG_H
#define FASHIM_RUN_LOG_H

#include "tools/base/json_member.h" /* for the records that are kept as they are */
#include "tools/base/series.h"
#include "tools/read/sample_points.h"
#include "tools/read/sample_scan.h"

#include <stdbool.h>
#include <stdint.h>

enum { KEPT_SAMPLES = 10, KEPT_DETAILS = 3, KEPT_READERS = 4 };

struct site_counters {
	uint64_t seen, replaced, compared, agreed, passed, materialised, snapshots, replays;
	double saved_us;
};

struct site_log {
	uint32_t number; /* from 1 */
	uint32_t ranks;	 /* logs put together in it */
	json_t *record;	 /* the last "site" record, or NULL */
	char state[16];	 /* "learning", "verified", "declined", or "" */
	char reason[40]; /* a name of reasons.def, "none" */
	char detail[160];
	bool counted; /* counters come from the summary or LOG.live */
	struct site_counters counters;

	uint64_t samples;
	struct series first_app, first_fused; /* µs, the first timed sample of the run */
	struct series app, fused;	      /* µs, the other timed samples */
	struct series first_parts[PART_COUNT], parts[PART_COUNT]; /* the same for app's parts */
	struct sample_points points;
	double max_abs, max_rel; /* largest over the samples, NAN without any */
	struct sample worst;	 /* the sample of max_rel */
	double beyond;		 /* largest share of elements outside the tolerance */
	uint64_t nonfinite;
	uint64_t references;
	double sum_app_rmse2, sum_fused_rmse2, app_max, fused_max;
	uint64_t not_ok; /* samples whose verdict was not "ok" */
	char bad_verdict[24];
	char read_by[KEPT_READERS][64]; /* kernels that forced a materialisation */
	struct sample *kept; /* first and last KEPT_SAMPLES of one log, only for `keep_site` */
	uint64_t kept_of;    /* how many samples these are the ends of */
};

/* What the shim spends time for. */
enum purpose {
#define PURPOSE(id, name, what) PURPOSE_##id,
#include "shim/base/purposes.def"
#undef PURPOSE
	PURPOSE_COUNT
};

struct reason_tally {
	char name[40];
	uint64_t count;	  /* occurrences, from summary or LOG.live */
	uint64_t records; /* "decline" records */
	char details[KEPT_DETAILS][160];
};

struct run_log {
	char *path;
	json_t *header;
	bool simulated; /* no GPU but a stand-in, whose times say nothing: they are not taken */
	struct site_log **sites; /* in the order of their numbers; NULL where one was dropped */
	uint32_t site_count, site_room;
	struct reason_tally *reasons;
	int reason_count;
	char end[12];	/* "exit", "killed", "running", or "unknown": no summary, no LOG.live */
	double wall_us; /* 0: unknown, as of a process that was killed */
	double last_us; /* the run was still going that long after its start */
	double overhead_us;
	double cost_us[PURPOSE_COUNT], cost_gpu_us[PURPOSE_COUNT]; /* of the host, of the GPU */
	uint64_t gemms, launches, scratch_peak;
	uint64_t copies_held, copies_made, copies_unfit;
	uint64_t rests;	  /* times that it stood aside … */
	double rest_us;	  /* … for so long together */
	bool counted;	  /* the numbers above are known */
	char copy_by[80]; /* who wanted the first copy that was made after all */
	uint64_t violations;
	char violation[200];	   /* the first */
	uint64_t unreadable;	   /* lines that are no JSON */
	bool truncated;		   /* the last line was cut short */
	const struct run_log *job; /* the first log of a job whose ranks were merged, or NULL */
	struct {
		uint64_t calls, replaced;
		double saved_us;
	} own; /* of this run alone, whatever was merged into it */
};

/* The site, made when new; NULL when the number is 0 or memory is short. Not after a site was
 * dropped. */
struct site_log *run_site(struct run_log *run, uint32_t number);

/* The place in sites[] of a number that is there. */
uint32_t run_site_place(const struct run_log *run, uint32_t number);

/* Frees the site at a place of sites[] and leaves NULL. */
void run_drop_site(struct run_log *run, uint32_t place);

/* The tally of a reason, made when new; NULL when memory is short. */
struct reason_tally *run_reason(struct run_log *run, const char *name);

/* The times to quote: all timed samples, or, where two others are left, all but a run's first.
 * Returns whether the first was left out. */
bool site_times(const struct site_log *site, struct series *app, struct series *fused);

/* Mean µs of each part of the same app times. Whether the log tells. */
bool site_parts(const struct site_log *site, double us[PART_COUNT]);

/* Frees the run and all that it holds. */
void run_free(struct run_log *run);

#endif
