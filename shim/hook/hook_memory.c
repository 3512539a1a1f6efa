/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory comes and goes. OP_ALLOC is told after the fact only (flow_after), since the range is
 * unknown before; OP_FREE both before and after. Memory that somebody else can see (another
 * process, a texture, a kernel through a global variable) is told as MEMORY_SHARED, after a flush
 * of what it holds.
 */
#include "shim/hook/hook_memory.h"

#include <stdatomic.h>

void allocated(const char *name, CUstream stream, uint64_t base, uint64_t bytes,
	       enum memory_kind kind)
{
	struct op op = {
		.kind = OP_ALLOC,
		.name = name,
		.context = hook_context(),
		.stream = stream,
		.alloc = {.range = {base, bytes}, .kind = kind},
	};

	flow_after(&op);
}

static void freed(struct op *op, CUstream stream, uint64_t base, uint64_t bytes,
		  enum memory_kind kind)
{
	op->kind = OP_FREE;
	op->stream = stream;
	op->alloc.range = (struct op_range){base, bytes};
	op->alloc.kind = kind;
	op->alloc.at_once = true;
}

ALLOC_HOOK(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes), (address, bytes), CU_STREAM_LEGACY,
	   *address, bytes, MEMORY_DEVICE)
ALLOC_HOOK(cuMemAllocPitch_v2,
	   (CUdeviceptr * address, size_t *pitch, size_t width, size_t height, unsigned element),
	   (address, pitch, width, height, element), CU_STREAM_LEGACY, *address, *pitch *height,
	   MEMORY_DEVICE)
ALLOC_HOOK(cuMemAllocManaged, (CUdeviceptr * address, size_t bytes, unsigned flags),
	   (address, bytes, flags), CU_STREAM_LEGACY, *address, bytes, MEMORY_MANAGED)
ALLOC_HOOK(cuMemHostAlloc, (void **address, size_t bytes, unsigned flags), (address, bytes, flags),
	   CU_STREAM_LEGACY, ADDRESS(*address), bytes, MEMORY_HOST)
ALLOC_HOOK(cuMemAllocHost_v2, (void **address, size_t bytes), (address, bytes), CU_STREAM_LEGACY,
	   ADDRESS(*address), bytes, MEMORY_HOST)
ALLOC_HOOK(cuMemHostRegister, (void *address, size_t bytes, unsigned flags),
	   (address, bytes, flags), CU_STREAM_LEGACY, ADDRESS(address), bytes, MEMORY_HOST)
ALLOC_HOOK(cuMemHostRegister_v2, (void *address, size_t bytes, unsigned flags),
	   (address, bytes, flags), CU_STREAM_LEGACY, ADDRESS(address), bytes, MEMORY_HOST)

/* ---- pools ---------------------------------------------------------------------------------- */

static atomic_bool host_reads_pools;

/* A pool may be of the host's memory, or managed, wherever the program has it from. */
static enum memory_kind pool_kind(CUdeviceptr address)
{
	__typeof__(&cuPointerGetAttribute) get = REAL(cuPointerGetAttribute);
	unsigned type = 0, managed = 0;

	if (atomic_load_explicit(&host_reads_pools, memory_order_relaxed) || !get ||
	    get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
	    get(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS)
		return MEMORY_SHARED;
	return type == CU_MEMORYTYPE_HOST ? MEMORY_HOST : managed ? MEMORY_MANAGED : MEMORY_ASYNC;
}

#define ALLOC_ASYNC(function, per_thread, ...)                                                     \
	ALLOC_HOOK(function, (CUdeviceptr * address, size_t bytes, CUstream stream),               \
		   (address, bytes, stream), hook_stream(stream, per_thread), *address, bytes,     \
		   pool_kind(*address))
BOTH(ALLOC_ASYNC, cuMemAllocAsync, ptsz)

#define ALLOC_FROM_POOL(function, per_thread, ...)                                                 \
	ALLOC_HOOK(function,                                                                       \
		   (CUdeviceptr * address, size_t bytes, CUmemoryPool pool, CUstream stream),      \
		   (address, bytes, pool, stream), hook_stream(stream, per_thread), *address,      \
		   bytes, pool_kind(*address))
BOTH(ALLOC_FROM_POOL, cuMemAllocFromPoolAsync, ptsz)

/* Physical memory: no range yet, but it may run out. What is the host's differs from the device's
 * beside it even if no host may read it: one fill can't overwrite both. */
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
			    const CUmemAllocationProp *properties, unsigned long long flags)
{
	CUresult result;

	ALLOC_REAL(cuMemCreate, (handle, bytes, properties, flags));
	if (result == CUDA_SUCCESS && !hook_bypassed() &&
	    properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		mapping_shared(*handle);
	return result;
}

ALLOC_HOOK(cuMemMap,
	   (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
	    unsigned long long flags),
	   (address, bytes, offset, handle, flags), CU_STREAM_LEGACY, address, bytes,
	   mapping_made(handle, address, bytes))

/* ---- who may reach it ----------------------------------------------------------------------- */

static bool takes_away(const CUmemAccessDesc *access, size_t count)
{
	for (size_t i = 0; access && i < count; i++)
		if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return true;
	return false;
}

static bool reaches_host(const CUmemAccessDesc *access, size_t count)
{
	for (size_t i = 0; access && i < count; i++)
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return true;
	return false;
}

/* The host reads from now on without a call. */
static void share_with_host(const char *name, uint64_t base, uint64_t bytes)
{
	flow_flush(name);
	allocated(name, CU_STREAM_LEGACY, base, bytes, MEMORY_SHARED);
}

static void share_pools(void)
{
	atomic_store_explicit(&host_reads_pools, true, memory_order_relaxed);
	share_with_host("cuMemPoolSetAccess", 0, UINT64_MAX);
}

/* Where a device loses memory, what is held back there can be made no more. */
NOTED_BEFORE(cuMemSetAccess,
	     (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count),
	     (address, bytes, access, count),
	     if (takes_away(access, count)) flow_flush("cuMemSetAccess");
	     if (reaches_host(access, count)) share_with_host("cuMemSetAccess", address, bytes))
NOTED_BEFORE(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *access, size_t count),
	     (pool, access, count), if (takes_away(access, count)) flow_flush("cuMemPoolSetAccess");
	     if (reaches_host(access, count)) share_pools())

/* ---- the end of memory ---------------------------------------------------------------------- */

#define FREE(function, type, base, kind)                                                           \
	DRIVER_HOOK(function, (type address), (address), flow_active(),                            \
		    freed(&op, CU_STREAM_LEGACY, base, 0, kind))
FREE(cuMemFree_v2, CUdeviceptr, address, MEMORY_DEVICE)
FREE(cuMemFreeHost, void *, ADDRESS(address), MEMORY_HOST)
FREE(cuMemHostUnregister, void *, ADDRESS(address), MEMORY_HOST)
FREE(cuIpcCloseMemHandle, CUdeviceptr, address, MEMORY_SHARED)

#define FREE_ASYNC(function, per_thread, ...)                                                      \
	DRIVER_HOOK(function, (CUdeviceptr address, CUstream stream), (address, stream),           \
		    flow_active(),                                                                 \
		    freed(&op, hook_stream(stream, per_thread), address, 0, MEMORY_DEVICE);        \
		    op.alloc.at_once = false)
BOTH(FREE_ASYNC, cuMemFreeAsync, ptsz)

/* Physical memory that the program still has a handle of may come back elsewhere, with all that
 * lies in it. */
DRIVER_HOOK(cuMemUnmap, (CUdeviceptr address, size_t bytes), (address, bytes), flow_active(),
	    if (mapping_gone(address, bytes)) flow_flush("cuMemUnmap");
	    freed(&op, CU_STREAM_LEGACY, address, bytes, MEMORY_MAPPED))
