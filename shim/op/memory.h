/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocations of the process: which addresses are device memory, where an allocation ends, and
 * whether we may watch it. Addresses are unified, so one map serves every context.
 *
 * All functions are called with the flow lock held.
 */
#ifndef FASHIM_MEMORY_H
#define FASHIM_MEMORY_H

#include "shim/op/op.h"

struct allocation {
	uint64_t base, bytes;
	CUcontext context;
	uint32_t id; /* order of appearance, from 1: the symbolic name in traces */
	enum memory_kind kind;
};

/* Enters an allocation; one that it overlaps (freed unseen) is dropped. What is shared may be a
 * part of allocations that are known: then these are, from end to end; from 0 on it is all that
 * came of pools. 0 or -ENOMEM. */
int memory_add(uint64_t base, uint64_t bytes, enum memory_kind kind, CUcontext context);

/* Forgets the allocation that starts at base, and those that lie within `bytes` (0: none) from
 * there; NULL-like addresses and unknown ones are ignored. */
void memory_remove(uint64_t base, uint64_t bytes);

/* The allocation that holds the address, or NULL. Never asks the driver. */
const struct allocation *memory_find(uint64_t address);

/* Are all of these bytes in one allocation, or in memory that is mapped side by side? A fill that
 * begins in the device's and ends in the host's is refused. Never asks the driver. */
bool memory_holds(uint64_t base, uint64_t bytes);

/* All that a pointer may lead to by counting: its allocation, and where it is mapped memory, what
 * is mapped without a gap before and behind; also from its very end, and from a little before it.
 * false: no allocation. */
bool memory_reach(uint64_t address, uint64_t *begin, uint64_t *end);

/* Where allocations lie: in how many stretches, rising, with gaps of MEMORY_GAP and more between
 * them. What is mapped or comes of a pool lies far from the rest, and a pair of small integers
 * would pass for an address between them. */
#define MEMORY_STRETCHES 4
#define MEMORY_GAP	 (1ull << 32)
struct memory_stretch {
	uint64_t low, high;
};
int memory_stretches(struct memory_stretch stretch[MEMORY_STRETCHES]);

/* As memory_find(), but an unknown address is looked up with cuMemGetAddressRange and remembered.
 */
const struct allocation *memory_lookup(uint64_t address);

/* May scores in this allocation be elided? Managed, host, shared memory may be read unseen. */
bool memory_watchable(const struct allocation *allocation);

/* The same of all that lies in a range, in however many allocations; as memory_lookup(). */
bool memory_watchable_range(uint64_t begin, uint64_t end);

#endif
