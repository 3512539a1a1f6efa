/* SPDX-License-Identifier: Apache-2.0
 *
 * Values counted in bins of equal width, of the values or of their logarithms.
 */
#ifndef FASHIM_HISTOGRAM_H
#define FASHIM_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_BINS = 64 };

struct histogram {
	double low, high; /* the range; below and above it counts as its first and last bin */
	bool logarithmic;
	int bins;
	uint64_t counts[MOST_BINS];
	uint64_t largest; /* count of the fullest bin */
	uint64_t total;
};

/* An empty one over [low, high]; logarithmic needs low > 0. A range without width gets one. */
struct histogram histogram_over(double low, double high, int bins, bool logarithmic);

/* NAN, and on a logarithmic scale what is not above zero, counts nowhere. */
void histogram_add(struct histogram *histogram, double value);

#endif
