/* SPDX-License-Identifier: Apache-2.0
 *
 * From a real function to the hook before it (hook_table.h).
 */
#include "shim/hook/hook_table.h"

#include <stddef.h>

#include "shim/hook/thunk.h"
#include "shim/real/driver_table.h"
#include "shim/real/library.h"

/* Our exports. Declared by assembler name, so that the vendor's renaming macros stay out of it. */
#define HOOK(name)  extern void export_##name(void) __asm__(#name);
#define FLUSH(name) extern void export_##name(void) __asm__(#name);
#include "shim/real/driver_names.def"

static void (*const exports[DRIVER_COUNT])(void) = {
#define HOOK(name)  export_##name,
#define INERT(name) NULL,
#define FLUSH(name) export_##name,
#include "shim/real/driver_names.def"
};

extern const char library_entries[]; /* library_entry.S */

void *driver_hook_for(void *real, const char *name)
{
	const int id = driver_id(name);

	if (driver_table_load())
		return real;
	if (id >= 0 && driver_real[id] == real)
		return exports[id] ? (void *)exports[id] : real;
	return driver_hook_of_pointer(real, name);
}

void *driver_hook_of_pointer(void *real, const char *name)
{
	const int id = driver_id_of_pointer(real, name);

	if (id == DRIVER_FOREIGN)
		return real;
	if (id == DRIVER_NO_ROW)
		return thunk_for(real, name);
	return exports[id] ? (void *)exports[id] : real;
}

void *library_hook_for(const struct image *image, void *real, const char *name)
{
	const int id = library_hook_id(name);
	const int instance = id < 0 ? -1 : library_instance(image, id, real);

	return instance < 0 ? real
			    : (void *)(library_entries +
				       LIBRARY_ENTRY_BYTES * (instance * LIBRARY_COUNT + id));
}
