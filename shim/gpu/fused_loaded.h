/* SPDX-License-Identifier: Apache-2.0
 *
 * Our kernels as they are loaded in a context. All functions: flow lock held, the context current.
 */
#ifndef FASHIM_FUSED_LOADED_H
#define FASHIM_FUSED_LOADED_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/launch.h"
#include "kernels/takes.h"

#define FUSED_STEPS 8 /* kernels that come before another */

enum helper {
	HELPER_REFERENCE,
	HELPER_DRIFT,
	HELPER_DRIFT_SAMPLED,
	HELPER_ADDRESSES,
	HELPER_UNWRITTEN,
	HELPER_TRIANGLE,
	HELPER_SLOPES,
	HELPER_COMPLEMENT,
	HELPER_LAY_OUT,
	HELPER_COPY_ROWS,
	HELPER_COUNT
};

struct loaded {
	CUcontext context;
	int arch;
	const struct kernel_image *image;
	CUmodule module; /* its helpers; NULL: loading failed, do not try again */
	int error;	 /* why */
	CUfunction helpers[HELPER_COUNT];
	CUfunction variants[ATTN_VARIANTS_MOST];
	struct {
		const char *symbol; /* NULL: free */
		CUfunction function;
	} steps[FUSED_STEPS];
	uint8_t available[ATTN_VARIANTS_MOST]; /* of attn_variants: is it in the image? */
	struct attn_device device;
	const struct tuned *tuned; /* NULL: only the built-in choice */
};

/* Of a context that fused_prepare() was asked for; NULL: it was not, or nothing could be loaded. */
struct loaded *fused_of(CUcontext context);

/* A kernel of the image. 0; -EAGAIN: the part that it is in is asked for (ahead.h); -EIO. */
int fused_function(CUfunction *function, struct loaded *slot, const char *symbol);

/* Its one parameter is what `args` points to. 0 or -EIO. */
int fused_launch(CUfunction function, CUstream stream, const unsigned grid[3], unsigned threads,
		 unsigned shared, const void *args);

#endif
