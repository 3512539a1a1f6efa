/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention without a fused kernel, as programs spell it: cuBLAS for QK^T, a softmax kernel, cuBLAS
 * for PV.
 */
#ifndef FASHIM_BENCH_CHAIN_H
#define FASHIM_BENCH_CHAIN_H

#include "kernels/ladder/ladder.h"
#include "tools/bench/blas.h"
#include "tools/gpu/gpu_timer.h"

struct chain {
	const struct blas *blas;
	const struct gpu_operands *operands;
	int sets;
	const struct ladder_step *step; /* the softmax */
	CUfunction softmax;
	CUdeviceptr scores; /* overwritten from call to call */
};

/* The ladder's step that calls a library, whose softmax the chain uses. */
const struct ladder_step *chain_step(void);

/* A chain over several sets of operands, f16 or bf16, which must last as long as it does. 0 or
 * -errno with one line on stderr; for chain_free() in any case. */
int chain_make(struct chain *chain, const struct blas *blas, const struct gpu_operands *operands,
	       int sets);
void chain_free(struct chain *chain);

/* What gpu_timer_make() takes. */
struct gpu_work chain_work(struct chain *chain);

#endif
