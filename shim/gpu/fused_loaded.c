/* SPDX-License-Identifier: Apache-2.0
 *
 * What is loaded of an image. Everything goes through the driver API: no runtime library.
 */
#include "shim/gpu/fused_loaded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/cost.h"
#include "kernels/images.h"
#include "shim/gpu/ahead.h"
#include "shim/gpu/kernel_cache.h"
#include "shim/base/message.h"
#include "shim/gpu/prepared.h"
#include "shim/real/driver.h"
#include "shim/gpu/tuned.h"
#include "shim/gpu/fused.h"

#define CONTEXTS 16

static const char *const helper_symbols[HELPER_COUNT] = {
	"fashim_reference",	 "fashim_drift",	   "fashim_drift_sampled",
	"fashim_find_addresses", "fashim_count_unwritten", "fashim_count_triangle",
	"fashim_slopes",	 "fashim_complement",	   "fashim_lay_out",
	"fashim_copy_rows",
};

static struct loaded loaded[CONTEXTS];
static int loaded_count;

static struct loaded *find(CUcontext context)
{
	for (int i = 0; i < loaded_count; i++)
		if (loaded[i].context == context)
			return &loaded[i];
	return NULL;
}

static int load_module(const void *data, void **made)
{
	bool loads = driver.cuModuleLoadData((CUmodule *)made, data) == CUDA_SUCCESS;

	message_debug("a part of the kernels: %s", loads ? "loaded" : "does not load");
	return loads ? 0 : -EIO;
}

static int compute_capability(CUdevice device)
{
	int major = 0, minor = 0;

	driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	return major * 10 + minor;
}

/* Of text, what was compiled of it before: the driver would take a minute of the program's time. */
static int load_compiled(const void *text, void **made)
{
	int version = 0, error = -ENODATA;
	CUdevice device;
	const void *code = NULL;
	char *file = NULL;

	driver.cuDriverGetVersion(&version);
	if (driver.cuCtxGetDevice(&device) == CUDA_SUCCESS)
		code = kernel_cache_read(&file, text, kernel_image_part_bytes(text),
					 compute_capability(device), version);
	if (code)
		error = load_module(code, made);
	free(file);
	return error;
}

static int ask_for(void **module, CUcontext context, const struct kernel_image *image,
		   const void *part)
{
	return ahead_get(module, context, part, image->ptx ? load_compiled : load_module);
}

/* The module that a kernel is in, asked for when the first of its kernels is. 0, -EAGAIN, -EIO. */
static int module_of(void **module, const struct loaded *slot, const char *symbol)
{
	const void *data = kernel_image_part(slot->image, symbol);

	*module = slot->module;
	return data ? ask_for(module, slot->context, slot->image, data) : 0;
}

struct loaded *fused_of(CUcontext context)
{
	struct loaded *slot = find(context);

	return slot && slot->module ? slot : NULL;
}

int fused_function(CUfunction *function, struct loaded *slot, const char *symbol)
{
	void *module;
	const int error = module_of(&module, slot, symbol);

	if (error)
		return error;
	return driver.cuModuleGetFunction(function, module, symbol) == CUDA_SUCCESS ? 0 : -EIO;
}

/* The helpers are there: what else can be known of the image, and of the device. */
static int look_around(struct loaded *slot, CUdevice device, CUmodule module)
{
	int multiprocessors = 0, cache = 0, version = 0;
	char name[128] = "";
	CUfunction function;
	bool is_for_this; /* architecture: with the kernels that need it */

	driver.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
				    device);
	driver.cuDeviceGetAttribute(&cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
	slot->device.multiprocessors = multiprocessors > 0 ? multiprocessors : 1;
	slot->device.cache_bytes = cache;
	slot->device.encode = driver.cuTensorMapEncodeTiled;
	for (int i = 0; i < HELPER_COUNT; i++)
		if (driver.cuModuleGetFunction(&slot->helpers[i], module, helper_symbols[i]) !=
		    CUDA_SUCCESS)
			return -EIO;
	is_for_this =
		driver.cuModuleGetFunction(&function, module, KERNEL_FOR_ARCH) == CUDA_SUCCESS;
	slot->device.looks = is_for_this;
	for (int i = 0; i < attn_variant_total; i++) {
		const struct attn_variant *v = &attn_variants[i];

		slot->available[i] = i < attn_variant_count || v->family == ATTN_LADDER ||
				     (is_for_this && slot->arch == v->min_arch &&
				      (!(v->needs & ATTN_NEEDS_MAPS) || slot->device.encode));
	}
	slot->module = module;
	driver.cuDeviceGetName(name, sizeof(name), device);
	driver.cuDriverGetVersion(&version);
	slot->tuned = tuned_open(name, version, slot->image->data, slot->image->size);
	return 0;
}

/* What an image that does not load comes to. */
static int missing(const struct kernel_image *image)
{
	return image && image->ptx ? -ENODATA : -ENOENT;
}

int fused_missing(CUcontext context, const struct attn_variant *variant, char *detail, size_t size)
{
	const struct loaded *slot = find(context);

	if (!slot || (!slot->error && !variant))
		return 0;
	snprintf(detail, size, "sm_%d", slot->arch);
	return missing(slot->image);
}

bool fused_prepared(CUcontext context)
{
	return find(context) != NULL;
}

int fused_prepare(CUcontext context)
{
	struct loaded *slot = find(context);
	const struct kernel_image *image;
	void *module = NULL;
	int error = -ENOENT, arch;
	CUdevice device;

	if (slot)
		return slot->error;
	if (loaded_count == CONTEXTS)
		return -ENOENT;
	COST(PURPOSE_IMAGES);
	if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return -EIO;
	arch = compute_capability(device);
	image = kernel_image_for(arch);
	if (image)
		error = ask_for(&module, context, image, kernel_image_part(image, KERNEL_HELPERS));
	if (error == -EAGAIN)
		return error;
	slot = &loaded[loaded_count++];
	memset(slot, 0, sizeof(*slot));
	slot->context = context;
	slot->arch = arch;
	slot->image = image;
	if (!error)
		error = look_around(slot, device, module);
	if (!error)
		return 0;
	slot->error = missing(image);
	message_warn(slot->error == -ENODATA
			     ? "the kernels for this GPU (compute capability %d.%d) are not "
			       "compiled: fashim doctor --prepare"
			     : "no kernels for this GPU (compute capability %d.%d)",
		     arch / 10, arch % 10);
	return slot->error;
}

int fused_launch(CUfunction function, CUstream stream, const unsigned grid[3], unsigned threads,
		 unsigned shared, const void *args)
{
	void *params[] = {(void *)(uintptr_t)args};

	return driver.cuLaunchKernel(function, grid[0], grid[1], grid[2], threads, 1, 1, shared,
				     stream, params, NULL) == CUDA_SUCCESS
		       ? 0
		       : -EIO;
}

void fused_forget(CUcontext context)
{
	prepared_forget();
	for (int i = loaded_count - 1; i >= 0; i--)
		if (loaded[i].context == context)
			loaded[i] = loaded[--loaded_count];
}
