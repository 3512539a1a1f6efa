/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's functions: real addresses by name, and names by real address. Rows:
 * driver_names.def.
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

/* Row of a function by its address, of several at one address the one that goes by `name`; … */
int driver_id_of_pointer(const void *real, const char *name);
#define DRIVER_NO_ROW  -1 /* … libcuda's, but of no row, or not to be told apart */
#define DRIVER_FOREIGN -2 /* … or not in a loaded libcuda */

#endif
