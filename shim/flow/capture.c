/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of streams. It is short, and wrong where a capture was joined through an event or has
 * outlived an end that failed: then the driver is asked.
 */
#include "shim/flow/capture.h"

#include <stdatomic.h>

#include "shim/real/driver_context.h"

#define MAX_CAPTURES 16

static CUstream captures[MAX_CAPTURES];
static int count; /* may be more than are listed */
static atomic_bool ever;

void capture_expect(void)
{
	atomic_store_explicit(&ever, true, memory_order_relaxed);
}

void capture_add(CUstream stream)
{
	if (count < MAX_CAPTURES)
		captures[count] = stream;
	count++;
}

void capture_remove(CUstream stream)
{
	for (int i = 0; i < count && i < MAX_CAPTURES; i++)
		if (captures[i] == stream) {
			captures[i] = captures[--count];
			return;
		}
}

bool capture_under_way(void)
{
	return count > 0;
}

bool capture_began_on(CUstream stream)
{
	for (int i = 0; i < count && i < MAX_CAPTURES; i++)
		if (captures[i] == stream)
			return true;
	return false;
}

bool capture_takes(const struct op *op)
{
	struct driver_context here;
	bool taken;

	if (count)
		return true;
	if (!capture_ever() || op->kind != OP_GEMM || !op->context ||
	    !driver_enter(&here, op->context))
		return false;
	taken = driver_may_capture(op->stream);
	driver_leave(&here);
	return taken;
}

bool capture_ever(void)
{
	return atomic_load_explicit(&ever, memory_order_relaxed);
}
