/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS products issued by the shim itself, when a deferred GEMM has to be run after all. They go
 * through handles of our own: the app's may be in use on another thread, bound to another stream.
 *
 * All functions: flow lock held, the context current.
 */
#ifndef FASHIM_BLAS_H
#define FASHIM_BLAS_H

#include "shim/op/op.h"

/* The handle for the product's library and the context ahead of need. 0; -EAGAIN: it is asked for
 * (ahead.h); -EIO: there is none, or the library has no way to run the product. */
int blas_prepare(const struct op_gemm *gemm, CUcontext context);

/* Runs the product on `stream` with other operand addresses. 0 or -EIO: also where blas_prepare()
 * never said 0 for such a product in this context. Nothing is held back before it did. */
int blas_run(const struct op_gemm *gemm, CUcontext context, CUstream stream, uint64_t a, uint64_t b,
	     uint64_t c);

#endif
