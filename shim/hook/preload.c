/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym and dlvsym, overridden, and dlopen and dlmopen, watched. glibc takes the meaning of
 * RTLD_NEXT and RTLD_DEFAULT from the return address, so for every name that is not ours the
 * assembly front end (preload_entry.S) jumps to glibc's function as if it had been called directly.
 * A name of ours is first looked up for real, with the caller's handle; the result is swapped for a
 * hook only if it lies in libcuda, libcublas or another library whose calls are watched. One
 * lookup, so dlerror() says what it would say without us.
 *
 * RTLD_NEXT and RTLD_DEFAULT are never swapped: the loader's own search meets our exports where
 * they stand in the scope, and who asks for what comes after us shall have it.
 *
 * Others override dlsym, too: tracers, and what shares a GPU among containers. They look for the
 * loader's own by its version, and such a search passes our export, which has none; with what they
 * find they would call CUDA past the shim. Who asks for what we would ask ourselves gets ours.
 */
#include "shim/hook/preload.h"

#include <dlfcn.h>

#include "shim/flow/flow.h"
#include "shim/real/bypass.h"
#include "shim/hook/hook_table.h"
#include "shim/real/driver_table.h"
#include "shim/real/image.h"
#include "shim/real/library.h"
#include "shim/real/driver.h"
#include "shim/real/resolve.h"
#include "shim/base/word.h"

/* What is owed is delivered before somebody comes who would not ask for it. */
static void deliver(const char *name)
{
	if (hook_depth == 0 && driver_real[DRIVER_cuInit] && flow_active())
		flow_flush(name);
}

static void *swap(void *found, const char *name)
{
	struct image image;

	if (!found || !image_of(found, &image) || !image.soname)
		return found;
	if (driver_is_soname(image.soname))
		return driver_hook_for(found, name);
	if (library_is_soname(image.soname))
		return library_hook_for(&image, found, name);
	if (image.dynamic != _DYNAMIC && image_symbol(&image, "dlsym")) {
		deliver("dlsym");
		bypass_note_answer();
	}
	return found;
}

static void *preload_dlsym(void *handle, const char *name)
{
	return swap(real_dlsym(handle, name), name);
}

static void *preload_dlvsym(void *handle, const char *name, const char *version)
{
	return swap(real_dlvsym(handle, name, version), name);
}

/* ---- the loader's own functions ------------------------------------------------------------- */

/* dlopen is none of them: sanitizers ask for it before anything of libc's may be called. */
static bool is_of_loader(const char *name)
{
	return name && name[0] == 'd' && name[1] == 'l' &&
	       (word_same(name, "dlsym") || word_same(name, "dlvsym"));
}

static void *ours_before(void *found)
{
	if (found && found == real_dlsym_address())
		return (void *)dlsym;
	if (found && found == real_dlvsym_address())
		return (void *)dlvsym;
	return found;
}

/* Entered by a jump: the return address is the caller's. */
static void *loader_dlsym(void *handle, const char *name)
{
	return ours_before(handle == RTLD_NEXT ? resolve_next(name, __builtin_return_address(0))
					       : real_dlsym(handle, name));
}

static void *loader_dlvsym(void *handle, const char *name, const char *version)
{
	return ours_before(handle == RTLD_NEXT ? resolve_next(name, __builtin_return_address(0))
					       : real_dlvsym(handle, name, version));
}

/* ---- where to go ---------------------------------------------------------------------------- */

/* Names that could be ours: those in the tables, and whatever else is spelt like a driver function
 * (cu, capital letter), because a newer driver has functions that the tables lack. */
static bool may_be_ours(void *handle, const char *name)
{
	const bool of_cuda = name && name[0] == 'c' && name[1] == 'u';
	const bool of_nccl = name && name[0] == 'n' && name[1] == 'c' && name[2] == 'c';

	if (!of_cuda && !of_nccl)
		return false;
	if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
		return false;
	if (of_cuda && name[2] >= 'A' && name[2] <= 'Z')
		return true;
	return library_hook_id(name) >= 0;
}

void *preload_route_dlsym(void *handle, const char *name)
{
	if (is_of_loader(name))
		return (void *)loader_dlsym;
	return may_be_ours(handle, name) ? (void *)preload_dlsym : real_dlsym_address();
}

static void note_flags(const char *name, int flags)
{
	if (!bypass_by_flags(flags))
		return;
	deliver(name);
	bypass_note_open();
}

void *preload_route_dlopen(const char *file, int flags)
{
	(void)file;
	note_flags("dlopen", flags);
	return real_dlopen_address();
}

void *preload_route_dlmopen(long space, const char *file, int flags)
{
	(void)file;
	if (bypass_by_namespace(space)) {
		deliver("dlmopen");
		bypass_note_namespace();
	}
	note_flags("dlmopen", flags);
	return real_dlmopen_address();
}

void *preload_route_dlvsym(void *handle, const char *name, const char *version)
{
	(void)version;
	if (is_of_loader(name))
		return (void *)loader_dlvsym;
	return may_be_ours(handle, name) ? (void *)preload_dlvsym : real_dlvsym_address();
}
