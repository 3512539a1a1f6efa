/* SPDX-License-Identifier: Apache-2.0
 *
 * One job, one log for each of its ranks: what they have in common is told once. Two logs are of
 * one job when both have a rank, different ones, and run the same program in the same mode; two
 * sites are one when shape, meaning, chain, place in the program and verdict are the same.
 */
#include "tools/sites/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static bool has_rank(const struct run_log *run)
{
	return json_is_integer(json_object_get(run->header, "rank"));
}

/* The first log of the job whose next rank `runs[index]` may be, or NULL. */
static struct run_log *job_of(const struct log_set *set, int index)
{
	static const char *const keys[] = {"exe", "mode", "fashim", NULL};
	const struct run_log *run = set->runs[index];

	for (int first = index - 1; first >= 0; first--) {
		struct run_log *lead = set->runs[first];
		bool taken = false;

		if (lead->job || !has_rank(lead) || !same_members(lead->header, run->header, keys))
			continue;
		for (int i = first; i < index; i++) {
			if (i == first || set->runs[i]->job == lead)
				taken |= same_member(set->runs[i]->header, run->header, "rank");
		}
		if (!taken)
			return lead;
	}
	return NULL;
}

static bool same_site(const struct site_log *a, const struct site_log *b)
{
	static const char *const keys[] = {"B",	    "H",     "Sq",     "Sk",	  "D",
					   "Dv",    "mask",  "scale",  "softcap", "dtype",
					   "chain", "stack", "python", "kernel",  NULL};

	return a->record && b->record && a->counted == b->counted && !strcmp(a->state, b->state) &&
	       !strcmp(a->reason, b->reason) && same_members(a->record, b->record, keys);
}

static int add_site(struct site_log *to, const struct site_log *from)
{
	if (!isnan(from->max_rel) && !(from->max_rel <= to->max_rel))
		to->worst = from->worst;
	to->ranks += from->ranks;
	to->counters.seen += from->counters.seen;
	to->counters.replaced += from->counters.replaced;
	to->counters.compared += from->counters.compared;
	to->counters.passed += from->counters.passed;
	to->counters.materialised += from->counters.materialised;
	to->counters.snapshots += from->counters.snapshots;
	to->counters.replays += from->counters.replays;
	to->counters.saved_us += from->counters.saved_us;
	to->samples += from->samples;
	series_join(&to->first_app, &from->first_app);
	series_join(&to->first_fused, &from->first_fused);
	series_join(&to->app, &from->app);
	series_join(&to->fused, &from->fused);
	for (int i = 0; i < PART_COUNT; i++) {
		series_join(&to->first_parts[i], &from->first_parts[i]);
		series_join(&to->parts[i], &from->parts[i]);
	}
	to->max_abs = fmax(to->max_abs, from->max_abs);
	to->max_rel = fmax(to->max_rel, from->max_rel);
	to->beyond = fmax(to->beyond, from->beyond);
	to->nonfinite += from->nonfinite;
	to->references += from->references;
	to->sum_app_rmse2 += from->sum_app_rmse2;
	to->sum_fused_rmse2 += from->sum_fused_rmse2;
	to->app_max = fmax(to->app_max, from->app_max);
	to->fused_max = fmax(to->fused_max, from->fused_max);
	to->not_ok += from->not_ok;
	if (!*to->bad_verdict)
		memcpy(to->bad_verdict, from->bad_verdict, sizeof(to->bad_verdict));
	return sample_points_join(&to->points, &from->points);
}

/* The site of an earlier rank that is the same as `site`, or NULL. */
static struct site_log *twin_of(const struct log_set *set, int index, const struct site_log *site)
{
	const struct run_log *lead = set->runs[index]->job;

	for (int r = 0; r < index; r++) {
		const struct run_log *run = set->runs[r];

		if (run != lead && run->job != lead)
			continue;
		for (uint32_t i = 0; i < run->site_count; i++) {
			if (run->sites[i] && same_site(run->sites[i], site))
				return run->sites[i];
		}
	}
	return NULL;
}

static void tally_own(struct run_log *run)
{
	for (uint32_t i = 0; i < run->site_count; i++) {
		if (!run->sites[i])
			continue;
		run->own.calls += run->sites[i]->counters.seen;
		run->own.replaced += run->sites[i]->counters.replaced;
		run->own.saved_us += run->sites[i]->counters.saved_us;
	}
}

int report_merge_ranks(struct log_set *set)
{
	for (int r = 0; r < set->count; r++)
		tally_own(set->runs[r]);
	for (int r = 1; r < set->count; r++) {
		struct run_log *run = set->runs[r];

		run->job = has_rank(run) ? job_of(set, r) : NULL;
		for (uint32_t i = 0; run->job && i < run->site_count; i++) {
			struct site_log *twin =
				run->sites[i] ? twin_of(set, r, run->sites[i]) : NULL;

			if (twin && add_site(twin, run->sites[i]))
				return -ENOMEM;
			if (twin)
				run_drop_site(run, i);
		}
	}
	return 0;
}
