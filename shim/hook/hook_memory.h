/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hooks of memory share (hook_memory.c, hook_shared.c).
 */
#ifndef FASHIM_HOOK_MEMORY_H
#define FASHIM_HOOK_MEMORY_H

#include "shim/hook/hook_driver.h"

/* Tells of memory that has come, or become something else. */
void allocated(const char *name, CUstream stream, uint64_t base, uint64_t bytes,
	       enum memory_kind kind);

/* Whatever is mapped of that physical memory is others' as well: the host's, or another process's.
 */
void mapping_shared(CUmemGenericAllocationHandle handle);

/* Physical memory was mapped: what the range is to be told as. MEMORY_SHARED when the same memory
 * is mapped twice or others' as well. */
enum memory_kind mapping_made(CUmemGenericAllocationHandle handle, uint64_t base, uint64_t bytes);
/* … and is unmapped: may what lies there be seen again? Not if all handles were released. */
bool mapping_gone(uint64_t base, uint64_t bytes);

/* Calls the real function, and once more where the shim could give memory back. */
#define ALLOC_REAL(function, arguments)                                                            \
	FIND_REAL(function);                                                                       \
	result = real arguments;                                                                   \
	if (unlikely(result == CUDA_ERROR_OUT_OF_MEMORY) && !hook_bypassed() &&                    \
	    flow_out_of_memory())                                                                  \
	result = real arguments

/* Tells of the memory that the real function gave: base and bytes are expressions. */
#define ALLOC_BODY(function, arguments, stream, base, bytes, kind)                                 \
	do {                                                                                       \
		CUresult result;                                                                   \
                                                                                                   \
		ALLOC_REAL(function, arguments);                                                   \
		if (result == CUDA_SUCCESS && !hook_bypassed())                                    \
			allocated(#function, stream, base, bytes, kind);                           \
		return result;                                                                     \
	} while (0)

/* The same for memory that existed before and may hold what the shim owes it. */
#define SHARE_BODY(function, arguments, base, bytes)                                               \
	do {                                                                                       \
		if (!hook_bypassed())                                                              \
			flow_flush(#function);                                                     \
		ALLOC_BODY(function, arguments, CU_STREAM_LEGACY, base, bytes, MEMORY_SHARED);     \
	} while (0)

#define ALLOC_HOOK(function, parameters, arguments, stream, base, bytes, kind)                     \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		ALLOC_BODY(function, arguments, stream, base, bytes, kind);                        \
	}
#define SHARE_HOOK(function, parameters, arguments, base, bytes)                                   \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		SHARE_BODY(function, arguments, base, bytes);                                      \
	}

#endif
