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

/* Memory of another's, mapped here; and memory of ours that is given to others. */
#define OPEN(function, parameters, arguments)                                                      \
	ALLOC_HOOK(function, parameters, arguments, CU_STREAM_LEGACY,                              \
		   allocation_of(*address).base, allocation_of(*address).bytes, MEMORY_SHARED)
#define GIVE(function, parameters, arguments)                                                      \
	SHARE_HOOK(function, parameters, arguments, allocation_of(address).base,                   \
		   allocation_of(address).bytes)

OPEN(cuIpcOpenMemHandle, (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags),
     (address, handle, flags))
OPEN(cuIpcOpenMemHandle_v2, (CUdeviceptr * address, CUipcMemHandle handle, unsigned flags),
     (address, handle, flags))
GIVE(cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr address), (handle, address))
GIVE(cuMemPoolExportPointer, (CUmemPoolPtrExportData * data, CUdeviceptr address), (data, address))
OPEN(cuMemPoolImportPointer,
     (CUdeviceptr * address, CUmemoryPool pool, CUmemPoolPtrExportData *data),
     (address, pool, data))

ALLOC_HOOK(cuExternalMemoryGetMappedBuffer,
	   (CUdeviceptr * address, CUexternalMemory memory,
	    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc),
	   (address, memory, desc), CU_STREAM_LEGACY, *address, desc->size, MEMORY_SHARED)
ALLOC_HOOK(cuGraphicsResourceGetMappedPointer_v2,
	   (CUdeviceptr * address, size_t *bytes, CUgraphicsResource resource),
	   (address, bytes, resource), CU_STREAM_LEGACY, address ? *address : 0, bytes ? *bytes : 0,
	   MEMORY_SHARED)

/* A kernel reaches these without a parameter that says so. */
static struct op_range global_range(const CUdeviceptr *address, const size_t *bytes)
{
	if (!address)
		return (struct op_range){0, 0};
	return bytes ? (struct op_range){*address, *bytes} : allocation_of(*address);
}

/* What is held back of its kernels is made while their constants are what they were, and what was
 * found out about them is forgotten as if they went. */
static CUresult expose(const char *name, void *handle)
{
	struct op op = {.kind = OP_TEARDOWN,
			.name = name,
			.context = hook_context(),
			.stream = CU_STREAM_LEGACY,
			.handle = handle};

	if (!flow_active() || !kernel_code_exposed(handle))
		return CUDA_SUCCESS;
	return flow_before(&op) == FLOW_FAILED ? op.error : CUDA_SUCCESS;
}

#define GET_GLOBAL(function, owner, kind)                                                          \
	EXPORT CUresult function(CUdeviceptr *address, size_t *bytes, owner from,                  \
				 const char *name)                                                 \
	{                                                                                          \
		const CUresult lost = expose(#function, from);                                     \
                                                                                                   \
		if (lost != CUDA_SUCCESS)                                                          \
			return lost;                                                               \
		ALLOC_BODY(function, (address, bytes, from, name), CU_STREAM_LEGACY,               \
			   global_range(address, bytes).base, global_range(address, bytes).bytes,  \
			   kind);                                                                  \
	}
GET_GLOBAL(cuModuleGetGlobal_v2, CUmodule, MEMORY_SHARED)
GET_GLOBAL(cuLibraryGetGlobal, CUlibrary, MEMORY_SHARED)
GET_GLOBAL(cuLibraryGetManaged, CUlibrary, MEMORY_MANAGED)

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

SHARE_HOOK(cuTexObjectCreate,
	   (CUtexObject * texture, const CUDA_RESOURCE_DESC *resource,
	    const CUDA_TEXTURE_DESC *desc, const CUDA_RESOURCE_VIEW_DESC *view),
	   (texture, resource, desc, view), texture_range(resource).base,
	   texture_range(resource).bytes)

/* The texture of a module, before there were objects. */
SHARE_HOOK(cuTexRefSetAddress_v2,
	   (size_t * offset, CUtexref texture, CUdeviceptr address, size_t bytes),
	   (offset, texture, address, bytes), address, bytes)

#define TEXTURE_2D(function)                                                                       \
	SHARE_HOOK(function,                                                                       \
		   (CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr address,      \
		    size_t pitch),                                                                 \
		   (texture, desc, address, pitch), address, pitch * desc->Height)
TEXTURE_2D(cuTexRefSetAddress2D_v2)
TEXTURE_2D(cuTexRefSetAddress2D_v3)

/* ---- mapped memory -------------------------------------------------------------------------- */

#define MAPPINGS 4096 /* more than that, and the rest counts as shared */
#define HANDLES	 256

/* Ranges that cuMemMap made, and of which physical memory; 0: its handle was released. */
static struct mapping {
	CUmemGenericAllocationHandle handle;
	uint64_t base, bytes;
} mappings[MAPPINGS];
static unsigned mapping_count;

/* Handles of the host's memory, or that were imported, or exported before they were mapped. */
static CUmemGenericAllocationHandle shared_handles[HANDLES];
static unsigned shared_handle_count;

void mapping_shared(CUmemGenericAllocationHandle handle)
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

bool mapping_gone(uint64_t base, uint64_t bytes)
{
	bool remains = false;

	lock_take(LOCK_MAPPING);
	for (unsigned i = mapping_count; i-- > 0;)
		if (mappings[i].base >= base && mappings[i].base - base < bytes) {
			remains |= mappings[i].handle != 0;
			mappings[i] = mappings[--mapping_count];
		}
	lock_give(LOCK_MAPPING);
	return remains;
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
	mapping_shared(handle);
}

NOTED_BEFORE(cuMemExportToShareableHandle,
	     (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
	      unsigned long long flags),
	     (shareable, handle, type, flags), flow_flush("cuMemExportToShareableHandle");
	     share_mappings("cuMemExportToShareableHandle", handle))
NOTED_AFTER(cuMemImportFromShareableHandle,
	    (CUmemGenericAllocationHandle * handle, void *shareable,
	     CUmemAllocationHandleType type),
	    (handle, shareable, type), !hook_bypassed(), mapping_shared(*handle))

/* Mappings of `was`, or that hold `address`, are of `handle` from now on. */
static void name_mappings(CUmemGenericAllocationHandle was, const void *address,
			  CUmemGenericAllocationHandle handle)
{
	lock_take(LOCK_MAPPING);
	for (unsigned i = 0; i < mapping_count; i++)
		if (address ? ADDRESS(address) - mappings[i].base < mappings[i].bytes
			    : mappings[i].handle == was)
			mappings[i].handle = handle;
	lock_give(LOCK_MAPPING);
}

/* First: the number may be given out again as soon as it is free. */
NOTED_BEFORE(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle),
	     name_mappings(handle, NULL, 0))
NOTED_AFTER(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *address),
	    (handle, address), !hook_bypassed(), name_mappings(0, address, *handle))

NOTED_BEFORE(cuMulticastBindMem,
	     (CUmemGenericAllocationHandle multicast, size_t multicast_offset,
	      CUmemGenericAllocationHandle handle, size_t offset, size_t bytes,
	      unsigned long long flags),
	     (multicast, multicast_offset, handle, offset, bytes, flags),
	     flow_flush("cuMulticastBindMem");
	     share_mappings("cuMulticastBindMem", handle))
SHARE_HOOK(cuMulticastBindAddr,
	   (CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address,
	    size_t bytes, unsigned long long flags),
	   (multicast, offset, address, bytes, flags), address, bytes)

/* ---- network cards -------------------------------------------------------------------------- */

SHARE_HOOK(cuMemGetHandleForAddressRange,
	   (void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
	    unsigned long long flags),
	   (handle, address, bytes, type, flags), address, bytes)

/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is what a library sets before it lets a network card at the
 * memory. */
EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				      CUdeviceptr address)
{
	if (attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
		SHARE_BODY(cuPointerSetAttribute, (value, attribute, address),
			   allocation_of(address).base, allocation_of(address).bytes);
	}
	FIND_REAL(cuPointerSetAttribute);
	return real(value, attribute, address);
}
