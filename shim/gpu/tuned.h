/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that `fashim tune` measured to be the fastest here (tuned_file.h), for the shim's
 * choice among them.
 */
#ifndef FASHIM_TUNED_H
#define FASHIM_TUNED_H

#include "shim/gpu/tuned_file.h"

struct tuned;

/* The cache of a GPU and a build: FASHIM_TUNE_CACHE, else the file of tuned_name() in
 * tuned_folder(). The first call for a GPU reads it, and tells the log what came of that where
 * there was a file; later ones look it up. image: of our kernels. NULL: there is none, or none that
 * holds here. errno is kept. Flow lock held. */
const struct tuned *tuned_open(const char *gpu, int driver, const void *image, size_t bytes);

/* The kernel to take for a call, NULL: nothing is known. tuned may be NULL. It need not take the
 * call. */
const char *tuned_kernel(const struct tuned *tuned, const struct attn_args *args);

#endif
