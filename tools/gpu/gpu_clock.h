/* SPDX-License-Identifier: Apache-2.0
 *
 * How the GPU's clocks ran while something was timed: read in the background, never set. Where
 * NVIDIA's management library is missing there is simply nothing to tell.
 */
#ifndef FASHIM_GPU_CLOCK_H
#define FASHIM_GPU_CLOCK_H

#include "tools/gpu/gpu.h"

#include <jansson.h>

/* Starts to watch the GPU, ten times a second; NULL where that cannot be done. */
struct gpu_clock *gpu_clock_start(const struct gpu *gpu);

/* Stops and sums up: {"sm_mhz": [least, median, most], "memory_mhz", "power_w", "temperature_c"},
 * JSON null without samples. clock may be NULL. */
json_t *gpu_clock_stop(struct gpu_clock *clock);

/* The driver's version ("580.65.06") in buffer; "" where it cannot be told. Returns buffer. */
const char *gpu_driver_version(char *buffer, size_t size);

#endif
