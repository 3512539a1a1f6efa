/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory comes and goes. OP_ALLOC is told after the fact only (flow_after), since the range is
 * unknown before; OP_FREE both before and after. Memory that somebody else can see (another
 * process, a texture, a kernel through a global variable) is told as MEMORY_SHARED, after a flush
 * of what it holds.
 */
#include "shim/hook/hook_memory.h"

void allocated(const char *name, CUstream stream, uint64_t base, uint64_t bytes,
	       enum memory_kind kind)
{
	struct op op = {
		.kind = OP_ALLOC,
		.name = name,
		.context = hook_context(),
		.stream = stream,
		.alloc = {{base, bytes}, kind},
	};

	flow_after(&op);
}

static void freed(struct op *op, CUstream stream, uint64_t base, uint64_t bytes)
{
	op->kind = OP_FREE;
	op->stream = stream;
	op->alloc.range = (struct op_range){base, bytes};
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	ALLOC_BODY(cuMemAlloc_v2, (address, bytes), CU_STREAM_LEGACY, *address, bytes,
		   MEMORY_DEVICE);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
				   unsigned element)
{
	ALLOC_BODY(cuMemAllocPitch_v2, (address, pitch, width, height, element), CU_STREAM_LEGACY,
		   *address, *pitch * height, MEMORY_DEVICE);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
	ALLOC_BODY(cuMemAllocManaged, (address, bytes, flags), CU_STREAM_LEGACY, *address, bytes,
		   MEMORY_MANAGED);
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
	ALLOC_BODY(cuMemHostAlloc, (address, bytes, flags), CU_STREAM_LEGACY, ADDRESS(*address),
		   bytes, MEMORY_HOST);
}

EXPORT CUresult cuMemAllocHost_v2(void **address, size_t bytes)
{
	ALLOC_BODY(cuMemAllocHost_v2, (address, bytes), CU_STREAM_LEGACY, ADDRESS(*address), bytes,
		   MEMORY_HOST);
}

#define REGISTER(function)                                                                         \
	EXPORT CUresult function(void *address, size_t bytes, unsigned flags)                      \
	{                                                                                          \
		ALLOC_BODY(function, (address, bytes, flags), CU_STREAM_LEGACY, ADDRESS(address),  \
			   bytes, MEMORY_HOST);                                                    \
	}
REGISTER(cuMemHostRegister)
REGISTER(cuMemHostRegister_v2)

#define ALLOC_ASYNC(function, per_thread)                                                          \
	EXPORT CUresult function(CUdeviceptr *address, size_t bytes, CUstream stream)              \
	{                                                                                          \
		ALLOC_BODY(function, (address, bytes, stream), hook_stream(stream, per_thread),    \
			   *address, bytes, MEMORY_ASYNC);                                         \
	}
ALLOC_ASYNC(cuMemAllocAsync, LEGACY)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, PER_THREAD)

#define ALLOC_FROM_POOL(function, per_thread)                                                      \
	EXPORT CUresult function(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,            \
				 CUstream stream)                                                  \
	{                                                                                          \
		ALLOC_BODY(function, (address, bytes, pool, stream),                               \
			   hook_stream(stream, per_thread), *address, bytes, MEMORY_ASYNC);        \
	}
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, LEGACY)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, PER_THREAD)

/* Physical memory: no range yet, but it may run out. */
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
			    const CUmemAllocationProp *properties, unsigned long long flags)
{
	__typeof__(&cuMemCreate) real = REAL(cuMemCreate);
	CUresult result;

	if (unlikely(!real))
		return CUDA_ERROR_NOT_INITIALIZED;
	result = real(handle, bytes, properties, flags);
	if (unlikely(result == CUDA_ERROR_OUT_OF_MEMORY) && !hook_bypassed() &&
	    flow_out_of_memory())
		result = real(handle, bytes, properties, flags);
	return result;
}

EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
			 CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	ALLOC_BODY(cuMemMap, (address, bytes, offset, handle, flags), CU_STREAM_LEGACY, address,
		   bytes, mapping_made(handle, address, bytes));
}

/* ---- the end of memory ---------------------------------------------------------------------- */

EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	DRIVER_HOOK_BODY(cuMemFree_v2, (address), flow_active(),
			 freed(&op, CU_STREAM_LEGACY, address, 0));
}

#define FREE_ASYNC(function, per_thread)                                                           \
	EXPORT CUresult function(CUdeviceptr address, CUstream stream)                             \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, (address, stream), flow_active(),                       \
				 freed(&op, hook_stream(stream, per_thread), address, 0));         \
	}
FREE_ASYNC(cuMemFreeAsync, LEGACY)
FREE_ASYNC(cuMemFreeAsync_ptsz, PER_THREAD)

EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	DRIVER_HOOK_BODY(cuMemUnmap, (address, bytes), flow_active(),
			 freed(&op, CU_STREAM_LEGACY, address, bytes);
			 mapping_gone(address, bytes));
}

EXPORT CUresult cuMemFreeHost(void *address)
{
	DRIVER_HOOK_BODY(cuMemFreeHost, (address), flow_active(),
			 freed(&op, CU_STREAM_LEGACY, ADDRESS(address), 0));
}

EXPORT CUresult cuMemHostUnregister(void *address)
{
	DRIVER_HOOK_BODY(cuMemHostUnregister, (address), flow_active(),
			 freed(&op, CU_STREAM_LEGACY, ADDRESS(address), 0));
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	DRIVER_HOOK_BODY(cuIpcCloseMemHandle, (address), flow_active(),
			 freed(&op, CU_STREAM_LEGACY, address, 0));
}
