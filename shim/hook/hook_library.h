/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hooks of the libraries share. A call of cuDNN, cuFFT, cuSOLVER, cuSPARSE
 * or NCCL is never taken over; it says what it reads and writes, and while it runs hook_depth is
 * raised: the kernels are the library's own. A call whose arguments are not understood is left
 * alone, and so are its kernels: they pass through the launch hooks one by one.
 */
#ifndef FASHIM_HOOK_LIBRARY_H
#define FASHIM_HOOK_LIBRARY_H

#include "shim/hook/hook.h"
#include "shim/real/library.h"
#include "shim/real/library_types.h"
#include "shim/operands/operands.h"

#define ADDRESS(pointer) ((uint64_t)(uintptr_t)(pointer))

/* A describing function of the vendor's, of the library that a call belongs to; may be NULL. */
#define LIBRARY_ASK(library, name)                                                                 \
	((__typeof__(&name))library_getter(library, LIBRARY_GETTER_##name))

struct library_call {
	struct op op;
	struct operands operands;
};

/* Offers the call, unless it is unknown. Returns whether it is offered. */
bool library_declare(struct library_call *call);

/* The stream that a handle says by its getter; without it the call is unknown. */
#define LIBRARY_STREAM(call, library, getter, handle)                                              \
	do {                                                                                       \
		__typeof__(&getter) get_stream = LIBRARY_ASK(library, getter);                     \
		cudaStream_t on = NULL;                                                            \
                                                                                                   \
		if (!(handle) || !get_stream || (int)get_stream(handle, &on) != 0)                 \
			(call).operands.unknown = true;                                            \
		(call).op.stream = hook_stream((CUstream)on, false);                               \
	} while (0)

/* Declares `library` and `real`, the function that a call belongs to, or leaves the hook: with
 * `refusal` where there is no such function, with its answer where nothing is known of it. */
#define LIBRARY_REAL(result, function, handle, arguments, refusal)                                 \
	void *found;                                                                               \
	struct library *library =                                                                  \
		library_for(LIBRARY_##function, handle, __builtin_return_address(0), &found);      \
	__typeof__(&function) real = (__typeof__(&function))found;                                 \
                                                                                                   \
	if (unlikely(!real))                                                                       \
		return (result)(refusal);                                                          \
	if (unlikely(!library)) {                                                                  \
		result answer;                                                                     \
                                                                                                   \
		library_stub_depth++;                                                              \
		answer = real arguments;                                                           \
		library_stub_depth--;                                                              \
		return answer;                                                                     \
	}

/* The headers of some versions lack some functions. */
#define LIBRARY_FUNCTION(result, function, parameters)                                             \
	EXPORT result function parameters;                                                         \
	result function parameters

/* A whole hook. `...` fills call.operands and call.op.stream. While nobody watches memory nothing
 * needs describing, but what runs inside is still the library's. */
#define LIBRARY_HOOK(result, function, parameters, arguments, handle, refusal, ...)                \
	LIBRARY_FUNCTION(result, function, parameters)                                             \
	{                                                                                          \
		struct library_call call;                                                          \
		bool offered = false;                                                              \
		result status;                                                                     \
		LIBRARY_REAL(result, function, handle, arguments, refusal)                         \
                                                                                                   \
		if (hook_bypassed())                                                               \
			return real arguments;                                                     \
		if (flow_watching()) {                                                             \
			call.op = (struct op){.name = #function, .context = hook_context()};       \
			call.operands.unknown = false;                                             \
			call.operands.library.count = 0;                                           \
			hook_depth++;                                                              \
			__VA_ARGS__;                                                               \
			hook_depth--;                                                              \
			offered = library_declare(&call);                                          \
			if (!offered)                                                              \
				return real arguments;                                             \
			if (unlikely(call.op.error)) /* what it would read is lost */              \
				return (result)(refusal);                                          \
		}                                                                                  \
		hook_depth++;                                                                      \
		status = real arguments;                                                           \
		hook_depth--;                                                                      \
		if (offered && (int)status == 0)                                                   \
			flow_after(&call.op);                                                      \
		return status;                                                                     \
	}

#endif
