/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that fills its arrays anew all the time, in ways that are not followed, is soon left
 * alone: so many looks, and no more.
 */
#include "shim/ask/first_look.h"

#include "shim/base/clock.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"
#include "shim/real/driver_context.h"
#include "shim/rules/shadow.h"

#define MOST	192	   /* of a process; two for each layer of a model */
#define ARRAYS	3	   /* of a product: A, B, C */
#define BYTES	4096	   /* of an array */
#define WAIT_NS 100000000u /* what is before it in its stream may take long */

static CUcontext owner; /* of both: */
static CUevent done;
static unsigned char *bytes; /* pinned */
static bool late;	     /* what was enqueued may still come */
static unsigned taken;

void first_look_forget(CUcontext context)
{
	if (context && context != owner)
		return;
	owner = NULL; /* it takes them along */
	done = NULL;
	bytes = NULL;
	late = false;
}

static bool is_ready(CUcontext context)
{
	void *memory = NULL;

	if (owner && owner != context)
		return false;
	owner = context;
	if (!bytes && driver.cuMemAllocHost_v2(&memory, ARRAYS * BYTES) == CUDA_SUCCESS)
		bytes = memory;
	if (!done && driver.cuEventCreate(&done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		done = NULL;
	late = late && done && driver.cuEventQuery(done) == CUDA_ERROR_NOT_READY;
	return bytes && done && !late;
}

static bool await(void)
{
	const uint64_t begun = clock_ns(CLOCK_MONOTONIC);
	CUresult result;

	do
		result = driver.cuEventQuery(done);
	while (result == CUDA_ERROR_NOT_READY && clock_ns(CLOCK_MONOTONIC) - begun < WAIT_NS);
	late = result == CUDA_ERROR_NOT_READY;
	return result == CUDA_SUCCESS;
}

/* Those that are not known yet. */
static bool look(const struct op *op, size_t size)
{
	const uint64_t array[ARRAYS] = {op->gemm.a, op->gemm.b, op->gemm.c};
	bool wanted[ARRAYS] = {false};
	unsigned char known[BYTES];
	bool refused = false;

	for (int i = 0; i < ARRAYS; i++) {
		wanted[i] = !shadow_get(array[i], known, size);
		if (wanted[i] && !memory_watchable(memory_find(array[i])))
			return false;
	}
	for (int i = 0; i < ARRAYS && !refused; i++)
		refused = wanted[i] && driver.cuMemcpyDtoHAsync_v2(bytes + (size_t)i * BYTES,
								   (CUdeviceptr)array[i], size,
								   op->stream) != CUDA_SUCCESS;
	if (refused || driver.cuEventRecord(done, op->stream) != CUDA_SUCCESS) {
		taken = MOST; /* what was enqueued may come when it likes: nobody looks any more */
		return false;
	}
	if (!await())
		return false;
	for (int i = 0; i < ARRAYS; i++)
		if (wanted[i])
			shadow_put(array[i], bytes + (size_t)i * BYTES, size);
	return true;
}

bool first_look(const struct op *op)
{
	struct driver_context here;
	struct ledger_entry entry;
	bool seen;

	if (config()->mode < MODE_COMPARE || config()->ask == ASK_OFF || taken == MOST ||
	    op->gemm.batch < 1 || op->gemm.batch > BYTES / 8 || !ledger_affords(LEDGER_ADDRESSES) ||
	    !driver_enter(&here, op->context))
		return false;
	COST(PURPOSE_ASKING);
	entry = ledger_begin(LEDGER_ADDRESSES);
	taken++; /* look() may say that it was the last */
	seen = is_ready(op->context) && look(op, 8 * (size_t)op->gemm.batch);
	ledger_end(entry);
	driver_leave(&here);
	return seen;
}
