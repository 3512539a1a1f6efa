/* SPDX-License-Identifier: Apache-2.0
 *
 * Slopes that a kernel computes from the number of the head: there is no input to vary, but ln P of
 * equal scores shows them as straight lines. They are measured for every head, and must all be
 * those of a progression that programs use, times one weight: it is the progression that is
 * computed with, not what was measured.
 */
#include "shim/ask/fit.h"

#include <math.h>

#include "shim/base/elementary.h"
#include "shim/ask/fit_parts.h"

#define FEWEST 4 /* keys that a line goes through */

bool fit_ramp(const struct fit_grid *grid, const struct observation *run, int row, double *slope,
	      double *span)
{
	const float *p = fit_row(grid, run, row);
	double x = 0, y = 0, xx = 0, xy = 0;
	int64_t count = 0;

	for (int64_t j = 0; j < grid->Sk; j++) {
		if (!(p[j] > FIT_FINE))
			continue;
		x += (double)j;
		y += log_of((double)p[j]);
		xx += (double)(j * j);
		xy += (double)j * log_of((double)p[j]);
		count++;
	}
	if (count < FEWEST)
		return false;
	*slope = (xy - x * y / (double)count) / (xx - x * x / (double)count);
	*span = (double)count;
	return true;
}

static double plain_slope(const struct alibi *alibi, int64_t z)
{
	const float exponent =
		attn_slope_exponent((int32_t)(z % alibi->heads), alibi->first, (float)alibi->most);

	return exp_of((double)exponent * 0.69314718055994530942);
}

double fit_alibi_slope(const struct alibi *alibi, int64_t z)
{
	return alibi->heads ? alibi->weight * plain_slope(alibi, z) : 0;
}

/* With the best weight, are all of them where they should be? */
static bool agrees(const double *slope, const double *span, int64_t Z, double step,
		   struct alibi *alibi)
{
	double both = 0, own = 0;

	for (int64_t z = 0; z < Z; z++) {
		const double plain = plain_slope(alibi, z);

		both += plain * slope[z] * span[z] * span[z];
		own += plain * plain * span[z] * span[z];
	}
	alibi->weight = both / own;
	for (int64_t z = 0; z < Z; z++)
		if (!(fabs(slope[z] - fit_alibi_slope(alibi, z)) * span[z] < step))
			return false;
	return true;
}

bool fit_alibi(const double *slope, const double *span, int64_t Z, double step, struct alibi *alibi)
{
	static const double most[] = {8, 16, 4};

	for (int32_t heads = 1; heads <= Z; heads++)
		for (int n = 0; n < 6 && Z % heads == 0; n++) {
			*alibi =
				(struct alibi){.heads = heads, .first = heads, .most = most[n / 2]};
			/* the largest power of two, or all */
			if (n % 2 == 0)
				alibi->first = (int32_t)power_of_two(exponent_of((double)heads));
			if (agrees(slope, span, Z, step, alibi))
				return true;
		}
	alibi->heads = 0;
	return false;
}
