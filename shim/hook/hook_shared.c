/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that others can see: another process, a network card, a texture, a kernel through a global
 * variable, or the same program through a second mapping. None of them asks us before it reads. So
 * what the shim owes such memory is delivered at once (flow_flush), and the range is told as
 * MEMORY_SHARED.
 */
#include "shim/hook/hook_memory.h"

#include "shim/base/locks.h"

#include "shim/code/kernel_code.h"

/* The allocation that holds an address; a single byte where the driver does not know it. */
static struct op_range allocation_of(CUdeviceptr address)
{
	__typeof__(&cuMemGetAddressRange_v2) real = REAL(cuMemGetAddressRange_v2);
	CUdeviceptr base = 0;
	size_t bytes = 0;

	if (!real || real(&base, &bytes, address) != CUDA_SUCCESS)
		return (struct op_range){address, 1};
	return (struct op_range){base, bytes};
}

#define IPC_OPEN(function)                                                                         \
	EXPORT CUresult function(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags)      \
	{                                                                                          \
		ALLOC_BODY(function, (address, handle, flags), CU_STREAM_LEGACY,                   \
			   allocation_of(*address).base, allocation_of(*address).bytes,            \
			   MEMORY_SHARED);                                                         \
	}
IPC_OPEN(cuIpcOpenMemHandle)
IPC_OPEN(cuIpcOpenMemHandle_v2)

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	SHARE_BODY(cuIpcGetMemHandle, (handle, address), allocation_of(address).base,
		   allocation_of(address).bytes);
}

EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
	SHARE_BODY(cuMemPoolExportPointer, (data, address), allocation_of(address).base,
		   allocation_of(address).bytes);
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool,
				       CUmemPoolPtrExportData *data)
{
	ALLOC_BODY(cuMemPoolImportPointer, (address, pool, data), CU_STREAM_LEGACY,
		   allocation_of(*address).base, allocation_of(*address).bytes, MEMORY_SHARED);
}

EXPORT CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, CUexternalMemory memory,
						const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	ALLOC_BODY(cuExternalMemoryGetMappedBuffer, (address, memory, desc), CU_STREAM_LEGACY,
		   *address, desc->size, MEMORY_SHARED);
}

EXPORT CUresult cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *address, size_t *bytes,
						      CUgraphicsResource resource)
{
	ALLOC_BODY(cuGraphicsResourceGetMappedPointer_v2, (address, bytes, resource),
		   CU_STREAM_LEGACY, address ? *address : 0, bytes ? *bytes : 0, MEMORY_SHARED);
}

/* A kernel reaches these without a parameter that says so. */
static struct op_range global_range(const CUdeviceptr *address, const size_t *bytes)
{
	if (!address)
		return (struct op_range){0, 0};
	return bytes ? (struct op_range){*address, *bytes} : allocation_of(*address);
}

EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
				     const char *name)
{
	if (flow_active())
		kernel_code_exposed(module);
	ALLOC_BODY(cuModuleGetGlobal_v2, (address, bytes, module, name), CU_STREAM_LEGACY,
		   global_range(address, bytes).base, global_range(address, bytes).bytes,
		   MEMORY_SHARED);
}

EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
				   const char *name)
{
	if (flow_active())
		kernel_code_exposed(library);
	ALLOC_BODY(cuLibraryGetGlobal, (address, bytes, library, name), CU_STREAM_LEGACY,
		   global_range(address, bytes).base, global_range(address, bytes).bytes,
		   MEMORY_SHARED);
}

EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
				    const char *name)
{
	if (flow_active())
		kernel_code_exposed(library);
	ALLOC_BODY(cuLibraryGetManaged, (address, bytes, library, name), CU_STREAM_LEGACY,
		   global_range(address, bytes).base, global_range(address, bytes).bytes,
		   MEMORY_MANAGED);
}

static struct op_range texture_range(const CUDA_RESOURCE_DESC *resource)
{
	if (resource->resType == CU_RESOURCE_TYPE_LINEAR)
		return (struct op_range){resource->res.linear.devPtr,
					 resource->res.linear.sizeInBytes};
	if (resource->resType == CU_RESOURCE_TYPE_PITCH2D)
		return (struct op_range){resource->res.pitch2D.devPtr,
					 resource->res.pitch2D.pitchInBytes *
						 resource->res.pitch2D.height};
	return (struct op_range){0, 0};
}

EXPORT CUresult cuTexObjectCreate(CUtexObject *texture, const CUDA_RESOURCE_DESC *resource,
				  const CUDA_TEXTURE_DESC *desc,
				  const CUDA_RESOURCE_VIEW_DESC *view)
{
	SHARE_BODY(cuTexObjectCreate, (texture, resource, desc, view), texture_range(resource).base,
		   texture_range(resource).bytes);
}

/* ---- mapped memory -------------------------------------------------------------------------- */

#define MAPPINGS 4096 /* more than that, and the rest counts as shared */
#define HANDLES	 256

/* Ranges that cuMemMap made, and of which physical memory; 0: its handle was released. */
static struct mapping {
	CUmemGenericAllocationHandle handle;
	uint64_t base, bytes;
} mappings[MAPPINGS];
static unsigned mapping_count;

/* Handles that were imported, or exported before they were mapped. */
static CUmemGenericAllocationHandle shared_handles[HANDLES];
static unsigned shared_handle_count;

static void share_handle(CUmemGenericAllocationHandle handle)
{
	lock_take(LOCK_MAPPING);
	if (shared_handle_count < HANDLES)
		shared_handles[shared_handle_count] = handle;
	shared_handle_count++;
	lock_give(LOCK_MAPPING);
}

enum memory_kind mapping_made(CUmemGenericAllocationHandle handle, uint64_t base, uint64_t bytes)
{
	enum memory_kind kind = MEMORY_MAPPED;
	struct op_range twin = {0, 0};

	lock_take(LOCK_MAPPING);
	if (shared_handle_count > HANDLES)
		kind = MEMORY_SHARED;
	for (unsigned i = 0; kind == MEMORY_MAPPED && i < shared_handle_count; i++)
		if (shared_handles[i] == handle)
			kind = MEMORY_SHARED;
	for (unsigned i = 0; i < mapping_count; i++)
		if (mappings[i].handle == handle) {
			twin = (struct op_range){mappings[i].base, mappings[i].bytes};
			kind = MEMORY_SHARED;
		}
	if (mapping_count < MAPPINGS)
		mappings[mapping_count++] = (struct mapping){handle, base, bytes};
	else
		kind = MEMORY_SHARED;
	lock_give(LOCK_MAPPING);
	if (twin.bytes) {
		flow_flush("cuMemMap");
		allocated("cuMemMap", CU_STREAM_LEGACY, twin.base, twin.bytes, MEMORY_SHARED);
	}
	return kind;
}

void mapping_gone(uint64_t base, uint64_t bytes)
{
	lock_take(LOCK_MAPPING);
	for (unsigned i = mapping_count; i-- > 0;)
		if (mappings[i].base >= base && mappings[i].base - base < bytes)
			mappings[i] = mappings[--mapping_count];
	lock_give(LOCK_MAPPING);
}

/* Every mapping of the handle, or that may be of it because its own handle was released, is shared.
 */
static void share_mappings(const char *name, CUmemGenericAllocationHandle handle)
{
	bool found = false;

	for (int released = 0; released < 2 && !found; released++) {
		for (unsigned i = 0; i < MAPPINGS; i++) {
			struct mapping mapping;

			lock_take(LOCK_MAPPING);
			mapping = mappings[i];
			if (i >= mapping_count)
				i = MAPPINGS;
			lock_give(LOCK_MAPPING);
			if (i == MAPPINGS || mapping.handle != (released ? 0 : handle))
				continue;
			found = true;
			allocated(name, CU_STREAM_LEGACY, mapping.base, mapping.bytes,
				  MEMORY_SHARED);
		}
	}
	share_handle(handle);
}

EXPORT CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
					     CUmemAllocationHandleType type,
					     unsigned long long flags)
{
	__typeof__(&cuMemExportToShareableHandle) real = REAL(cuMemExportToShareableHandle);

	if (unlikely(!real))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!hook_bypassed()) {
		flow_flush("cuMemExportToShareableHandle");
		share_mappings("cuMemExportToShareableHandle", handle);
	}
	return real(shareable, handle, type, flags);
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
					       void *shareable, CUmemAllocationHandleType type)
{
	__typeof__(&cuMemImportFromShareableHandle) real = REAL(cuMemImportFromShareableHandle);
	CUresult result;

	if (unlikely(!real))
		return CUDA_ERROR_NOT_INITIALIZED;
	result = real(handle, shareable, type);
	if (result == CUDA_SUCCESS && !hook_bypassed())
		share_handle(*handle);
	return result;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	__typeof__(&cuMemRelease) real = REAL(cuMemRelease);

	if (unlikely(!real))
		return CUDA_ERROR_NOT_INITIALIZED;
	/* First: the number may be given out again as soon as it is free. */
	if (!hook_bypassed()) {
		lock_take(LOCK_MAPPING);
		for (unsigned i = 0; i < mapping_count; i++)
			if (mappings[i].handle == handle)
				mappings[i].handle = 0;
		lock_give(LOCK_MAPPING);
	}
	return real(handle);
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	__typeof__(&cuMemRetainAllocationHandle) real = REAL(cuMemRetainAllocationHandle);
	CUresult result;

	if (unlikely(!real))
		return CUDA_ERROR_NOT_INITIALIZED;
	result = real(handle, address);
	if (result == CUDA_SUCCESS && !hook_bypassed()) {
		lock_take(LOCK_MAPPING);
		for (unsigned i = 0; i < mapping_count; i++)
			if (ADDRESS(address) - mappings[i].base < mappings[i].bytes)
				mappings[i].handle = *handle;
		lock_give(LOCK_MAPPING);
	}
	return result;
}

EXPORT CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t multicast_offset,
				   CUmemGenericAllocationHandle handle, size_t offset, size_t bytes,
				   unsigned long long flags)
{
	__typeof__(&cuMulticastBindMem) real = REAL(cuMulticastBindMem);

	if (unlikely(!real))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!hook_bypassed()) {
		flow_flush("cuMulticastBindMem");
		share_mappings("cuMulticastBindMem", handle);
	}
	return real(multicast, multicast_offset, handle, offset, bytes, flags);
}

EXPORT CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset,
				    CUdeviceptr address, size_t bytes, unsigned long long flags)
{
	SHARE_BODY(cuMulticastBindAddr, (multicast, offset, address, bytes, flags), address, bytes);
}

/* ---- network cards -------------------------------------------------------------------------- */

EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes,
					      CUmemRangeHandleType type, unsigned long long flags)
{
	SHARE_BODY(cuMemGetHandleForAddressRange, (handle, address, bytes, type, flags), address,
		   bytes);
}

static CUresult give_to_card(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
	SHARE_BODY(cuPointerSetAttribute, (value, attribute, address), allocation_of(address).base,
		   allocation_of(address).bytes);
}

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is what a library sets before it lets a network card at the
 * memory. */
EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				      CUdeviceptr address)
{
	__typeof__(&cuPointerSetAttribute) real = REAL(cuPointerSetAttribute);

	if (unlikely(!real))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return give_to_card(value, attribute, address);
	return real(value, attribute, address);
}
