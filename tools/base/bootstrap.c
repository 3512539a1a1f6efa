/* SPDX-License-Identifier: Apache-2.0
 *
 * A resample of n values is n indices drawn with replacement, and its median depends on the middle
 * one or two of them alone. These can be drawn without the others: the order statistics of n
 * uniform numbers are the running sums of n + 1 exponential numbers over their total, and a sum of
 * k exponential numbers is one gamma number of shape k. So a resample costs the same for five
 * samples as for five thousand, and its distribution is that of drawing all n.
 */
#include "tools/base/bootstrap.h"
#include "tools/base/random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* xorshift64*, seeded through a mixer so that small seeds are as good as any. */
struct generator {
	uint64_t state;
};

static struct generator generator_of(uint64_t seed)
{
	const uint64_t state = draw(&seed);

	return (struct generator){state ? state : 1};
}

/* Uniform in (0, 1), neither end included. */
static double draw_uniform(struct generator *generator)
{
	uint64_t x = generator->state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	generator->state = x;
	return ((double)((x * UINT64_C(0x2545f4914f6cdd1d)) >> 12) + 0.5) / 4503599627370496.0;
}

static double draw_exponential(struct generator *generator)
{
	return -log(draw_uniform(generator));
}

/* Standard normal, by the polar method; its second number is not kept. */
static double draw_normal(struct generator *generator)
{
	double x, y, square;

	do {
		x = 2 * draw_uniform(generator) - 1;
		y = 2 * draw_uniform(generator) - 1;
		square = x * x + y * y;
	} while (square >= 1 || square == 0);
	return x * sqrt(-2 * log(square) / square);
}

/* Gamma of a whole shape >= 1, by Marsaglia and Tsang: a normal number bent to shape, nearly always
 * accepted, and nearly always without taking logarithms to know it. */
static double draw_gamma(struct generator *generator, double shape)
{
	double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

	for (;;) {
		double x = draw_normal(generator), v = 1 + c * x, u;

		if (v <= 0)
			continue;
		v = v * v * v;
		u = draw_uniform(generator);
		if (u < 1 - 0.0331 * x * x * x * x || log(u) < 0.5 * x * x + d - d * v + d * log(v))
			return d * v;
	}
}

static double value_at(const double *values, size_t count, double position)
{
	size_t index = (size_t)(position * (double)count);

	return values[index < count ? index : count - 1];
}

/* The median of one resample of sorted values. */
static double resampled_median(struct generator *generator, const double *values, size_t count)
{
	size_t half = count / 2;
	double below, between, above, total;

	if (count % 2) {
		below = draw_gamma(generator, (double)half + 1);
		above = draw_gamma(generator, (double)half + 1);
		return value_at(values, count, below / (below + above));
	}
	below = draw_gamma(generator, (double)half);
	between = draw_exponential(generator);
	above = draw_gamma(generator, (double)half);
	total = below + between + above;
	return (value_at(values, count, below / total) +
		value_at(values, count, (below + between) / total)) /
	       2;
}

static int ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

void sort_values(double *values, size_t count)
{
	if (count)
		qsort(values, count, sizeof(*values), ascending);
}

double median_of_sorted(const double *values, size_t count)
{
	if (!count)
		return NAN;
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* A sorted copy into `to`. -EDOM for values that are no times. */
static int take_sorted(double *to, const double *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!isfinite(from[i]) || from[i] <= 0)
			return -EDOM;
		to[i] = from[i];
	}
	sort_values(to, count);
	return 0;
}

/* Sorted copies of all parts, one behind the other: numerator, denominator, numerator, … */
static int sort_parts(double *sorted, const struct bootstrap_part *parts, size_t count)
{
	int result = 0;

	for (size_t p = 0; p < count && !result; p++) {
		result = take_sorted(sorted, parts[p].numerator, parts[p].n);
		sorted += parts[p].n;
		if (!result)
			result = take_sorted(sorted, parts[p].denominator, parts[p].m);
		sorted += parts[p].m;
	}
	return result;
}

/* One resample of all parts, or, without a generator, the parts as they are. */
static double summed_ratio(struct generator *generator, const double *sorted,
			   const struct bootstrap_part *parts, size_t count)
{
	double above = 0, below = 0;

	for (size_t p = 0; p < count; p++) {
		const double *numerator = sorted, *denominator = numerator + parts[p].n;

		sorted = denominator + parts[p].m;
		above += parts[p].weight *
			 (generator ? resampled_median(generator, numerator, parts[p].n)
				    : median_of_sorted(numerator, parts[p].n));
		below += parts[p].weight *
			 (generator ? resampled_median(generator, denominator, parts[p].m)
				    : median_of_sorted(denominator, parts[p].m));
	}
	return above / below;
}

int bootstrap_sum_ratio(const struct bootstrap_part *parts, size_t count, uint64_t seed,
			struct bootstrap_interval *interval)
{
	struct generator generator = generator_of(seed);
	size_t values = 0, fewest = SIZE_MAX;
	double *sorted, *ratios;
	int result;

	*interval = (struct bootstrap_interval){NAN, NAN, NAN};
	for (size_t p = 0; p < count; p++) {
		values += parts[p].n + parts[p].m;
		fewest = parts[p].n < fewest ? parts[p].n : fewest;
		fewest = parts[p].m < fewest ? parts[p].m : fewest;
	}
	sorted = calloc(values + BOOTSTRAP_RESAMPLES, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	ratios = sorted + values;
	result = sort_parts(sorted, parts, count);
	if (result)
		goto out;
	interval->ratio = summed_ratio(NULL, sorted, parts, count);
	result = -ENODATA;
	if (!count || fewest < BOOTSTRAP_FEWEST)
		goto out;
	for (int i = 0; i < BOOTSTRAP_RESAMPLES; i++)
		ratios[i] = summed_ratio(&generator, sorted, parts, count);
	sort_values(ratios, BOOTSTRAP_RESAMPLES);
	interval->low = ratios[BOOTSTRAP_RESAMPLES / 40];
	interval->high = ratios[BOOTSTRAP_RESAMPLES - 1 - BOOTSTRAP_RESAMPLES / 40];
	result = 0;
out:
	free(sorted);
	return result;
}

int bootstrap_ratio(const double *numerator, size_t n, const double *denominator, size_t m,
		    uint64_t seed, struct bootstrap_interval *interval)
{
	const struct bootstrap_part whole = {numerator, n, denominator, m, 1};

	return bootstrap_sum_ratio(&whole, 1, seed, interval);
}
