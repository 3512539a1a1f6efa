/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and libraries for `fashim doctor`, one way to cuBLAS each: -DLIBRARY is libcublas,
 * -DOTHER some library; -DCALLS is linked against it; -DCONTAINS has a copy inside; -DOPENS asks
 * the loader at run time. None does anything.
 */
#include <dlfcn.h>

int cublasGemmEx(void);
int nothing(void);

#ifdef OTHER
int nothing(void)
{
	return 0;
}
#define LIBRARY
#elif defined(LIBRARY) || defined(CONTAINS)
int cublasGemmEx(void)
{
	return 0;
}
#endif

#ifdef CONTAINS
extern const char log_variable[];
const char log_variable[] = "CUBLAS_LOGDEST_DBG";
#endif

#ifndef LIBRARY
int main(void)
{
#ifdef OPENS
	return !dlopen("libcublas.so.13", RTLD_LAZY) || !dlopen("libcuda.so.1", RTLD_LAZY);
#else
	return cublasGemmEx();
#endif
}
#endif
