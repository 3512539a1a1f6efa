/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's own stubs: functions with cuBLAS's names that load the library when first called. A
 * call of them binds to the shim's export, which must reach the stub once and never run in a
 * circle.
 */
#include <dlfcn.h>

#include <cublas_api.h>

cublasStatus_t stub_create(cublasHandle_t *handle);
cublasStatus_t stub_gemm(cublasHandle_t handle, int n, const float *a, const float *b, float *c);
cublasStatus_t stub_destroy(cublasHandle_t handle);
extern unsigned stub_calls;
extern const char *stub_library;

unsigned stub_calls;
const char *stub_library = "libcublas.so.13";

static void *load(const char *name)
{
	void *library = dlopen(stub_library, RTLD_NOW | RTLD_LOCAL);

	stub_calls++;
	return library ? dlsym(library, name) : NULL;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	static __typeof__(&cublasCreate_v2) real;

	if (!real)
		real = (__typeof__(real))load("cublasCreate_v2");
	return real ? real(handle) : CUBLAS_STATUS_INTERNAL_ERROR;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa,
			      cublasOperation_t transb, int m, int n, int k, const float *alpha,
			      const float *A, int lda, const float *B, int ldb, const float *beta,
			      float *C, int ldc)
{
	static __typeof__(&cublasSgemm_v2) real;

	if (!real)
		real = (__typeof__(real))load("cublasSgemm_v2");
	return real ? real(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc)
		    : CUBLAS_STATUS_INTERNAL_ERROR;
}

cublasStatus_t stub_create(cublasHandle_t *handle)
{
	cublasStatus_t status = cublasCreate_v2(handle);

	return status;
}

cublasStatus_t stub_gemm(cublasHandle_t handle, int n, const float *a, const float *b, float *c)
{
	const float one = 1, zero = 0;

	return cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c,
			      n);
}

/* A careless stub: what it finds first in the global scope is the shim's export, which came here.
 */
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	__typeof__(&cublasDestroy_v2) found =
		(__typeof__(found))dlsym(RTLD_DEFAULT, "cublasDestroy_v2");

	stub_calls++;
	return found ? found(handle) : CUBLAS_STATUS_INTERNAL_ERROR;
}

cublasStatus_t stub_destroy(cublasHandle_t handle)
{
	cublasStatus_t status = cublasDestroy_v2(handle);

	return status;
}
