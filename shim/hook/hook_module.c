/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of kernels come and go. Whoever loads one, at whatever depth: handles are given out again,
 * and what is remembered of one must not outlive it (kernel_code.h). And what kernels are allowed.
 *
 * A library's own kernels are launched by its calls alone, and these say what they touch: their
 * code is read for nobody. cuBLAS's images, a dozen of up to 8 MB, had taken 0.3 s of a program's
 * first products.
 */
#include "shim/hook/hook_driver.h"

#include "shim/code/kernel_code.h"
#include "shim/code/kernel_names.h"
#include "shim/real/library.h"

#define LOAD(function, parameters, arguments, ...)                                                 \
	NOTED_AFTER(function, parameters, arguments, flow_active(), __VA_ARGS__)

static const void *of_program(const void *image, const void *caller)
{
	return hook_depth > 0 || library_holds(caller) ? NULL : image;
}
#define OF_PROGRAM(image) of_program(image, __builtin_return_address(0))

LOAD(cuModuleLoad, (CUmodule * module, const char *path), (module, path),
     kernel_code_loaded_file(*module, OF_PROGRAM(path)))
LOAD(cuModuleLoadData, (CUmodule * module, const void *image), (module, image),
     kernel_code_loaded(*module, OF_PROGRAM(image)))
LOAD(cuModuleLoadDataEx,
     (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values),
     (module, image, count, options, values), kernel_code_loaded(*module, OF_PROGRAM(image)))
LOAD(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image),
     kernel_code_loaded(*module, OF_PROGRAM(image)))

#define LIBRARY_OPTIONS                                                                            \
	CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options,        \
		void **values, unsigned count

LOAD(cuLibraryLoadData, (CUlibrary * library, const void *image, LIBRARY_OPTIONS),
     (library, image, jit, jit_values, jit_count, options, values, count),
     kernel_code_loaded(*library, OF_PROGRAM(image)))
LOAD(cuLibraryLoadFromFile, (CUlibrary * library, const char *path, LIBRARY_OPTIONS),
     (library, path, jit, jit_values, jit_count, options, values, count),
     kernel_code_loaded_file(*library, OF_PROGRAM(path)))

/* A library's module has a handle of its own in each context. */
LOAD(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library),
     kernel_code_same(*module, library))

LOAD(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name),
     (function, module, name), kernel_named(*function, module, name))
LOAD(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name),
     (kernel, library, name), kernel_named(*kernel, library, name))

/* The program may launch a library's kernel through the handle that it has in a context. */
static void function_of_kernel(CUfunction function, CUkernel kernel)
{
	CUmodule module;
	CUlibrary library;

	kernel_named_alike(function, kernel);
	if (driver_resolve() == 0 && driver.cuFuncGetModule && driver.cuKernelGetLibrary &&
	    driver.cuFuncGetModule(&module, function) == CUDA_SUCCESS &&
	    driver.cuKernelGetLibrary(&library, kernel) == CUDA_SUCCESS)
		kernel_code_same(module, library);
}

LOAD(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), (function, kernel),
     function_of_kernel(*function, kernel))

/* First: the handle may be given out again as soon as it is free. */
#define UNLOAD(function, type)                                                                     \
	EXPORT CUresult function(type handle)                                                      \
	{                                                                                          \
		if (flow_active())                                                                 \
			kernel_code_unloaded(handle);                                              \
		DRIVER_HOOK_BODY(function, real(handle), flow_active(), op.kind = OP_TEARDOWN;     \
				 op.stream = CU_STREAM_LEGACY; op.handle = handle);                \
	}
UNLOAD(cuModuleUnload, CUmodule)
UNLOAD(cuLibraryUnload, CUlibrary)

/* ---- what a kernel is allowed -------------------------------------------------------------------
 *
 * Launches that are held back may need what they were given: it is not taken from them. Many
 * programs ask for as much again before each launch. */

/* `now`: what was asked for, with the driver's `answer`. */
static bool lessens(CUfunction_attribute attribute, int value, CUresult answer, const int *now)
{
	if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
	    attribute == CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
		return false;
	if (answer != CUDA_SUCCESS)
		return true;
	/* More does no harm: CUTLASS allows large clusters ahead of each kernel's first launch. */
	if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
	    attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
		return value < *now;
	return value != *now;
}

static bool function_loses(CUfunction function, CUfunction_attribute attribute, int value)
{
	__typeof__(&cuFuncGetAttribute) get = REAL(cuFuncGetAttribute);
	int now;

	return lessens(attribute, value,
		       get ? get(&now, attribute, function) : CUDA_ERROR_NOT_FOUND, &now);
}

static bool kernel_loses(CUkernel kernel, CUfunction_attribute attribute, int value,
			 CUdevice device)
{
	__typeof__(&cuKernelGetAttribute) get = REAL(cuKernelGetAttribute);
	int now;

	return lessens(attribute, value,
		       get ? get(&now, attribute, kernel, device) : CUDA_ERROR_NOT_FOUND, &now);
}

NOTED_BEFORE(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
	     (function, attribute, value),
	     if (flow_watching() && function_loses(function, attribute, value))
		     flow_flush("cuFuncSetAttribute"))
NOTED_BEFORE(cuKernelSetAttribute,
	     (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
	     (attribute, value, kernel, device),
	     if (flow_watching() && kernel_loses(kernel, attribute, value, device))
		     flow_flush("cuKernelSetAttribute"))
