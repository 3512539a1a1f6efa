/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver hooks share. Include it before anything else: it asks cuda.h for the declarations
 * of every version and stream flavour of a function, so that each hook is checked against its own.
 *
 * A hook is written as DRIVER_HOOK(function, (parameters), (arguments), wanted, statements that
 * fill `op`). Names with _ptsz or _ptds are the same function with another meaning of stream 0:
 * both come of one row of BOTH().
 */
#ifndef FASHIM_HOOK_DRIVER_H
#define FASHIM_HOOK_DRIVER_H

#define __CUDA_API_VERSION_INTERNAL
#include "shim/real/cuda_headers.h"
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

/* Declares `real`, or leaves. */
#define FIND_REAL(function)                                                                        \
	__typeof__(&function) real = REAL(function);                                               \
                                                                                                   \
	if (unlikely(!real))                                                                       \
	return CUDA_ERROR_NOT_INITIALIZED

/* `call` is how it calls `real`. */
#define DRIVER_HOOK_BODY(function, call, wanted, ...)                                              \
	do {                                                                                       \
		struct op op;                                                                      \
		CUresult result;                                                                   \
                                                                                                   \
		FIND_REAL(function);                                                               \
		if (likely(hook_depth > 0 || !(wanted)))                                           \
			return call;                                                               \
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
		result = call;                                                                     \
		if (result == CUDA_SUCCESS)                                                        \
			flow_after(&op);                                                           \
		else                                                                               \
			flow_refused(&op);                                                         \
		return result;                                                                     \
	} while (0)

#define DRIVER_HOOK(function, parameters, arguments, wanted, ...)                                  \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, real arguments, wanted, __VA_ARGS__);                   \
	}

/* A call in which the program waits for the device: how long is told also while nothing is
 * watched. */
#define WAIT_HOOK(function, parameters, arguments, ...)                                            \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		DRIVER_HOOK_BODY(function, AWAITED(real arguments), flow_watching(), __VA_ARGS__); \
	}
#define AWAITED(call)                                                                              \
	({                                                                                         \
		const bool ours_ = hook_depth > 0;                                                 \
		const uint64_t since_ = ours_ ? 0 : flow_waits();                                  \
		const CUresult result_ = call;                                                     \
                                                                                                   \
		if (!ours_)                                                                        \
			flow_waited(since_);                                                       \
		result_;                                                                           \
	})

/* hook(function, per_thread, …) for both meanings of stream 0. */
#define BOTH(hook, function, suffix, ...)                                                          \
	hook(function, LEGACY, __VA_ARGS__) hook(function##_##suffix, PER_THREAD, __VA_ARGS__)

/* No op: something is noted before the real function is called, or once it has succeeded. */
#define NOTED_BEFORE(function, parameters, arguments, ...)                                         \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		FIND_REAL(function);                                                               \
		if (!hook_bypassed()) {                                                            \
			__VA_ARGS__;                                                               \
		}                                                                                  \
		return real arguments;                                                             \
	}
#define NOTED_AFTER(function, parameters, arguments, wanted, ...)                                  \
	EXPORT CUresult function parameters                                                        \
	{                                                                                          \
		CUresult result;                                                                   \
                                                                                                   \
		FIND_REAL(function);                                                               \
		result = real arguments;                                                           \
		if (result == CUDA_SUCCESS && (wanted)) {                                          \
			__VA_ARGS__;                                                               \
		}                                                                                  \
		return result;                                                                     \
	}

#endif
