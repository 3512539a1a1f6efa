/* SPDX-License-Identifier: Apache-2.0
 *
 * A series of measurements in fixed space: count, mean and spread by Welford's update, which does
 * not lose digits as sums of squares do.
 */
#ifndef FASHIM_SERIES_H
#define FASHIM_SERIES_H

#include <math.h>
#include <stdint.h>

struct series {
	uint64_t count;
	double mean, m2, min, max;
};

static inline void series_add(struct series *series, double value)
{
	double delta = value - series->mean;

	if (!series->count || value < series->min)
		series->min = value;
	if (!series->count || value > series->max)
		series->max = value;
	series->count++;
	series->mean += delta / (double)series->count;
	series->m2 += delta * (value - series->mean);
}

/* Adds all that `others` saw. */
static inline void series_join(struct series *series, const struct series *others)
{
	double delta = others->mean - series->mean;
	double count = (double)(series->count + others->count);

	if (!others->count)
		return;
	if (!series->count) {
		*series = *others;
		return;
	}
	series->mean += delta * (double)others->count / count;
	series->m2 +=
		others->m2 + delta * delta * (double)series->count * (double)others->count / count;
	series->min = others->min < series->min ? others->min : series->min;
	series->max = others->max > series->max ? others->max : series->max;
	series->count += others->count;
}

/* Sample standard deviation; NAN below two values, where there is none. */
static inline double series_deviation(const struct series *series)
{
	return series->count > 1 ? sqrt(series->m2 / (double)(series->count - 1)) : NAN;
}

#endif
