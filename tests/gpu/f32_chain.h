/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program that does not know of fused attention launches for fp32 operands: SGEMM, softmax,
 * SGEMM, each a launch of cuBLAS or of a kernel of f32_check.cu. TF32 is off, as it is by default.
 */
#ifndef FASHIM_F32_CHAIN_H
#define FASHIM_F32_CHAIN_H

#include "kernels/attention.h"

/* The symbols, for f32_check.cu: grid.x = rows / their blocks' rows. Rows of up to F32_SOFTMAX_KEYS
 * go to the first, a warp each; longer ones to the second, a block each. */
#define F32_SOFTMAX_KEYS 1024
#define F32_SOFTMAX_ROWS 4
struct f32_softmax_args {
	float *scores;
	const float *bias; /* [bias_rows, Sk], repeated; or NULL */
	int64_t rows, bias_rows;
	int32_t Sk, pad;
};

#ifndef __CUDACC__
#include <cuda.h>

/* 1, or 0 where there is no cuBLAS (libcublas.so.13 or .12), or the operands are none that it takes
 * in one call: heads at one distance, unit stride along rows or down them. The module is that of
 * f32_check.cu. */
int f32_chain_open(const struct attn_args *a, CUmodule module);
/* Launches the chain on the default stream; O is what the fused kernels write, too. */
void f32_chain_run(const struct attn_args *a);
void f32_chain_close(void);
#endif

#endif
