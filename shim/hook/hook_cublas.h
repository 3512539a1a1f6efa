/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hooks of cuBLAS and cuBLASLt share.
 */
#ifndef FASHIM_HOOK_CUBLAS_H
#define FASHIM_HOOK_CUBLAS_H

#include <library_types.h>
#include <stdbool.h>

#include "shim/real/blas_library.h"
#include "shim/hook/hook.h"

/* Declares `library` and `real`, the function that a call belongs to. Where no such library is
 * loaded it calls what the program brought along under that name (a stub that loads the library),
 * or gives up. */
#define BLAS_REAL(function, handle, arguments)                                                     \
	struct blas_library *library =                                                             \
		blas_library_for(BLAS_##function, handle, __builtin_return_address(0));            \
	__typeof__(&function) real = library ? blas_function(library, BLAS_##function) : NULL;     \
                                                                                                   \
	if (unlikely(!real)) {                                                                     \
		cublasStatus_t stub_status;                                                        \
                                                                                                   \
		real = blas_stub(BLAS_##function, __builtin_return_address(0));                    \
		if (!real)                                                                         \
			return CUBLAS_STATUS_NOT_INITIALIZED;                                      \
		blas_stub_depth++;                                                                 \
		stub_status = real arguments;                                                      \
		blas_stub_depth--;                                                                 \
		return stub_status;                                                                \
	}

/* alpha or beta as a number, read from host memory in the type that the compute type implies; the
 * real part of a complex one. NULL gives 0. */
double gemm_scalar(const void *address, int compute_type, cudaDataType ctype);

/* Do compute type and data types lie within what may be replaced at all? */
bool gemm_is_plain(const struct op_gemm *gemm);

/* false: sizes that cuBLAS will refuse. Nobody shall compute extents from them. */
bool gemm_is_sane(const struct op_gemm *gemm);

#endif
