/* SPDX-License-Identifier: Apache-2.0
 *
 * The one product behind every entry point of the simulated cuBLAS:
 *     D[i,j] = round( epilogue( alpha * sum_p A[i,p] B[p,j] + beta * C[i,j] + bias[i] ) )
 * for each batch entry, with arbitrary element strides, so that transposes and row-major layouts
 * are nothing special.
 */
#ifndef FASHIM_BLAS_GEMM_H
#define FASHIM_BLAS_GEMM_H

#include <cuda.h>
#include <cublas_api.h>
#include <stdint.h>

struct gemm_operand {
	uint64_t base;	     /* or, by_array, the address of an array of element addresses */
	int64_t row, column; /* strides in elements, of op(X) */
	int64_t batch;
	int32_t type; /* cudaDataType */
	int32_t by_array;
};

struct gemm_args {
	struct gemm_operand a, b, c, d;
	int64_t m, n, k, batch;
	double alpha, beta;
	uint64_t alpha_at, beta_at; /* device addresses when not 0 */
	int32_t scale_type;	    /* cudaDataType of alpha and beta */
	int32_t relu, gelu;
	uint64_t bias;
	int64_t bias_batch;
	int32_t bias_type, pad;
};

/* Driver functions of this library, as cuBLAS gets them: by cuGetProcAddress. NULL: no driver. */
struct blas_driver {
	__typeof__(&cuCtxGetCurrent) ctx_get;
	__typeof__(&cuCtxSetCurrent) ctx_set;
	__typeof__(&cuDevicePrimaryCtxRetain) primary_retain;
	__typeof__(&cuInit) init;
	__typeof__(&cuMemAlloc) alloc;
	__typeof__(&cuMemFree) release;
	__typeof__(&cuLibraryLoadFromFile) library_load;
	__typeof__(&cuLibraryGetKernel) library_kernel;
	__typeof__(&cuLaunchKernelEx) launch;
	__typeof__(&cuMemsetD8Async) fill;
};
const struct blas_driver *blas_driver(void);

size_t blas_type_size(int type); /* 0: not simulated */
/* Checks types, reads alpha and beta (host, or leaves them to the kernel), launches on `stream`.
 * Exported by the simulated libcublasLt for libcublas. */
cublasStatus_t cublasLt_for_cublas_gemm(struct gemm_args *args, const void *alpha, const void *beta,
					int scalars_on_device, CUstream stream);

/* cudaDataType of alpha and beta for a compute type, -1: not simulated. */
static inline int blas_scale_type(int compute)
{
	switch (compute) {
	case CUBLAS_COMPUTE_16F:
	case CUBLAS_COMPUTE_16F_PEDANTIC:
		return CUDA_R_16F;
	case CUBLAS_COMPUTE_32F:
	case CUBLAS_COMPUTE_32F_PEDANTIC:
	case CUBLAS_COMPUTE_32F_FAST_16F:
	case CUBLAS_COMPUTE_32F_FAST_16BF:
	case CUBLAS_COMPUTE_32F_FAST_TF32:
		return CUDA_R_32F;
	case CUBLAS_COMPUTE_64F:
	case CUBLAS_COMPUTE_64F_PEDANTIC:
		return CUDA_R_64F;
	}
	return -1;
}

#endif
