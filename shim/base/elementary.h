/* SPDX-License-Identifier: Apache-2.0
 *
 * The few elementary functions that the shim computes on the host. It is loaded into programs that
 * may not have a maths library, so it brings its own: double precision but for the last digits.
 */
#ifndef FASHIM_ELEMENTARY_H
#define FASHIM_ELEMENTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 2^n, for normal numbers; beyond them 0 or infinity. */
static inline double power_of_two(int n)
{
	const uint64_t bits = (uint64_t)(n < -1022 ? 0 : n > 1023 ? 0x7ff : n + 1023) << 52;
	double power;

	memcpy(&power, &bits, sizeof(power));
	return power;
}

/* x = part * 2^n with 1 <= |part| < 2; x is normal. Gives n. */
static inline int exponent_of(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (int)(bits >> 52 & 0x7ff) - 1023;
}

/* To the nearest whole number, for |x| < 2^51. */
static inline double nearest(double x)
{
	const double large = 0x1.8p52;
	volatile double sum = x + large; /* not to be simplified */

	return sum - large;
}

static inline double exp_of(double x)
{
	double n, rest, sum = 1;

	if (!(x > -700)) /* minus infinity, too; what is not a number stays so */
		return x <= -700 ? 0 : x;
	if (x > 700)
		return INFINITY;
	n = nearest(x / 0.69314718055994530942);
	rest = x - n * 0.693147180369123816490 - n * 1.90821492927058770002e-10;
	for (int k = 14; k > 0; k--)
		sum = 1 + sum * rest / k;
	return sum * power_of_two((int)n);
}

/* x > 0 and normal */
static inline double log_of(double x)
{
	int n = exponent_of(x);
	double part = x * power_of_two(-n), t, square, sum = 0;

	if (part > 1.41421356237309504880) {
		part /= 2;
		n++;
	}
	t = (part - 1) / (part + 1);
	square = t * t;
	for (int k = 23; k > 0; k -= 2)
		sum = sum * square + 1.0 / k;
	return n * 0.69314718055994530942 + 2 * t * sum;
}

static inline double tanh_of(double x)
{
	const double e = exp_of(x < 0 ? 2 * x : -2 * x), y = (1 - e) / (1 + e);

	return x < 0 ? -y : y;
}

static inline double larger(double a, double b)
{
	return a > b ? a : b;
}

#endif
