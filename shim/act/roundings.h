/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a program's rounding is asked of the kernel. A program that stores each step in 16
 * bits rounds its scores, and P once that is divided by its sum; a fused kernel has no need to. It
 * is asked for as much as it takes for O to stay where it was:
 *
 *   nothing      fp16, at first
 *   the scores   bf16, at first: of a score 8 bits are left, so that as scores grow, after weeks of
 *                training or with the next input, they soon decide what O is, which no comparison
 *                made before foresees. Kernels do it in registers.
 *   P, too       where O moved too far without, and where next to nothing may move it
 *                (comparison_wanted())
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_ROUNDINGS_H
#define FASHIM_ROUNDINGS_H

#include <cuda.h>

#include "kernels/attention.h"
#include "shim/site/site.h"

/* For a site that is being learned, args->spec.round_s being all that its program rounds: is there
 * a kernel that can, and what shall it round? That is left in args->spec.round_s. */
void roundings_note(struct site *site, CUcontext context, struct attn_args *args);

/* From now on the site's kernel shall round all that the program does. false: it does, or none can.
 */
bool roundings_more(struct site *site);

/* Are there any that it was not asked for yet? */
bool roundings_left(const struct site *site);

#endif
