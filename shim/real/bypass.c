/* SPDX-License-Identifier: Apache-2.0
 *
 * What an object is bound to stands in its own tables: each place that the loader filled for a
 * function of ours is read, and must not point into a library that the shim stands before. A place
 * that waits for the first call says nothing; of objects loaded since somebody asked for
 * RTLD_DEEPBIND it counts as bound past us. Who is bound to glibc's own dlsym can ask for anything;
 * that counts where the object names one of these libraries.
 */
#include "shim/real/bypass.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "shim/real/driver_table.h"
#include "shim/real/image.h"
#include "shim/real/library.h"
#include "shim/real/resolve.h"
#include "shim/base/word.h"

#define WATCHED 16    /* libraries that the shim stands before */
#define CLEAN	2048  /* objects that are not looked at again, a power of two */
#define IMPORTS 65536 /* symbols of an object */

static atomic_int deep_from = -1; /* objects there were when RTLD_DEEPBIND was first asked for */
static atomic_bool other_namespace, other_answers, device_launches;

/* ---- what the loader did -------------------------------------------------------------------- */

static bool count_one(const struct image *image, void *data)
{
	(void)image;
	++*(int *)data;
	return false;
}

bool bypass_by_flags(int flags)
{
	return (flags & RTLD_DEEPBIND) && !(flags & RTLD_NOLOAD);
}

bool bypass_by_namespace(long space)
{
	return space != LM_ID_BASE;
}

void bypass_note_open(void)
{
	int none = -1, count = 0;

	if (atomic_load(&deep_from) < 0) {
		image_find(count_one, &count);
		atomic_compare_exchange_strong(&deep_from, &none, count);
	}
}

void bypass_note_namespace(void)
{
	atomic_store(&other_namespace, true);
}

void bypass_note_answer(void)
{
	atomic_store(&other_answers, true);
}

void bypass_note_device_launches(void)
{
	atomic_store(&device_launches, true);
}

/* ---- one object ----------------------------------------------------------------------------- */

struct range {
	uintptr_t begin, end;
};

struct search {
	struct range library[WATCHED]; /* libcuda and cuBLAS */
	int libraries;
	struct range loader; /* that has glibc's own dlsym */
	int index;	     /* of the object looked at */
	unsigned long long changes;
	char *why;
	size_t size;
};

static bool holds(const struct range *range, uintptr_t address)
{
	return address >= range->begin && address < range->end;
}

static bool is_watched_library(const struct image *image)
{
	return image->soname &&
	       (driver_is_soname(image->soname) || word_begins(image->soname, "libcublas"));
}

static bool note_library(const struct image *image, void *data)
{
	struct search *search = data;
	const struct range range = {image->begin, image->end};

	if (is_watched_library(image) && search->libraries < WATCHED)
		search->library[search->libraries++] = range;
	if (holds(&range, (uintptr_t)real_dlsym_address()))
		search->loader = range;
	return false;
}

enum want { WANT_NOTHING, WANT_HOOK, WANT_DLSYM };

static enum want want_of(const char *name)
{
	if (name[0] == 'c' && name[1] == 'u')
		return driver_is_hooked(name) ||
				       (word_begins(name, "cublas") && library_hook_id(name) >= 0)
			       ? WANT_HOOK
			       : WANT_NOTHING;
	return word_same(name, "dlsym") || word_same(name, "dlvsym") ? WANT_DLSYM : WANT_NOTHING;
}

/* Does what the object only reads name the driver or cuBLAS? By hand: an instrumented memmem would
 * complain about the gaps between constants. */
static bool names_library(const struct image *image)
{
	const size_t shortest = sizeof("libcuda");

	for (int i = 0; i < image->segment_count; i++) {
		const ElfW(Phdr) *segment = &image->segments[i];
		const char *begin = (const char *)(image->bias + segment->p_vaddr);

		if (segment->p_type != PT_LOAD || (segment->p_flags & (PF_R | PF_W)) != PF_R ||
		    segment->p_filesz < shortest)
			continue;
		for (size_t k = 0; k <= segment->p_filesz - shortest; k++)
			if (begin[k] == 'l' && (word_begins(begin + k, "libcuda") ||
						word_begins(begin + k, "libcublas")))
				return true;
	}
	return false;
}

static bool bound_past(const struct search *search, const struct image *image, enum want want,
		       uintptr_t value)
{
	const int from = atomic_load(&deep_from);

	if (value >= image->begin && value < image->end) { /* not bound yet */
		if (from < 0 || search->index < from)
			return false;
		return want == WANT_HOOK || names_library(image);
	}
	if (want == WANT_DLSYM)
		return holds(&search->loader, value) && names_library(image);
	for (int i = 0; i < search->libraries; i++)
		if (holds(&search->library[i], value))
			return true;
	return false;
}

/* Which of its symbols an object wants of those that we stand before: few, and mostly none, while
 * the places that the loader filled are many, and lie in memory that nobody needs any more. */
static struct imports {
	size_t count; /* 0: not known */
	uint64_t wanted[IMPORTS / 64];
} imports;

/* false: it wants none. */
static bool find_imports(const struct image *image)
{
	const size_t count = image_imports(image);
	bool any = false;

	imports.count = count <= IMPORTS ? count : 0;
	memset(imports.wanted, 0, (imports.count + 63) / 64 * 8);
	for (size_t i = 1; i < imports.count; i++)
		if (image->symbols[i].st_shndx == SHN_UNDEF &&
		    want_of(image->strings + image->symbols[i].st_name) != WANT_NOTHING) {
			imports.wanted[i / 64] |= 1ull << i % 64;
			any = true;
		}
	return any || !imports.count;
}

static bool may_be_wanted(size_t number)
{
	return !imports.count ||
	       (number < imports.count && imports.wanted[number / 64] >> number % 64 & 1);
}

/* The places of one table of relocations. */
static bool look_at_places(const struct search *search, const struct image *image,
			   const ElfW(Rela) * place, size_t count)
{
	for (; count--; place++) {
		const size_t number = ELF64_R_SYM(place->r_info);
		const char *name;
		enum want want;

		if (!number || !may_be_wanted(number) ||
		    image->symbols[number].st_shndx != SHN_UNDEF)
			continue;
		name = image->strings + image->symbols[number].st_name;
		want = want_of(name);
		if (want == WANT_NOTHING ||
		    !bound_past(search, image, want,
				*(const uintptr_t *)(image->bias + place->r_offset)))
			continue;
		snprintf(search->why, search->size, "%.160s calls %.60s past the shim",
			 image->path[0] ? image->path : "the program", name);
		return true;
	}
	return false;
}

/* Objects that want nothing, and those that were looked at twice, the second time after something
 * else had been loaded: at the first the loader may still have been about to bind them. Of these
 * there is nothing more to learn, until something is unloaded: another may come to lie in its
 * place. */
static struct clean {
	uintptr_t begin; /* 0: free */
	const ElfW(Dyn) * dynamic;
	unsigned long long first; /* looked at, as image_changes() counts */
	bool twice;
} clean[CLEAN];
static int clean_count;

static struct clean *clean_of(const struct image *image)
{
	size_t at = (image->begin >> 12) * 0x9e3779b97f4a7c15ull >> 32 & (CLEAN - 1);

	while (clean[at].begin &&
	       (clean[at].begin != image->begin || clean[at].dynamic != image->dynamic))
		at = (at + 1) & (CLEAN - 1);
	return &clean[at];
}

static bool known_clean(const struct image *image)
{
	return clean_of(image)->twice;
}

static void note_clean(const struct image *image, unsigned long long changes, bool for_good)
{
	struct clean *of = clean_of(image);

	if (of->begin)
		of->twice = for_good || changes != of->first;
	else if (clean_count < CLEAN / 4 * 3) {
		clean_count++;
		*of = (struct clean){image->begin, image->dynamic, changes, for_good};
	}
}

static void forget_clean(void)
{
	memset(clean, 0, sizeof(clean));
	clean_count = 0;
}

static bool look_at(const struct image *image, void *data)
{
	const ElfW(Rela) *places = NULL, *calls = NULL;
	size_t places_bytes = 0, calls_bytes = 0, relative = 0;
	struct search *search = data;
	bool found = false, wants;

	if (known_clean(image)) {
		search->index++;
		return false;
	}
	wants = find_imports(image);
	for (const ElfW(Dyn) *entry = image->dynamic; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_RELA)
			places = image_pointer(image, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_RELASZ)
			places_bytes = entry->d_un.d_val;
		else if (entry->d_tag == DT_RELACOUNT)
			relative = entry->d_un.d_val;
		else if (entry->d_tag == DT_JMPREL)
			calls = image_pointer(image, entry->d_un.d_ptr);
		else if (entry->d_tag == DT_PLTRELSZ)
			calls_bytes = entry->d_un.d_val;
	}
	if (wants && image->dynamic != _DYNAMIC && !is_watched_library(image)) {
		found = calls && look_at_places(search, image, calls, calls_bytes / sizeof(*calls));
		/* Nearly all places of a large library are addresses of its own, and come first. */
		places_bytes /= sizeof(*places);
		found = found ||
			(places && places_bytes > relative &&
			 look_at_places(search, image, places + relative, places_bytes - relative));
	}
	if (!found)
		note_clean(image, search->changes, !wants);
	search->index++;
	return found;
}

/* ---- all of them ---------------------------------------------------------------------------- */

bool bypassed(const char **why)
{
	static unsigned long long looked_at; /* at so many objects loaded and unloaded; 0: never */
	static unsigned long long gone;	     /* unloaded then */
	static char text[256];
	static bool found;
	struct search search = {.why = text, .size = sizeof(text)};
	unsigned long long now, unloaded;

	*why = text;
	if (atomic_load_explicit(&other_namespace, memory_order_relaxed)) {
		*why = "dlmopen() was called: what it loads does not see the shim";
		return true;
	}
	if (atomic_load_explicit(&other_answers, memory_order_relaxed)) {
		*why = "another library answers dlsym() with functions of its own in the driver's "
		       "stead";
		return true;
	}
	if (atomic_load_explicit(&device_launches, memory_order_relaxed)) {
		*why = "a graph was made that kernels may launch";
		return true;
	}
	now = image_changes(&unloaded);
	if (now != looked_at) {
		if (unloaded != gone)
			forget_clean();
		gone = unloaded;
		search.changes = now;
		looked_at = now;
		text[0] = '\0';
		image_find(note_library, &search);
		found = image_find(look_at, &search);
	}
	return found;
}
