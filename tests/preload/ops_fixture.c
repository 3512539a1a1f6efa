/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_fixture.h"

#include <string.h>

struct probe *seen;
void *driver;
CUdeviceptr device;

int begin(void **state)
{
	void (*const within)(int) = seen->within;

	(void)state;
	memset(seen, 0, sizeof(*seen));
	seen->active = seen->watching = true;
	seen->within = within;
	return 0;
}

const struct op *the_op(enum op_kind kind, const char *name, unsigned times)
{
	assert_int_equal(seen->count, times);
	assert_int_equal(EVENT(0)->op.kind, kind);
	assert_string_equal(EVENT(0)->name, name);
	return &EVENT(0)->op;
}

int start_ops(char **argv)
{
	CUcontext context;

	start_under(argv, "libprobe.so", "../../simgpu");
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	seen = dlsym(RTLD_DEFAULT, "probe");
	return !driver || !seen || CALL(cuInit)(0) || CALL(cuDevicePrimaryCtxRetain)(&context, 0) ||
	       CALL(cuCtxSetCurrent)(context) || CALL(cuMemAlloc_v2)(&device, 1 << 20);
}
