/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS, opened by name at run time.
 */
#ifndef FASHIM_BENCH_BLAS_H
#define FASHIM_BENCH_BLAS_H

#include "tools/gpu/gpu.h"

#include <cublas_v2.h>

#define BLAS_CALLS(CALL)                                                                           \
	CALL(cublasCreate)                                                                         \
	CALL(cublasDestroy)                                                                        \
	CALL(cublasGetProperty)                                                                    \
	CALL(cublasGetStatusString)                                                                \
	CALL(cublasSetStream)                                                                      \
	CALL(cublasSetWorkspace)                                                                   \
	CALL(cublasGemmStridedBatchedEx)

struct blas {
	const struct gpu *gpu;
	struct blas_calls {
		BLAS_CALLS(GPU_MEMBER)
	} calls;
	cublasHandle_t handle; /* on the GPU's stream */
	CUdeviceptr workspace;
	char version[32]; /* "13.1.0" */
};

/* Opens `path`; NULL: the libcublas.so.13 or .12 that the loader or /usr/local/cuda has. 0 or
 * -errno with one line on stderr; for blas_close() in any case. */
int blas_open(struct blas *blas, const struct gpu *gpu, const char *path);
void blas_close(struct blas *blas);

/* A matrix of a batch, row by row. */
struct blas_matrix {
	CUdeviceptr base;
	int64_t line, step; /* elements from row to row, and from matrix to matrix */
	bool transposed;    /* what is stored are its columns */
};

/* Enqueues C = alpha A B for a batch of A[m,k], B[k,n], C[m,n], all f16 or all bf16, added up in
 * fp32. 0 or -errno with one line on stderr. */
int blas_product(const struct blas *blas, const struct blas_matrix *a, const struct blas_matrix *b,
		 const struct blas_matrix *c, int m, int n, int k, int batch, float alpha,
		 int dtype);

#endif
