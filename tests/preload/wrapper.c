/* SPDX-License-Identifier: Apache-2.0
 *
 * Another library that stands between a program and the driver, as tracers do and what shares a GPU
 * among containers: it overrides a function, and finds the driver's by the loader's own dlsym,
 * which it looks for by its version. With OVERRIDES_DLSYM it also gives out what it overrides to
 * those who ask; with ASKS_DLSYM it looks for nothing but asks as a program does.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

#ifdef __aarch64__
#define FIRST "GLIBC_2.17"
#else
#define FIRST "GLIBC_2.2.5"
#endif

static void *find(void *handle, const char *name)
{
	static void *(*real)(void *, const char *);

#ifdef ASKS_DLSYM
	real = dlsym;
#endif
	if (!real)
		real = (__typeof__(real))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!real)
		real = (__typeof__(real))dlvsym(RTLD_NEXT, "dlsym", FIRST);
	return real(handle, name);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
	static CUresult (*real)(void *, CUdeviceptr, size_t);

	if (!real)
		real = (__typeof__(real))find(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyDtoH_v2");
	return real(to, from, bytes);
}

#ifdef OVERRIDES_DLSYM
void *dlsym(void *handle, const char *name)
{
	return strcmp(name, "cuMemcpyDtoH_v2") == 0 ? (void *)cuMemcpyDtoH : find(handle, name);
}
#endif
