/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that a seed determines, on every machine alike.
 */
#ifndef FASHIM_RANDOM_H
#define FASHIM_RANDOM_H

#include <stdint.h>

/* The next number, by splitmix64: any seed is as good as any other. */
static inline uint64_t draw(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

#endif
