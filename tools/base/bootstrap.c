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

/* Which of n sorted values a resample's median lies between; of an odd n both are the same. */
struct middle {
	uint32_t below, above;
};

static uint32_t place_of(double position, size_t count)
{
	const size_t index = (size_t)(position * (double)count);

	return (uint32_t)(index < count ? index : count - 1);
}

static struct middle draw_middle(struct generator *generator, size_t count)
{
	const size_t half = count / 2;
	double below, between, above, total;
	uint32_t place;

	if (count % 2) {
		below = draw_gamma(generator, (double)half + 1);
		above = draw_gamma(generator, (double)half + 1);
		place = place_of(below / (below + above), count);
		return (struct middle){place, place};
	}
	below = draw_gamma(generator, (double)half);
	between = draw_exponential(generator);
	above = draw_gamma(generator, (double)half);
	total = below + between + above;
	return (struct middle){place_of(below / total, count),
			       place_of((below + between) / total, count)};
}

static double median_at(const double *sorted, struct middle middle)
{
	return (sorted[middle.below] + sorted[middle.above]) / 2;
}

/* What is drawn for two arrays depends on how many values these have, not on the values: sites with
 * as many samples share it. */
struct drawing {
	uint64_t seed;
	size_t n, m;
	struct middle (*middles)[2]; /* numerator, denominator; NULL: nothing is drawn yet */
};

static const struct drawing *drawing_of(size_t n, size_t m, uint64_t seed)
{
	static struct drawing kept[64];
	struct drawing *drawing = &kept[n % (sizeof(kept) / sizeof(*kept))];
	struct generator generator = generator_of(seed);

	if (drawing->middles && drawing->n == n && drawing->m == m && drawing->seed == seed)
		return drawing;
	if (!drawing->middles)
		drawing->middles = calloc(BOOTSTRAP_RESAMPLES, sizeof(*drawing->middles));
	if (!drawing->middles)
		return NULL;
	drawing->seed = seed;
	drawing->n = n;
	drawing->m = m;
	for (int i = 0; i < BOOTSTRAP_RESAMPLES; i++) {
		drawing->middles[i][0] = draw_middle(&generator, n);
		drawing->middles[i][1] = draw_middle(&generator, m);
	}
	return drawing;
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
		const size_t n = parts[p].n, m = parts[p].m;

		sorted = denominator + m;
		above += parts[p].weight *
			 (generator ? median_at(numerator, draw_middle(generator, n))
				    : median_of_sorted(numerator, n));
		below += parts[p].weight *
			 (generator ? median_at(denominator, draw_middle(generator, m))
				    : median_of_sorted(denominator, m));
	}
	return above / below;
}

/* BOOTSTRAP_RESAMPLES of them. */
static int resample(double *ratios, const double *sorted, const struct bootstrap_part *parts,
		    size_t count, uint64_t seed)
{
	struct generator generator = generator_of(seed);
	const double *denominator = sorted + parts[0].n;
	const struct drawing *drawing;

	if (count > 1) {
		for (int i = 0; i < BOOTSTRAP_RESAMPLES; i++)
			ratios[i] = summed_ratio(&generator, sorted, parts, count);
		return 0;
	}
	drawing = drawing_of(parts[0].n, parts[0].m, seed);
	if (!drawing)
		return -ENOMEM;
	for (int i = 0; i < BOOTSTRAP_RESAMPLES; i++)
		ratios[i] = median_at(sorted, drawing->middles[i][0]) /
			    median_at(denominator, drawing->middles[i][1]);
	return 0;
}

/* Puts the value that sorting would put at values[wanted] there, no larger one before it, and no
 * smaller one behind it (Hoare's selection). */
static double select_value(double *values, long first, long last, long wanted)
{
	while (first < last) {
		const double pivot = values[wanted];
		long i = first, j = last;

		while (i <= j) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i <= j) {
				const double value = values[i];

				values[i++] = values[j];
				values[j--] = value;
			}
		}
		if (j < wanted)
			first = i;
		if (wanted < i)
			last = j;
	}
	return values[wanted];
}

int bootstrap_sum_ratio(const struct bootstrap_part *parts, size_t count, uint64_t seed,
			struct bootstrap_interval *interval)
{
	const long edge = BOOTSTRAP_RESAMPLES / 40, last = BOOTSTRAP_RESAMPLES - 1;
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
	result = resample(ratios, sorted, parts, count, seed);
	if (result)
		goto out;
	interval->low = select_value(ratios, 0, last, edge);
	interval->high = select_value(ratios, edge, last, last - edge);
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
