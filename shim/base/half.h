/* SPDX-License-Identifier: Apache-2.0
 *
 * IEEE half precision, from its bits and to them.
 */
#ifndef FASHIM_HALF_H
#define FASHIM_HALF_H

#include <stdint.h>
#include <string.h>

static inline double half_value(uint16_t bits)
{
	const int exponent = bits >> 10 & 31, fraction = bits & 1023;
	double value;

	if (exponent == 31)
		value = fraction ? __builtin_nan("") : __builtin_inf();
	else if (exponent)
		value = (1024 + fraction) * (double)(1u << exponent) / (1 << 25);
	else
		value = fraction / (double)(1 << 24);
	return bits & 0x8000 ? -value : value;
}

/* Of a number that a half holds, or that may lose the rest of its fraction. */
static inline uint16_t half_bits(float value)
{
	uint32_t bits;
	int exponent;

	memcpy(&bits, &value, 4);
	exponent = (int)(bits >> 23 & 255) - 127 + 15;
	if (exponent <= 0) /* zero, or a subnormal half */
		return (uint16_t)(bits >> 16 & 0x8000) |
		       (uint16_t)(exponent < -10
					  ? 0
					  : ((bits & 0x7fffff) | 0x800000) >> (14 - exponent));
	if (exponent > 31)
		exponent = 31;
	return (uint16_t)((bits >> 16 & 0x8000) | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff));
}

/* Of any number: to nearest, to even. */
static inline uint16_t half_nearest(float value)
{
	const float size = value < 0 ? -value : value, half = 0.5f;
	const float small = size + half; /* a unit of it is the smallest half */
	uint32_t bits, low, base, sign;

	memcpy(&bits, &value, 4);
	memcpy(&low, &small, 4);
	memcpy(&base, &half, 4);
	sign = bits >> 16 & 0x8000;
	if (value != value)
		return 0x7e00;
	if (size >= 65520.0f)
		return (uint16_t)(sign | 0x7c00);
	if (size < 0x1p-14f)
		return (uint16_t)(sign | (low - base));
	bits &= 0x7fffffff;
	bits = (bits + 0xfff + (bits >> 13 & 1)) >> 13;
	return (uint16_t)(sign | (bits - (112u << 10)));
}

#endif
