/* SPDX-License-Identifier: Apache-2.0
 *
 * libcuda first: libfashim_kernels.so is linked to it, and without a driver the loader's words
 * about that would puzzle more than they tell.
 */
#include "tools/gpu/gpu.h"
#include "tools/base/shim_library.h"
#include "tools/base/tool.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The header renames calls to their newest version; so does this. */
#define QUOTE(name)	#name
#define SYMBOL_OF(name) QUOTE(name)

struct entry {
	const char *symbol;
	void **at;
};

static const char *missing_entry(void *library, const struct entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		*entries[i].at = dlsym(library, entries[i].symbol);
		if (!*entries[i].at)
			return entries[i].symbol;
	}
	return NULL;
}

static int open_driver(struct gpu *gpu)
{
	struct gpu_driver *driver = &gpu->driver;
	const struct entry entries[] = {
#define CALL(name) {SYMBOL_OF(name), (void **)&driver->name},
		GPU_DRIVER_CALLS(CALL)
#undef CALL
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *missing;

	if (!library) {
		complain("there is no NVIDIA driver here (libcuda.so.1): this needs a GPU");
		return -ENODEV;
	}
	missing = missing_entry(library, entries, sizeof(entries) / sizeof(*entries));
	if (missing) {
		complain("the NVIDIA driver lacks %s: it is too old", missing);
		return -ENODEV;
	}
#define CALL(name) *(void **)&driver->name = dlsym(library, SYMBOL_OF(name));
	GPU_DRIVER_EXTRAS(CALL)
#undef CALL
	return 0;
}

static int attribute(const struct gpu *gpu, CUdevice_attribute which)
{
	int value = 0;

	gpu->driver.cuDeviceGetAttribute(&value, which, gpu->device);
	return value;
}

static void write_uuid(char *text, const CUuuid *uuid)
{
	text += sprintf(text, "GPU-");
	for (int i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				(unsigned char)uuid->bytes[i]);
}

static void identify(struct gpu *gpu)
{
	CUuuid uuid;

	gpu->driver.cuDeviceGetName(gpu->name, sizeof(gpu->name), gpu->device);
	gpu->driver.cuDriverGetVersion(&gpu->cuda_version);
	gpu->driver.cuDeviceGetPCIBusId(gpu->bus_id, sizeof(gpu->bus_id), gpu->device);
	if (gpu->driver.cuDeviceGetUuid(&uuid, gpu->device) == CUDA_SUCCESS)
		write_uuid(gpu->uuid, &uuid);
	gpu->arch = 10 * attribute(gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
		    attribute(gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	gpu->multiprocessors = attribute(gpu, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	gpu->cache_bytes = attribute(gpu, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
}

static int open_device(struct gpu *gpu)
{
	const struct gpu_driver *driver = &gpu->driver;
	CUresult result = driver->cuInit(0);

	if (result == CUDA_SUCCESS)
		result = driver->cuDeviceGet(&gpu->device, 0);
	if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_INVALID_DEVICE) {
		complain("there is no GPU here");
		return -ENODEV;
	}
	if (result != CUDA_SUCCESS) {
		gpu_check(gpu, result, "the GPU cannot be used");
		return -ENODEV;
	}
	identify(gpu);
	result = driver->cuDevicePrimaryCtxRetain(&gpu->context, gpu->device);
	if (result == CUDA_SUCCESS)
		result = driver->cuCtxSetCurrent(gpu->context);
	if (result == CUDA_SUCCESS)
		result = driver->cuStreamCreate(&gpu->stream, CU_STREAM_DEFAULT);
	return gpu_check(gpu, result, gpu->name);
}

static char *find_library(const char *library)
{
	char *path;

	if (!library)
		return installed_file("libfashim_kernels.so");
	path = realpath(library, NULL);
	if (!path)
		complain("%s: %s", library, strerror(errno));
	return path;
}

/* A library of another build would take the structs apart wrongly. */
static bool same_layout(const struct gpu_kernels *kernels)
{
	int32_t sizes[3] = {0};

	kernels->fashim_kernels_layout(sizes);
	return sizes[0] == sizeof(struct attn_tensor) && sizes[1] == sizeof(struct attn_spec) &&
	       sizes[2] == sizeof(struct attn_args);
}

static int open_kernels(struct gpu *gpu, const char *library)
{
	struct gpu_kernels *kernels = &gpu->kernels;
	const struct entry entries[] = {
#define CALL(name) {#name, (void **)&kernels->name},
		GPU_KERNEL_CALLS(CALL)
#undef CALL
	};
	const char *missing;
	void *handle;

	gpu->library = find_library(library);
	if (!gpu->library)
		return -ENOENT;
	handle = dlopen(gpu->library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		complain("%s", dlerror());
		return -ENOENT;
	}
	missing = missing_entry(handle, entries, sizeof(entries) / sizeof(*entries));
	if (missing || !same_layout(kernels)) {
		complain("%s is of another version than this command%s%s", gpu->library,
			 missing ? ": it lacks " : "", missing ? missing : "");
		return -ENOENT;
	}
	return gpu_check_kernels(gpu, kernels->fashim_kernels_open(NULL));
}

int gpu_open(struct gpu *gpu, const char *library)
{
	int result;

	memset(gpu, 0, sizeof(*gpu));
	result = open_driver(gpu);
	if (!result)
		result = open_device(gpu);
	return result ? result : open_kernels(gpu, library);
}

void gpu_close(struct gpu *gpu)
{
	if (gpu->stream)
		gpu->driver.cuStreamDestroy(gpu->stream);
	if (gpu->context)
		gpu->driver.cuDevicePrimaryCtxRelease(gpu->device);
	free(gpu->library);
	memset(gpu, 0, sizeof(*gpu));
}

int gpu_check(const struct gpu *gpu, CUresult result, const char *what)
{
	const char *text = NULL;

	if (result == CUDA_SUCCESS)
		return 0;
	gpu->driver.cuGetErrorString(result, &text);
	complain("%s: %s", what, text ? text : "an error that the driver does not know");
	return result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EIO;
}

int gpu_check_kernels(const struct gpu *gpu, int result)
{
	const char *text;

	if (result) {
		text = gpu->kernels.fashim_kernels_error();
		complain("%s", *text ? text : strerror(-result));
	}
	return result;
}

bool gpu_is_simulated(const struct gpu *gpu)
{
	return !strncmp(gpu->name, "simgpu", 6);
}
