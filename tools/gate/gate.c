/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks. What cannot be judged at a site (too few samples, a site that is not replaced) is
 * skipped there and said; a threshold that could be judged nowhere has not been kept.
 */
#include "tools/gate/gate.h"
#include "tools/gate/gate_baseline.h"
#include "tools/gate/gate_check.h"
#include "tools/sites/report_names.h"
#include "tools/sites/site_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gate_passed(const struct gate *gate)
{
	return gate->tally[GATE_FAIL] == 0;
}

const char *gate_verdict_name(enum gate_verdict verdict)
{
	static const char *const names[] = {"pass", "skip", "fail"};

	return names[verdict];
}

char *gate_title(const struct gate_check *check, char *buffer, size_t size)
{
	if (check->row)
		return site_title(check->row->site, buffer, size);
	snprintf(buffer, size, "all sites");
	return buffer;
}

bool gate_site(const struct gate *gate, const struct gate_check *check, char *buffer, size_t size)
{
	const struct report *report = gate->report;

	if (!check->row || check->row < report->rows ||
	    check->row >= report->rows + report->row_count)
		return false;
	report_site_name(report, check->row, buffer, size);
	return true;
}

static uint64_t timed_samples(const struct report_row *row)
{
	return row->app.count;
}

/* ---- max-ratio ----------------------------------------------------------------------------------
 */

/* The report's speed-up the other way up. */
static struct bootstrap_interval time_ratio(const struct report_row *row)
{
	return (struct bootstrap_interval){1 / row->speedup.ratio, 1 / row->speedup.high,
					   1 / row->speedup.low};
}

static void judge_ratio(struct gate *gate, struct gate_check *check)
{
	const struct bootstrap_interval *ratio = &check->measured;

	if (ratio->high <= check->limit)
		gate_decide(gate, check, GATE_PASS, "the 95 %% interval ends at %.3f", ratio->high);
	else if (ratio->ratio > check->limit)
		gate_decide(gate, check, GATE_FAIL, "the fused kernel takes %.3f of the app's time",
			    ratio->ratio);
	else
		gate_decide(gate, check, GATE_FAIL,
			    "the 95 %% interval reaches %.3f: more samples would narrow it "
			    "(FASHIM_SAMPLE, longer run)",
			    ratio->high);
}

static int check_total_ratio(struct gate *gate, const struct report_row *const *rows, size_t count)
{
	struct gate_check *check = gate_check_new(gate, "max-ratio", NULL, gate->limits.max_ratio);

	if (!check)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		check->samples += timed_samples(rows[i]);
	if (gate->report->total.simulated)
		gate_decide(gate, check, GATE_FAIL,
			    "a CPU stand-in ran this: its times say nothing about speed");
	else if (!gate->report->row_count)
		gate_decide(gate, check, GATE_FAIL, "no attention site was found");
	else if (!count)
		gate_decide(
			gate, check, GATE_FAIL,
			"no site has the %d timed samples that an interval takes (FASHIM_SAMPLE, "
			"mode compare)",
			BOOTSTRAP_FEWEST);
	else if (site_values_total(rows, count, &check->measured) == -ENOMEM)
		return -ENOMEM;
	else
		judge_ratio(gate, check);
	return 0;
}

static int check_ratio(struct gate *gate)
{
	const struct report *report = gate->report;
	const struct report_row **judged =
		calloc((size_t)report->row_count + 1, sizeof(const struct report_row *));
	size_t count = 0;
	int result = judged ? 0 : -ENOMEM;

	for (int i = 0; i < report->row_count && !result; i++) {
		const struct report_row *row = &report->rows[i];
		struct gate_check *check =
			gate_check_new(gate, "max-ratio", row, gate->limits.max_ratio);

		if (!check) {
			result = -ENOMEM;
			break;
		}
		check->samples = timed_samples(row);
		if (report->total.simulated) {
			gate_decide(gate, check, GATE_SKIP, "simulated times");
			continue;
		}
		check->measured = time_ratio(row);
		if (gate_out_of_use(row)) {
			gate_decide(gate, check, GATE_SKIP, "not replaced: %s", row->site->reason);
		} else if (isnan(check->measured.high)) {
			gate_decide(gate, check, GATE_SKIP,
				    "%llu timed samples; an interval takes %d",
				    (unsigned long long)check->samples, BOOTSTRAP_FEWEST);
		} else {
			judge_ratio(gate, check);
			judged[count++] = row;
		}
	}
	if (!result)
		result = check_total_ratio(gate, judged, count);
	free(judged);
	return result;
}

/* ---- max-drift ----------------------------------------------------------------------------------
 */

static int check_drift(struct gate *gate)
{
	const struct report *report = gate->report;
	struct gate_check *check;
	int judged = 0;

	for (int i = 0; i < report->row_count; i++) {
		const struct report_row *row = &report->rows[i];
		const struct site_log *site = row->site;

		check = gate_check_new(gate, "max-drift", row, gate->limits.max_drift);
		if (!check)
			return -ENOMEM;
		check->samples = site->samples;
		check->measured.ratio = site->max_rel;
		if (gate_out_of_use(row)) {
			gate_decide(gate, check, GATE_SKIP, "not replaced: %s", site->reason);
			continue;
		}
		if (isnan(site->max_rel)) {
			gate_decide(gate, check, GATE_SKIP, "no sample tells its drift");
			continue;
		}
		judged++;
		if (site->nonfinite)
			gate_decide(gate, check, GATE_FAIL,
				    "%llu elements were NaN or infinite on one side only",
				    (unsigned long long)site->nonfinite);
		else if (site->max_rel <= check->limit)
			gate_decide(gate, check, GATE_PASS, "the worst of %llu samples",
				    (unsigned long long)site->samples);
		else
			gate_decide(gate, check, GATE_FAIL,
				    "call %llu, element %.0f: app %.6g, fused %.6g",
				    (unsigned long long)site->worst.occurrence,
				    site->worst.worst_index, site->worst.worst_app,
				    site->worst.worst_fused);
	}
	if (judged)
		return 0;
	check = gate_check_new(gate, "max-drift", NULL, gate->limits.max_drift);
	if (!check)
		return -ENOMEM;
	gate_decide(gate, check, GATE_FAIL, "no site in use was compared");
	return 0;
}

/* ---- min-replaced -------------------------------------------------------------------------------
 */

static int check_replaced(struct gate *gate)
{
	const struct report_total *total = &gate->report->total;
	struct gate_check *check =
		gate_check_new(gate, "min-replaced", NULL, gate->limits.min_replaced);
	uint64_t calls = total->calls - total->compared;
	const char *mode = text_of(gate->report->set.runs[0]->header, "mode");
	double share = calls ? (double)total->replaced / (double)calls : NAN;

	if (!check)
		return -ENOMEM;
	if (!total->counted) {
		gate_decide(gate, check, GATE_FAIL, "the log was cut short and has no counters");
		return 0;
	}
	check->measured.ratio = share;
	if (!calls)
		gate_decide(gate, check, GATE_FAIL, "no call of attention was seen%s",
			    total->compared ? " that was not compared" : "");
	else if (share >= check->limit)
		gate_decide(gate, check, GATE_PASS, "%llu of %llu calls",
			    (unsigned long long)total->replaced, (unsigned long long)calls);
	else if (strcmp(mode, "replace"))
		gate_decide(gate, check, GATE_FAIL, "mode %.20s replaces nothing", mode);
	else
		gate_decide(gate, check, GATE_FAIL, "%llu of %llu calls; 'fashim report' tells why",
			    (unsigned long long)total->replaced, (unsigned long long)calls);
	return 0;
}

int gate_build(struct gate *gate)
{
	const struct {
		bool asked;
		int (*check)(struct gate *gate);
	} checks[] = {
		{!isnan(gate->limits.max_ratio), check_ratio},
		{!isnan(gate->limits.max_drift), check_drift},
		{!isnan(gate->limits.min_replaced), check_replaced},
		{gate->baseline != NULL, gate_check_baseline},
	};
	int result = 0;

	for (size_t i = 0; i < sizeof(checks) / sizeof(*checks) && !result; i++) {
		if (checks[i].asked)
			result = checks[i].check(gate);
	}
	return result;
}

void gate_free(struct gate *gate)
{
	free(gate->checks);
	gate->checks = NULL;
}
