/* SPDX-License-Identifier: Apache-2.0
 *
 * Our kernels on the device: loaded once per context, launched on the app's stream.
 *
 * All functions: flow lock held, the context current.
 */
#ifndef FASHIM_FUSED_H
#define FASHIM_FUSED_H

#include <cuda.h>
#include <stdbool.h>

#include "kernels/attention.h"
#include "kernels/complement.h"

/* Loads the helpers for the current context. 0; -EAGAIN: they are asked for (ahead.h); -ENOENT: no
 * image for this GPU, or none that this driver loads; -ENODATA: text alone, which nobody compiled
 * for it (kernel_cache.h); -EIO: no context. */
int fused_prepare(CUcontext context);

/* Why nothing can be loaded, as fused_prepare() found it, or this variant (or NULL), as
 * fused_load() did; in `detail` on what GPU. 0: not that anybody knew of. */
int fused_missing(CUcontext context, const struct attn_variant *variant, char *detail, size_t size);

/* Was that tried already? */
bool fused_prepared(CUcontext context);

/* Which variant a call would use, NULL: none fits. */
const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args);

/* What decides so: "forced" (FASHIM_KERNEL), "tuned" (the cache of `fashim tune`), "built_in". */
const char *fused_chosen_by(CUcontext context, const struct attn_args *args);

/* Makes a variant's kernel ready; this may allocate. 0; -EAGAIN: the part of the image that it is
 * in is asked for; -EIO. */
int fused_load(CUcontext context, const struct attn_variant *variant);

/* Is it ready? Launching it then allocates nothing. */
bool fused_loaded(CUcontext context, const struct attn_variant *variant);

/* All below return 0 or -EIO and only enqueue. */

/* Bytes of scratch that a call takes. */
uint64_t fused_scratch(CUcontext context, const struct attn_variant *variant,
		       const struct attn_args *args);

/* So much for every call whose stream is being captured, until it is taken back (0). Without it
 * there is none for these: they do without, or cannot be made. */
void fused_lend(uint64_t address);

/* -EAGAIN, too: as fused_load(). -EINVAL: of two masks none was made (made_bias.h). */
int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
		    const struct attn_args *args);
int fused_reference(CUcontext context, CUstream stream, const struct reference_args *args);
int fused_drift(CUcontext context, CUstream stream, const struct drift_args *args);
int fused_drift_sampled(CUcontext context, CUstream stream, const struct drift_sampled_args *args);
int fused_find_addresses(CUcontext context, CUstream stream, const struct addresses_args *args);
int fused_count_unwritten(CUcontext context, CUstream stream, const struct unwritten_args *args);
int fused_count_triangle(CUcontext context, CUstream stream, const struct triangle_args *args);
int fused_slopes(CUcontext context, CUstream stream, const struct slopes_args *args);
int fused_complement(CUcontext context, CUstream stream, const struct complement_args *args);

/* Copies rows of `width` bytes at every `pitch`, to the same pitch. -EINVAL: not in pieces of 16
 * bytes. */
int fused_copy_rows(CUcontext context, CUstream stream, uint64_t to, uint64_t from, uint64_t width,
		    uint64_t pitch, uint64_t rows);

/* Makes copy->out of copy->in. */
struct relayout;
int fused_lay_out(CUcontext context, CUstream stream, const struct relayout *copy);

void fused_forget(CUcontext context);

#endif
