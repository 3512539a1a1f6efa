/* SPDX-License-Identifier: Apache-2.0
 *
 * From a form back to a call: operands of that form, side by side in one piece of memory.
 */
#ifndef FASHIM_TUNE_LAYOUT_H
#define FASHIM_TUNE_LAYOUT_H

#include "kernels/attention.h"
#include "shim/gpu/call_form.h"

/* Fills in a call whose operands lie from `base` on, a multiple of 256 and not 0: contiguous, the
 * scale 1/sqrt(D), a mask that keeps where it is not zero. *bytes: how far they reach. *form
 * becomes the form of that call: a dimension of unlucky length leaves rows unaligned whether that
 * was asked for or not. 0, or -ENOTSUP for what cannot be rebuilt (arrays of addresses). */
int tune_layout(struct attn_args *args, struct call_form *form, uint64_t base, uint64_t *bytes);

#endif
