/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that a name leads to without the shim: glibc's own loader functions, and what stands
 * behind the shim in the order of search.
 */
#ifndef FASHIM_RESOLVE_H
#define FASHIM_RESOLVE_H

/* glibc's own dlsym/dlvsym/dlopen, found without asking the overridden ones. */
void *real_dlsym(void *handle, const char *name);
void *real_dlvsym(void *handle, const char *name, const char *version);
void *real_dlsym_address(void);
void *real_dlvsym_address(void);
void *real_dlopen_address(void);
void *real_dlmopen_address(void);

/* A loaded object stays, whoever closes it. Takes the loader's lock. */
void real_keep(const char *path);

/* A function `name` in the object that holds `caller` or, failing that, in any object loaded behind
 * the shim: what a call would have reached if the shim were not there. NULL: none. */
void *resolve_stub(const char *name, const void *caller);

/* A function `name`, of whatever version, in the first object loaded behind the caller's. NULL:
 * none. */
void *resolve_next(const char *name, const void *caller);

#endif
