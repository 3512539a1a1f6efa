/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded cuBLAS libraries (blas_library.h). Instances are only ever added; an instance whose object
 * was unloaded is recognised by its address and its place given to the next library of that name.
 */
#include "shim/real/blas_library.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/locks.h"
#include "shim/real/resolve.h"
#include "shim/base/word.h"

struct blas_library {
	enum blas_kind kind;
	struct image image;
	char soname[32];
	char path[512];
	struct blas_getters getters;
	_Atomic(struct blas_library *) beside; /* of the other kind, once found */
	void *real[BLAS_COUNT];
};

static struct blas_library libraries[BLAS_LIBRARIES];
static atomic_uint library_count;

__thread int blas_entered __attribute__((tls_model("initial-exec")));

static const char *const names[BLAS_COUNT] = {
#define HOOK(name) #name,
#include "shim/real/cublas_hooks.def"
};

int blas_hook_id(const char *name)
{
	return word_find(names, BLAS_COUNT, name);
}

static const char blas_prefix[] = "libcublas.so.", lt_prefix[] = "libcublasLt.so.";

bool blas_is_soname(const char *soname)
{
	return word_begins(soname, blas_prefix) || word_begins(soname, lt_prefix);
}

static bool is_lt(enum blas_id id)
{
	return strncmp(names[id], "cublasLt", 8) == 0;
}

static bool same_image(const struct blas_library *library, const struct image *image)
{
	return library->image.begin == image->begin && library->image.dynamic == image->dynamic &&
	       strcmp(library->soname, image->soname) == 0;
}

static void fill(struct blas_library *library, const struct image *image)
{
	library->image = *image;
	library->kind = strncmp(image->soname, lt_prefix, sizeof(lt_prefix) - 1) == 0
				? BLAS_KIND_LT
				: BLAS_KIND_CUBLAS;
	strncpy(library->soname, image->soname, sizeof(library->soname) - 1);
	strncpy(library->path, image->path, sizeof(library->path) - 1);
	atomic_store_explicit(&library->beside, NULL, memory_order_relaxed);
	library->getters = (struct blas_getters){
		.stream = image_symbol(image, "cublasGetStream_v2"),
		.pointer_mode = image_symbol(image, "cublasGetPointerMode_v2"),
		.math_mode = image_symbol(image, "cublasGetMathMode"),
		.desc = image_symbol(image, "cublasLtMatmulDescGetAttribute"),
		.layout = image_symbol(image, "cublasLtMatrixLayoutGetAttribute"),
	};
	for (unsigned id = 0; id < BLAS_COUNT; id++)
		__atomic_store_n(&library->real[id], image_symbol(image, names[id]),
				 __ATOMIC_RELAXED);
}

/* Called with the lock held. */
static struct blas_library *add(const struct image *image)
{
	unsigned count = atomic_load_explicit(&library_count, memory_order_relaxed);
	struct blas_library *library;
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
	if (count == BLAS_LIBRARIES)
		return NULL;
	fill(library, image);
	atomic_store_explicit(&library_count, count + 1, memory_order_release);
	return library;
}

/* New objects are collected first and added later: `add` walks the loader's list itself. */
struct collected {
	struct image images[BLAS_LIBRARIES];
	unsigned count;
};

static bool collect(const struct image *image, void *data)
{
	struct collected *collected = data;

	if (image->soname && blas_is_soname(image->soname))
		collected->images[collected->count++] = *image;
	return collected->count == BLAS_LIBRARIES;
}

static void refresh(void)
{
	struct collected collected = {.count = 0};

	image_find(collect, &collected);
	lock_take(LOCK_BLAS);
	for (unsigned i = 0; i < collected.count; i++)
		add(&collected.images[i]);
	lock_give(LOCK_BLAS);
}

int blas_instance(const struct image *image, enum blas_id id, const void *real)
{
	const struct blas_library *library;

	lock_take(LOCK_BLAS);
	library = add(image);
	lock_give(LOCK_BLAS);
	return library && library->real[id] == real ? (int)(library - libraries) : -1;
}

/* ---- handles -------------------------------------------------------------------------------- */

#define HANDLE_SLOTS 1024 /* a power of two; a program with more handles pays a search per call */
#define HANDLE_GONE  1	  /* key of a slot whose handle was destroyed */

static struct handle_slot {
	_Atomic(uintptr_t) key;
	_Atomic(struct blas_library *) library;
} handles[HANDLE_SLOTS];

static unsigned handle_hash(uintptr_t key)
{
	return (unsigned)((key >> 4) * 0x9e3779b97f4a7c15ull >> 40) & (HANDLE_SLOTS - 1);
}

static struct handle_slot *handle_find(const void *handle)
{
	uintptr_t key = (uintptr_t)handle, met;
	unsigned i = handle_hash(key);

	for (unsigned tries = 0; tries < HANDLE_SLOTS; tries++, i = (i + 1) & (HANDLE_SLOTS - 1)) {
		met = atomic_load_explicit(&handles[i].key, memory_order_acquire);
		if (met == key)
			return &handles[i];
		if (!met)
			return NULL;
	}
	return NULL;
}

void blas_handle_created(const void *handle, struct blas_library *library)
{
	struct handle_slot *slot;
	unsigned i = handle_hash((uintptr_t)handle);

	if ((uintptr_t)handle <= HANDLE_GONE)
		return;
	lock_take(LOCK_BLAS);
	slot = handle_find(handle);
	for (unsigned tries = 0; !slot && tries < HANDLE_SLOTS; tries++) {
		if (atomic_load_explicit(&handles[i].key, memory_order_relaxed) <= HANDLE_GONE)
			slot = &handles[i];
		i = (i + 1) & (HANDLE_SLOTS - 1);
	}
	if (slot) {
		atomic_store_explicit(&slot->library, library, memory_order_relaxed);
		atomic_store_explicit(&slot->key, (uintptr_t)handle, memory_order_release);
	}
	lock_give(LOCK_BLAS);
}

void blas_handle_destroyed(const void *handle)
{
	struct handle_slot *slot;

	lock_take(LOCK_BLAS);
	slot = handle ? handle_find(handle) : NULL;
	if (slot)
		atomic_store_explicit(&slot->key, HANDLE_GONE, memory_order_release);
	lock_give(LOCK_BLAS);
}

/* ---- which library? ------------------------------------------------------------------------- */

/* Among the libraries of a kind, the one that `image` needs, itself or through one it needs. */
static struct blas_library *needed_by(const struct image *image, enum blas_kind kind, int levels)
{
	unsigned count = atomic_load_explicit(&library_count, memory_order_acquire);
	struct blas_library *found = NULL;
	struct image next;

	for (unsigned i = 0; i < count; i++)
		if (libraries[i].kind == kind && image_needs(image, libraries[i].soname))
			return &libraries[i];
	for (const ElfW(Dyn) *entry = image->dynamic; !found && levels && entry->d_tag != DT_NULL;
	     entry++)
		if (entry->d_tag == DT_NEEDED &&
		    image_by_soname(image->strings + entry->d_un.d_val, false, &next))
			found = needed_by(&next, kind, levels - 1);
	return found;
}

static struct blas_library *by_caller(enum blas_kind kind, const void *caller)
{
	unsigned count = atomic_load_explicit(&library_count, memory_order_acquire);
	struct image image;
	struct blas_library *found = NULL;

	if (image_of(caller, &image)) {
		for (unsigned i = 0; i < count; i++)
			if (libraries[i].kind == kind && libraries[i].image.begin == image.begin)
				return &libraries[i];
		found = needed_by(&image, kind, 3);
	}
	for (unsigned i = 0; !found && i < count; i++)
		if (libraries[i].kind == kind)
			found = &libraries[i];
	return found;
}

/* The libcublasLt beside a libcublas and the other way round: programs hand cublasHandle_t to Lt.
 */
static struct blas_library *of_kind(struct blas_library *library, enum blas_kind kind)
{
	struct blas_library *other;

	if (library->kind == kind)
		return library;
	other = atomic_load_explicit(&library->beside, memory_order_relaxed);
	if (other)
		return other;
	refresh();
	other = by_caller(kind, library->image.dynamic);
	if (other)
		atomic_store_explicit(&library->beside, other, memory_order_relaxed);
	return other;
}

struct blas_library *blas_library_for(enum blas_id id, const void *handle, const void *caller)
{
	enum blas_kind kind = is_lt(id) ? BLAS_KIND_LT : BLAS_KIND_CUBLAS;
	struct handle_slot *slot = (uintptr_t)handle > HANDLE_GONE ? handle_find(handle) : NULL;
	struct blas_library *library;
	int entered = blas_entered;

	blas_entered = 0;
	if (entered)
		return &libraries[entered - 1];
	if (slot) {
		library = atomic_load_explicit(&slot->library, memory_order_relaxed);
		return library->kind == kind ? library : of_kind(library, kind);
	}
	refresh();
	library = by_caller(kind, caller);
	if (library && handle)
		blas_handle_created(handle, library);
	return library;
}

void *blas_function(const struct blas_library *library, enum blas_id id)
{
	return __atomic_load_n(&library->real[id], __ATOMIC_RELAXED);
}

const struct blas_getters *blas_getters(const struct blas_library *library)
{
	return &library->getters;
}

__thread int blas_stub_depth __attribute__((tls_model("initial-exec")));

void *blas_stub(enum blas_id id, const void *caller)
{
	return blas_stub_depth ? NULL : resolve_stub(names[id], caller);
}

/* ---- for the rest of the shim --------------------------------------------------------------- */

void *blas_symbol(const struct blas_library *library, const char *name)
{
	void *address = image_symbol(&library->image, name);
	struct blas_library *other;

	if (address)
		return address;
	other = of_kind((struct blas_library *)library,
			library->kind == BLAS_KIND_LT ? BLAS_KIND_CUBLAS : BLAS_KIND_LT);
	return other ? image_symbol(&other->image, name) : NULL;
}

const char *blas_path(const struct blas_library *library)
{
	return library->path;
}

int blas_version(const struct blas_library *library)
{
	int (*get)(int part, int *value) = (int (*)(int, int *))image_symbol(
		&library->image,
		library->kind == BLAS_KIND_LT ? "cublasLtGetProperty" : "cublasGetProperty");
	int part[3] = {0, 0, 0};
	bool known = get != NULL;

	for (int i = 0; known && i < 3; i++)
		known = get(i, &part[i]) == 0;
	if (known)
		return part[0] * 10000 + part[1] * 100 + part[2];
	/* The major version at least stands in the name. */
	return (int)strtol(strstr(library->soname, ".so.") + 4, NULL, 10) * 10000;
}
