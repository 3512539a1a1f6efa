/* SPDX-License-Identifier: Apache-2.0
 *
 * A warp, or three of a stretch, run from where they are to their end.
 */
#ifndef FASHIM_THREADS_WARP_H
#define FASHIM_THREADS_WARP_H

#include "shim/code/threads_touch.h"

/* 0; -EINVAL: what it touches does not follow from the parameters, or is not understood; -EAGAIN:
 * in a stretch of fewer blocks; -E2BIG: it takes more instructions, or time; -ENOMEM. */
int threads_run_warp(struct threads *threads);

#endif
