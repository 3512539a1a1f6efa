/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's functions (driver_table.h). Real addresses are read from libcuda's own symbol table;
 * the same addresses, sorted, answer the question of cuGetProcAddress: which function is this?
 */
#include "shim/real/driver_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/real/image.h"
#include "shim/base/locks.h"
#include "shim/real/resolve.h"
#include "shim/base/word.h"
#include "shim/base/message.h"

void *driver_real[DRIVER_COUNT];

static const char *const names[DRIVER_COUNT] = {
#define HOOK(name)  #name,
#define INERT(name) #name,
#define FLUSH(name) #name,
#include "shim/real/driver_names.def"
};

static const bool hooked[DRIVER_COUNT] = {
#define HOOK(name)  true,
#define INERT(name) false,
#define FLUSH(name) true,
#include "shim/real/driver_names.def"
};

/* Sorted by address. Names may share one. */
static struct identity {
	uintptr_t address;
	enum driver_id id;
} identities[DRIVER_COUNT];
static unsigned identity_count;
static uintptr_t library_begin, library_end;

static atomic_bool loaded;

const char *driver_name(enum driver_id id)
{
	return names[id];
}

int driver_id(const char *name)
{
	return word_find(names, DRIVER_COUNT, name);
}

bool driver_is_hooked(const char *name)
{
	const int id = driver_id(name);

	return id >= 0 && hooked[id];
}

bool driver_is_soname(const char *soname)
{
	return word_same(soname, "libcuda.so.1");
}

static int by_address(const void *left, const void *right)
{
	const struct identity *l = left, *r = right;

	if (l->address != r->address)
		return l->address < r->address ? -1 : 1;
	return (int)l->id - (int)r->id;
}

static void load_from(const struct image *image)
{
	unsigned count = 0;

	for (unsigned id = 0; id < DRIVER_COUNT; id++) {
		void *address = image_symbol(image, names[id]);

		if (!address)
			continue;
		__atomic_store_n(&driver_real[id], address, __ATOMIC_RELAXED);
		identities[count++] = (struct identity){(uintptr_t)address, id};
	}
	qsort(identities, count, sizeof(identities[0]), by_address);
	identity_count = count;
	library_begin = image->begin;
	library_end = image->end;
}

int driver_table_load(void)
{
	const char *path = NULL;
	struct image image;
	int saved = errno, result = 0;

	if (atomic_load_explicit(&loaded, memory_order_acquire))
		return 0;
	lock_take(LOCK_DRIVER_TABLE);
	if (!atomic_load_explicit(&loaded, memory_order_relaxed)) {
		if (image_by_soname("libcuda.so.1", false, &image)) {
			load_from(&image);
			message_debug("the driver is %s", image.path);
			path = image.path;
			atomic_store_explicit(&loaded, true, memory_order_release);
		} else {
			result = -ENOENT;
		}
	}
	lock_give(LOCK_DRIVER_TABLE);
	/* Programs that look whether there is a GPU close the driver again, and it may come back
	 * elsewhere. Without the lock: who has the loader's may be waiting for it. */
	if (path)
		real_keep(path);
	errno = saved;
	return result;
}

void *driver_function(enum driver_id id, const void *caller)
{
	void *real = __atomic_load_n(&driver_real[id], __ATOMIC_RELAXED);

	if (real)
		return real;
	if (driver_table_load() == 0)
		return driver_real[id];
	return resolve_stub(names[id], caller);
}

/* Is `row` the asked-for name itself, or that with a suffix for its version and stream flavour? */
static bool is_version_of(const char *row, const char *name)
{
	size_t length = strlen(name);

	return strncmp(row, name, length) == 0 && (row[length] == '\0' || row[length] == '_');
}

/* Of the rows that have this address, starting at `first`, the one that was meant: the only one, or
 * the first that goes by the name. DRIVER_NO_ROW: several, none of that name. */
static int identify(unsigned first, const char *name)
{
	uintptr_t address = identities[first].address;
	unsigned end = first;

	while (end < identity_count && identities[end].address == address)
		end++;
	if (end == first + 1)
		return (int)identities[first].id;
	for (; first < end; first++)
		if (is_version_of(names[identities[first].id], name))
			return (int)identities[first].id;
	return DRIVER_NO_ROW;
}

int driver_id_of_pointer(const void *real, const char *name)
{
	const uintptr_t address = (uintptr_t)real;
	unsigned low = 0, high;

	if (!real || driver_table_load())
		return DRIVER_FOREIGN;
	high = identity_count;
	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (identities[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < identity_count && identities[low].address == address)
		return identify(low, name);
	return address < library_begin || address >= library_end ? DRIVER_FOREIGN : DRIVER_NO_ROW;
}
