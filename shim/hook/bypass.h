/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that go past the shim. A library that was loaded with RTLD_DEEPBIND, or prelinked, is bound
 * to libcuda and cuBLAS themselves, and what dlmopen() loads lives in a world without the shim:
 * what they read is not known, so nothing may be left out for them.
 */
#ifndef FASHIM_BYPASS_H
#define FASHIM_BYPASS_H

#include <stdbool.h>

/* Whether a loaded object calls the driver or cuBLAS past the shim, and *why (static storage, for
 * the log). One look at the loader's counters while nothing was loaded since the last time. With
 * the flow lock held. */
bool session_bypassed(const char **why);

/* A program is about to load something with these flags, or into another namespace. */
void bypass_note_open(int flags);
void bypass_note_namespace(long space);

#endif
