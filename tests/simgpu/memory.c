/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory: one reserved address range, pages made accessible as they are allocated.
 *
 * Each allocation ends (rounded up to 512 bytes) at a page that stays inaccessible, so a kernel
 * that runs over its end, or touches memory after it was freed, faults instead of passing. The
 * lowest fitting gap is taken, hence freeing and allocating the same size gives the same address,
 * as it does on a GPU. Fresh memory is filled with 0xff, a NaN in every float format.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REGION_BYTES (1ull << 37)
#define REGION_HINT  0x7e9000000000ull
#define DEVICE_BYTES (16ull << 30)
#define PAGE	     4096ull
#define FILL_MAX     (32ull << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_allocation *table; /* sorted by base; device range and host together */
static unsigned count, room;
static uint64_t region, in_use, next_id = 1;

static bool reserve(void)
{
	void *p;

	if (region)
		return true;
	p = mmap((void *)(uintptr_t)REGION_HINT, REGION_BYTES, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		p = mmap(NULL, REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);
	if (p == MAP_FAILED)
		return false;
	region = (uint64_t)(uintptr_t)p;
	return true;
}

bool sim_is_device_address(uint64_t address)
{
	struct sim_allocation a;

	return (region && address - region < REGION_BYTES) ||
	       (sim_find(address, &a) && a.kind == SIM_MAPPED);
}

size_t sim_device_bytes(void)
{
	return DEVICE_BYTES;
}

size_t sim_memory_in_use(void)
{
	return in_use;
}

/* Index of the last allocation that starts at or below the address, or -1. Lock held. */
static int below(uint64_t address)
{
	int low = 0, high = (int)count;

	while (low < high) {
		int middle = (low + high) / 2;
		if (table[middle].base <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

bool sim_find(uint64_t address, struct sim_allocation *out)
{
	pthread_mutex_lock(&lock);
	int i = below(address);
	bool found = i >= 0 && address - table[i].base < table[i].bytes;
	if (found)
		*out = table[i];
	pthread_mutex_unlock(&lock);
	return found;
}

bool sim_valid(uint64_t address, uint64_t bytes)
{
	struct sim_allocation first, a;

	if (!bytes)
		return true;
	if (!sim_find(address, &first))
		return false;
	for (a = first; bytes > a.base + a.bytes - address;) {
		const uint64_t left = a.base + a.bytes - address;

		if (a.kind != SIM_MAPPED || !sim_find(address + left, &a) ||
		    a.on_host != first.on_host)
			return false;
		address += left;
		bytes -= left;
	}
	return true;
}

static bool insert(const struct sim_allocation *a)
{
	if (count == room) {
		unsigned wanted = room ? 2 * room : 256;
		void *p = realloc(table, wanted * sizeof(*table));
		if (!p)
			return false;
		table = p;
		room = wanted;
	}
	int at = below(a->base) + 1;
	memmove(&table[at + 1], &table[at], (count - at) * sizeof(*table));
	table[at] = *a;
	count++;
	return true;
}

static bool owns_pages(const struct sim_allocation *a)
{
	return a->kind <= SIM_MANAGED;
}

/* Start of the lowest gap of `bytes` in the region, 0: none. */
static uint64_t gap(uint64_t bytes)
{
	uint64_t at = region + PAGE;

	for (unsigned i = 0; i < count; i++) {
		if (!owns_pages(&table[i]))
			continue;
		if (table[i].block - at >= bytes && table[i].block >= at)
			return at;
		at = table[i].block + table[i].block_bytes;
	}
	return at + bytes <= region + REGION_BYTES ? at : 0;
}

CUresult sim_allocate(struct sim_context *ctx, size_t bytes, enum sim_memory kind, uint64_t *out)
{
	struct sim_allocation a = {.bytes = bytes, .kind = kind, .ctx = ctx};
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (!bytes || bytes > DEVICE_BYTES)
		return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	uint64_t rounded = (bytes + 511) & ~511ull;
	uint64_t pages = (rounded + PAGE - 1) & ~(PAGE - 1);
	pthread_mutex_lock(&lock);
	if (kind == SIM_PINNED) {
		void *p = NULL;
		if (!posix_memalign(&p, PAGE, pages)) {
			a.base = (uint64_t)(uintptr_t)p;
			a.block_bytes = pages;
		}
	} else if (reserve() && in_use + pages <= DEVICE_BYTES) {
		a.block_bytes = pages + PAGE;
		a.block = gap(a.block_bytes);
		a.base = a.block + pages - rounded;
		if (!a.block || mprotect((void *)(uintptr_t)a.block, pages, PROT_READ | PROT_WRITE))
			a.base = 0;
	}
	a.id = next_id++;
	if (a.base && insert(&a)) {
		if (owns_pages(&a))
			in_use += pages;
		if (bytes <= FILL_MAX)
			memset((void *)(uintptr_t)a.base, 0xff, bytes);
		*out = a.base;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* Lock held. */
static void drop(unsigned i)
{
	struct sim_allocation a = table[i];
	void *pages = (void *)(uintptr_t)a.block;

	memmove(&table[i], &table[i + 1], (count - i - 1) * sizeof(*table));
	count--;
	if (a.kind == SIM_PINNED) {
		free((void *)(uintptr_t)a.base);
	} else if (owns_pages(&a)) {
		mprotect(pages, a.block_bytes - PAGE, PROT_NONE);
		madvise(pages, a.block_bytes - PAGE, MADV_DONTNEED);
		in_use -= a.block_bytes - PAGE;
	}
}

CUresult sim_release(uint64_t address, enum sim_memory kind)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	int i = below(address);
	if (i >= 0 && table[i].base == address) {
		bool host = !owns_pages(&table[i]);
		if (host ? table[i].kind == kind : kind <= SIM_MANAGED) {
			drop(i);
			result = CUDA_SUCCESS;
		}
	}
	pthread_mutex_unlock(&lock);
	return result;
}

void sim_release_context(struct sim_context *ctx)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = count; i-- > 0;)
		if (table[i].ctx == ctx)
			drop(i);
	pthread_mutex_unlock(&lock);
}

/* Makes host memory of the caller's known; it stays the caller's. */
CUresult sim_register(struct sim_context *ctx, uint64_t base, size_t bytes)
{
	struct sim_allocation a = {
		.base = base, .bytes = bytes, .kind = SIM_REGISTERED, .ctx = ctx};
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	int i = below(base + bytes - 1);
	a.id = next_id++;
	if (i >= 0 && table[i].base + table[i].bytes > base)
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else if (insert(&a))
		result = CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return result;
}

/* Makes `bytes` of the memory file appear at a reserved address. */
CUresult sim_map(struct sim_context *ctx, uint64_t base, size_t bytes, int fd, bool on_host)
{
	struct sim_allocation a = {
		.base = base, .bytes = bytes, .kind = SIM_MAPPED, .on_host = on_host, .ctx = ctx};
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	int i = below(base + bytes - 1);
	a.id = next_id++;
	if ((i < 0 || table[i].base + table[i].bytes <= base) &&
	    mmap((void *)(uintptr_t)base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) != MAP_FAILED)
		result = insert(&a) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&lock);
	return result;
}
