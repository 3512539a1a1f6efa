/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions by name (resolve.h). Nothing here asks dlsym for anything: names are looked up in the
 * loaded objects' own symbol tables (image.h).
 */
#include "shim/real/resolve.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "shim/real/image.h"

/* Search for the next definition of a name behind an object in load order. */
struct behind {
	const char *name;
	const ElfW(Dyn) * object;
	bool passed; /* the object has been met */
	bool whole;  /* those before it count as well */
	void *found;
};

static bool defined_behind(const struct image *image, void *data)
{
	struct behind *behind = data;

	if (image->dynamic == behind->object) {
		behind->passed = true;
		return false;
	}
	if (behind->passed || behind->whole)
		behind->found = image_symbol(image, behind->name);
	return behind->found != NULL;
}

static void *find_behind(const char *name)
{
	struct behind behind = {.name = name, .object = _DYNAMIC};

	image_find(defined_behind, &behind);
	if (!behind.found) {
		behind.whole = true;
		image_find(defined_behind, &behind);
	}
	return behind.found;
}

void *resolve_stub(const char *name, const void *caller)
{
	struct image image;
	void *found = NULL;

	if (caller && image_of(caller, &image) && image.dynamic != _DYNAMIC)
		found = image_symbol(&image, name);
	return found ? found : find_behind(name);
}

void *resolve_next(const char *name, const void *caller)
{
	struct behind behind = {.name = name};
	struct image image;

	if (!image_of(caller, &image))
		return find_behind(name);
	behind.object = image.dynamic;
	image_find(defined_behind, &behind);
	return behind.found;
}

static void *loader_function(_Atomic(void *) *slot, const char *name)
{
	void *address = atomic_load_explicit(slot, memory_order_relaxed);

	if (!address) {
		struct behind behind = {.name = name, .object = _DYNAMIC};

		image_find_at_start(defined_behind, &behind);
		address = behind.found ? behind.found : find_behind(name);
		atomic_store_explicit(slot, address, memory_order_relaxed);
	}
	return address;
}

static _Atomic(void *) dlsym_slot, dlvsym_slot, dlopen_slot, dlmopen_slot;

void *real_dlsym_address(void)
{
	return loader_function(&dlsym_slot, "dlsym");
}

void *real_dlvsym_address(void)
{
	return loader_function(&dlvsym_slot, "dlvsym");
}

void *real_dlopen_address(void)
{
	return loader_function(&dlopen_slot, "dlopen");
}

void *real_dlmopen_address(void)
{
	return loader_function(&dlmopen_slot, "dlmopen");
}

void *real_dlsym(void *handle, const char *name)
{
	void *(*real)(void *, const char *) = real_dlsym_address();

	return real ? real(handle, name) : NULL;
}

void *real_dlvsym(void *handle, const char *name, const char *version)
{
	void *(*real)(void *, const char *, const char *) = real_dlvsym_address();

	return real ? real(handle, name, version) : NULL;
}

void real_keep(const char *path)
{
	void *(*open)(const char *, int) = real_dlopen_address();

	if (open)
		open(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
