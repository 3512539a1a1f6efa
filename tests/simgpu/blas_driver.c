/* SPDX-License-Identifier: Apache-2.0
 *
 * How the simulated cuBLAS reaches the driver: dlopen, one dlsym, then cuGetProcAddress for every
 * function, which is what the runtime inside the real library does.
 */
#include "blas_gemm.h"

#include <dlfcn.h>
#include <pthread.h>

static struct blas_driver driver;
static int found;

static void find(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *address = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
	__typeof__(&cuGetProcAddress_v2) ask = (__typeof__(&cuGetProcAddress_v2))address;
	CUdriverProcAddressQueryResult status;
	const struct {
		const char *name;
		int version;
		void *to;
	} wanted[] = {
		{"cuCtxGetCurrent", 4000, &driver.ctx_get},
		{"cuCtxSetCurrent", 4000, &driver.ctx_set},
		{"cuDevicePrimaryCtxRetain", 7000, &driver.primary_retain},
		{"cuInit", 2000, &driver.init},
		{"cuMemAlloc", 3020, &driver.alloc},
		{"cuMemFree", 3020, &driver.release},
		{"cuLibraryLoadFromFile", 12000, &driver.library_load},
		{"cuLibraryGetKernel", 12000, &driver.library_kernel},
		{"cuLaunchKernelEx", 11060, &driver.launch},
		{"cuMemsetD8Async", 3020, &driver.fill},
	};

	if (!ask)
		return;
	for (unsigned i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		if (ask(wanted[i].name, wanted[i].to, wanted[i].version, 0, &status) ||
		    !*(void **)wanted[i].to)
			return;
	found = 1;
}

const struct blas_driver *blas_driver(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find);
	return found ? &driver : NULL;
}
