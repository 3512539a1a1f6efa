/* SPDX-License-Identifier: Apache-2.0
 *
 * Thunks (thunk.h): the part that can be written in C.
 */
#include "shim/hook/thunk.h"

#include <cuda.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "shim/real/driver_table.h"
#include "shim/flow/flow.h"
#include "shim/base/locks.h"
#include "shim/real/driver.h"

static struct slot {
	void *real;
	char name[64];
} slots[THUNK_POOL];
static _Atomic(unsigned) slot_count;

void *thunk_for(void *real, const char *name)
{
	void *thunk = real;
	unsigned slot, count;

	lock_take(LOCK_THUNK);
	count = atomic_load_explicit(&slot_count, memory_order_relaxed);
	for (slot = 0; slot < count && slots[slot].real != real; slot++)
		;
	if (slot == count && count < THUNK_POOL) {
		slots[slot].real = real;
		strncpy(slots[slot].name, name, sizeof(slots[slot].name) - 1);
		atomic_store_explicit(&slot_count, count + 1, memory_order_release);
	}
	if (slot < THUNK_POOL)
		thunk = (void *)(thunk_pool + slot * THUNK_BYTES);
	lock_give(LOCK_THUNK);
	return thunk;
}

/* Where a thunk ends whose function exists nowhere. */
static CUresult not_found(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

void *thunk_enter(unsigned index, const void *caller)
{
	struct slot *slot = index < DRIVER_COUNT ? NULL : &slots[index - DRIVER_COUNT];
	void *real = slot ? slot->real : driver_function(index, caller);
	int saved = errno;

	if (hook_depth == 0 && flow_active())
		flow_flush(slot ? slot->name : driver_name(index));
	errno = saved;
	return real ? real : (void *)not_found;
}
