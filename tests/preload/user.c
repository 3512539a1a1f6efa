/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that was linked with one particular libcublas and calls it in the ordinary way. Built
 * twice, for two versions that may live in one process.
 */
#include <cublasLt.h>
#include <cublas_api.h>

cublasStatus_t user_create(cublasHandle_t *handle);
cublasStatus_t user_destroy(cublasHandle_t handle);
cublasStatus_t user_gemm(cublasHandle_t handle, int n, const float *a, const float *b, float *c);
cublasStatus_t user_lt_create(cublasLtHandle_t *handle);

cublasStatus_t user_create(cublasHandle_t *handle)
{
	cublasStatus_t status = cublasCreate_v2(handle);

	return status;
}

cublasStatus_t user_destroy(cublasHandle_t handle)
{
	cublasStatus_t status = cublasDestroy_v2(handle);

	return status;
}

cublasStatus_t user_gemm(cublasHandle_t handle, int n, const float *a, const float *b, float *c)
{
	const float one = 1, zero = 0;

	return cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c,
			      n);
}

cublasStatus_t user_lt_create(cublasLtHandle_t *handle)
{
	cublasStatus_t status = cublasLtCreate(handle);

	return status;
}
