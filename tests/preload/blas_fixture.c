/* SPDX-License-Identifier: Apache-2.0
 *
 * Fixture of the cuBLAS tests.
 */
#include "blas_fixture.h"

#include <string.h>

struct probe *seen;
void *blas[2], *lt[2];
float *a, *b, *c;

int begin(void **state)
{
	memset(seen, 0, sizeof(*seen));
	seen->active = seen->watching = true;
	for (int i = 0; i < 64 * 64; i++) {
		a[i] = i % 5;
		b[i] = i % 7;
		c[i] = -1;
	}
	return 0;
}

const struct op_gemm *the_gemm(void)
{
	assert_int_equal(seen->count, 2);
	assert_int_equal(seen->events[0].when, PROBE_BEFORE);
	assert_int_equal(seen->events[1].when, PROBE_AFTER);
	assert_int_equal(seen->events[0].op.kind, OP_GEMM);
	assert_int_equal(seen->events[0].depth, 0);
	assert_int_equal(seen->events[1].depth, 0);
	return &seen->events[0].op.gemm;
}

cublasHandle_t new_handle(int which)
{
	cublasHandle_t handle = NULL;

	assert_int_equal(SYMBOL(blas[which], cublasCreate_v2)(&handle), 0);
	assert_non_null(handle);
	seen->count = 0;
	return handle;
}

bool blas_start(char **argv)
{
	void *driver;
	CUcontext context;

	start_under(argv, PROBE, "../../simgpu");
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	seen = dlsym(RTLD_DEFAULT, "probe");
	return driver && seen && !SYMBOL(driver, cuInit)(0) &&
	       !SYMBOL(driver, cuDevicePrimaryCtxRetain)(&context, 0) &&
	       !SYMBOL(driver, cuCtxSetCurrent)(context) &&
	       !SYMBOL(driver, cuMemAlloc_v2)((CUdeviceptr *)&a, 64 * 64 * sizeof(float)) &&
	       !SYMBOL(driver, cuMemAlloc_v2)((CUdeviceptr *)&b, 64 * 64 * sizeof(float)) &&
	       !SYMBOL(driver, cuMemAlloc_v2)((CUdeviceptr *)&c, 64 * 64 * sizeof(float));
}

bool blas_load(void)
{
	for (int i = 0; i < 2; i++) {
		blas[i] = dlopen(i ? "libcublas.so.13" : "libcublas.so.12", RTLD_NOW | RTLD_LOCAL);
		lt[i] = dlopen(i ? "libcublasLt.so.13" : "libcublasLt.so.12",
			       RTLD_NOW | RTLD_LOCAL);
		if (!blas[i] || !lt[i])
			return false;
	}
	return true;
}
