/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual memory management: addresses reserved, physical memory created, one mapped on the other.
 *
 * A reservation is a mapping of its own without access, outside the range that cuMemAlloc uses; a
 * physical handle is a memory file, so that two mappings of one handle show the same bytes. Access
 * is given by cuMemMap already; cuMemSetAccess only checks its arguments.
 */
#include "sim.h"

#include <sys/mman.h>
#include <unistd.h>

#define GRANULE (2ull << 20)
#define FILES	1024

static bool on_host[FILES]; /* whose memory a file stands for */

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
					       CUmemAllocationGranularity_flags option)
{
	SIM_ENTER(" option=%d", option);
	if (!bytes || !prop)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = GRANULE;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment,
				     CUdeviceptr wanted, unsigned long long flags)
{
	SIM_ENTER(" bytes=%zu alignment=%zu wanted=0x%llx flags=%llu", bytes, alignment, wanted,
		  flags);
	if (!out || !bytes || bytes % GRANULE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	char *p = mmap(NULL, bytes + GRANULE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = ((uint64_t)(uintptr_t)p + GRANULE - 1) / GRANULE * GRANULE;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	SIM_ENTER(" address=0x%llx bytes=%zu", address, bytes);
	if (!address || sim_valid(address, 1))
		return CUDA_ERROR_INVALID_VALUE;
	munmap(at(address), bytes);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
			     const CUmemAllocationProp *prop, unsigned long long flags)
{
	SIM_ENTER(" bytes=%zu flags=%llu", bytes, flags);
	if (!out || !prop || !bytes || bytes % GRANULE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	int fd = memfd_create("simgpu-memory", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (fd < FILES)
		on_host[fd] = prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE;
	*out = (CUmemGenericAllocationHandle)fd + 1;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	SIM_ENTER(" handle=%llu", handle);
	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	close((int)handle - 1); /* mappings keep the memory */
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
			  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	SIM_ENTER_CONTEXT(" address=0x%llx bytes=%zu offset=%zu flags=%llu", address, bytes, offset,
			  flags);
	if (!handle || !address || address % GRANULE || bytes % GRANULE || offset || flags)
		return CUDA_ERROR_INVALID_VALUE;
	const int fd = (int)handle - 1;
	return sim_map(ctx, address, bytes, fd, fd < FILES && on_host[fd]);
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *desc,
				size_t count)
{
	SIM_ENTER(" address=0x%llx bytes=%zu count=%zu", address, bytes, count);
	return desc && count && sim_valid(address, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	SIM_ENTER_CONTEXT(" address=0x%llx bytes=%zu", address, bytes);
	sim_context_drain(ctx);
	CUresult result = sim_release(address, SIM_MAPPED);
	if (result == CUDA_SUCCESS)
		mmap(at(address), bytes, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return result;
}
