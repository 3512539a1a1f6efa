/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges for a profiler: what the shim launches shows up under its own name in the timeline of a
 * tool that listens to NVTX, such as Nsight Systems. Without such a tool in the process nothing is
 * loaded and nothing is called.
 */
#ifndef FASHIM_NVTX_H
#define FASHIM_NVTX_H

#include <stdbool.h>

#include "kernels/attention.h"

/* Looks for the tool, until one was found or there can be none; costs a load then. Runs code of the
 * tool: not with the flow lock held. */
void nvtx_look(void);

/* Around a launch, on the same thread. what: "fused" or "compare". Push says whether anybody hears
 * it, which pop is told. */
bool nvtx_push(const char *what, const struct attn_variant *variant, const struct attn_args *args);
void nvtx_pop(bool pushed);

#endif
