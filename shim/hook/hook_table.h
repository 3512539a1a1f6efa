/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program gets that looks a function up: ours, in place of the real one. Each returns `real`
 * itself where there is nothing of ours to give.
 */
#ifndef FASHIM_HOOK_TABLE_H
#define FASHIM_HOOK_TABLE_H

#define LIBRARY_ENTRY_BYTES 32

#ifndef __ASSEMBLER__

#include "shim/real/image.h"

/* For who asked for `name` and was answered `real`, a function of libcuda: our hook or a thunk. */
void *driver_hook_for(void *real, const char *name);

/* The same by the pointer alone, for answers of cuGetProcAddress: the one thing that tells the ABI
 * version and the stream flavour for sure. `name` is for the log. */
void *driver_hook_of_pointer(void *real, const char *name);

/* For who found `name` as `real` in the library `image`: an entry point that remembers the library
 * and goes on to the hook. */
void *library_hook_for(const struct image *image, void *real, const char *name);

#endif

#endif
