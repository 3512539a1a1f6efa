/* SPDX-License-Identifier: Apache-2.0
 *
 * The same as blas.h, in a program that has libcublasLt and no libcublas.
 *
 * Flow lock held, the context current; but blas_lt_create(), which is called without the lock.
 */
#ifndef FASHIM_BLAS_LT_H
#define FASHIM_BLAS_LT_H

#include "shim/op/op.h"

/* A handle of our own. 0 or -EIO. */
int blas_lt_create(const struct library *library, void **made);

/* Does the library have a way to run such a product without a workspace, wherever it lies? */
bool blas_lt_takes(void *handle, const struct op_gemm *gemm);

/* 0 or -EIO. */
int blas_lt_run(void *handle, const struct op_gemm *gemm, CUstream stream, uint64_t a, uint64_t b,
		uint64_t c);

#endif
