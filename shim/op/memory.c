/* SPDX-License-Identifier: Apache-2.0
 *
 * A sorted array of allocations. Programs hold tens to a few thousand of them and allocate rarely
 * (caching allocators), so inserts may move memory and lookups are a binary search.
 */
#include "shim/op/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/real/driver.h"

static struct allocation *table;
static size_t count, capacity;
static uint32_t next_id = 1;

/* First index whose base is above the address. */
static size_t upper_bound(uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (table[middle].base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Marks all that [base, base + bytes) lies in. false: not all of it is known. */
static bool mark_shared(uint64_t base, uint64_t bytes)
{
	const uint64_t end = base + bytes;

	while (base < end) {
		const size_t at = upper_bound(base);
		struct allocation *allocation = at > 0 ? &table[at - 1] : NULL;

		if (!allocation || base - allocation->base >= allocation->bytes)
			return false;
		allocation->kind = MEMORY_SHARED;
		base = allocation->base + allocation->bytes;
	}
	return true;
}

static void mark_pools(void)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].kind == MEMORY_ASYNC)
			table[i].kind = MEMORY_SHARED;
}

int memory_add(uint64_t base, uint64_t bytes, enum memory_kind kind, CUcontext context)
{
	size_t at;

	if (!base && kind == MEMORY_SHARED)
		mark_pools();
	if (!base || !bytes || (kind == MEMORY_SHARED && mark_shared(base, bytes)))
		return 0;
	at = upper_bound(base);
	if (at > 0 && table[at - 1].base == base && table[at - 1].bytes == bytes) {
		table[at - 1].kind = kind; /* marked again, e.g. as shared */
		return 0;
	}
	while (at > 0 && table[at - 1].base + table[at - 1].bytes > base) {
		memmove(&table[at - 1], &table[at], (count - at) * sizeof(*table));
		count--;
		at--;
	}
	while (at < count && table[at].base < base + bytes) {
		memmove(&table[at], &table[at + 1], (count - at - 1) * sizeof(*table));
		count--;
	}
	if (count == capacity) {
		size_t wanted = capacity ? capacity * 2 : 256;
		struct allocation *grown = realloc(table, wanted * sizeof(*table));

		if (!grown)
			return -ENOMEM;
		table = grown;
		capacity = wanted;
	}
	memmove(&table[at + 1], &table[at], (count - at) * sizeof(*table));
	table[at] = (struct allocation){
		.base = base, .bytes = bytes, .context = context, .id = next_id++, .kind = kind};
	count++;
	return 0;
}

void memory_remove(uint64_t base, uint64_t bytes)
{
	const size_t above = upper_bound(base);
	const size_t first = above > 0 && table[above - 1].base == base ? above - 1 : above;
	size_t end = above;

	while (end < count && table[end].base - base < bytes)
		end++;
	if (first == end)
		return;
	memmove(&table[first], &table[end], (count - end) * sizeof(*table));
	count -= end - first;
}

const struct allocation *memory_find(uint64_t address)
{
	size_t at = upper_bound(address);

	if (at > 0 && address - table[at - 1].base < table[at - 1].bytes)
		return &table[at - 1];
	return NULL;
}

bool memory_holds(uint64_t base, uint64_t bytes)
{
	const struct allocation *allocation = memory_find(base);
	uint64_t end;

	if (__builtin_add_overflow(base, bytes, &end))
		return false;
	while (allocation && allocation->base + allocation->bytes < end) {
		const struct allocation *next = memory_find(allocation->base + allocation->bytes);

		if (!next || allocation->kind != MEMORY_MAPPED || next->kind != MEMORY_MAPPED)
			return false;
		allocation = next;
	}
	return allocation != NULL;
}

static bool abut(const struct allocation *lower, const struct allocation *upper)
{
	return lower->kind == MEMORY_MAPPED && upper->kind == MEMORY_MAPPED &&
	       lower->base + lower->bytes == upper->base;
}

/* Who counts from one begins an element before the first, or a row. */
#define BEFORE	   16
#define ROW_BEFORE (64u << 10) /* where nothing else lies */

bool memory_reach(uint64_t address, uint64_t *begin, uint64_t *end)
{
	const size_t above = upper_bound(address);
	/* Behind the last byte is where one begins who walks back. */
	const bool inside = above && address - table[above - 1].base <= table[above - 1].bytes;
	const uint64_t next = above < count ? table[above].base - address : UINT64_MAX;
	size_t first = inside ? above - 1 : above, last = first;

	if (!inside && next > ROW_BEFORE)
		return false;
	if (inside && next <= BEFORE)
		last++;
	while (first > 0 && abut(&table[first - 1], &table[first]))
		first--;
	while (last + 1 < count && abut(&table[last], &table[last + 1]))
		last++;
	*begin = table[first].base;
	*end = table[last].base + table[last].bytes;
	return true;
}

static uint64_t gap_before(size_t at)
{
	return table[at].base - (table[at - 1].base + table[at - 1].bytes);
}

/* First allocation behind the widest gap among those from `first` to `end`; 0: all are narrow. */
static size_t behind_widest_gap(size_t first, size_t end)
{
	size_t widest = 0;

	for (size_t i = first + 1; i < end; i++)
		if (gap_before(i) >= (widest ? gap_before(widest) + 1 : MEMORY_GAP))
			widest = i;
	return widest;
}

int memory_stretches(struct memory_stretch stretch[MEMORY_STRETCHES])
{
	size_t first[MEMORY_STRETCHES + 1] = {0, count};
	int stretches = count > 0;

	while (stretches && stretches < MEMORY_STRETCHES) {
		size_t widest = 0, found;
		int in = 0;

		for (int i = 0; i < stretches; i++) {
			found = behind_widest_gap(first[i], first[i + 1]);
			if (found && (!widest || gap_before(found) > gap_before(widest))) {
				widest = found;
				in = i;
			}
		}
		if (!widest)
			break;
		memmove(&first[in + 2], &first[in + 1], (size_t)(stretches - in) * sizeof(*first));
		first[in + 1] = widest;
		stretches++;
	}
	for (int i = 0; i < stretches; i++) {
		const struct allocation *last = &table[first[i + 1] - 1];

		stretch[i] =
			(struct memory_stretch){table[first[i]].base, last->base + last->bytes};
	}
	return stretches;
}

const struct allocation *memory_lookup(uint64_t address)
{
	const struct allocation *found = memory_find(address);
	CUdeviceptr base = 0;
	size_t bytes = 0;
	unsigned type = 0, managed = 0;
	enum memory_kind kind = MEMORY_DEVICE;

	if (found || !address)
		return found;
	if (driver.cuMemGetAddressRange_v2(&base, &bytes, (CUdeviceptr)address) != CUDA_SUCCESS)
		return NULL;
	if (driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					 (CUdeviceptr)address) == CUDA_SUCCESS &&
	    type == CU_MEMORYTYPE_HOST)
		kind = MEMORY_HOST;
	if (driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					 (CUdeviceptr)address) == CUDA_SUCCESS &&
	    managed)
		kind = MEMORY_MANAGED;
	if (memory_add(base, bytes, kind, NULL) < 0)
		return NULL;
	return memory_find(address);
}

bool memory_watchable(const struct allocation *allocation)
{
	return allocation &&
	       (allocation->kind == MEMORY_DEVICE || allocation->kind == MEMORY_ASYNC ||
		allocation->kind == MEMORY_MAPPED);
}

bool memory_watchable_range(uint64_t begin, uint64_t end)
{
	while (begin < end) {
		const struct allocation *allocation = memory_lookup(begin);

		if (!memory_watchable(allocation))
			return false;
		begin = allocation->base + allocation->bytes;
	}
	return true;
}
