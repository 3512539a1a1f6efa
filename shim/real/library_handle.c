/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles and their libraries (library_handle.h). Found without a lock; a destroyed one leaves its
 * slot to be taken again.
 */
#include "shim/real/library_handle.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/base/locks.h"

#define SLOTS 1024 /* a power of two; a program with more handles pays a search per call */
#define GONE  1	   /* key of a slot whose handle was destroyed */

static struct slot {
	_Atomic(uintptr_t) key;
	_Atomic(struct library *) library;
	_Atomic(uint64_t) begin, end; /* its workspace, if that is the program's */
} slots[SLOTS];

static unsigned hash(uintptr_t key)
{
	return (unsigned)((key >> 4) * 0x9e3779b97f4a7c15ull >> 40) & (SLOTS - 1);
}

static struct slot *find(const void *handle)
{
	uintptr_t key = (uintptr_t)handle, met;
	unsigned i = hash(key);

	if (key <= GONE)
		return NULL;
	for (unsigned tries = 0; tries < SLOTS; tries++, i = (i + 1) & (SLOTS - 1)) {
		met = atomic_load_explicit(&slots[i].key, memory_order_acquire);
		if (met == key)
			return &slots[i];
		if (!met)
			return NULL;
	}
	return NULL;
}

void library_handle_made(const void *handle, struct library *library)
{
	struct slot *slot;
	unsigned i = hash((uintptr_t)handle);

	if ((uintptr_t)handle <= GONE)
		return;
	lock_take(LOCK_LIBRARY);
	slot = find(handle);
	for (unsigned tries = 0; !slot && tries < SLOTS; tries++) {
		if (atomic_load_explicit(&slots[i].key, memory_order_relaxed) <= GONE)
			slot = &slots[i];
		i = (i + 1) & (SLOTS - 1);
	}
	if (slot) {
		atomic_store_explicit(&slot->library, library, memory_order_relaxed);
		atomic_store_explicit(&slot->begin, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->end, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->key, (uintptr_t)handle, memory_order_release);
	}
	lock_give(LOCK_LIBRARY);
}

void library_handle_gone(const void *handle)
{
	struct slot *slot;

	lock_take(LOCK_LIBRARY);
	slot = find(handle);
	if (slot)
		atomic_store_explicit(&slot->key, GONE, memory_order_release);
	lock_give(LOCK_LIBRARY);
}

struct library *library_of_handle(const void *handle)
{
	struct slot *slot = find(handle);

	return slot ? atomic_load_explicit(&slot->library, memory_order_relaxed) : NULL;
}

/* A handle is for one thread at a time. */
void library_handle_set_workspace(const void *handle, struct range workspace)
{
	struct slot *slot = find(handle);

	if (!slot)
		return;
	atomic_store_explicit(&slot->begin, workspace.begin, memory_order_relaxed);
	atomic_store_explicit(&slot->end, workspace.end, memory_order_relaxed);
}

struct range library_handle_workspace(const void *handle)
{
	struct slot *slot = find(handle);

	if (!slot)
		return (struct range){0, 0};
	return (struct range){atomic_load_explicit(&slot->begin, memory_order_relaxed),
			      atomic_load_explicit(&slot->end, memory_order_relaxed)};
}
