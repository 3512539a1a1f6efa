/* SPDX-License-Identifier: Apache-2.0
 *
 * Module loading and launching. Everything goes through the driver API: no runtime library.
 */
#include <stdbool.h>

#include "fused.h"

#include <errno.h>
#include <string.h>

#include "config.h"
#include "kernels/images.h"
#include "kernels/launch.h"
#include "message.h"
#include "resolve.h"
#include "scratch.h"

#define CONTEXTS 16
#define VARIANTS 160

enum helper {
	HELPER_REFERENCE,
	HELPER_DRIFT,
	HELPER_DRIFT_SAMPLED,
	HELPER_CANARY_SET,
	HELPER_CANARY_COPY,
	HELPER_COUNT
};

static const char *const helper_symbols[HELPER_COUNT] = {
	"fashim_reference",  "fashim_drift",	   "fashim_drift_sampled",
	"fashim_canary_set", "fashim_canary_copy",
};

static struct loaded {
	CUcontext context;
	int arch;
	CUmodule module; /* NULL: loading failed, do not try again */
	CUfunction helpers[HELPER_COUNT];
	CUfunction variants[VARIANTS];
	uint8_t available[VARIANTS]; /* of attn_variants: is it in the module? */
	struct attn_device device;
} loaded[CONTEXTS];
static int loaded_count;

static struct loaded *find(CUcontext context)
{
	for (int i = 0; i < loaded_count; i++)
		if (loaded[i].context == context)
			return &loaded[i];
	return NULL;
}

static int load(struct loaded *slot)
{
	const struct kernel_image *image;
	int major = 0, minor = 0, multiprocessors = 0, cache = 0;
	CUfunction function;
	CUdevice device;
	CUmodule module;

	if (driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return -EIO;
	driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	slot->arch = major * 10 + minor;
	driver.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
				    device);
	driver.cuDeviceGetAttribute(&cache, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
	slot->device.multiprocessors = multiprocessors > 0 ? multiprocessors : 1;
	slot->device.cache_bytes = cache;
	slot->device.encode = driver.cuTensorMapEncodeTiled;
	image = kernel_image_for(slot->arch);
	if (!image)
		return -ENOENT;
	if (driver.cuModuleLoadData(&module, image->data) != CUDA_SUCCESS)
		return -EIO;
	for (int i = 0; i < HELPER_COUNT; i++)
		if (driver.cuModuleGetFunction(&slot->helpers[i], module, helper_symbols[i]) !=
		    CUDA_SUCCESS) {
			driver.cuModuleUnload(module);
			return -EIO;
		}
	for (int i = 0; i < attn_variant_total && i < VARIANTS; i++) {
		const struct attn_variant *v = &attn_variants[i];

		slot->available[i] =
			i < attn_variant_count ||
			(slot->arch == v->min_arch &&
			 (!(v->needs & ATTN_NEEDS_MAPS) || slot->device.encode) &&
			 driver.cuModuleGetFunction(&function, module, v->symbol) == CUDA_SUCCESS);
	}
	slot->module = module;
	return 0;
}

int fused_prepare(CUcontext context)
{
	struct loaded *slot = find(context);
	int error;

	if (slot)
		return slot->module ? 0 : -ENOENT;
	if (loaded_count == CONTEXTS)
		return -ENOENT;
	slot = &loaded[loaded_count++];
	memset(slot, 0, sizeof(*slot));
	slot->context = context;
	error = load(slot);
	if (error)
		message_warn("no kernels for this GPU (compute capability %d.%d)", slot->arch / 10,
			     slot->arch % 10);
	return error;
}

const struct attn_variant *fused_select(CUcontext context, const struct attn_args *args)
{
	const struct loaded *slot = find(context);
	const char *forced = config()->kernel[0] ? config()->kernel : NULL;

	return slot && slot->module ? attn_select_from(args, slot->arch, forced, slot->available)
				    : NULL;
}

static int launch(CUfunction function, CUstream stream, const unsigned grid[3], unsigned threads,
		  unsigned shared, const void *args)
{
	void *params[] = {(void *)(uintptr_t)args};

	return driver.cuLaunchKernel(function, grid[0], grid[1], grid[2], threads, 1, 1, shared,
				     stream, params, NULL) == CUDA_SUCCESS
		       ? 0
		       : -EIO;
}

/* What must come before a launch, by kernels found as they are needed. */
static int launch_steps(struct loaded *slot, CUstream stream, const struct attn_launch *what)
{
	for (int i = 0; i < what->before_count; i++) {
		const struct attn_step *step = &what->before[i];
		CUfunction function;

		if (driver.cuModuleGetFunction(&function, slot->module, step->symbol) !=
			    CUDA_SUCCESS ||
		    launch(function, stream, step->grid, step->threads, 0, &step->parameter))
			return -EIO;
	}
	return 0;
}

static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

int fused_attention(CUcontext context, CUstream stream, const struct attn_variant *variant,
		    const struct attn_args *args)
{
	struct loaded *slot = find(context);
	const int index = (int)(variant - attn_variants);
	struct attn_launch what;
	uint64_t scratch = 0, bytes;
	int error = -EIO;

	if (!slot || !slot->module || index >= VARIANTS)
		return -EIO;
	if (!slot->variants[index]) {
		CUfunction function;

		if (driver.cuModuleGetFunction(&function, slot->module, variant->symbol) !=
		    CUDA_SUCCESS)
			return -EIO;
		if (variant->shared_bytes > 48 * 1024 &&
		    driver.cuFuncSetAttribute(function,
					      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					      variant->shared_bytes) != CUDA_SUCCESS)
			return -EIO;
		slot->variants[index] = function;
	}
	/* a captured launch is replayed when the scratch is somebody else's */
	bytes = attn_launch_scratch(variant, args);
	if (bytes && !is_capturing(stream))
		scratch = scratch_get(context, stream, bytes, false);
	if (!attn_launch_prepare(&what, variant, args, &slot->device, scratch) &&
	    !launch_steps(slot, stream, &what))
		error = launch(slot->variants[index], stream, what.grid, what.threads,
			       what.shared_bytes, &what.parameter);
	scratch_put(scratch, stream);
	return error;
}

static int launch_helper(CUcontext context, CUstream stream, enum helper helper, uint64_t blocks,
			 unsigned threads, const void *args)
{
	struct loaded *slot = find(context);
	const unsigned grid[3] = {(unsigned)(blocks < 1 ? 1 : blocks), 1, 1};

	if (!slot || !slot->module)
		return -EIO;
	return launch(slot->helpers[helper], stream, grid, threads, 0, args);
}

int fused_reference(CUcontext context, CUstream stream, const struct reference_args *args)
{
	return launch_helper(context, stream, HELPER_REFERENCE, (uint64_t)args->rows,
			     REFERENCE_THREADS, args);
}

int fused_drift(CUcontext context, CUstream stream, const struct drift_args *args)
{
	uint64_t elements =
		(uint64_t)args->B * (uint64_t)args->H * (uint64_t)args->Sq * (uint64_t)args->Dv;
	uint64_t blocks = (elements + 8 * DRIFT_THREADS - 1) / (8 * DRIFT_THREADS);

	return launch_helper(context, stream, HELPER_DRIFT, blocks > 1024 ? 1024 : blocks,
			     DRIFT_THREADS, args);
}

int fused_drift_sampled(CUcontext context, CUstream stream, const struct drift_sampled_args *args)
{
	return launch_helper(context, stream, HELPER_DRIFT_SAMPLED, (uint64_t)args->rows,
			     DRIFT_THREADS, args);
}

static uint64_t canary_blocks(uint64_t bytes)
{
	uint64_t blocks = bytes / (CANARY_GRANULE * 64) + 1;

	return blocks > 1024 ? 1024 : blocks;
}

int fused_canary_set(CUcontext context, CUstream stream, uint64_t begin, uint64_t end)
{
	const struct canary_args args = {.base = begin, .bytes = end - begin};

	return launch_helper(context, stream, HELPER_CANARY_SET, canary_blocks(args.bytes),
			     CANARY_THREADS, &args);
}

int fused_copy_standing(CUcontext context, CUstream stream, uint64_t target, uint64_t source,
			uint64_t bytes, bool use_canary)
{
	const struct canary_args args = {
		.base = target, .source = source, .bytes = bytes, .use_canary = use_canary};

	return launch_helper(context, stream, HELPER_CANARY_COPY, canary_blocks(bytes),
			     CANARY_THREADS, &args);
}

void fused_forget(CUcontext context)
{
	for (int i = loaded_count - 1; i >= 0; i--)
		if (loaded[i].context == context)
			loaded[i] = loaded[--loaded_count];
}
