/* SPDX-License-Identifier: Apache-2.0
 *
 * How sure a ratio of two measured times is: the percentile bootstrap of the ratio of medians. The
 * seed is part of the call, so the same samples give the same interval on every machine.
 */
#ifndef FASHIM_BOOTSTRAP_H
#define FASHIM_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

enum {
	BOOTSTRAP_RESAMPLES = 10000,
	BOOTSTRAP_FEWEST = 5 /* below, resampling cannot show how far the next sample would lie */
};

#define BOOTSTRAP_SEED UINT64_C(0x66617368696d) /* any fixed number; what all commands use */

struct bootstrap_interval {
	double ratio;	  /* of the medians themselves; NAN when either side is empty */
	double low, high; /* the central 95 % of the resampled ratios; NAN when there is none */
};

/* median(numerator[0..n)) / median(denominator[0..m)) with its interval. The two sides are
 * resampled independently, BOOTSTRAP_RESAMPLES times; neither array is changed, any order will do.
 * 0; -ENODATA when a side has fewer than BOOTSTRAP_FEWEST values (ratio is still filled where both
 * have some); -EDOM when a value is not finite or not above zero; -ENOMEM. */
int bootstrap_ratio(const double *numerator, size_t n, const double *denominator, size_t m,
		    uint64_t seed, struct bootstrap_interval *interval);

/* One of several things that add up: how often it happens, and its time on both sides. */
struct bootstrap_part {
	const double *numerator;
	size_t n;
	const double *denominator;
	size_t m;
	double weight;
};

/* The same for sums over parts: sum(weight * median(numerator)) / sum(weight *
 * median(denominator)), every part resampled by itself. Errors as above, if any part has them;
 * -ENODATA also without parts. */
int bootstrap_sum_ratio(const struct bootstrap_part *parts, size_t count, uint64_t seed,
			struct bootstrap_interval *interval);

/* The median of values sorted upwards; NAN of none. */
double median_of_sorted(const double *values, size_t count);

/* Sorts upwards. */
void sort_values(double *values, size_t count);

#endif
