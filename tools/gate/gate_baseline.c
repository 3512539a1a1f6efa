/* SPDX-License-Identifier: Apache-2.0
 *
 * Sites of the two logs go in pairs (site_match.h); every pair is held to each threshold.
 */
#include "tools/gate/gate_baseline.h"
#include "tools/gate/gate_check.h"
#include "tools/sites/report_names.h"
#include "tools/sites/site_match.h"
#include "tools/sites/site_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What a baseline measured, and how it is called. */
enum baseline_value { BASELINE_TIME, BASELINE_DRIFT };

static int compare_values(const struct site_pair *pair, enum baseline_value which,
			  struct bootstrap_interval *ratio)
{
	struct site_values old, new;
	int result = site_values_read(&old, pair->a);

	if (site_values_read(&new, pair->b))
		result = -ENOMEM;
	if (!result && which == BASELINE_TIME)
		result = bootstrap_ratio(new.fused, new.timed, old.fused, old.timed, BOOTSTRAP_SEED,
					 ratio);
	else if (!result)
		result = bootstrap_ratio(new.drift, new.drifts, old.drift, old.drifts,
					 BOOTSTRAP_SEED, ratio);
	site_values_free(&old);
	site_values_free(&new);
	return result == -ENOMEM ? result : 0;
}

static int check_growth(struct gate *gate, const struct site_pair *pair, enum baseline_value which)
{
	static const char *const words[][2] = {{"max-slowdown", "slower"},
					       {"max-drift-growth", "larger"}};
	const json_t *old = gate->baseline->set.runs[0]->header;
	const json_t *new = gate->report->set.runs[0]->header;
	bool other_gpu = strcmp(text_of(old, "gpu"), text_of(new, "gpu")) != 0;
	double limit =
		which == BASELINE_TIME ? gate->limits.max_slowdown : gate->limits.max_drift_growth;
	struct gate_check *check = gate_check_new(gate, words[which][0], pair->b, limit);

	if (!check || compare_values(pair, which, &check->measured))
		return -ENOMEM;
	check->samples = which == BASELINE_TIME ? pair->b->app.count : pair->b->site->samples;
	if (which == BASELINE_TIME && (other_gpu || gate->report->set.runs[0]->simulated))
		gate_decide(gate, check, GATE_SKIP, "%s",
			    other_gpu ? "times of different GPUs do not compare"
				      : "simulated times");
	else if (gate_out_of_use(pair->b))
		gate_decide(gate, check, GATE_SKIP, "not replaced: %s", pair->b->site->reason);
	else if (isnan(check->measured.low))
		gate_decide(gate, check, GATE_SKIP,
			    "an interval takes %d samples above zero in both logs",
			    BOOTSTRAP_FEWEST);
	else if (check->measured.low > limit)
		gate_decide(gate, check, GATE_FAIL,
			    "%s than the baseline: the 95 %% interval begins at %.3f",
			    words[which][1], check->measured.low);
	else
		gate_decide(gate, check, GATE_PASS, "the 95 %% interval begins at %.3f",
			    check->measured.low);
	return 0;
}

/* A site that was replaced and no longer is. */
static int check_kept(struct gate *gate, const struct site_pair *pair)
{
	const char *mode = text_of(gate->report->set.runs[0]->header, "mode");
	struct gate_check *check;
	char judgement[160];

	if (strcmp(report_verdict(pair->a), "replaced"))
		return 0;
	check = gate_check_new(gate, "still-replaced", pair->b ? pair->b : pair->a, NAN);
	if (!check)
		return -ENOMEM;
	if (!pair->b)
		gate_decide(gate, check, GATE_SKIP, "the baseline's; this log has no such site");
	else if (strcmp(mode, "replace"))
		gate_decide(gate, check, GATE_SKIP, "mode %.20s replaces nothing", mode);
	else if (!strcmp(report_verdict(pair->b), "replaced"))
		gate_decide(gate, check, GATE_PASS, "replaced in both");
	else
		gate_decide(gate, check, GATE_FAIL, "was replaced, is now %.100s",
			    report_judgement(pair->b, judgement, sizeof(judgement)));
	return 0;
}

int gate_check_baseline(struct gate *gate)
{
	const int judged = gate->tally[GATE_PASS] + gate->tally[GATE_FAIL];
	struct site_pair *pairs;
	struct gate_check *check;
	int count, common = 0;
	int result = site_match(gate->baseline, gate->report, &pairs, &count);

	for (int i = 0; i < count && !result; i++) {
		const struct site_pair *pair = &pairs[i];

		if (!pair->a)
			continue;
		result = check_kept(gate, pair);
		if (result || !pair->b)
			continue;
		common++;
		result = check_growth(gate, pair, BASELINE_TIME);
		if (!result)
			result = check_growth(gate, pair, BASELINE_DRIFT);
	}
	free(pairs);
	if (result || judged < gate->tally[GATE_PASS] + gate->tally[GATE_FAIL])
		return result;
	check = gate_check_new(gate, "baseline", NULL, NAN);
	if (!check)
		return -ENOMEM;
	gate_decide(gate, check, GATE_FAIL, "%s",
		    common ? "nothing of the baseline could be judged in this log"
			   : "no site of the baseline is in this log");
	return 0;
}
