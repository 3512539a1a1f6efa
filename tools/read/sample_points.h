/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a site in bounded space, for what needs more than sums: intervals, histograms,
 * curves over the run. All of them while they are few; then every second, fourth, … of them, spread
 * evenly over the run.
 */
#ifndef FASHIM_SAMPLE_POINTS_H
#define FASHIM_SAMPLE_POINTS_H

#include "tools/read/sample_scan.h"

#include <stdbool.h>

enum { MOST_POINTS = 2048 };

/* One sample, or several in a row: the times are the first's, the errors the largest of all. */
struct sample_point {
	uint64_t occurrence;
	bool warm_up; /* a run's first timed sample, which pays for loading code */
	double app_us, fused_us;
	double max_rel;
	double app_rmse, fused_rmse, app_max, fused_max;
};

struct sample_points {
	struct sample_point *points;
	size_t count, size;
	uint64_t stride; /* samples for each point; 0 while there is none */
	uint64_t inside; /* samples in the last point */
};

/* 0 or -ENOMEM. */
int sample_points_add(struct sample_points *points, const struct sample *sample, bool warm_up);

/* Appends the points of another run of the same site; there may be more than MOST_POINTS then. 0 or
 * -ENOMEM. */
int sample_points_join(struct sample_points *points, const struct sample_points *others);

void sample_points_free(struct sample_points *points);

#endif
