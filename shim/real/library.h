/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded GPU libraries: cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSOLVER, cuSPARSE, NCCL. A process may
 * hold several versions of each, or several copies, and a handle works only with the one that made
 * it. So a hook finds the function that its caller would have reached without the shim: by the
 * entry point it came through, by the handle where the library's handles are known
 * (library_handle.h), else by what the caller's object was linked with.
 */
#ifndef FASHIM_LIBRARY_H
#define FASHIM_LIBRARY_H

#define LIBRARIES 16 /* instances, all libraries together, that can be told apart */

#ifndef __ASSEMBLER__

#include "shim/real/image.h"

enum library_id {
#define LIBRARY_ROW(name) LIBRARY_##name,
#include "shim/real/library_hooks.def"
	LIBRARY_COUNT
};

/* Functions that describe a call's arguments; any may be missing. */
#define LIBRARY_GETTERS(GETTER)                                                                    \
	GETTER(cublasGetMathMode)                                                                  \
	GETTER(cublasGetPointerMode_v2)                                                            \
	GETTER(cublasGetStream_v2)                                                                 \
	GETTER(cublasLtMatmulDescGetAttribute)                                                     \
	GETTER(cublasLtMatrixLayoutGetAttribute)                                                   \
	GETTER(cudnnBackendGetAttribute)                                                           \
	GETTER(cudnnGetFilterNdDescriptor)                                                         \
	GETTER(cudnnGetStream)                                                                     \
	GETTER(cudnnGetTensorNdDescriptor)                                                         \
	GETTER(cufftGetSize)                                                                       \
	GETTER(cusolverDnCgetrf_bufferSize)                                                        \
	GETTER(cusolverDnDgetrf_bufferSize)                                                        \
	GETTER(cusolverDnGetStream)                                                                \
	GETTER(cusolverDnSgetrf_bufferSize)                                                        \
	GETTER(cusolverDnZgetrf_bufferSize)                                                        \
	GETTER(cusparseCooGet)                                                                     \
	GETTER(cusparseCsrGet)                                                                     \
	GETTER(cusparseDnMatGet)                                                                   \
	GETTER(cusparseDnMatGetStridedBatch)                                                       \
	GETTER(cusparseDnVecGet)                                                                   \
	GETTER(cusparseGetPointerMode)                                                             \
	GETTER(cusparseGetStream)                                                                  \
	GETTER(cusparseSpMM_bufferSize)                                                            \
	GETTER(cusparseSpMV_bufferSize)                                                            \
	GETTER(cusparseSpMatGetFormat)                                                             \
	GETTER(cusparseSpMatGetStridedBatch)                                                       \
	GETTER(ncclCommCount)                                                                      \
	GETTER(ncclCommCuDevice)                                                                   \
	GETTER(ncclCommUserRank)

enum library_getter {
#define GETTER(name) LIBRARY_GETTER_##name,
	LIBRARY_GETTERS(GETTER)
#undef GETTER
		LIBRARY_GETTER_COUNT
};

struct library;

/* Row of a name in library_hooks.def, or -1. */
int library_hook_id(const char *name);

bool library_is_soname(const char *soname);

/* Does that address lie in such a library, or in a part of one? Looks at all loaded objects. */
bool library_holds(const void *address);

/* Number of the library `image`, whose function `id` is `real`; -1: it is not that one's, or there
 * are too many. */
int library_instance(const struct image *image, enum library_id id, const void *real);

/* Which library the entry point just passed belongs to: number + 1, 0 for the exported names.
 * Written by library_entry.S. */
extern __thread int library_entered __attribute__((tls_model("initial-exec")));

/* The library that a call of function `id` belongs to, and in *real its function. `handle` (NULL:
 * none) tells where the caller does not. NULL with *real set: the caller brought the function
 * along (a stub that loads the library, or the library itself, linked in), or is a part of the
 * library; nothing is known of such a call, and it must be made with library_stub_depth raised.
 * NULL without: there is no such function. Call it first thing in a hook: it consumes what the
 * entry point remembered. */
struct library *library_for(enum library_id id, const void *handle, const void *caller,
			    void **real);
extern __thread int library_stub_depth __attribute__((tls_model("initial-exec")));

void *library_getter(const struct library *library, enum library_getter getter);

/* For the calls that the shim itself makes: a function of a libcublas or of the libcublasLt beside
 * it, or the other way round. */
void *blas_symbol(const struct library *library, const char *name);
int blas_version(const struct library *library); /* e.g. 130100, 0 unknown */

/* From now on the library stays, whatever the program closes: a handle of ours works with no other
 * instance, and what was held back may have to be run. Takes the loader's lock. */
void library_keep(const struct library *library);

#endif

#endif
