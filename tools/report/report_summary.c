/* SPDX-License-Identifier: Apache-2.0
 *
 * The report in at most thirteen lines: what was found, what it gained, how far the numbers moved
 * and what watching cost.
 */
#include "tools/base/tool.h"
#include "tools/report/report_summary.h"
#include "tools/sites/report.h"
#include "tools/sites/report_names.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

struct summary {
	const struct report *report;
	const struct report_total *total;
	struct summary_line *lines;
	int count;
};

/* Goes on with the last line. */
static void more(struct summary *summary, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void more(struct summary *summary, const char *format, ...)
{
	struct summary_line *line = &summary->lines[summary->count - 1];
	size_t used = strlen(line->text);
	va_list args;

	va_start(args, format);
	vsnprintf(line->text + used, sizeof(line->text) - used, format, args);
	va_end(args);
}

static void start(struct summary *summary, const char *name, enum summary_tone tone)
{
	summary->lines[summary->count++] = (struct summary_line){.name = name, .tone = tone};
}

/* "3: 2 replaced, 1 declined"; parts that are zero are not named. */
static void counts(struct summary *summary, uint64_t total, const char *const *names,
		   const uint64_t *values, int count)
{
	const char *separator = ": ";
	char number[32];

	more(summary, "%s", format_count(number, sizeof(number), total));
	for (int i = 0; i < count; i++) {
		if (!values[i])
			continue;
		more(summary, "%s%s %s", separator, format_count(number, sizeof(number), values[i]),
		     names[i]);
		separator = ", ";
	}
}

static void say_sites(struct summary *summary)
{
	static const char *const names[] = {"replaced", "verified", "learning", "declined"};
	const struct report_total *total = summary->total;
	const uint64_t sites[] = {total->replaced_sites, total->verified_sites,
				  total->learning_sites, total->declined_sites};

	start(summary, "sites", TONE_PLAIN);
	counts(summary, total->sites, names, sites, 4);
	if (report_partial(summary->report))
		more(summary, " (of %d in all)", summary->report->site_count);
}

/* Nothing was found, and nothing says why: then there was nothing to see. */
static void say_nothing_seen(struct summary *summary)
{
	const struct report_total *total = summary->total;

	if (summary->report->site_count || summary->report->reason_count || !total->counted ||
	    report_partial(summary->report))
		return;
	start(summary, "not seen", TONE_PLAIN);
	more(summary,
	     total->gemms ? "no softmax between any two of its GEMMs; " : "no GEMM by cuBLAS; ");
	more(summary, "products by kernels of the program's own (Triton's, XLA's), and those that "
		      "CUDA graphs replay, are not seen");
}

/* Counters of runs that left none are missing in every sum; say so. False when there are none at
 * all.
 */
static bool say_calls(struct summary *summary)
{
	static const char *const names[] = {"replaced", "compared", "left alone"};
	const struct report_total *total = summary->total;
	const struct log_set *set = &summary->report->set;
	const uint64_t calls[] = {total->replaced, total->compared, total->passed};
	int without = 0;

	for (int i = 0; i < set->count; i++)
		without += !set->runs[i]->counted;
	start(summary, "calls", without ? TONE_WARNING : TONE_PLAIN);
	if (without == set->count) {
		more(summary, "unknown, and with them what was saved");
		return false;
	}
	counts(summary, total->calls, names, calls, 3);
	if (without)
		more(summary, "; without those of %d cut-short log%s", without,
		     without == 1 ? "" : "s");
	return true;
}

static bool all_simulated(const struct report *report)
{
	for (int i = 0; i < report->set.count; i++)
		if (!report->set.runs[i]->simulated)
			return false;
	return true;
}

struct extremes {
	double least, most;
	double least_rank, most_rank;
};

static void extend(struct extremes *extremes, double value, double rank)
{
	if (!(value >= extremes->least)) {
		extremes->least = value;
		extremes->least_rank = rank;
	}
	if (!(value <= extremes->most)) {
		extremes->most = value;
		extremes->most_rank = rank;
	}
}

static bool in_a_job(const struct log_set *set, const struct run_log *run)
{
	for (int i = 0; i < set->count; i++)
		if (run->job || set->runs[i]->job == run)
			return true;
	return false;
}

/* What a rank that does less than the others has in common with none of them. */
static void say_ranks(struct summary *summary)
{
	struct extremes share = {NAN, NAN, 0, 0}, saved = {NAN, NAN, 0, 0};
	const struct log_set *set = &summary->report->set;
	char least[32], most[32];
	int ranks = 0;

	for (int i = 0; i < set->count; i++) {
		const struct run_log *run = set->runs[i];
		const double rank = number_of(run->header, "rank", 0);

		if (!in_a_job(set, run) || !run->counted)
			continue;
		ranks++;
		extend(&share,
		       run->own.calls ? 100.0 * (double)run->own.replaced / (double)run->own.calls
				      : 0,
		       rank);
		extend(&saved, run->own.saved_us, rank);
	}
	if (ranks < 2 || report_partial(summary->report))
		return;
	start(summary, "ranks", share.least < 0.9 * share.most ? TONE_WARNING : TONE_PLAIN);
	if (share.most - share.least < 1)
		more(summary, "%d: %.0f%% of the calls replaced in each", ranks, share.most);
	else
		more(summary, "%d: %.0f%% (rank %.0f) to %.0f%% (rank %.0f) of the calls replaced",
		     ranks, share.least, share.least_rank, share.most, share.most_rank);
	format_duration(most, sizeof(most), saved.most);
	format_duration(least, sizeof(least), saved.least);
	if (!summary->total->replaced || all_simulated(summary->report))
		return;
	if (strcmp(least, most))
		more(summary, "; %s (rank %.0f) to %s (rank %.0f) saved", least, saved.least_rank,
		     most, saved.most_rank);
	else
		more(summary, "; %s saved", most);
}

static void say_gain(struct summary *summary)
{
	const struct report_total *total = summary->total;
	const double asking = total->spent_us - total->overhead_us; /* of the GPU */
	char before[32], after[32];

	if (total->before_us > 0) {
		start(summary, "GPU time", TONE_PLAIN);
		more(summary, "%s for attention by itself, %s with fashim",
		     format_duration(before, sizeof(before), total->before_us),
		     format_duration(after, sizeof(after), total->after_us));
		if (asking > 0)
			more(summary, " and %s more to learn and compare",
			     format_duration(before, sizeof(before), asking));
		if (total->wall_us > 0)
			more(summary, ", in %s of %s",
			     summary->report->set.count > 1 ? "runs" : "a run",
			     format_duration(before, sizeof(before), total->wall_us));
	}
	start(summary, "saved",
	      !total->replaced	    ? TONE_PLAIN
	      : total->saved_us > 0 ? TONE_GOOD
				    : TONE_BAD);
	if (!total->replaced)
		more(summary, "nothing: no call was replaced");
	else
		more(summary, "%s of GPU time",
		     format_duration(before, sizeof(before), total->saved_us));
	if (total->replaced && !isnan(total->speedup))
		more(summary, "; the replaced calls ran %.2f%s as fast", total->speedup,
		     utf8_output() ? "×" : "x");
	if (total->could_us > 0 && total->could_us > 0.05 * total->saved_us) {
		start(summary, "could", TONE_PLAIN);
		more(summary, "%s of GPU time%s",
		     format_duration(before, sizeof(before), total->could_us),
		     total->replaced
			     ? " more, if the other calls of the measured sites were replaced too"
			     : ", if the calls of the measured sites were replaced");
	}
}

static void say_drift(struct summary *summary)
{
	const struct report_total *total = summary->total;
	char site[32];

	if (total->worst_row >= 0) {
		report_site_name(summary->report, &summary->report->rows[total->worst_row], site,
				 sizeof(site));
		start(summary, "drift", total->nonfinite ? TONE_BAD : TONE_PLAIN);
		more(summary, "at worst %.1e of the largest output (site %s), %.1e absolute",
		     total->max_rel, site, total->max_abs);
		if (total->nonfinite)
			more(summary, "; %llu elements NaN or infinite on one side only",
			     (unsigned long long)total->nonfinite);
	}
	if (total->with_reference) {
		start(summary, "float64",
		      total->fused_closer == total->with_reference ? TONE_GOOD : TONE_PLAIN);
		more(summary,
		     "the fused kernel is as close or closer to double precision at %d of %d sites",
		     total->fused_closer, total->with_reference);
	}
}

/* What it went for, the dearest first; not what is next to nothing. */
static void say_costs(struct summary *summary)
{
	const struct report_total *total = summary->total;
	bool said[PURPOSE_COUNT] = {false};
	char number[32];

	for (int shown = 0; shown < PURPOSE_COUNT; shown++) {
		double most = 0.01 * total->spent_us;
		int at = -1;

		for (int i = 0; i < PURPOSE_COUNT; i++) {
			const double us = total->cost_us[i] + total->cost_gpu_us[i];

			if (!said[i] && us > most) {
				most = us;
				at = i;
			}
		}
		if (at < 0)
			return;
		said[at] = true;
		if (shown)
			more(summary, ", ");
		else
			start(summary, "spent on", TONE_PLAIN);
		more(summary, "%s %s", purpose_name(at),
		     format_duration(number, sizeof(number), most));
		if (total->cost_gpu_us[at] > 0)
			more(summary, " (%s of it the GPU's)",
			     format_duration(number, sizeof(number), total->cost_gpu_us[at]));
	}
}

static void say_shim(struct summary *summary)
{
	const struct report_total *total = summary->total;
	uint64_t scratch = 0;
	bool counted = false;
	char number[32];

	for (int i = 0; i < summary->report->set.count; i++) {
		const struct run_log *run = summary->report->set.runs[i];

		counted |= run->counted;
		if (run->scratch_peak > scratch)
			scratch = run->scratch_peak;
	}
	if (!counted)
		return;
	start(summary, "shim", TONE_PLAIN);
	if (!all_simulated(summary->report)) {
		more(summary, "%s on the host",
		     format_duration(number, sizeof(number), total->overhead_us));
		if (total->wall_us > 0)
			more(summary, " (%.2g%% of the run)",
			     100 * total->overhead_us / total->wall_us);
		more(summary, " to watch ");
	} else {
		more(summary, "watched ");
	}
	more(summary, "%s GEMMs", format_count(number, sizeof(number), total->gemms));
	more(summary, " and %s launches; %.4g MiB of device scratch at most",
	     format_count(number, sizeof(number), total->launches), (double)scratch / 1048576);
	if (!all_simulated(summary->report))
		say_costs(summary);
}

/* Copies of operands and outputs that a fused kernel does without. */
static void say_copies(struct summary *summary)
{
	const struct report_total *total = summary->total;
	const struct log_set *set = &summary->report->set;
	const char *by = "";
	char number[32];

	if (!total->copies_held && !total->copies_unfit)
		return;
	for (int i = 0; i < set->count && !*by; i++)
		by = set->runs[i]->copy_by;
	start(summary, "copies", TONE_PLAIN);
	more(summary, "%s left out", format_count(number, sizeof(number), total->copies_held));
	if (total->copies_made)
		more(summary, "; of these %s made after all",
		     format_count(number, sizeof(number), total->copies_made));
	if (total->copies_made && *by)
		more(summary, ", first for %s", by);
	if (total->copies_unfit)
		more(summary, "; %s kind%s in an order that no kernel reads",
		     format_count(number, sizeof(number), total->copies_unfit),
		     total->copies_unfit == 1 ? "" : "s");
}

/* While the GPU waits for the program there is nothing to gain; nor is watching all of it. */
static void say_rests(struct summary *summary)
{
	const struct report_total *total = summary->total;
	char number[32], took[32];

	if (!total->rests)
		return;
	start(summary, "stood aside", TONE_PLAIN);
	more(summary, "%s time%s, %s together", format_count(number, sizeof(number), total->rests),
	     total->rests == 1 ? "" : "s", format_duration(took, sizeof(took), total->rest_us));
	if (total->wall_us > 0)
		more(summary, " (%.0f %% of the run)", 100 * total->rest_us / total->wall_us);
	if (!strcmp(text_of(summary->report->set.runs[0]->header, "mode"), "audit"))
		more(summary, ", to cost the program little: what was called then is not counted; "
			      "FASHIM_BUDGET=0 counts all");
	else
		more(summary, ": the GPU waited for the program, which is no faster for a GPU that "
			      "does less; FASHIM_BUDGET=0 replaces all the same");
}

/* The shim's own errors: how many, and the first. */
static void say_errors(struct summary *summary)
{
	const struct log_set *set = &summary->report->set;

	for (int i = 0; i < set->count && summary->total->violations; i++) {
		if (!set->runs[i]->violations)
			continue;
		start(summary, "error", TONE_BAD);
		more(summary, "%llu of the shim's own, and it passed through; the first: %s",
		     (unsigned long long)summary->total->violations, set->runs[i]->violation);
		return;
	}
}

static void say_simulated(struct summary *summary)
{
	start(summary, "speed", TONE_PLAIN);
	more(summary, "not measured here: a CPU stand-in ran %s",
	     all_simulated(summary->report) ? "this" : "some of these");
}

int report_summary(const struct report *report, struct summary_line *lines)
{
	struct summary summary = {report, &report->total, lines, 0};

	say_sites(&summary);
	say_nothing_seen(&summary);
	if (say_calls(&summary) && !all_simulated(report))
		say_gain(&summary);
	say_ranks(&summary);
	if (report->total.simulated)
		say_simulated(&summary);
	say_drift(&summary);
	say_copies(&summary);
	say_rests(&summary);
	say_shim(&summary);
	say_errors(&summary);
	return summary.count;
}
