/* SPDX-License-Identifier: Apache-2.0
 *
 * A log judged against thresholds: one check a site and threshold, each with what was measured,
 * what was allowed, and why it passed or did not.
 */
#ifndef FASHIM_GATE_H
#define FASHIM_GATE_H

#include "tools/base/bootstrap.h"
#include "tools/sites/report.h"

/* NAN: not asked for. */
struct gate_limits {
	double max_ratio;	 /* fused time / app time: the interval's upper end */
	double max_drift;	 /* largest max_rel of the samples */
	double min_replaced;	 /* share of the calls that were not measured instead */
	double max_slowdown;	 /* fused time / the baseline's: the interval's lower end */
	double max_drift_growth; /* drift / the baseline's: the interval's lower end */
};

enum gate_verdict { GATE_PASS, GATE_SKIP, GATE_FAIL };

struct gate_check {
	const char *name;	      /* of the threshold: "max-ratio" */
	const struct report_row *row; /* NULL: all sites together */
	enum gate_verdict verdict;
	double limit;			    /* NAN: the check has none */
	struct bootstrap_interval measured; /* low and high NAN where only one value counts */
	uint64_t samples;
	char why[160];
};

struct gate {
	const struct report *report, *baseline; /* baseline: NULL without one */
	struct gate_limits limits;
	struct gate_check *checks;
	int count;
	int tally[3]; /* by verdict */
};

/* Makes the checks; the reports must outlive them. 0 or -ENOMEM; gate_free() in both cases. */
int gate_build(struct gate *gate);
void gate_free(struct gate *gate);

/* Whether no check failed. */
bool gate_passed(const struct gate *gate);

const char *gate_verdict_name(enum gate_verdict verdict);

/* "[8,12,512,512,64] f16, mask none", or "all sites". Returns buffer. */
char *gate_title(const struct gate_check *check, char *buffer, size_t size);

/* The site's number in the log that is judged; false where the check is of none, or of one that
 * only the baseline has. */
bool gate_site(const struct gate *gate, const struct gate_check *check, char *buffer, size_t size);

/* The forms, on stdout. */
void gate_table(const struct gate *gate, bool color);
void gate_markdown(const struct gate *gate);
void gate_csv(const struct gate *gate);
void gate_json(const struct gate *gate);
void gate_junit(const struct gate *gate);

#endif
