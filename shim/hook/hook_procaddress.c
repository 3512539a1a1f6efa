/* SPDX-License-Identifier: Apache-2.0
 *
 * cuGetProcAddress, both arities. The real one answers first, to whatever it was asked (a newer
 * version, an empty name, no status wanted); then its answer is swapped by identity: the pointer
 * alone says which function, which ABI version and which stream flavour the program got.
 */
#include "shim/hook/hook_driver.h"
#include "shim/hook/hook_table.h"

CUcontext hook_context(void)
{
	__typeof__(&cuCtxGetCurrent) get = REAL(cuCtxGetCurrent);
	CUcontext context = NULL;

	return get && get(&context) == CUDA_SUCCESS ? context : NULL;
}

static void swap(const char *symbol, void **function)
{
	if (function && *function && symbol)
		*function = driver_hook_of_pointer(*function, symbol);
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
	__typeof__(&cuGetProcAddress) real = REAL(cuGetProcAddress);
	CUresult result;

	if (!real)
		return CUDA_ERROR_NOT_INITIALIZED;
	result = real(symbol, function, version, flags);
	if (result == CUDA_SUCCESS)
		swap(symbol, function);
	return result;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version,
				    cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	__typeof__(&cuGetProcAddress_v2) real = REAL(cuGetProcAddress_v2);
	CUresult result;

	if (!real)
		return CUDA_ERROR_NOT_INITIALIZED;
	result = real(symbol, function, version, flags, status);
	if (result == CUDA_SUCCESS)
		swap(symbol, function);
	return result;
}
