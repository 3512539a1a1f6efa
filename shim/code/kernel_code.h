/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel can reach besides what its parameters point to, read from the image that the
 * program loaded. Only of a kernel that is known to reach nothing else may the shim launch a second
 * run, on copies: that proof is in the code or it is nowhere.
 *
 * Hooks tell of images as they are loaded. One that the program may free right afterwards is read
 * at once, into a small table, and a small one is kept; one that lies in the file of a loaded
 * object stays where it is until it is unloaded, and is read when a kernel of it is first asked
 * about.
 */
#ifndef FASHIM_KERNEL_CODE_H
#define FASHIM_KERNEL_CODE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- told by hooks, on any thread; errno is left alone ------------------------------------------
 */

/* A handle (CUmodule or CUlibrary) has come from that image, or from that file. */
void kernel_code_loaded(const void *handle, const void *image);
void kernel_code_loaded_file(const void *handle, const char *path);

/* A module is what a library is in one context. */
void kernel_code_same(const void *module, const void *library);

/* The program was given the address of a variable of that module or library: it may write what
 * kernels take for constants. true: for the first time, and what was found out about kernels by
 * launching them may not hold any more. */
bool kernel_code_exposed(const void *handle);

/* The handle ends now. */
void kernel_code_unloaded(const void *handle);

/* ---- asked under the flow lock ------------------------------------------------------------------
 */

/* NULL: it may be launched again on copies; otherwise one phrase why not. Constants hinder only
 * where the program could have put addresses there. The driver is asked for the kernel's module and
 * the image is read the first time, which may take long; what came of it is kept in *known, 0
 * before (NULL: it is not kept). */
const char *kernel_code_hindrance(CUfunction handle, const char *name, uint32_t *known);

/* How far a kernel gets from the allocations that its parameters point into. */
enum code_reach {
	CODE_NEAR,     /* not at all: that is proven, */
	CODE_BY_VALUE, /* perhaps by what it loads, somehow computed, or nobody knows, */
	CODE_FOLLOWS,  /* by addresses that it loads */
};

/* Costs what a first hindrance does. */
enum code_reach kernel_code_reach(CUfunction handle, const char *name, uint32_t *known);

/* Does it use what the program or another kernel may have put addresses into: variables of its
 * module, or constants that the program may have set? */
bool kernel_code_variables(CUfunction handle, const char *name, uint32_t *known);

/* Does the image that it comes from have a kernel of that name, too? -1: not known. */
int kernel_code_beside(CUfunction handle, const char *name);

/* Where a kernel's parameters lie, for drivers that do not tell: the image says it. How many there
 * are, at most `room`; -1: not known. */
int kernel_code_layout(CUfunction handle, const char *name, unsigned room, unsigned *offset,
		       unsigned *size);

struct code_text;

/* Its instructions, for this GPU. 0; -ENOENT: they are not to be had, or it is not certain which,
 * -ENOMEM. Reads the image again. */
int kernel_code_text(CUfunction handle, const char *name, struct code_text *text);

#endif
