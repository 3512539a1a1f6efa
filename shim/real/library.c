/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded GPU libraries (library.h). Instances are only ever added; one whose object was unloaded
 * gives its place to the next of its name. What is known of callers holds as long as the loader
 * has neither loaded nor unloaded anything.
 */
#include "shim/real/library.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/locks.h"
#include "shim/base/word.h"
#include "shim/real/library_handle.h"
#include "shim/real/resolve.h"
#include "shim/base/message.h"

/* What the names of a library, and of its functions, begin with. */
static const struct family {
	const char *soname, *function;
	bool handles; /* their making and end are seen */
} families[] = {
	{"libcublasLt.so.", "cublasLt", true},	{"libcublas.so.", "cublas", true},
	{"libcudnn.so.", "cudnn", false},	{"libcufft.so.", "cufft", false},
	{"libcusolver.so.", "cusolver", false}, {"libcusparse.so.", "cusparse", false},
	{"libnccl.so.", "nccl", false},
};
enum { FAMILY_LT, FAMILY_BLAS, FAMILIES = sizeof(families) / sizeof(families[0]) };

/* The parts of cuDNN, which call one another by exported names. */
static const char part_prefix[] = "libcudnn_";

struct library {
	unsigned family;
	struct image image;
	char soname[32];
	_Atomic(struct library *) beside; /* of cuBLAS: the Lt, or that of an Lt, once found */
	void *real[LIBRARY_COUNT];
	void *getter[LIBRARY_GETTER_COUNT];
};

static struct library libraries[LIBRARIES];
static atomic_uint library_count;

__thread int library_entered __attribute__((tls_model("initial-exec")));
__thread int library_stub_depth __attribute__((tls_model("initial-exec")));

static const char *const names[LIBRARY_COUNT] = {
#define LIBRARY_ROW(name) #name,
#include "shim/real/library_hooks.def"
};

static const char *const getter_names[LIBRARY_GETTER_COUNT] = {
#define GETTER(name) #name,
	LIBRARY_GETTERS(GETTER)
#undef GETTER
};

int library_hook_id(const char *name)
{
	return word_find(names, LIBRARY_COUNT, name);
}

/* FAMILIES: of none. */
static unsigned family_of_soname(const char *soname)
{
	unsigned family = 0;

	while (family < FAMILIES && !word_begins(soname, families[family].soname))
		family++;
	return family;
}

bool library_is_soname(const char *soname)
{
	return family_of_soname(soname) < FAMILIES;
}

bool library_holds(const void *address)
{
	struct image image;

	return image_of(address, &image) && image.soname &&
	       (library_is_soname(image.soname) || word_begins(image.soname, part_prefix));
}

/* Each call asks: by its name, the first time. */
static unsigned family_of_function(enum library_id id)
{
	static atomic_uchar known[LIBRARY_COUNT]; /* one more than the family */
	unsigned family = atomic_load_explicit(&known[id], memory_order_relaxed);

	if (family)
		return family - 1;
	while (family < FAMILIES - 1 && !word_begins(names[id], families[family].function))
		family++;
	atomic_store_explicit(&known[id], (unsigned char)(family + 1), memory_order_relaxed);
	return family;
}

static bool same_image(const struct library *library, const struct image *image)
{
	return library->image.begin == image->begin && library->image.dynamic == image->dynamic &&
	       strcmp(library->soname, image->soname) == 0;
}

static void fill(struct library *library, const struct image *image)
{
	library->image = *image;
	library->family = family_of_soname(image->soname);
	strncpy(library->soname, image->soname, sizeof(library->soname) - 1);
	atomic_store_explicit(&library->beside, NULL, memory_order_relaxed);
	for (unsigned id = 0; id < LIBRARY_COUNT; id++)
		__atomic_store_n(&library->real[id],
				 family_of_function(id) == library->family
					 ? image_symbol(image, names[id])
					 : NULL,
				 __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LIBRARY_GETTER_COUNT; i++)
		__atomic_store_n(&library->getter[i], image_symbol(image, getter_names[i]),
				 __ATOMIC_RELAXED);
	message_debug("%s is %s", image->soname, image->path);
}

/* Called with the lock held. NULL: no place left. */
static struct library *add(const struct image *image)
{
	unsigned count = atomic_load_explicit(&library_count, memory_order_relaxed);
	struct library *library;
	struct image now;

	for (library = libraries; library < libraries + count; library++)
		if (same_image(library, image))
			return library;
	for (library = libraries; library < libraries + count; library++) {
		if (strcmp(library->soname, image->soname) == 0 &&
		    (!image_of(library->image.dynamic, &now) || !now.soname ||
		     !same_image(library, &now))) {
			fill(library, image);
			return library;
		}
	}
	if (count == LIBRARIES || strlen(image->soname) >= sizeof(library->soname))
		return NULL;
	fill(library, image);
	atomic_store_explicit(&library_count, count + 1, memory_order_release);
	return library;
}

/* New objects are collected first and added later: `add` walks the loader's list itself. */
struct collected {
	struct image images[LIBRARIES];
	unsigned count;
};

static bool collect(const struct image *image, void *data)
{
	struct collected *collected = data;

	if (image->soname && library_is_soname(image->soname))
		collected->images[collected->count++] = *image;
	return collected->count == LIBRARIES;
}

int library_instance(const struct image *image, enum library_id id, const void *real)
{
	const struct library *library;

	lock_take(LOCK_LIBRARY);
	library = add(image);
	lock_give(LOCK_LIBRARY);
	return library && library->real[id] == real ? (int)(library - libraries) : -1;
}

/* ---- which library? ------------------------------------------------------------------------- */

/* Where the handles of a process with two versions come from; a collision forgets. An instance is
 * kept in the low bits of a handle, which is the address of something larger. */
#define OWNERS 256
static uintptr_t owners[OWNERS];

static uintptr_t *owner_slot(const void *handle)
{
	return &owners[((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 56];
}

static void owner_note(const void *handle, const struct library *library)
{
	if (handle && ((uintptr_t)handle & 15) == 0)
		__atomic_store_n(owner_slot(handle),
				 (uintptr_t)handle | (uintptr_t)(library - libraries),
				 __ATOMIC_RELAXED);
}

static struct library *owner_of(const void *handle, unsigned family)
{
	uintptr_t owner = __atomic_load_n(owner_slot(handle), __ATOMIC_RELAXED);
	struct library *library = &libraries[owner & 15];

	return handle && (owner & ~(uintptr_t)15) == (uintptr_t)handle && library->family == family
		       ? library
		       : NULL;
}

_Static_assert(LIBRARIES <= 16, "an instance fits into four bits");

/* The library of a family that `image` needs, itself or through one it needs. */
static struct library *needed_by(const struct image *image, unsigned family, int levels)
{
	unsigned count = atomic_load_explicit(&library_count, memory_order_acquire);
	struct library *found = NULL;
	struct image next;

	for (unsigned i = 0; i < count; i++)
		if (libraries[i].family == family && image_needs(image, libraries[i].soname))
			return &libraries[i];
	for (const ElfW(Dyn) *entry = image->dynamic; !found && levels && entry->d_tag != DT_NULL;
	     entry++)
		if (entry->d_tag == DT_NEEDED &&
		    image_by_soname(image->strings + entry->d_un.d_val, false, &next))
			found = needed_by(&next, family, levels - 1);
	return found;
}

/* The definition that an object gets from what it needs. */
static void *needed_definition(const struct image *image, const char *name)
{
	struct image next;
	void *found = NULL;

	for (const ElfW(Dyn) *entry = image->dynamic; !found && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_NEEDED &&
		    image_by_soname(image->strings + entry->d_un.d_val, false, &next))
			found = image_symbol(&next, name);
	return found;
}

/* What a caller's calls of one function lead to. */
struct route {
	const void *caller;
	enum library_id id;
	unsigned long long generation;
	struct library *library;
	void *real;   /* without a library */
	bool certain; /* it is not for want of better */
};

#define ROUTES 256
static struct route routes[ROUTES]; /* lock held */

static void find_route(struct route *route)
{
	const unsigned family = family_of_function(route->id);
	const char *name = names[route->id];
	struct image image;
	unsigned count;

	if (image_of(route->caller, &image)) {
		if (image.soname && word_begins(image.soname, part_prefix)) {
			route->real = needed_definition(&image, name);
			if (!route->real)
				route->real = image_symbol(&image, name);
		} else if (image.soname && family_of_soname(image.soname) == family) {
			route->library = add(&image);
		} else if (!library_stub_depth && image.dynamic != _DYNAMIC) {
			route->real = image_symbol(&image, name);
		}
		if (!route->real && !route->library)
			route->library = needed_by(&image, family, 3);
	}
	route->certain = route->real || route->library;
	count = atomic_load_explicit(&library_count, memory_order_acquire);
	for (unsigned i = 0; !route->real && !route->library && i < count; i++)
		if (libraries[i].family == family)
			route->library = &libraries[i];
	if (!route->real && !route->library && !library_stub_depth)
		route->real = resolve_stub(name, route->caller);
}

static struct route route_of(enum library_id id, const void *caller)
{
	static unsigned long long refreshed; /* generation of the last look at the loader's list */
	struct collected collected = {.count = 0};
	const unsigned long long generation = image_changes(NULL);
	struct route *slot, route;

	lock_take(LOCK_LIBRARY);
	slot = &routes[((uintptr_t)caller * 0x9e3779b97f4a7c15ull >> 56) % ROUTES];
	if (slot->caller == caller && slot->id == id && slot->generation == generation &&
	    !library_stub_depth) {
		route = *slot;
		lock_give(LOCK_LIBRARY);
		return route;
	}
	lock_give(LOCK_LIBRARY);
	if (__atomic_load_n(&refreshed, __ATOMIC_RELAXED) != generation)
		image_find(collect, &collected);
	lock_take(LOCK_LIBRARY);
	for (unsigned i = 0; i < collected.count; i++)
		add(&collected.images[i]);
	__atomic_store_n(&refreshed, generation, __ATOMIC_RELAXED);
	route = (struct route){.caller = caller, .id = id, .generation = generation};
	find_route(&route);
	if (!library_stub_depth)
		*slot = route;
	lock_give(LOCK_LIBRARY);
	return route;
}

/* Of cuBLAS: the library itself or the one of the other kind, of `family`: programs hand a
 * cublasHandle_t to Lt. */
static struct library *beside(struct library *library, unsigned family)
{
	struct library *other;

	if (!library || library->family == family)
		return library;
	other = atomic_load_explicit(&library->beside, memory_order_relaxed);
	if (other)
		return other;
	other = route_of(family == FAMILY_LT ? LIBRARY_cublasLtCreate : LIBRARY_cublasCreate_v2,
			 library->image.dynamic)
			.library;
	if (other)
		atomic_store_explicit(&library->beside, other, memory_order_relaxed);
	return other;
}

struct library *library_for(enum library_id id, const void *handle, const void *caller, void **real)
{
	const unsigned family = family_of_function(id);
	const bool handles = families[family].handles;
	const int entered = library_entered;
	struct library *library = NULL, *owner;
	struct route route = {.certain = true};

	library_entered = 0;
	*real = NULL;
	if (entered)
		library = &libraries[entered - 1];
	else if (handles)
		library = beside(library_of_handle(handle), family);
	if (!library) {
		route = route_of(id, caller);
		library = route.library;
		*real = route.real;
		if (library && handles)
			library_handle_made(handle, library);
	}
	if (library && !handles) {
		owner = route.certain ? NULL : owner_of(handle, family);
		if (owner)
			library = owner;
		else if (route.certain)
			owner_note(handle, library);
	}
	if (library)
		*real = __atomic_load_n(&library->real[id], __ATOMIC_RELAXED);
	if (library && !*real && !library_stub_depth) {
		library = NULL;
		*real = resolve_stub(names[id], caller);
	}
	return library;
}

void *library_getter(const struct library *library, enum library_getter getter)
{
	return __atomic_load_n(&library->getter[getter], __ATOMIC_RELAXED);
}

/* ---- for the rest of the shim --------------------------------------------------------------- */

void *blas_symbol(const struct library *library, const char *name)
{
	const unsigned other = library->family == FAMILY_LT ? FAMILY_BLAS : FAMILY_LT;
	void *address = image_symbol(&library->image, name);

	if (address)
		return address;
	library = beside((struct library *)library, other);
	return library ? image_symbol(&library->image, name) : NULL;
}

void library_keep(const struct library *library)
{
	real_keep(library->image.path);
}

int blas_version(const struct library *library)
{
	int (*get)(int part, int *value) = (int (*)(int, int *))image_symbol(
		&library->image,
		library->family == FAMILY_LT ? "cublasLtGetProperty" : "cublasGetProperty");
	int part[3] = {0, 0, 0};
	bool known = get != NULL;

	for (int i = 0; known && i < 3; i++)
		known = get(i, &part[i]) == 0;
	if (known)
		return part[0] * 10000 + part[1] * 100 + part[2];
	/* The major version at least stands in the name. */
	return (int)strtol(strstr(library->soname, ".so.") + 4, NULL, 10) * 10000;
}
