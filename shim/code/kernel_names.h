/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels by the names that the program asked for them by, and what they came from. Older drivers
 * tell neither of a handle; nothing is kept where this one does. Any thread.
 */
#ifndef FASHIM_KERNEL_NAMES_H
#define FASHIM_KERNEL_NAMES_H

#include <cuda.h>

/* Told by hooks: that module or library gave that handle (CUfunction or CUkernel) for a kernel. */
void kernel_named(const void *kernel, const void *owner, const char *name);

/* A kernel of a library has a handle of its own in each context. */
void kernel_named_alike(const void *function, const void *kernel);

/* All that came from that module or library. */
void kernel_names_forget(const void *owner);

/* To be freed; NULL: not known. */
char *kernel_name(CUfunction handle);

/* NULL: not known. */
const void *kernel_owner(CUfunction handle);

#endif
