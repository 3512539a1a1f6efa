/* SPDX-License-Identifier: Apache-2.0
 *
 * Images come in by every door, and it is known of their kernels what they do, until they are
 * unloaded.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "probe.h"

#define KERNELS	   BUILD_FOLDER "/apps/sim/hazards.kernels"
#define UNKNOWN	   "its code is not known"
#define CALL(name) ((__typeof__(&name))dlsym(driver, #name))

static struct probe *seen;
static void *driver;

static char harmless[] = "app_scale_f16", global[] = "reach_global";

/* A copy of the image that is overwritten and freed before anything is asked. */
static void *image_read(size_t *bytes)
{
	FILE *file = fopen(KERNELS, "rb");
	void *image;

	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*bytes = (size_t)ftell(file);
	rewind(file);
	image = malloc(*bytes);
	assert_non_null(image);
	assert_int_equal(fread(image, 1, *bytes, file), *bytes);
	fclose(file);
	return image;
}

static void image_free(void *image, size_t bytes)
{
	memset(image, 0, bytes);
	free(image);
}

static int begin(void **state)
{
	seen->active = true;
	seen->answer = FLOW_PASS;
	return 0;
}

static void assert_module(CUmodule module)
{
	CUfunction function[2];

	assert_int_equal(CALL(cuModuleGetFunction)(&function[0], module, harmless), 0);
	assert_int_equal(CALL(cuModuleGetFunction)(&function[1], module, global), 0);
	assert_null(seen->hindrance(function[0], harmless));
	assert_string_equal(seen->hindrance(function[1], global),
			    "it uses variables of its module");
	assert_int_equal(CALL(cuModuleUnload)(module), 0);
	assert_string_equal(seen->hindrance(function[0], harmless), UNKNOWN);
}

static void modules(void **state)
{
	CUmodule module;
	size_t bytes;
	void *image;

	assert_int_equal(CALL(cuModuleLoad)(&module, KERNELS), 0);
	assert_module(module);
	image = image_read(&bytes);
	assert_int_equal(CALL(cuModuleLoadData)(&module, image), 0);
	image_free(image, bytes);
	assert_module(module);
	image = image_read(&bytes);
	assert_int_equal(CALL(cuModuleLoadDataEx)(&module, image, 0, NULL, NULL), 0);
	image_free(image, bytes);
	assert_module(module);
	image = image_read(&bytes);
	assert_int_equal(CALL(cuModuleLoadFatBinary)(&module, image), 0);
	image_free(image, bytes);
	assert_module(module);
}

/* A kernel, its handle in a context, and one of the library's module there. */
static void assert_library(CUlibrary library)
{
	CUkernel kernel;
	CUfunction function;
	CUmodule module;

	assert_int_equal(CALL(cuLibraryGetKernel)(&kernel, library, global), 0);
	assert_string_equal(seen->hindrance((CUfunction)kernel, global),
			    "it uses variables of its module");
	assert_int_equal(CALL(cuLibraryGetKernel)(&kernel, library, harmless), 0);
	assert_null(seen->hindrance((CUfunction)kernel, harmless));
	assert_int_equal(CALL(cuKernelGetFunction)(&function, kernel), 0);
	assert_null(seen->hindrance(function, harmless));
	assert_int_equal(CALL(cuLibraryGetModule)(&module, library), 0);
	assert_int_equal(CALL(cuModuleGetFunction)(&function, module, harmless), 0);
	assert_null(seen->hindrance(function, harmless));
	assert_int_equal(CALL(cuLibraryUnload)(library), 0);
	assert_string_equal(seen->hindrance((CUfunction)kernel, harmless), UNKNOWN);
	assert_string_equal(seen->hindrance(function, harmless), UNKNOWN);
}

static void libraries(void **state)
{
	CUlibrary library;
	size_t bytes;
	void *image;

	assert_int_equal(
		CALL(cuLibraryLoadFromFile)(&library, KERNELS, NULL, NULL, 0, NULL, NULL, 0), 0);
	assert_library(library);
	image = image_read(&bytes);
	assert_int_equal(CALL(cuLibraryLoadData)(&library, image, NULL, NULL, 0, NULL, NULL, 0), 0);
	image_free(image, bytes);
	assert_library(library);
}

/* What is refused, and what is loaded while the shim looks away, is not known. */
static void not_told(void **state)
{
	CUmodule module;
	CUfunction function;

	assert_int_equal(CALL(cuModuleLoad)(&module, "/nowhere"), CUDA_ERROR_FILE_NOT_FOUND);
	seen->active = false;
	assert_int_equal(CALL(cuModuleLoad)(&module, KERNELS), 0);
	seen->active = true;
	assert_int_equal(CALL(cuModuleGetFunction)(&function, module, harmless), 0);
	assert_string_equal(seen->hindrance(function, harmless), UNKNOWN);
	/* Its end is told to the core all the same. */
	seen->count = 0;
	assert_int_equal(CALL(cuModuleUnload)(module), 0);
	assert_int_equal(seen->count, 2);
	assert_int_equal(seen->events[0].op.kind, OP_TEARDOWN);
	assert_ptr_equal(seen->events[0].op.handle, module);
}

/* … nor is a library's own code, loaded within its calls or in between. */
static void of_libraries(void **state)
{
	static const char *const loaders[] = {"libasker.so", "libcudnn_asker.so"};
	CUmodule module;
	CUfunction function;

	for (int i = 0; i < 3; i++) {
		__typeof__(&cuModuleLoad) load = CALL(cuModuleLoad);
		char path[sizeof(BUILD_FOLDER) + 64];
		int (*by)(void *load, CUmodule *module, const char *image);
		void *library;

		snprintf(path, sizeof(path), "%s/tests/preload/%s", BUILD_FOLDER, loaders[i & 1]);
		library = dlopen(path, RTLD_NOW);
		assert_non_null(library);
		*(void **)&by = dlsym(library, "asker_load");
		assert_non_null(by);
		seen->within(i == 2);
		assert_int_equal(by((void *)load, &module, KERNELS), 0);
		seen->within(-(i == 2));
		assert_int_equal(CALL(cuModuleGetFunction)(&function, module, harmless), 0);
		if (i == 0)
			assert_null(seen->hindrance(function, harmless));
		else
			assert_string_equal(seen->hindrance(function, harmless), UNKNOWN);
		assert_int_equal(CALL(cuModuleUnload)(module), 0);
		dlclose(library);
	}
}

/* What is held back may need what its kernel was allowed; of more it needs nothing. */
static void allowances(void **state)
{
	static const struct {
		CUfunction_attribute attribute;
		int value;
		unsigned flushes;
	} settings[] = {{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, 0},
			{CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, 0},
			{CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 1, 0},
			{CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50, 0},
			{CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 90000, 1},
			{CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, -1, 1},
			{CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2, 1}};
	CUmodule module;
	CUfunction function;

	assert_int_equal(CALL(cuModuleLoad)(&module, KERNELS), 0);
	assert_int_equal(CALL(cuModuleGetFunction)(&function, module, harmless), 0);
	seen->watching = true;
	for (unsigned i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		seen->count = 0;
		CALL(cuFuncSetAttribute)(function, settings[i].attribute, settings[i].value);
		assert_int_equal(seen->count, settings[i].flushes);
	}
	seen->watching = false;
	assert_int_equal(CALL(cuModuleUnload)(module), 0);
}

/* The same where the driver does not tell what a kernel came from. */
static void older_drivers(void **state)
{
	static const char *const versions[] = {"12.2", "12.4"};

	for (int i = 0; i < 2 && !getenv("SIMGPU_DRIVER"); i++) {
		char command[128];

		snprintf(command, sizeof(command), "SIMGPU_DRIVER=%s /proc/%d/exe", versions[i],
			 (int)getpid());
		assert_int_equal(system(command), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(modules, begin),
		cmocka_unit_test_setup(libraries, begin),
		cmocka_unit_test_setup(not_told, begin),
		cmocka_unit_test_setup(of_libraries, begin),
		cmocka_unit_test_setup(allowances, begin),
		cmocka_unit_test(older_drivers),
	};
	CUcontext context;
	CUdevice device;

	(void)argc;
	start_under(argv, "libprobe.so", "../../simgpu");
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	seen = dlsym(RTLD_DEFAULT, "probe");
	if (!driver || !seen || CALL(cuInit)(0) || CALL(cuDeviceGet)(&device, 0) ||
	    CALL(cuDevicePrimaryCtxRetain)(&context, device) || CALL(cuCtxSetCurrent)(context))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
