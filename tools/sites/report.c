/* SPDX-License-Identifier: Apache-2.0
 *
 * From logs to a report: one row a site, the reasons of all logs put together, and the totals.
 * Nothing is printed here.
 */
#include "tools/sites/report.h"
#include "tools/sites/report_names.h"
#include "tools/sites/report_select.h"
#include "tools/sites/site_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *sentence, *hint;
} known_reasons[] = {
#define REASON(id, name, sentence, hint) {name, sentence, hint},
#include "shim/log/reasons.def"
#undef REASON
};

/* The medians of the times that are quoted, and the interval of their ratio. */
static void fill_medians(struct report_row *row)
{
	struct site_values values;

	row->app_us = row->fused_us = NAN;
	row->speedup = (struct bootstrap_interval){NAN, NAN, NAN};
	if (site_values_read(&values, row))
		return;
	bootstrap_ratio(values.app, values.timed, values.fused, values.timed, BOOTSTRAP_SEED,
			&row->speedup);
	sort_values(values.app, values.timed);
	sort_values(values.fused, values.timed);
	row->app_us = median_of_sorted(values.app, values.timed);
	row->fused_us = median_of_sorted(values.fused, values.timed);
	site_values_free(&values);
}

/* All calls are taken to be as fast as the median: one that met another program on the GPU is no
 * measure of those that were not timed. */
static void fill_times(struct report_row *row)
{
	const struct site_counters *calls = &row->site->counters;
	double replaced = (double)calls->replaced, others = (double)calls->seen - replaced;

	row->warm_up_excluded = site_times(row->site, &row->app, &row->fused);
	fill_medians(row);
	if (!row->site->counted)
		return;
	row->could_us = others * (row->app_us - row->fused_us);
	row->before_us = (double)calls->seen * row->app_us;
	row->after_us = others * row->app_us + (replaced + (double)calls->compared) * row->fused_us;
}

static struct report_row make_row(const struct report *report, int run, const struct site_log *site)
{
	struct report_row row = {.run = run,
				 .log = report->set.runs[run],
				 .site = site,
				 .saved_us = site->counted ? site->counters.saved_us : NAN,
				 .could_us = NAN,
				 .before_us = NAN,
				 .after_us = NAN,
				 .error_ratio = NAN};

	fill_times(&row);
	if (site->references && site->sum_app_rmse2 > 0)
		row.error_ratio = sqrt(site->sum_fused_rmse2 / site->sum_app_rmse2);
	else if (site->references)
		row.error_ratio = site->sum_fused_rmse2 > 0 ? INFINITY : 1;
	return row;
}

/* Most saved first, then most to be saved, then most seen, then by number. */
static int by_gain(const void *left, const void *right)
{
	const struct report_row *a = left, *b = right;
	double saved_a = isnan(a->saved_us) ? 0 : a->saved_us;
	double saved_b = isnan(b->saved_us) ? 0 : b->saved_us;
	double could_a = isnan(a->could_us) ? 0 : a->could_us;
	double could_b = isnan(b->could_us) ? 0 : b->could_us;

	if (saved_a != saved_b)
		return saved_a < saved_b ? 1 : -1;
	if (could_a != could_b)
		return could_a < could_b ? 1 : -1;
	if (a->site->counters.seen != b->site->counters.seen)
		return a->site->counters.seen < b->site->counters.seen ? 1 : -1;
	if (a->run != b->run)
		return a->run - b->run;
	return a->site->number < b->site->number ? -1 : 1;
}

static int build_rows(struct report *report)
{
	int most = 0;

	for (int r = 0; r < report->set.count; r++) {
		for (uint32_t i = 0; i < report->set.runs[r]->site_count; i++)
			most += report->set.runs[r]->sites[i] != NULL;
	}
	report->site_count = most;
	report->rows = calloc((size_t)most + 1, sizeof(*report->rows));
	if (!report->rows)
		return -ENOMEM;
	for (int r = 0; r < report->set.count; r++) {
		const struct run_log *run = report->set.runs[r];

		for (uint32_t i = 0; i < run->site_count; i++) {
			struct report_row *row = &report->rows[report->row_count];

			if (!run->sites[i])
				continue;
			*row = make_row(report, r, run->sites[i]);
			report->row_count += report_selected(report->selection, row);
		}
	}
	qsort(report->rows, (size_t)report->row_count, sizeof(*report->rows), by_gain);
	report_order(report->selection, report->rows, report->row_count);
	return 0;
}

bool report_partial(const struct report *report)
{
	return report_selects(report->selection);
}

static struct report_reason *reason_named(struct report *report, const char *name)
{
	struct report_reason *reasons;

	for (int i = 0; i < report->reason_count; i++) {
		if (!strcmp(report->reasons[i].name, name))
			return &report->reasons[i];
	}
	reasons = realloc(report->reasons, (size_t)(report->reason_count + 1) * sizeof(*reasons));
	if (!reasons)
		return NULL;
	report->reasons = reasons;
	reasons += report->reason_count++;
	*reasons = (struct report_reason){.name = name, .sentence = "", .hint = ""};
	for (size_t i = 0; i < sizeof(known_reasons) / sizeof(*known_reasons); i++) {
		if (strcmp(known_reasons[i].name, name))
			continue;
		reasons->sentence = known_reasons[i].sentence;
		reasons->hint = known_reasons[i].hint;
	}
	return reasons;
}

static void add_detail(struct report_reason *reason, const char *detail)
{
	for (int i = 0; *detail && i < KEPT_DETAILS; i++) {
		if (!strcmp(reason->details[i], detail))
			return;
		if (!*reason->details[i]) {
			snprintf(reason->details[i], sizeof(reason->details[i]), "%s", detail);
			return;
		}
	}
}

static int by_count(const void *left, const void *right)
{
	const struct report_reason *a = left, *b = right;

	if (a->count != b->count)
		return a->count < b->count ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* Whether some log has a count for the reason; else the calls of its sites stand for it. */
static bool counted_by_shim(const struct report *report, const char *name)
{
	for (int r = 0; r < report->set.count; r++) {
		const struct run_log *run = report->set.runs[r];

		for (int i = 0; i < run->reason_count; i++) {
			if (!strcmp(run->reasons[i].name, name) && run->reasons[i].count)
				return true;
		}
	}
	return false;
}

static int build_reasons(struct report *report)
{
	bool partial = report_partial(report);

	for (int r = 0; r < report->set.count && !partial; r++) {
		const struct run_log *run = report->set.runs[r];

		for (int i = 0; i < run->reason_count; i++) {
			const struct reason_tally *tally = &run->reasons[i];
			struct report_reason *reason;

			if (!strcmp(tally->name, "none"))
				continue;
			reason = reason_named(report, tally->name);
			if (!reason)
				return -ENOMEM;
			reason->count += tally->count ? tally->count : tally->records;
			for (int d = 0; d < KEPT_DETAILS; d++)
				add_detail(reason, tally->details[d]);
		}
	}
	for (int i = 0; i < report->row_count; i++) {
		const struct site_log *site = report->rows[i].site;
		const bool learning = site_waits(site);
		struct report_reason *reason;
		int *rows;

		if ((strcmp(site->state, "declined") && !learning) || !*site->reason)
			continue;
		reason = reason_named(report, site->reason);
		rows = reason ? realloc(reason->rows, (size_t)(reason->row_count + 1) * sizeof(int))
			      : NULL;
		if (!rows)
			return -ENOMEM;
		reason->rows = rows;
		rows[reason->row_count++] = i;
		add_detail(reason, site->detail);
		if (partial || !counted_by_shim(report, reason->name))
			reason->count +=
				site->counters.passed + (learning ? site->counters.compared : 0);
	}
	if (report->reason_count)
		qsort(report->reasons, (size_t)report->reason_count, sizeof(*report->reasons),
		      by_count);
	return 0;
}

static void add_row(struct report_total *total, const struct report_row *row, int index)
{
	const struct site_log *site = row->site;
	const char *verdict = report_verdict(row);

	total->sites++;
	total->replaced_sites += !strcmp(verdict, "replaced");
	total->verified_sites += !strcmp(verdict, "verified");
	total->learning_sites += !strcmp(verdict, "learning");
	total->declined_sites += !strcmp(verdict, "declined");
	total->calls += site->counters.seen;
	total->replaced += site->counters.replaced;
	total->compared += site->counters.compared;
	total->passed += site->counters.passed;
	total->materialised += site->counters.materialised;
	total->samples += site->samples;
	total->nonfinite += site->nonfinite;
	total->warm_up_excluded |= row->warm_up_excluded;
	if (!isnan(row->saved_us))
		total->saved_us += row->saved_us;
	if (isfinite(row->before_us) && isfinite(row->after_us)) {
		total->could_us += row->could_us;
		total->before_us += row->before_us;
		total->after_us += row->after_us;
	}
	if (!isnan(site->max_abs) && !(site->max_abs <= total->max_abs))
		total->max_abs = site->max_abs;
	if (!isnan(site->max_rel) && !(site->max_rel <= total->max_rel)) {
		total->max_rel = site->max_rel;
		total->worst_row = index;
	}
	if (!isnan(row->error_ratio)) {
		total->with_reference++;
		total->fused_closer += row->error_ratio <= 1.01;
	}
}

static void build_total(struct report *report)
{
	struct report_total *total = &report->total;
	double app = 0, fused = 0;
	bool timed = true;

	*total = (struct report_total){
		.max_abs = NAN, .max_rel = NAN, .worst_row = -1, .counted = true};
	for (int i = 0; i < report->set.count; i++) {
		const struct run_log *run = report->set.runs[i];

		total->gemms += run->gemms;
		total->launches += run->launches;
		total->copies_held += run->copies_held;
		total->rests += run->rests;
		total->rest_us += run->rest_us;
		total->copies_made += run->copies_made;
		total->copies_unfit += run->copies_unfit;
		total->overhead_us += run->overhead_us;
		total->spent_us += run->overhead_us;
		for (int k = 0; k < PURPOSE_COUNT; k++) {
			total->cost_us[k] += run->cost_us[k];
			total->cost_gpu_us[k] += run->cost_gpu_us[k];
			total->spent_us += run->cost_gpu_us[k];
		}
		total->wall_us += run->wall_us;
		total->violations += run->violations;
		total->counted &= run->counted;
		timed &= !run->counted || run->wall_us > 0;
		total->simulated |= run->simulated;
	}
	if (!timed)
		total->wall_us = 0;
	for (int i = 0; i < report->row_count; i++) {
		const struct report_row *row = &report->rows[i];
		double replaced = (double)row->site->counters.replaced;

		add_row(total, row, i);
		if (!isnan(row->app_us)) {
			app += replaced * row->app_us;
			fused += replaced * row->fused_us;
		}
	}
	total->speedup = fused > 0 ? app / fused : NAN;
}

int report_build(struct report *report, const struct report_selection *selection)
{
	int result;

	report->selection = selection;
	result = build_rows(report);
	if (!result)
		result = build_reasons(report);
	if (!result)
		build_total(report);
	return result;
}

void report_free(struct report *report)
{
	for (int i = 0; i < report->reason_count; i++)
		free(report->reasons[i].rows);
	free(report->reasons);
	free(report->rows);
	log_set_free(&report->set);
	*report = (struct report){0};
}
