/* SPDX-License-Identifier: Apache-2.0
 *
 * From a call and the variant chosen for it to what cuLaunchKernel takes: grid, threads, shared
 * memory and the one parameter, for mapped variants with their tensor maps encoded.
 */
#ifndef FASHIM_KERNELS_LAUNCH_H
#define FASHIM_KERNELS_LAUNCH_H

#include <cuda.h>

#include "kernels/attention.h"
#include "kernels/ladder/ladder.h"

/* A launch that must come before, on the same stream. */
struct attn_step {
	const char *symbol;
	uint32_t grid[3];
	uint32_t threads;
	union {
		struct attn_repack repack;
		struct attn_ranges ranges;
		struct ladder_scores scores;
	} parameter;
};
#define ATTN_STEPS 2

struct attn_launch {
	struct attn_step before[ATTN_STEPS];
	int before_count;
	uint32_t grid[3];
	uint32_t threads, shared_bytes;
	union {
		struct attn_args args;
		struct attn_mapped mapped;
		struct ladder_scores scores;
	} parameter;
};

/* A look at the mask, as a step before: all that its result depends on. */
struct attn_look {
	struct attn_ranges ranges; /* out 0 */
	uint64_t read_bytes;	   /* of the mask, from its base on */
	uint64_t bytes;		   /* of the result */
};

struct attn_device {
	int multiprocessors;
	int looks;	     /* does fashim_ranges run here: is the image for sm_90a? */
	int64_t cache_bytes; /* second level */
	/* cuTensorMapEncodeTiled; NULL where the driver has none: mapped variants then fail */
	CUresult (*encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
			   const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
			   const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
			   CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
};

/* Bytes of the GPU's memory that the steps before fill; 0: there are none. */
uint64_t attn_launch_scratch(const struct attn_variant *variant, const struct attn_args *args,
			     const struct attn_device *device);

/* 1: the only step before is this look, and its result all of the scratch. It may be made once for
 * several launches. */
int attn_launch_look(struct attn_look *look, const struct attn_variant *variant,
		     const struct attn_args *args, const struct attn_device *device);

/* How the driver is to place the blocks of a variant's clusters: what it is told once of a
 * function, if it knows of that (CUDA 11.8). */
CUclusterSchedulingPolicy attn_launch_policy(const struct attn_variant *variant);

/* Can a tensor map describe the operand, its rows (down: its columns) being `lines`? */
int attn_in_map(const struct attn_args *args, const struct attn_tensor *t, int down, int lines);

/* Fills `launch`; scratch: that many bytes, 256-byte aligned, used until the launch is over, or 0:
 * do without, if possible. 0, or -EINVAL where a tensor map cannot describe an operand
 * (attn_select_from does not choose a mapped variant then, except where a copy in scratch helps) or
 * scores would need scratch. Touches no memory of the GPU. */
int attn_launch_prepare(struct attn_launch *launch, const struct attn_variant *variant,
			const struct attn_args *args, const struct attn_device *device,
			uint64_t scratch);

#endif
