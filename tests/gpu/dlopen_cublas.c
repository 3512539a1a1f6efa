/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that is linked to nothing of CUDA: libcuda and cuBLAS come by dlopen and dlsym.
 *
 *     dlopen_cublas OUT [CHAINS]
 */
#include "driver_app.h"

#include <dlfcn.h>

static void *open_first(const char *const *names)
{
	void *library = NULL;

	for (; *names && !library; names++)
		library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fprintf(stderr, "dlopen_cublas: %s\n", dlerror());
	CHECK(!library);
	return library;
}

static void *find(void *library, const char *name)
{
	void *function = dlsym(library, name);

	if (!function)
		fprintf(stderr, "dlopen_cublas: no %s\n", name);
	CHECK(!function);
	return function;
}

#define TEXT(name) #name
#define NAME(name) TEXT(name)

int main(int argc, char **argv)
{
	static const char *const driver_names[] = {"libcuda.so.1", NULL};
	static const char *const blas_names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
	void *driver = open_first(driver_names), *blas = open_first(blas_names);
	struct api api;

#define GET(name) *(void **)&api.name = find(driver, NAME(name));
	DRIVER_FUNCTIONS(GET)
#undef GET
#define GET(name) *(void **)&api.name = find(blas, NAME(name));
	BLAS_FUNCTIONS(GET)
#undef GET
	return single_chain_program(&api, argc, argv);
}
