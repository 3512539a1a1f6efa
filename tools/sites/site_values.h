/* SPDX-License-Identifier: Apache-2.0
 *
 * The measured values of a site as plain arrays, which is how statistics wants them, and its name.
 */
#ifndef FASHIM_SITE_VALUES_H
#define FASHIM_SITE_VALUES_H

#include "tools/base/bootstrap.h"
#include "tools/sites/report.h"

struct site_values {
	double *app, *fused; /* us, in pairs; without the first of a run where that is left out */
	size_t timed;
	double *drift; /* max_rel of the samples */
	size_t drifts;
};

/* 0 or -ENOMEM. For site_values_free(), in both cases. */
int site_values_read(struct site_values *values, const struct report_row *row);
void site_values_free(struct site_values *values);

/* The time of a call of all `count` sites together, fused / app: every site weighs as its calls do.
 * The interval is unknown unless every site has BOOTSTRAP_FEWEST timed samples. 0 or -errno as
 * bootstrap_sum_ratio(). */
int site_values_total(const struct report_row *const *rows, size_t count,
		      struct bootstrap_interval *interval);

/* "[B,H,Sq,Sk,D] f16, mask none"; "site 3" where the log has no site record. Returns buffer. */
char *site_title(const struct site_log *site, char *buffer, size_t size);

#endif
