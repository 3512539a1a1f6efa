/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded cuBLAS libraries. A process may hold several (12 and 13, or two copies), and each handle
 * works only with the one that made it; so every hook finds the real function of the right library:
 * by the entry point through which it was called, by the handle, or by who calls.
 */
#ifndef FASHIM_BLAS_LIBRARY_H
#define FASHIM_BLAS_LIBRARY_H

#include <stdbool.h>

#include "shim/real/image.h"

/* Instances of libcublas and libcublasLt, together, that can be told apart; library_entry_ARCH.S is
 * written for as many. */
#define BLAS_LIBRARIES 8

enum blas_id {
#define HOOK(name) BLAS_##name,
#include "shim/real/cublas_hooks.def"
	BLAS_COUNT
};

enum blas_kind { BLAS_KIND_CUBLAS, BLAS_KIND_LT };

struct blas_library;

/* Row of a name in cublas_hooks.def, or -1. */
int blas_hook_id(const char *name);

bool blas_is_soname(const char *soname);

/* Number of the library `image`, whose function `id` is `real`; -1: it is not that one's, or there
 * are too many. */
int blas_instance(const struct image *image, enum blas_id id, const void *real);

/* Which library the entry point just passed belongs to: number + 1, 0 for the exported names.
 * Written by library_entry_ARCH.S. */
extern __thread int blas_entered __attribute__((tls_model("initial-exec")));

/* The library that a call of function `id` belongs to. `handle` may be NULL or unknown. NULL: no
 * such library is loaded. Call it first thing in a hook: it consumes what the entry point
 * remembered. */
struct blas_library *blas_library_for(enum blas_id id, const void *handle, const void *caller);

void *blas_function(const struct blas_library *library, enum blas_id id);

/* A function of that name for a program that loads libcublas late: resolve_stub(), but NULL within
 * a stub that is already running on this thread, lest it calls itself for ever. */
void *blas_stub(enum blas_id id, const void *caller);
extern __thread int blas_stub_depth __attribute__((tls_model("initial-exec")));

/* Functions that describe a handle; any may be NULL. Typed by who calls them. */
struct blas_getters {
	void *stream;	    /* cublasGetStream_v2 */
	void *pointer_mode; /* cublasGetPointerMode_v2 */
	void *math_mode;    /* cublasGetMathMode */
	void *desc;	    /* cublasLtMatmulDescGetAttribute */
	void *layout;	    /* cublasLtMatrixLayoutGetAttribute */
};
const struct blas_getters *blas_getters(const struct blas_library *library);

/* Handles: made by, and destroyed in, a library. */
void blas_handle_created(const void *handle, struct blas_library *library);
void blas_handle_destroyed(const void *handle);

/* For the calls that the shim itself makes: a function of the library or of the one beside it. */
void *blas_symbol(const struct blas_library *library, const char *name);
const char *blas_path(const struct blas_library *library);
int blas_version(const struct blas_library *library); /* e.g. 130100, 0 unknown */

#endif
