/* SPDX-License-Identifier: Apache-2.0
 *
 * What all hooks share.
 */
#ifndef FASHIM_HOOK_H
#define FASHIM_HOOK_H

#include <errno.h>

#include "shim/flow/flow.h"
#include "shim/real/driver.h"

#define EXPORT __attribute__((visibility("default")))

#define likely(condition)   __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* Must the call be forwarded without a look? */
static inline bool hook_bypassed(void)
{
	return hook_depth > 0 || !flow_active();
}

/* The context current on this thread, or NULL. */
CUcontext hook_context(void);

/* 0 stands for one of the two default streams, which one depends on the entry point. */
static inline CUstream hook_stream(CUstream stream, bool per_thread)
{
	if (stream)
		return stream;
	return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

#endif
