/* SPDX-License-Identifier: Apache-2.0
 *
 * The calling thread's context and capture mode are its own: whichever call of ours is refused
 * while the thread is borrowed, both are afterwards what they were before.
 */
#include "tests/unit/core.h"

#include "shim/real/driver.h"
#include "shim/real/driver_context.h"

#define OURS   ((CUcontext)0x10)
#define THEIRS ((CUcontext)0x20)

static CUcontext stack[4];
static int depth; /* stack[depth] is current */
static CUstreamCaptureMode mode;
static int calls, refused; /* the number of the call that is refused; 0: none */

static bool refuses(void)
{
	return ++calls == refused;
}

static CUresult get_current(CUcontext *context)
{
	if (refuses())
		return CUDA_ERROR_UNKNOWN;
	*context = stack[depth];
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	if (refuses())
		return CUDA_ERROR_UNKNOWN;
	stack[++depth] = context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	if (refuses())
		return CUDA_ERROR_UNKNOWN;
	*context = stack[depth--];
	return CUDA_SUCCESS;
}

static CUresult exchange(CUstreamCaptureMode *other)
{
	const CUstreamCaptureMode before = mode;

	if (refuses())
		return CUDA_ERROR_UNKNOWN;
	mode = *other;
	*other = before;
	return CUDA_SUCCESS;
}

/* Borrows the thread for a context. Whether that worked. */
static bool borrow(CUcontext context, int number)
{
	struct driver_context here;
	bool entered;

	stack[0] = OURS;
	depth = 0;
	mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	calls = 0;
	refused = number;
	entered = driver_enter(&here, context);
	if (entered) {
		assert_ptr_equal(stack[depth], context);
		driver_leave(&here);
	}
	assert_int_equal(depth, 0);
	assert_ptr_equal(stack[0], OURS);
	assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
	return entered;
}

static void test_put_back(void **state)
{
	const struct driver_calls before = driver;

	driver.cuCtxGetCurrent = get_current;
	driver.cuCtxPushCurrent_v2 = push;
	driver.cuCtxPopCurrent_v2 = pop;
	driver.cuThreadExchangeStreamCaptureMode = exchange;
	for (int i = 0; i < 2; i++) {
		const CUcontext context = i ? THEIRS : OURS;
		int most;

		assert_true(borrow(context, 0));
		most = calls;
		assert_int_equal(most, i ? 5 : 3);
		for (int number = 1; number <= most; number++)
			borrow(context, number);
	}
	driver = before;
}

static CUresult answer;
static CUstreamCaptureStatus status_told;

static CUresult memory_info(size_t *free_bytes, size_t *total)
{
	*free_bytes = *total = 1;
	return answer;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	(void)stream;
	*status = status_told;
	return answer;
}

/* What is lost in a context that has ended is nobody's loss; a call that is refused says nothing of
 * the kind. */
static void test_lives(void **state)
{
	static const struct {
		CUresult answer;
		bool lives;
	} rows[] = {
		{CUDA_SUCCESS, true},
		{CUDA_ERROR_OUT_OF_MEMORY, true},
		{CUDA_ERROR_UNKNOWN, true},
		{CUDA_ERROR_DEINITIALIZED, false},
		{CUDA_ERROR_CONTEXT_IS_DESTROYED, false},
		{CUDA_ERROR_LAUNCH_FAILED, false},
	};
	const struct driver_calls before = driver;

	driver.cuCtxGetCurrent = get_current;
	driver.cuCtxPushCurrent_v2 = push;
	driver.cuCtxPopCurrent_v2 = pop;
	driver.cuMemGetInfo_v2 = memory_info;
	driver.cuStreamIsCapturing = is_capturing;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		stack[0] = OURS;
		depth = calls = refused = 0;
		answer = rows[i].answer;
		status_told = CU_STREAM_CAPTURE_STATUS_ACTIVE;
		assert_int_equal(driver_context_lives(OURS), rows[i].lives);
		assert_int_equal(driver_context_lives(THEIRS), rows[i].lives);
		assert_int_equal(driver_captures((struct queue){OURS, NULL}), rows[i].lives);
		assert_int_equal(depth, 0);
	}
	for (refused = 1; refused < 4; refused++) {
		calls = 0;
		answer = CUDA_SUCCESS;
		assert_true(driver_context_lives(THEIRS));
		assert_int_equal(depth, 0);
	}
	status_told = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	assert_false(driver_captures((struct queue){OURS, NULL}));
	driver = before;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_put_back),
					   cmocka_unit_test(test_lives)};

	return CORE_MAIN("driver context", tests);
}
