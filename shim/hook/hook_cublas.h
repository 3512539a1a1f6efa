/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hooks of cuBLAS and cuBLASLt share.
 */
#ifndef FASHIM_HOOK_CUBLAS_H
#define FASHIM_HOOK_CUBLAS_H

#include <library_types.h>
#include <stdbool.h>

#include "shim/hook/hook_library.h"
#include "shim/real/library_handle.h"

/* Declares `library` and `real`. */
#define BLAS_REAL(function, handle, arguments)                                                     \
	LIBRARY_REAL(cublasStatus_t, function, handle, arguments, CUBLAS_STATUS_NOT_INITIALIZED)

/* The making of a handle, and its end. */
#define BLAS_HANDLE(create, destroy, type)                                                         \
	EXPORT cublasStatus_t create(type *handle)                                                 \
	{                                                                                          \
		cublasStatus_t status;                                                             \
		BLAS_REAL(create, NULL, (handle))                                                  \
                                                                                                   \
		hook_depth++;                                                                      \
		status = real(handle);                                                             \
		hook_depth--;                                                                      \
		if (status == CUBLAS_STATUS_SUCCESS)                                               \
			library_handle_made(*handle, library);                                     \
		return status;                                                                     \
	}                                                                                          \
                                                                                                   \
	EXPORT cublasStatus_t destroy(type handle)                                                 \
	{                                                                                          \
		cublasStatus_t status;                                                             \
		BLAS_REAL(destroy, handle, (handle))                                               \
                                                                                                   \
		/* Forgotten first: another thread may be given the same address as soon as it is  \
		 * free. */                                                                        \
		library_handle_gone(handle);                                                       \
		hook_depth++;                                                                      \
		status = real(handle);                                                             \
		hook_depth--;                                                                      \
		return status;                                                                     \
	}

/* alpha or beta as a number, read from host memory in the type that the compute type implies; the
 * real part of a complex one. NULL gives 0. */
double gemm_scalar(const void *address, int compute_type, cudaDataType ctype);

/* Do compute type and data types lie within what may be replaced at all? */
bool gemm_is_plain(const struct op_gemm *gemm);

/* Are types among them that cuBLAS offers no product of? */
bool gemm_may_fail(const struct op_gemm *gemm);

/* false: sizes that cuBLAS will refuse. Nobody shall compute extents from them. */
bool gemm_is_sane(const struct op_gemm *gemm);

/* Are the leading dimensions as long as the matrices, and these transposed or not? Otherwise cuBLAS
 * is likely to say no, and nothing is said in its place. */
bool gemm_fits(const struct op_gemm *gemm);

#endif
