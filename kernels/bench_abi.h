/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels for programs other than the shim: load, choose, launch. Built into
 * libfashim_kernels.so for Python's ctypes (tests/gpu/bench), and into kernel_check.
 *
 * All of it works in the context that is current and on one image per process; not for several
 * threads at a time.
 */
#ifndef FASHIM_KERNELS_BENCH_ABI_H
#define FASHIM_KERNELS_BENCH_ABI_H

#include "kernels/launch.h"

/* A call made ready: what repeated launches share. */
struct fashim_call;

struct fashim_resources {
	int32_t registers;    /* per thread */
	int32_t local_bytes;  /* per thread: spills and arrays */
	int32_t threads;      /* per block */
	int32_t shared_bytes; /* per block */
	int32_t blocks;	      /* that fit one multiprocessor */
};

/* Loads the embedded image for this GPU; with a file, one of its parts compiled anew, the variants
 * of that part alone are present. 0 or -errno, and fashim_kernels_error() then says more. */
int fashim_kernels_open(const char *file);
const char *fashim_kernels_error(void);

/* sizeof struct attn_tensor, attn_spec, attn_args: for those who mirror them. */
void fashim_kernels_layout(int32_t sizes[3]);

/* Name of the n-th variant, NULL past the last; and whether it is in the loaded image. */
const char *fashim_kernels_name(int n);
int fashim_kernels_present(int n);

/* Index of the variant for a call, or -1. forced: a name or NULL. portable: only among those that
 * every GPU can run. */
int fashim_kernels_select(const struct attn_args *args, const char *forced, int portable);

/* Makes a call ready for variant n; *call is to be freed. 0 or -errno. */
int fashim_kernels_prepare(struct fashim_call **call, int n, const struct attn_args *args);
int fashim_kernels_launch(const struct fashim_call *call, CUstream stream);
void fashim_kernels_free(struct fashim_call *call);

int fashim_kernels_resources(struct fashim_resources *resources, int n);

/* Any kernel by its symbol. 0 or -errno. */
int fashim_kernels_function(CUfunction *function, const char *symbol);

/* fashim_reference, on the null stream; returns when it is done. 0 or -errno. */
int fashim_kernels_reference(const struct reference_args *args);

#endif
