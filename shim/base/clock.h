/* SPDX-License-Identifier: Apache-2.0
 *
 * What time it is.
 */
#ifndef FASHIM_CLOCK_H
#define FASHIM_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC to wait by and to measure, CLOCK_REALTIME to tell people. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#endif
