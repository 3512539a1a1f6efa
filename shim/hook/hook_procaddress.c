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

NOTED_AFTER(cuGetProcAddress, (const char *symbol, void **function, int version, cuuint64_t flags),
	    (symbol, function, version, flags), true, swap(symbol, function))
NOTED_AFTER(cuGetProcAddress_v2,
	    (const char *symbol, void **function, int version, cuuint64_t flags,
	     CUdriverProcAddressQueryResult *status),
	    (symbol, function, version, flags, status), true, swap(symbol, function))
