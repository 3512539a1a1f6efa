/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of kernels come and go. Whoever loads one, at whatever depth: handles are given out again,
 * and what is remembered of one must not outlive it (kernel_code.h).
 */
#include "shim/hook/hook_driver.h"

#include "shim/code/kernel_code.h"

/* Calls the real function and tells of what came of it. */
#define LOAD_BODY(function, arguments, tell)                                                       \
	do {                                                                                       \
		__typeof__(&function) real = REAL(function);                                       \
		CUresult result;                                                                   \
                                                                                                   \
		if (unlikely(!real))                                                               \
			return CUDA_ERROR_NOT_INITIALIZED;                                         \
		result = real arguments;                                                           \
		if (result == CUDA_SUCCESS && flow_active())                                       \
			tell;                                                                      \
		return result;                                                                     \
	} while (0)

EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	LOAD_BODY(cuModuleLoad, (module, path), kernel_code_loaded_file(*module, path));
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	LOAD_BODY(cuModuleLoadData, (module, image), kernel_code_loaded(*module, image));
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
				   CUjit_option *options, void **values)
{
	LOAD_BODY(cuModuleLoadDataEx, (module, image, count, options, values),
		  kernel_code_loaded(*module, image));
}

EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	LOAD_BODY(cuModuleLoadFatBinary, (module, image), kernel_code_loaded(*module, image));
}

#define LIBRARY_OPTIONS                                                                            \
	CUjit_option *jit, void **jit_values, unsigned jit_count, CUlibraryOption *options,        \
		void **values, unsigned count

EXPORT CUresult cuLibraryLoadData(CUlibrary *library, const void *image, LIBRARY_OPTIONS)
{
	LOAD_BODY(cuLibraryLoadData,
		  (library, image, jit, jit_values, jit_count, options, values, count),
		  kernel_code_loaded(*library, image));
}

EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, LIBRARY_OPTIONS)
{
	LOAD_BODY(cuLibraryLoadFromFile,
		  (library, path, jit, jit_values, jit_count, options, values, count),
		  kernel_code_loaded_file(*library, path));
}

/* A library's module has a handle of its own in each context. */
EXPORT CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	LOAD_BODY(cuLibraryGetModule, (module, library), kernel_code_same(*module, library));
}

/* The program may launch a library's kernel through the handle that it has in a context. */
static void function_of_kernel(CUfunction function, CUkernel kernel)
{
	CUmodule module;
	CUlibrary library;

	if (driver_resolve() == 0 && driver.cuFuncGetModule && driver.cuKernelGetLibrary &&
	    driver.cuFuncGetModule(&module, function) == CUDA_SUCCESS &&
	    driver.cuKernelGetLibrary(&library, kernel) == CUDA_SUCCESS)
		kernel_code_same(module, library);
}

EXPORT CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	LOAD_BODY(cuKernelGetFunction, (function, kernel), function_of_kernel(*function, kernel));
}

/* First: the handle may be given out again as soon as it is free. */
#define UNLOAD(function, type)                                                                     \
	EXPORT CUresult function(type handle)                                                      \
	{                                                                                          \
		if (flow_active())                                                                 \
			kernel_code_unloaded(handle);                                              \
		DRIVER_HOOK_BODY(function, (handle), flow_active(), op.kind = OP_TEARDOWN;         \
				 op.stream = CU_STREAM_LEGACY; op.handle = handle);                \
	}
UNLOAD(cuModuleUnload, CUmodule)
UNLOAD(cuLibraryUnload, CUlibrary)
