/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's functions: real addresses by name, and from a real address to what a program gets
 * instead. Rows: driver_names.def.
 */
#ifndef FASHIM_DRIVER_TABLE_H
#define FASHIM_DRIVER_TABLE_H

#include <stdbool.h>

enum driver_id {
#define HOOK(name)  DRIVER_##name,
#define INERT(name) DRIVER_##name,
#define FLUSH(name) DRIVER_##name,
#include "shim/real/driver_names.def"
	DRIVER_COUNT
};

/* Real addresses, NULL until driver_table_load() succeeded and for what the driver lacks. */
extern void *driver_real[DRIVER_COUNT];

/* Static storage. */
const char *driver_name(enum driver_id id);

/* Row of a name, or -1. */
int driver_id(const char *name);

/* Is it a function that the shim exports in the driver's stead? */
bool driver_is_hooked(const char *name);

bool driver_is_soname(const char *soname);

/* Fills driver_real from the libcuda.so.1 that is loaded. 0, or -ENOENT while none is. Idempotent.
 */
int driver_table_load(void);

/* The real function; where libcuda is not loaded (yet), a function of that name in the caller's own
 * object or anywhere behind the shim: programs that load libcuda late carry such stubs. NULL: none.
 */
void *driver_function(enum driver_id id, const void *caller);

/* What a program gets that asked for `name` and was answered `real`, a function of libcuda: our
 * hook, a thunk, or `real` itself. */
void *driver_hook_for(void *real, const char *name);

/* The same by the pointer alone, for answers of cuGetProcAddress: the one thing that tells the ABI
 * version and the stream flavour for sure. `name` is for the log. */
void *driver_hook_of_pointer(void *real, const char *name);

#endif
