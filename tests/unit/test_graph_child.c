/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams of our own that graphs are put together on: one for each context, made in it.
 */
#include "tests/unit/core.h"

#include "shim/act/graph_child.h"
#include "shim/real/driver.h"

#define CURRENT ((CUcontext)0x1000)
#define A	((CUcontext)0x2000)
#define B	((CUcontext)0x3000)

static CUcontext stack[4] = {CURRENT};
static int depth; /* stack[depth] is current */
static CUcontext made_in[8];
static int made;

static CUresult CUDAAPI get_current(CUcontext *context)
{
	*context = stack[depth];
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI push(CUcontext context)
{
	stack[++depth] = context;
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI pop(CUcontext *context)
{
	*context = stack[depth--];
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI create(CUstream *stream, unsigned flags)
{
	assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
	made_in[made++] = stack[depth];
	*stream = (CUstream)(uintptr_t)(0x100 * made);
	return CUDA_SUCCESS;
}

static int begin(void **state)
{
	driver_resolve();
	driver.cuCtxGetCurrent = get_current;
	driver.cuCtxPushCurrent_v2 = push;
	driver.cuCtxPopCurrent_v2 = pop;
	driver.cuStreamCreate = create;
	graph_workshop_forget(NULL);
	made = 0;
	return state ? 0 : -1;
}

/* Whichever is current. */
static void test_in_its_context(void **state)
{
	assert_non_null(graph_workshop(A));
	assert_ptr_equal(made_in[0], A);
	assert_int_equal(depth, 0);
}

static void test_one_for_each(void **state)
{
	const CUstream a = graph_workshop(A), b = graph_workshop(B);

	assert_ptr_not_equal(a, b);
	assert_ptr_equal(graph_workshop(A), a);
	assert_ptr_equal(graph_workshop(B), b);
	graph_workshop_forget(A);
	assert_ptr_equal(graph_workshop(B), b);
	assert_int_equal(made, 2);
	assert_ptr_not_equal(graph_workshop(A), a);
	assert_ptr_equal(made_in[2], A);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_in_its_context, begin),
		cmocka_unit_test_setup(test_one_for_each, begin),
	};

	return CORE_MAIN("graph_child", tests);
}
