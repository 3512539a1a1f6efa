/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver hooks share. Include it before anything else: it asks cuda.h for the declarations
 * of every version and stream flavour of a function, so that each hook is checked against its own.
 *
 * A hook is written as DRIVER_HOOK_BODY(function, (arguments), wanted, statements that fill `op`).
 * Names with _ptsz or _ptds are the same function with another meaning of stream 0; the bodies are
 * written once, with that as a parameter.
 */
#ifndef FASHIM_HOOK_DRIVER_H
#define FASHIM_HOOK_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "shim/real/driver_table.h"
#include "shim/hook/hook.h"

/* What stream 0 means. */
#define LEGACY	   false
#define PER_THREAD true

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

#define REAL(function)                                                                             \
	({                                                                                         \
		__typeof__(&function) real_ = (__typeof__(&function))__atomic_load_n(              \
			&driver_real[DRIVER_##function], __ATOMIC_RELAXED);                        \
		if (unlikely(!real_))                                                              \
			real_ = (__typeof__(&function))driver_function(                            \
				DRIVER_##function, __builtin_return_address(0));                   \
		real_;                                                                             \
	})

#define DRIVER_HOOK_BODY(function, arguments, wanted, ...)                                         \
	do {                                                                                       \
		__typeof__(&function) real = REAL(function);                                       \
		struct op op;                                                                      \
		CUresult result;                                                                   \
                                                                                                   \
		if (unlikely(!real))                                                               \
			return CUDA_ERROR_NOT_INITIALIZED;                                         \
		if (likely(hook_depth > 0 || !(wanted)))                                           \
			return real arguments;                                                     \
		op = (struct op){.name = #function, .context = hook_context()};                    \
		__VA_ARGS__;                                                                       \
		switch (flow_before(&op)) {                                                        \
		case FLOW_TAKEN:                                                                   \
			return CUDA_SUCCESS;                                                       \
		case FLOW_FAILED:                                                                  \
			return op.error;                                                           \
		case FLOW_PASS:                                                                    \
			break;                                                                     \
		}                                                                                  \
		result = real arguments;                                                           \
		if (result == CUDA_SUCCESS)                                                        \
			flow_after(&op);                                                           \
		return result;                                                                     \
	} while (0)

#endif
