/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the image part by part, asks it for every variant, and launches through
 * attn_launch_prepare, as the shim does, but linked to the driver and without the shim's caution.
 */
#include "kernels/bench_abi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

#include "kernels/images.h"
#include "kernels/takes.h"

struct fashim_call {
	struct attn_launch launch;
	CUdeviceptr scratch;
	CUfunction function;
};

#define PARTS 24

static const struct kernel_image *image;
static struct {
	const void *data; /* NULL: free */
	CUmodule module;
} parts[PARTS];	       /* loaded so far */
static CUmodule given; /* a file's kernels, which come first */
static int arch;
static struct attn_device gpu;
static uint8_t available[ATTN_VARIANTS_MOST]; /* as attn_select_from wants it: set in open, read in
						 present */
static char error_text[256];

static int failed(const char *what, CUresult result)
{
	const char *text = "?";

	cuGetErrorString(result, &text);
	snprintf(error_text, sizeof(error_text), "%s: %s", what, text);
	return -EIO;
}

const char *fashim_kernels_error(void)
{
	return error_text;
}

void fashim_kernels_layout(int32_t sizes[3])
{
	sizes[0] = sizeof(struct attn_tensor);
	sizes[1] = sizeof(struct attn_spec);
	sizes[2] = sizeof(struct attn_args);
}

static int attribute(CUdevice_attribute which, CUdevice device)
{
	int value = 0;

	cuDeviceGetAttribute(&value, which, device);
	return value;
}

/* The module of the embedded image that a kernel is in. */
static CUresult module_of(CUmodule *module, const char *symbol)
{
	const void *data = kernel_image_part(image, symbol);
	int at = 0;

	if (!data)
		data = kernel_image_part(image, KERNEL_HELPERS);
	while (at < PARTS && parts[at].data && parts[at].data != data)
		at++;
	if (at == PARTS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!parts[at].data) {
		const CUresult result = cuModuleLoadData(&parts[at].module, data);

		if (result != CUDA_SUCCESS)
			return result;
		parts[at].data = data;
	}
	*module = parts[at].module;
	return CUDA_SUCCESS;
}

static CUresult find(CUfunction *function, const char *symbol)
{
	CUmodule module;
	CUresult result;

	if (given && cuModuleGetFunction(function, given, symbol) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	result = module_of(&module, symbol);
	return result == CUDA_SUCCESS ? cuModuleGetFunction(function, module, symbol) : result;
}

int fashim_kernels_open(const char *file)
{
	CUdevice device;
	CUfunction f;
	CUresult result = cuCtxGetDevice(&device);

	if (result != CUDA_SUCCESS)
		return failed("cuCtxGetDevice", result);
	arch = 10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) +
	       attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	gpu.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
	gpu.cache_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device);
	gpu.encode = cuTensorMapEncodeTiled;
	memset(parts, 0, sizeof(parts));
	given = NULL;
	image = kernel_image_for(arch);
	if (!image)
		return failed("embedded image", CUDA_ERROR_NO_BINARY_FOR_GPU);
	result = file ? cuModuleLoad(&given, file) : find(&f, "fashim_reference");
	if (result != CUDA_SUCCESS)
		return failed(file ? file : "embedded image", result);
	gpu.looks = find(&f, KERNEL_FOR_ARCH) == CUDA_SUCCESS;
	memset(available, 0, sizeof(available));
	for (int n = 0; n < attn_variant_total; n++)
		available[n] = (file ? cuModuleGetFunction(&f, given, attn_variants[n].symbol)
				     : find(&f, attn_variants[n].symbol)) == CUDA_SUCCESS;
	return 0;
}

const char *fashim_kernels_name(int n)
{
	return n >= 0 && n < attn_variant_total ? attn_variants[n].name : NULL;
}

int fashim_kernels_present(int n)
{
	return fashim_kernels_name(n) && available[n];
}

int fashim_kernels_select(const struct attn_args *args, const char *forced, int portable)
{
	const struct attn_variant *v = portable ? attn_select(args, arch, forced)
						: attn_select_from(args, arch, forced, available);

	return v ? (int)(v - attn_variants) : -1;
}

static int function_of(CUfunction *f, int n)
{
	const struct attn_variant *v = &attn_variants[n];
	const CUclusterSchedulingPolicy policy = attn_launch_policy(v);
	CUresult result;

	if (!fashim_kernels_present(n))
		return -EINVAL;
	result = find(f, v->symbol);
	if (result == CUDA_SUCCESS)
		result = cuFuncSetAttribute(*f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
					    v->shared_bytes);
	if (result == CUDA_SUCCESS && policy != CU_CLUSTER_SCHEDULING_POLICY_DEFAULT)
		result = cuFuncSetAttribute(
			*f, CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, (int)policy);
	return result == CUDA_SUCCESS ? 0 : failed(v->symbol, result);
}

int fashim_kernels_prepare(struct fashim_call **call, int n, const struct attn_args *args)
{
	struct fashim_call *c = aligned_alloc(_Alignof(struct fashim_call), sizeof(*c));
	int error;

	if (!c)
		return -ENOMEM;
	c->scratch = 0;
	error = function_of(&c->function, n);
	if (!error) {
		const uint64_t bytes = attn_launch_scratch(&attn_variants[n], args, &gpu);

		if (bytes && cuMemAlloc(&c->scratch, bytes) != CUDA_SUCCESS)
			c->scratch = 0;
		error = attn_launch_prepare(&c->launch, &attn_variants[n], args, &gpu, c->scratch);
		if (error)
			snprintf(error_text, sizeof(error_text), "%s: attn_launch_prepare: %d",
				 attn_variants[n].name, error);
	}
	if (error)
		free(c);
	else
		*call = c;
	return error;
}

int fashim_kernels_launch(const struct fashim_call *call, CUstream stream)
{
	const struct attn_launch *l = &call->launch;
	void *params[] = {(void *)(uintptr_t)&l->parameter};
	CUresult result = CUDA_SUCCESS;

	for (int i = 0; i < l->before_count && result == CUDA_SUCCESS; i++) {
		const struct attn_step *step = &l->before[i];
		void *step_params[] = {(void *)(uintptr_t)&step->parameter};
		CUfunction f;

		result = find(&f, step->symbol);
		if (result == CUDA_SUCCESS)
			result = cuLaunchKernel(f, step->grid[0], step->grid[1], step->grid[2],
						step->threads, 1, 1, 0, stream, step_params, NULL);
	}
	if (result == CUDA_SUCCESS)
		result = cuLaunchKernel(call->function, l->grid[0], l->grid[1], l->grid[2],
					l->threads, 1, 1, l->shared_bytes, stream, params, NULL);
	return result == CUDA_SUCCESS ? 0 : failed("cuLaunchKernel", result);
}

void fashim_kernels_free(struct fashim_call *call)
{
	if (call && call->scratch)
		cuMemFree(call->scratch);
	free(call);
}

int fashim_kernels_resources(struct fashim_resources *resources, int n)
{
	int error, fixed = 0;
	CUfunction f;

	error = function_of(&f, n);
	if (error)
		return error;
	cuFuncGetAttribute(&resources->registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f);
	cuFuncGetAttribute(&resources->local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f);
	cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f);
	resources->threads = attn_variants[n].threads;
	resources->shared_bytes = fixed + attn_variants[n].shared_bytes;
	cuOccupancyMaxActiveBlocksPerMultiprocessor(&resources->blocks, f, attn_variants[n].threads,
						    (size_t)attn_variants[n].shared_bytes);
	return 0;
}

int fashim_kernels_function(CUfunction *function, const char *symbol)
{
	const CUresult result = find(function, symbol);

	return result == CUDA_SUCCESS ? 0 : failed(symbol, result);
}

int fashim_kernels_reference(const struct reference_args *args)
{
	void *params[] = {(void *)(uintptr_t)args};
	CUfunction f;
	CUresult result = find(&f, "fashim_reference");

	if (result == CUDA_SUCCESS)
		result = cuLaunchKernel(f, (unsigned)args->rows, 1, 1, REFERENCE_THREADS, 1, 1, 0,
					NULL, params, NULL);
	if (result == CUDA_SUCCESS)
		result = cuStreamSynchronize(NULL);
	return result == CUDA_SUCCESS ? 0 : failed("fashim_reference", result);
}
