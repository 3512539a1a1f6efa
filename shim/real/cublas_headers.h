/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers of cuBLAS from 12.4 on, likewise (cuda_headers.h): the plain names, without the
 * macros of cublas_v2.h.
 */
#ifndef FASHIM_CUBLAS_HEADERS_H
#define FASHIM_CUBLAS_HEADERS_H

/* Before 13, cublas_api.h relies on whoever includes it. */
#ifndef CUBLASAPI
#define CUBLASAPI
#endif

#include <cublasLt.h>
#include <cublas_api.h>
#include <library_types.h>

/* Enumerators: those of newer headers have the same values. */
#if CUBLAS_VERSION < 130100
#define CUBLAS_COMPUTE_32F_EMULATED_16BFX9     ((cublasComputeType_t)78)
#define CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT ((cublasComputeType_t)79)
#define CUBLASLT_MATRIX_LAYOUT_BATCH_MODE      ((cublasLtMatrixLayoutAttribute_t)8)
#define CUBLASLT_BATCH_MODE_STRIDED	       0
#define CUBLASLT_BATCH_MODE_POINTER_ARRAY      1
#endif
#if CUBLAS_VERSION < 120800
#define CUDA_R_4F_E2M1				 ((cudaDataType)33)
#define CUBLASLT_MATMUL_DESC_A_SCALE_MODE	 ((cublasLtMatmulDescAttributes_t)31)
#define CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER ((cublasLtMatmulDescAttributes_t)36)
#endif
/* Which newer ones have no more. */
#define CUBLASLT_MATMUL_DESC_ATOMIC_SYNC_IN_COUNTERS_POINTER  ((cublasLtMatmulDescAttributes_t)29)
#define CUBLASLT_MATMUL_DESC_ATOMIC_SYNC_OUT_COUNTERS_POINTER ((cublasLtMatmulDescAttributes_t)30)

#endif
