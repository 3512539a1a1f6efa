/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded ELF objects, read from memory: which object holds an address, what its SONAME is, where it
 * defines a name. dlsym and dladdr would do, but the shim overrides the first, the second takes the
 * loader's big lock, and both change what the next dlerror() says.
 */
#ifndef FASHIM_IMAGE_H
#define FASHIM_IMAGE_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct image {
	uintptr_t bias;	      /* what the loader added to the file's addresses */
	uintptr_t begin, end; /* smallest range that holds every loaded segment */
	const char *path;     /* as the loader keeps it; "" for the program itself */
	const char *soname;   /* NULL: none */
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu_hash; /* either may be NULL */
	const uint32_t *sysv_hash;
	const ElfW(Dyn) * dynamic;
	const ElfW(Phdr) * segments;
	int segment_count;
};

/* Calls `visit` for each loaded object in load order, while the loader's list is locked (so `visit`
 * must not load or unload), until it returns true. Returns whether it did. */
bool image_find(bool (*visit)(const struct image *image, void *data), void *data);

/* The same over the list that the loader keeps for debuggers: no lock, and no function that a
 * program may have overridden or that may ask dlsym. Good for the objects of the program's start,
 * which stay and come first: `visit` must be content before the list reaches anything that can be
 * unloaded. begin, end and segments are not known. False at once where there is no such list. */
bool image_find_at_start(bool (*visit)(const struct image *image, void *data), void *data);

/* How often objects were loaded and unloaded so far; never 0. *unloaded (or NULL): the latter. */
unsigned long long image_changes(unsigned long long *unloaded);

/* What an address in the dynamic section points to. */
const void *image_pointer(const struct image *image, ElfW(Addr) value);

/* The object that holds `address`; false when none does. */
bool image_of(const void *address, struct image *image);

/* The first object whose SONAME is `soname` or, with `prefix`, starts with it. */
bool image_by_soname(const char *soname, bool prefix, struct image *image);

/* Address of a defined dynamic symbol of whatever version, or NULL.
 * Never the address of an indirect function. */
void *image_symbol(const struct image *image, const char *name);

/* How many symbols stand before all that others may find, as linkers put them: in a shared object
 * every symbol that it wants of others is one of them. 0: nobody can tell. */
size_t image_imports(const struct image *image);

/* Does `soname` stand among the libraries that the object needs? */
bool image_needs(const struct image *image, const char *soname);

#endif
