/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation, address queries and virtual memory: the entry points over memory.c.
 *
 * cuMemFree waits for the whole context, as drivers do in practice. Virtual memory (cuMemCreate,
 * cuMemMap …) is plain reservations and anonymous memory files.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "cuda_host_texture.h"

#define SIM_REFUSE_IN_CAPTURE()                                                                    \
	do {                                                                                       \
		CUresult permitted_ = sim_capture_permits();                                       \
		if (permitted_ != CUDA_SUCCESS)                                                    \
			return permitted_;                                                         \
	} while (0)

static void *host(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
	uint64_t address = 0;

	SIM_ENTER_CONTEXT(" bytes=%zu", bytes);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_REFUSE_IN_CAPTURE();
	CUresult result = sim_allocate(ctx, bytes, SIM_DEVICE, &address);
	if (result == CUDA_SUCCESS)
		*out = address;
	return result;
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
				 unsigned int element)
{
	uint64_t address = 0;

	SIM_ENTER_CONTEXT(" width=%zu height=%zu", width, height);
	if (!out || !pitch || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_REFUSE_IN_CAPTURE();
	size_t rounded = (width + 511) & ~(size_t)511;
	CUresult result = sim_allocate(ctx, rounded * height, SIM_DEVICE, &address);
	if (result == CUDA_SUCCESS) {
		*out = address;
		*pitch = rounded;
	}
	return result;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
	uint64_t address = 0;

	SIM_ENTER_CONTEXT(" bytes=%zu flags=%u", bytes, flags);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_REFUSE_IN_CAPTURE();
	CUresult result = sim_allocate(ctx, bytes, SIM_MANAGED, &address);
	if (result == CUDA_SUCCESS)
		*out = address;
	return result;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address)
{
	SIM_ENTER_CONTEXT(" address=0x%llx", address);
	if (!address)
		return CUDA_SUCCESS;
	SIM_REFUSE_IN_CAPTURE();
	sim_context_drain(ctx);
	return sim_release(address, SIM_DEVICE);
}

CUresult CUDAAPI cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
	uint64_t address = 0;

	SIM_ENTER_CONTEXT(" bytes=%zu flags=%u", bytes, flags);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_REFUSE_IN_CAPTURE();
	CUresult result = sim_allocate(ctx, bytes, SIM_PINNED, &address);
	if (result == CUDA_SUCCESS)
		*out = host(address);
	return result;
}

CUresult CUDAAPI cuMemAllocHost(void **out, size_t bytes)
{
	SIM_ENTER(" bytes=%zu", bytes);
	return cuMemHostAlloc(out, bytes, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
	SIM_ENTER_CONTEXT(" address=%p", p);
	sim_context_drain(ctx);
	return sim_release((uintptr_t)p, SIM_PINNED);
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
	SIM_ENTER_CONTEXT(" address=%p bytes=%zu flags=%u", p, bytes, flags);
	if (!p || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_register(ctx, (uintptr_t)p, bytes);
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
	SIM_ENTER_CONTEXT(" address=%p", p);
	sim_context_drain(ctx);
	return sim_release((uintptr_t)p, SIM_REGISTERED) == CUDA_SUCCESS
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned int flags)
{
	struct sim_allocation a;

	SIM_ENTER(" address=%p flags=%u", p, flags);
	if (!out || !sim_find((uintptr_t)p, &a) ||
	    (a.kind != SIM_PINNED && a.kind != SIM_REGISTERED))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *p)
{
	SIM_ENTER(" address=%p", p);
	if (!flags || !sim_valid((uintptr_t)p, 1))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total)
{
	SIM_ENTER_CONTEXT(" ");
	if (!available || !total || !ctx)
		return CUDA_ERROR_INVALID_VALUE;
	*total = sim_device_bytes();
	*available = *total - sim_memory_in_use();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
	struct sim_allocation a;

	SIM_ENTER(" address=0x%llx", address);
	if (!sim_find(address, &a))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = a.base;
	if (bytes)
		*bytes = a.bytes;
	return CUDA_SUCCESS;
}

static CUresult attribute(void *data, CUpointer_attribute what, CUdeviceptr address)
{
	struct sim_allocation a;

	if (!sim_find(address, &a))
		return CUDA_ERROR_INVALID_VALUE;
	bool on_host = a.kind == SIM_PINNED || a.kind == SIM_REGISTERED;
	switch (what) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = (CUcontext)a.ctx;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!on_host && a.kind != SIM_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = host(address);
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = a.id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = a.kind == SIM_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = a.ctx ? a.ctx->device : 0;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)data = a.kind == SIM_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = a.base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = a.bytes;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned *)data = 1;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(unsigned long long *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned *)data = 0;
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute what, CUdeviceptr address)
{
	SIM_ENTER(" attribute=%d address=0x%llx", what, address);
	return data ? attribute(data, what, address) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute *what, void **data,
					CUdeviceptr address)
{
	SIM_ENTER(" count=%u address=0x%llx", count, address);
	if (!what || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		bool word = what[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
			    what[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
			    what[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ||
			    what[i] == CU_POINTER_ATTRIBUTE_MAPPED ||
			    what[i] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
			    what[i] == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
		memset(data[i], 0, word ? 4 : 8);
		attribute(data[i], what[i], address);
	}
	return CUDA_SUCCESS;
}

/* ---- textures of linear memory --------------------------------------------------------------- */

CUresult CUDAAPI cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
				   const CUDA_TEXTURE_DESC *desc,
				   const CUDA_RESOURCE_VIEW_DESC *view)
{
	struct sim_texture *texture;

	SIM_ENTER_CONTEXT(" ");
	(void)view;
	if (!out || !resource || !desc)
		return CUDA_ERROR_INVALID_VALUE;
	if (resource->resType != CU_RESOURCE_TYPE_LINEAR)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sim_valid(resource->res.linear.devPtr, resource->res.linear.sizeInBytes))
		return CUDA_ERROR_INVALID_VALUE;
	texture = malloc(sizeof(*texture));
	if (!texture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*texture =
		(struct sim_texture){resource->res.linear.devPtr, resource->res.linear.sizeInBytes};
	*out = (uintptr_t)texture;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject object)
{
	SIM_ENTER_CONTEXT(" ");
	sim_context_drain(ctx);
	free((void *)(uintptr_t)object);
	return CUDA_SUCCESS;
}

/* No module has references. */
CUresult CUDAAPI cuTexRefSetAddress(size_t *offset, CUtexref texture, CUdeviceptr address,
				    size_t bytes)
{
	SIM_ENTER(" address=0x%llx bytes=%zu", address, bytes);
	(void)texture;
	if (!sim_valid(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (offset)
		*offset = 0;
	return CUDA_SUCCESS;
}

/* ---- pools: names for the two there are, on the device and the host's
 * -------------------------------------------------- */

static struct sim_pool {
	enum sim_magic magic;
	uint64_t threshold;
} standard_pool = {.magic = SIM_POOL}, host_pool = {.magic = SIM_POOL};

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	SIM_ENTER(" ");
	if (!pool || !props)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = (CUmemoryPool)(props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? &standard_pool
										   : &host_pool);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
	SIM_ENTER(" ");
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Whatever it says: all memory is everybody's. */
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
	SIM_ENTER(" count=%zu", count);
	return pool && (access || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool sim_pool_on_host(CUmemoryPool pool)
{
	return pool == (CUmemoryPool)&host_pool;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	if (!pool || device < 0 || device >= sim_devices)
		return CUDA_ERROR_INVALID_VALUE;
	*pool = (CUmemoryPool)&standard_pool;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	SIM_LOG(" device=%d", device);
	return cuDeviceGetDefaultMemPool(pool, device);
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value)
{
	SIM_ENTER(" attribute=%d", what);
	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	if (what == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		standard_pool.threshold = *(uint64_t *)value;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	SIM_ENTER(" keep=%zu", keep);
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
