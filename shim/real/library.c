/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded GPU libraries (library.h). Instances are only ever added; one whose object was unloaded
 * gives its place to the next of its name. What is known of callers holds as long as the loader
 * has neither loaded nor unloaded anything.
 */
#include "shim/real/library.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "shim/real/resolve.h"
#include "shim/base/word.h"

static const char *const families[] = {"libcudnn.so.", "libcufft.so.", "libcusolver.so.",
				       "libcusparse.so.", "libnccl.so."};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

/* The parts of cuDNN, which call one another by exported names. */
static const char part_prefix[] = "libcudnn_";

struct library {
	unsigned family;
	struct image image;
	char soname[32];
	void *real[LIBRARY_COUNT];
	void *getter[LIBRARY_GETTER_COUNT];
};

static struct library libraries[LIBRARIES];
static atomic_uint library_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__thread int library_entered __attribute__((tls_model("initial-exec")));
__thread int library_stub_depth __attribute__((tls_model("initial-exec")));

static const char *const names[LIBRARY_COUNT] = {
#define HOOK(name) #name,
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

	while (family < FAMILIES &&
	       strncmp(soname, families[family], strlen(families[family])) != 0)
		family++;
	return family;
}

bool library_is_soname(const char *soname)
{
	return family_of_soname(soname) < FAMILIES;
}

/* A family's functions begin as its library's name goes on behind "lib". */
static unsigned family_of_function(enum library_id id)
{
	unsigned family = 0;

	while (family < FAMILIES - 1 &&
	       strncmp(names[id], families[family] + 3, strcspn(families[family] + 3, ".")) != 0)
		family++;
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
	for (unsigned id = 0; id < LIBRARY_COUNT; id++)
		__atomic_store_n(&library->real[id],
				 family_of_function(id) == library->family
					 ? image_symbol(image, names[id])
					 : NULL,
				 __ATOMIC_RELAXED);
	for (unsigned i = 0; i < LIBRARY_GETTER_COUNT; i++)
		__atomic_store_n(&library->getter[i], image_symbol(image, getter_names[i]),
				 __ATOMIC_RELAXED);
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

	pthread_mutex_lock(&lock);
	library = add(image);
	pthread_mutex_unlock(&lock);
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
		if (image.soname &&
		    strncmp(image.soname, part_prefix, sizeof(part_prefix) - 1) == 0) {
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

static int read_generation(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(unsigned long long *)data = info->dlpi_adds + info->dlpi_subs;
	return 1;
}

static struct route route_of(enum library_id id, const void *caller)
{
	static unsigned long long refreshed; /* generation of the last look at the loader's list */
	struct collected collected = {.count = 0};
	unsigned long long generation = 0;
	struct route *slot, route;

	dl_iterate_phdr(read_generation, &generation);
	pthread_mutex_lock(&lock);
	slot = &routes[((uintptr_t)caller * 0x9e3779b97f4a7c15ull >> 56) % ROUTES];
	if (slot->caller == caller && slot->id == id && slot->generation == generation &&
	    !library_stub_depth) {
		route = *slot;
		pthread_mutex_unlock(&lock);
		return route;
	}
	pthread_mutex_unlock(&lock);
	if (__atomic_load_n(&refreshed, __ATOMIC_RELAXED) != generation)
		image_find(collect, &collected);
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < collected.count; i++)
		add(&collected.images[i]);
	__atomic_store_n(&refreshed, generation, __ATOMIC_RELAXED);
	route = (struct route){.caller = caller, .id = id, .generation = generation};
	find_route(&route);
	if (!library_stub_depth)
		*slot = route;
	pthread_mutex_unlock(&lock);
	return route;
}

struct library *library_for(enum library_id id, const void *handle, const void *caller, void **real)
{
	const int entered = library_entered;
	struct library *library, *owner;
	struct route route;
	bool certain = true;

	library_entered = 0;
	*real = NULL;
	if (entered) {
		library = &libraries[entered - 1];
	} else {
		route = route_of(id, caller);
		library = route.library;
		*real = route.real;
		certain = route.certain;
	}
	if (library && atomic_load_explicit(&library_count, memory_order_relaxed) > 1) {
		owner = certain ? NULL : owner_of(handle, library->family);
		if (owner)
			library = owner;
		else if (certain)
			owner_note(handle, library);
	}
	if (library)
		*real = __atomic_load_n(&library->real[id], __ATOMIC_RELAXED);
	return library;
}

void *library_getter(const struct library *library, enum library_getter getter)
{
	return __atomic_load_n(&library->getter[getter], __ATOMIC_RELAXED);
}
