/* SPDX-License-Identifier: Apache-2.0
 *
 * Real functions: the driver's, and those of each loaded libcublas. Everything of ours that calls
 * CUDA calls through these pointers, never through the exported names.
 */
#ifndef FASHIM_RESOLVE_H
#define FASHIM_RESOLVE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* Thread-local depth: > 0 while inside a hooked library's own code or our own driver calls. Hooks
 * at depth > 0 forward and do nothing else. */
extern __thread int hook_depth __attribute__((tls_model("initial-exec")));

/* The driver functions that the shim itself calls, as typed pointers; each row of driver_calls.def
 * is DRIVER(name)                  required: without it the shim disables itself
 *     DRIVER_OPTIONAL(name)         may be NULL on older drivers
 * with `name` the ABI-suffixed export name (cuMemAlloc_v2). Filled once by driver_resolve(). */
struct driver_calls {
#define DRIVER(name)	      __typeof__(&name) name;
#define DRIVER_OPTIONAL(name) __typeof__(&name) name;
#include "shim/real/driver_calls.def"
#undef DRIVER
#undef DRIVER_OPTIONAL
};
extern struct driver_calls driver;

/* 0, or -ENOSYS when libcuda or a required function is missing. Any thread, any time, idempotent.
 */
int driver_resolve(void);

/* glibc's own dlsym/dlvsym/dlopen, found without asking the overridden ones. */
void *real_dlsym(void *handle, const char *name);
void *real_dlvsym(void *handle, const char *name, const char *version);
void *real_dlsym_address(void);
void *real_dlvsym_address(void);
void *real_dlopen_address(void);
void *real_dlmopen_address(void);

/* A function `name` in the object that holds `caller` or, failing that, in any object loaded behind
 * the shim: what a call would have reached if the shim were not there. NULL: none. */
void *resolve_stub(const char *name, const void *caller);

/* The cuBLAS calls that the shim itself makes on a library instance. */
struct blas_library;
void *blas_symbol(const struct blas_library *library, const char *name);
const char *blas_path(const struct blas_library *library);
int blas_version(const struct blas_library *library); /* e.g. 130100, 0 unknown */

#endif
