/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of a plain attention call in the GPU's memory: Q, K, V of normal numbers that a seed
 * determines, and O.
 */
#ifndef FASHIM_GPU_OPERANDS_H
#define FASHIM_GPU_OPERANDS_H

#include "tools/gpu/gpu.h"

struct gpu_shape {
	int B, H, Sq, Sk, D;
	int dtype; /* ATTN_F16, ATTN_BF16 or ATTN_F32 */
	bool causal;
};

struct gpu_operands {
	struct attn_args args;
	CUdeviceptr memory; /* Q, K, V and O in one allocation */
};

/* Bytes that a call has to move at least: Q, K, V and O once. */
double gpu_shape_bytes(const struct gpu_shape *shape);

/* Floating-point operations of the two products; half of them if causal. */
double gpu_shape_flops(const struct gpu_shape *shape);

/* How many sets of operands exceed the second-level cache threefold, so that a call which takes
 * them in turn finds none of its own there; 2 to 256. */
int gpu_operand_sets(const struct gpu *gpu, const struct gpu_shape *shape);

/* Allocates one set, contiguous [B,H,S,D], scale 1/sqrt(D), all other features off but causal. The
 * same seed gives the same numbers; O is NaN. 0 or -errno with one line on stderr; for
 * gpu_operands_free() in any case. */
int gpu_operands_make(const struct gpu *gpu, struct gpu_operands *operands,
		      const struct gpu_shape *shape, uint64_t seed);
void gpu_operands_free(const struct gpu *gpu, struct gpu_operands *operands);

/* An array of `count` different ones from one seed; NULL with one line on stderr. */
struct gpu_operands *gpu_operands_array(const struct gpu *gpu, const struct gpu_shape *shape,
					int count, uint64_t seed);
void gpu_operands_array_free(const struct gpu *gpu, struct gpu_operands *sets, int count);

/* "B1 H8 S512 D64 f16 causal". Returns buffer. */
const char *gpu_shape_text(char *buffer, size_t size, const struct gpu_shape *shape);

#endif
