/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floating point for plain C: storage as uint16_t, conversion to and from float, round to
 * nearest even. The commands that measure fill operands with it; the simulated cuBLAS and the
 * programs in tests/apps compute with it.
 */
#ifndef FASHIM_HALF_H
#define FASHIM_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float bits_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline float f16_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;
	float magnitude;

	if (rest >= 0x7c00)
		return bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
	magnitude = bits_float((rest << 13) + (rest < 0x400 ? 0 : 0x38000000));
	if (rest < 0x400) /* subnormal: a small integer times 2^-24 */
		magnitude = (float)rest * 0x1p-24f;
	return bits_float(sign | float_bits(magnitude));
}

static inline uint16_t float_to_f16(float f)
{
	uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;

	if (rest > 0x7f800000)
		return (uint16_t)(sign | 0x7fff);
	if (rest >= 0x477ff000) /* half of the last step above 65504 */
		return (uint16_t)(sign | 0x7c00);
	if (rest < 0x38800000) /* below 2^-14: adding 0.5 leaves the result in the low bits */
		return (uint16_t)(sign | (float_bits(bits_float(rest) + 0.5f) - 0x3f000000));
	rest += 0xfff + (rest >> 13 & 1);
	return (uint16_t)(sign | (rest - 0x38000000) >> 13);
}

static inline float bf16_to_float(uint16_t b)
{
	return bits_float((uint32_t)b << 16);
}

static inline uint16_t float_to_bf16(float f)
{
	uint32_t u = float_bits(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return 0x7fff;
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#endif
