/* SPDX-License-Identifier: Apache-2.0
 *
 * One occurrence of a chain, run both ways: the program's own ops wrote O, the fused kernel writes
 * to scratch, and both are held against a double-precision reference on sampled rows. Results come
 * back asynchronously; nothing waits for them but the occurrence that would be the first to be
 * replaced, and that one only for a moment.
 *
 * All functions: flow lock held.
 */
#ifndef FASHIM_COMPARE_H
#define FASHIM_COMPARE_H

#include "shim/chain/chain.h"
#include "shim/site/site.h"

/* Enqueues the comparison behind the closing GEMM. Takes over `timing`. args->o is the program's O;
 * the fused kernel's goes to scratch, with order's strides, packed where those are zero. */
void compare_start(struct site *site, const struct chain *chain, const struct attn_args *args,
		   const struct attn_tensor *order, const struct attn_variant *variant,
		   struct timing *timing);

/* Takes in what has come back. */
void compare_poll(void);

/* Gives results that are under way for the site a moment (most_ns, 100 ms at most), once: the
 * stream may wait for another thread's call. */
void compare_wait(const struct site *site, uint64_t most_ns);

/* The context goes away. */
void compare_forget(CUcontext context);

#endif
