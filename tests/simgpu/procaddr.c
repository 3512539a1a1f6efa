/* SPDX-License-Identifier: Apache-2.0
 *
 * cuGetProcAddress, both arities, and error texts.
 *
 * A name is asked by its base form, with the CUDA version whose ABI the caller was built for and
 * the flavour of stream 0. The answer is the newest export not newer than that version; for the
 * per-thread flavour the _ptsz/_ptds export where the function has one, else the plain one. The
 * old form reports a missing name by its return value, the new one by NULL and a status.
 */
#include "sim.h"

#include <string.h>

static CUdriverProcAddressQueryResult find(const char *name, int version, bool per_thread,
					   void **address)
{
	const struct sim_entry *best = NULL;
	bool known = false, threaded = false;

	for (unsigned i = 0; i < sim_entry_count; i++)
		if (!strcmp(sim_entries[i].name, name) && sim_entries[i].version <= sim_version) {
			known = true;
			threaded |= sim_entries[i].per_thread;
		}
	for (unsigned i = 0; i < sim_entry_count; i++) {
		const struct sim_entry *e = &sim_entries[i];
		if (strcmp(e->name, name) || e->per_thread != (per_thread && threaded) ||
		    e->version > version || e->version > sim_version)
			continue;
		if (!best || e->version > best->version)
			best = e;
	}
	*address = best ? best->address : NULL;
	if (best)
		return CU_GET_PROC_ADDRESS_SUCCESS;
	return known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
		     : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
}

static bool flags_known(cuuint64_t flags)
{
	return flags <= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **address, int version,
				     cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult found;

	SIM_LOG(" name=%s version=%d flags=%llu", name ? name : "(null)", version,
		(unsigned long long)flags);
	if (!name || !address || !flags_known(flags))
		return CUDA_ERROR_INVALID_VALUE;
	found = find(name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, address);
	if (status)
		*status = found;
	return CUDA_SUCCESS;
}

#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags);

CUresult CUDAAPI cuGetProcAddress(const char *name, void **address, int version, cuuint64_t flags)
{
	SIM_LOG(" name=%s version=%d flags=%llu", name ? name : "(null)", version,
		(unsigned long long)flags);
	if (!name || !address || !flags_known(flags))
		return CUDA_ERROR_INVALID_VALUE;
	return find(name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, address)
		       ? CUDA_ERROR_NOT_FOUND
		       : CUDA_SUCCESS;
}

#define E(name)                                                                                    \
	{                                                                                          \
		name, #name                                                                        \
	}
static const struct {
	CUresult code;
	const char *name;
} errors[] = {
	E(CUDA_SUCCESS),
	E(CUDA_ERROR_INVALID_VALUE),
	E(CUDA_ERROR_OUT_OF_MEMORY),
	E(CUDA_ERROR_NOT_INITIALIZED),
	E(CUDA_ERROR_DEINITIALIZED),
	E(CUDA_ERROR_NO_DEVICE),
	E(CUDA_ERROR_INVALID_DEVICE),
	E(CUDA_ERROR_INVALID_IMAGE),
	E(CUDA_ERROR_INVALID_CONTEXT),
	E(CUDA_ERROR_NO_BINARY_FOR_GPU),
	E(CUDA_ERROR_FILE_NOT_FOUND),
	E(CUDA_ERROR_INVALID_HANDLE),
	E(CUDA_ERROR_ILLEGAL_STATE),
	E(CUDA_ERROR_NOT_FOUND),
	E(CUDA_ERROR_NOT_READY),
	E(CUDA_ERROR_LAUNCH_FAILED),
	E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
	E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
	E(CUDA_ERROR_CONTEXT_IS_DESTROYED),
	E(CUDA_ERROR_NOT_SUPPORTED),
	E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
	E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
	E(CUDA_ERROR_STREAM_CAPTURE_MERGE),
	E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED),
	E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED),
	E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION),
	E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
	E(CUDA_ERROR_CAPTURED_EVENT),
	E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD),
	E(CUDA_ERROR_UNKNOWN),
};

CUresult CUDAAPI cuGetErrorName(CUresult code, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = NULL;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			*text = errors[i].name;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult code, const char **text)
{
	return cuGetErrorName(code, text);
}
