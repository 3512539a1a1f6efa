/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bin a value falls into.
 */
#include "tools/base/histogram.h"

#include <math.h>

struct histogram histogram_over(double low, double high, int bins, bool logarithmic)
{
	if (!(high > low)) {
		double width = low != 0 ? fabs(low) * 0.01 : 1;

		low -= width;
		high = low + 2 * width;
	}
	return (struct histogram){.low = low,
				  .high = high,
				  .logarithmic = logarithmic,
				  .bins = bins < MOST_BINS ? bins : MOST_BINS};
}

void histogram_add(struct histogram *histogram, double value)
{
	double low = histogram->low, high = histogram->high, place;
	int bin;

	if (isnan(value) || (histogram->logarithmic && value <= 0))
		return;
	if (histogram->logarithmic)
		place = log(value / low) / log(high / low);
	else
		place = (value - low) / (high - low);
	place = fmin(fmax(place, 0), 1) * histogram->bins;
	bin = place < histogram->bins ? (int)place : histogram->bins - 1;
	histogram->total++;
	if (++histogram->counts[bin] > histogram->largest)
		histogram->largest = histogram->counts[bin];
}
