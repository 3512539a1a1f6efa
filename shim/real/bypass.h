/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that go past the shim. A library that was loaded with RTLD_DEEPBIND, or prelinked, is bound
 * to libcuda and cuBLAS themselves, and what dlmopen() loads lives in a world without the shim:
 * what they read is not known, so nothing may be left out for them. The same of an object that
 * stands behind the shim and overrides dlsym, too, to give out functions of its own in CUDA's
 * stead.
 */
#ifndef FASHIM_BYPASS_H
#define FASHIM_BYPASS_H

#include <stdbool.h>

/* Whether a loaded object calls the driver or cuBLAS past the shim, and *why (static storage, for
 * the log). One look at the loader's counters while nothing was loaded since the last time. With
 * the flow lock held. */
bool bypassed(const char **why);

/* Before a program loads something: would it be bound past the shim, by these flags of dlopen or by
 * this namespace of dlmopen? */
bool bypass_by_flags(int flags);
bool bypass_by_namespace(long space);

/* It will be: of what is loaded from now on. */
void bypass_note_open(void);
void bypass_note_namespace(void);

/* A graph was made executable so that kernels may launch it, with whatever it reads. */
void bypass_note_device_launches(void);

/* Somebody else's function was given out for one of CUDA's. */
void bypass_note_answer(void);

#endif
