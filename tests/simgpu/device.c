/* SPDX-License-Identifier: Apache-2.0
 *
 * What the simulated device says of itself. It is one processor that calls itself "simgpu (CPU)"
 * and has the limits of a compute capability 9.0 part, so that programs choose as they would there.
 */
#include "sim.h"

#include <stdio.h>
#include <string.h>

CUresult CUDAAPI cuDriverGetVersion(int *version)
{
	SIM_LOG(" ");
	if (!version || SIM_REFUSED())
		return CUDA_ERROR_INVALID_VALUE;
	*version = sim_version;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
	SIM_ENTER(" ");
	SIM_ANSWER(count, sim_devices);
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
	SIM_ENTER(" ordinal=%d", ordinal);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(ordinal);
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	if (!name || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	snprintf(name, length, "simgpu (CPU)");
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	memset(uuid, 0, sizeof(*uuid));
	memcpy(uuid->bytes, "simgpu", 6);
	uuid->bytes[15] = (char)device;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	*bytes = sim_device_bytes();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	if (!text || length < 13)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	snprintf(text, length, "0000:%02X:00.0", device + 1);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	SIM_ENTER(" device=%d", device);
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	*major = sim_arch / 10;
	*minor = sim_arch % 10;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	/* Those that programs ask for; any other attribute is 0, "not supported". */
	static const struct {
		CUdevice_attribute attribute;
		int value;
	} table[] = {
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
		{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
		{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
		{CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
		{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
		{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
		{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
		{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
		{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
		{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
		{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
		{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
		{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
		{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
		{CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
		{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1 << 20},
		{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
		{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1},
		{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
		{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
		{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
		{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
		{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
		{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	};

	SIM_ENTER(" attribute=%d device=%d", attribute, device);
	if (!value || (int)attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	*value = 0;
	if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
		*value = sim_arch / 10;
	if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
		*value = sim_arch % 10;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = device + 1;
	for (unsigned i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].attribute == attribute)
			*value = table[i].value;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	SIM_ENTER(" device=%d peer=%d", device, peer);
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	CHECK_DEVICE(device);
	CHECK_DEVICE(peer);
	*can = device != peer;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	SIM_ENTER(" ");
	SIM_ANSWER(mode, CU_MODULE_LAZY_LOADING);
}

CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *id)
{
	SIM_LOG(" ");
	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}
