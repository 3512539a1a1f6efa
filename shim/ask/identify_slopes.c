/* SPDX-License-Identifier: Apache-2.0
 *
 * The grid of rows that is looked at otherwise has some heads only: here it is the last row of
 * each, as many heads at a time as there are rows.
 */
#include <math.h>
#include <stdlib.h>

#include "shim/ask/identify_parts.h"

#define FLAT   0.02 /* so much of ln P along a row is no slope */
#define STEPS  16   /* of rounding, over the span of a row */
#define MOST_Z 65536

static bool is_flat(const struct fit_grid *grid, const struct observation *run)
{
	double slope, span;

	for (int r = 0; r < grid->rows; r++)
		if (fit_ramp(grid, run, r, &slope, &span) && fabs(slope) * span > FLAT)
			return false;
	return true;
}

/* The slopes of all Z, and over how many keys each was seen. */
static const char *measure(struct probe *probe, struct observation *run, double *slope,
			   double *span)
{
	const struct fit_grid usual = probe->grid;
	struct fit_grid *grid = &probe->grid;
	const char *why = NULL;

	for (int64_t z = 0; z < usual.Z && !why; z += grid->rows) {
		grid->rows = usual.Z - z < usual.rows ? (int)(usual.Z - z) : usual.rows;
		for (int r = 0; r < grid->rows; r++) {
			grid->row[r].z = z + r;
			grid->row[r].i = usual.Sq - 1;
		}
		if (!probe_run(probe, run))
			why = "the kernels could not be launched again";
		for (int r = 0; r < grid->rows && !why; r++)
			if (!fit_ramp(grid, run, r, &slope[z + r], &span[z + r]))
				why = "slopes of which too little is seen";
	}
	probe->grid = usual;
	return why;
}

const char *identify_slopes(struct probe *probe, const struct observation *plain, float *p,
			    double step, struct alibi *alibi)
{
	const int64_t Z = probe->grid.Z;
	struct observation run = *plain;
	const char *why = "no memory";
	double *slope;

	alibi->heads = 0;
	if (is_flat(&probe->grid, plain))
		return NULL;
	if (Z > MOST_Z)
		return "slopes of too many heads";
	run.p = p;
	slope = calloc((size_t)Z * 2, sizeof(*slope));
	if (slope)
		why = measure(probe, &run, slope, slope + Z);
	if (!why && !fit_alibi(slope, slope + Z, Z, STEPS * step, alibi))
		why = "equal scores do not come out equal, nor by slopes of a known form";
	free(slope);
	return why;
}
