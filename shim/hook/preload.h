/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands between a program and the loader's dlsym: preload.c decides, preload_entry.S keeps
 * the caller's identity.
 */
#ifndef FASHIM_PRELOAD_H
#define FASHIM_PRELOAD_H

/* Called by the assembly front ends. Returns the function to jump to with the caller's own
 * arguments and return address: glibc's, or preload_dlsym/preload_dlvsym for a name that may have
 * to be swapped. */
void *preload_route_dlsym(void *handle, const char *name);
void *preload_route_dlvsym(void *handle, const char *name, const char *version);

/* The same; always glibc's, which is told nothing else than it would be. */
void *preload_route_dlopen(const char *file, int flags);
void *preload_route_dlmopen(long space, const char *file, int flags);

#endif
