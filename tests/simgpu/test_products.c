/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated cuBLAS against plain loops in double precision, and the rules of its interface.
 */
#include "tests/cmocka.h"
#include <cublas_v2.h>
#include <cublasLt.h>
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

#include "tools/base/half.h"

enum { M = 19, N = 13, K = 23, BATCH = 3, ROOM = 4096 };

static cublasHandle_t handle;
static CUdeviceptr a, b, c; /* ROOM elements of up to 8 bytes each */
static double ha[ROOM], hb[ROOM], hc[ROOM];

static int size_of(cudaDataType type)
{
	return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/* Numbers that every type holds exactly: multiples of 1/8 in [-2,2]. */
static void fill(CUdeviceptr to, double *host, cudaDataType type, unsigned seed)
{
	static unsigned char bytes[ROOM * 8];

	for (int i = 0; i < ROOM; i++) {
		seed = seed * 1664525u + 1013904223u;
		host[i] = (double)((int)(seed >> 20 & 31) - 16) / 8;
		float f = (float)host[i];
		uint16_t h = float_to_f16(f), bf = float_to_bf16(f);
		const void *from = type == CUDA_R_64F	? (void *)&host[i]
				   : type == CUDA_R_32F ? (void *)&f
				   : type == CUDA_R_16F ? (void *)&h
							: (void *)&bf;
		memcpy(bytes + (size_t)i * size_of(type), from, (size_t)size_of(type));
	}
	assert_int_equal(cuMemcpyHtoD(to, bytes, (size_t)ROOM * size_of(type)), CUDA_SUCCESS);
}

static double result(cudaDataType type, size_t index)
{
	uint16_t h;
	double d;
	float f;

	assert_int_equal(cuMemcpyDtoH(type == CUDA_R_64F   ? (void *)&d
				      : type == CUDA_R_32F ? (void *)&f
							   : (void *)&h,
				      c + index * size_of(type), (size_t)size_of(type)),
			 CUDA_SUCCESS);
	return type == CUDA_R_64F   ? d
	       : type == CUDA_R_32F ? f
	       : type == CUDA_R_16F ? f16_to_float(h)
				    : bf16_to_float(h);
}

static double rounded(cudaDataType type, double x)
{
	return type == CUDA_R_16F    ? f16_to_float(float_to_f16((float)x))
	       : type == CUDA_R_16BF ? bf16_to_float(float_to_bf16((float)x))
				     : x;
}

static int open_device(void **state)
{
	CUcontext context;

	return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	       cublasCreate(&handle) || cuMemAlloc(&a, ROOM * 8) || cuMemAlloc(&b, ROOM * 8) ||
	       cuMemAlloc(&c, ROOM * 8);
}

static void inputs(cudaDataType in, cudaDataType out)
{
	fill(a, ha, in, 1);
	fill(b, hb, in, 2);
	fill(c, hc, out, 3);
}

static void check(cudaDataType type, int ta, int tb, int lda, int ldb, int ldc, long sa, long sb,
		  long sc, int batch, double alpha, double beta)
{
	for (int z = 0; z < batch; z++)
		for (int i = 0; i < M; i++)
			for (int j = 0; j < N; j++) {
				double sum = 0;
				for (int p = 0; p < K; p++)
					sum += ha[z * sa + (ta ? i * lda + p : p * lda + i)] *
					       hb[z * sb + (tb ? p * ldb + j : j * ldb + p)];
				size_t at = (size_t)(z * sc + (long)j * ldc + i);
				double want =
					rounded(type, rounded(type, alpha * sum) + beta * hc[at]);
				if (result(type, at) != want)
					fail_msg("batch %d [%d,%d]: %g, not %g", z, i, j,
						 result(type, at), want);
			}
}

static void every_transpose_and_type(void **state)
{
	static const struct {
		cudaDataType in, out;
		cublasComputeType_t compute;
	} types[] = {
		{CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
		{CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
		{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
		{CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
	};
	const float alpha = 0.5f, beta = 0.25f;
	const int lda = 31, ldb = 29, ldc = 21;

	for (unsigned t = 0; t < sizeof(types) / sizeof(*types); t++)
		for (int ta = 0; ta < 2; ta++)
			for (int tb = 0; tb < 2; tb++) {
				inputs(types[t].in, types[t].out);
				assert_int_equal(cublasGemmStridedBatchedEx(
							 handle, ta, tb, M, N, K, &alpha, (void *)a,
							 types[t].in, lda, 800, (void *)b,
							 types[t].in, ldb, 750, &beta, (void *)c,
							 types[t].out, ldc, 300, BATCH,
							 types[t].compute, CUBLAS_GEMM_DEFAULT),
						 0);
				check(types[t].out, ta, tb, lda, ldb, ldc, 800, 750, 300, BATCH,
				      0.5, 0.25);
			}
}

static void typed_entry_points(void **state)
{
	const double d1 = 1, d0 = 0;
	const float f1 = 1, f0 = 0;

	inputs(CUDA_R_32F, CUDA_R_32F);
	assert_int_equal(cublasSgemm(handle, 1, 0, M, N, K, &f1, (float *)a, K, (float *)b, K, &f0,
				     (float *)c, M),
			 0);
	check(CUDA_R_32F, 1, 0, K, K, M, 0, 0, 0, 1, 1, 0);
	inputs(CUDA_R_64F, CUDA_R_64F);
	assert_int_equal(cublasDgemmStridedBatched_64(handle, 0, 1, M, N, K, &d1, (double *)a, M,
						      500, (double *)b, N, 400, &d0, (double *)c, M,
						      300, 2),
			 0);
	check(CUDA_R_64F, 0, 1, M, N, M, 500, 400, 300, 2, 1, 0);
	inputs(CUDA_R_16F, CUDA_R_16F);
	assert_int_equal(cublasSgemmEx(handle, 0, 0, M, N, K, &f1, (void *)a, CUDA_R_16F, M,
				       (void *)b, CUDA_R_16F, K, &f0, (void *)c, CUDA_R_16F, M),
			 0);
	check(CUDA_R_16F, 0, 0, M, K, M, 0, 0, 0, 1, 1, 0);
}

static void half_scalars_with_half_compute(void **state)
{
	const uint16_t two = float_to_f16(2), zero = 0;
	cublasStatus_t (*gemm)(cublasHandle_t, int, int, int, int, int, const uint16_t *,
			       const void *, int, const void *, int, const uint16_t *, void *,
			       int) = dlsym(RTLD_DEFAULT, "cublasHgemm");

	assert_non_null(gemm);
	inputs(CUDA_R_16F, CUDA_R_16F);
	assert_int_equal(
		gemm(handle, 1, 0, M, N, K, &two, (void *)a, K, (void *)b, K, &zero, (void *)c, M),
		0);
	check(CUDA_R_16F, 1, 0, K, K, M, 0, 0, 0, 1, 2, 0);
}

static void address_arrays_and_device_scalars(void **state)
{
	CUdeviceptr arrays, at[3 * BATCH];
	const float scalars[2] = {0.5f, 1};

	inputs(CUDA_R_16F, CUDA_R_16F);
	for (int i = 0; i < BATCH; i++) {
		at[i] = a + 2 * 500 * i;
		at[BATCH + i] = b + 2 * 400 * i;
		at[2 * BATCH + i] = c + 2 * 300 * i;
	}
	assert_int_equal(cuMemAlloc(&arrays, sizeof(at) + 8), CUDA_SUCCESS);
	cuMemcpyHtoD(arrays, at, sizeof(at));
	cuMemcpyHtoD(arrays + sizeof(at), scalars, 8);
	assert_int_equal(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE), 0);
	assert_int_equal(cublasGemmBatchedEx(handle, 1, 0, M, N, K, (void *)(arrays + sizeof(at)),
					     (void *)arrays, CUDA_R_16F, K,
					     (void *)(arrays + 8 * BATCH), CUDA_R_16F, K,
					     (void *)(arrays + sizeof(at) + 4),
					     (void *)(arrays + 16 * BATCH), CUDA_R_16F, M, BATCH,
					     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
			 0);
	assert_int_equal(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST), 0);
	check(CUDA_R_16F, 1, 0, K, K, M, 500, 400, 300, BATCH, 0.5, 1);
	cuMemFree(arrays);
}

/* beta = 0 does not read C, which may hold NaN; k = 0 leaves beta * C. */
static void edges(void **state)
{
	const float one = 1, zero = 0, half = 0.5f;

	inputs(CUDA_R_32F, CUDA_R_32F);
	cuMemsetD8(c, 0xff, ROOM * 4);
	assert_int_equal(cublasSgemm(handle, 0, 0, M, N, K, &one, (float *)a, M, (float *)b, K,
				     &zero, (float *)c, M),
			 0);
	check(CUDA_R_32F, 0, 0, M, K, M, 0, 0, 0, 1, 1, 0);
	fill(c, hc, CUDA_R_32F, 3);
	assert_int_equal(cublasGemmEx(handle, 0, 0, M, N, 0, &one, (void *)a, CUDA_R_32F, M,
				      (void *)b, CUDA_R_32F, 1, &half, (void *)c, CUDA_R_32F, M,
				      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
			 0);
	assert_true(result(CUDA_R_32F, 5) == hc[5] / 2);
}

static void bad_arguments(void **state)
{
	const float one = 1;

	float *p = (float *)a;
	assert_int_equal(cublasSgemm(NULL, 0, 0, 1, 1, 1, &one, p, 1, p, 1, &one, p, 1),
			 CUBLAS_STATUS_NOT_INITIALIZED);
	assert_int_equal(cublasSgemm(handle, 0, 0, -1, 1, 1, &one, p, 1, p, 1, &one, p, 1),
			 CUBLAS_STATUS_INVALID_VALUE);
	assert_int_equal(cublasSgemm(handle, 0, 0, 2, 1, 1, &one, p, 1, p, 1, &one, p, 2),
			 CUBLAS_STATUS_INVALID_VALUE);
	assert_int_equal(cublasSgemm(handle, 0, 0, 1, 1, 1, NULL, p, 1, p, 1, &one, p, 1),
			 CUBLAS_STATUS_INVALID_VALUE);
	assert_int_equal(cublasSgemm(handle, 0, 0, 0, 1, 1, &one, p, 1, p, 1, &one, p, 1), 0);
}

static void lt_with_bias_and_row_major(void **state)
{
	const float one = 1, zero = 0;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t la, lb, lc;
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	cublasLtOrder_t row = CUBLASLT_ORDER_ROW;
	CUdeviceptr bias = b + 8 * 2048;
	uint64_t got = 0;
	size_t written = 0;

	inputs(CUDA_R_32F, CUDA_R_32F);
	float values[M];
	for (int i = 0; i < M; i++)
		values[i] = (float)i;
	cuMemcpyHtoD(bias, values, sizeof(values));
	assert_int_equal(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
	assert_int_equal(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
							&epilogue, sizeof(epilogue)),
			 0);
	assert_int_equal(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
							&bias, sizeof(bias)),
			 0);
	assert_int_equal(cublasLtMatmulDescGetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
							&got, sizeof(got), &written),
			 0);
	assert_true(got == bias && written == 8);
	cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, M, K, K);
	cublasLtMatrixLayoutSetAttribute(la, CUBLASLT_MATRIX_LAYOUT_ORDER, &row, sizeof(row));
	cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, K, N, K);
	cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, M, N, M);
	assert_int_equal(cublasLtMatmul((cublasLtHandle_t)handle, desc, &one, (void *)a, la,
					(void *)b, lb, &zero, (void *)c, lc, (void *)c, lc, NULL,
					NULL, 0, NULL),
			 0);
	for (int j = 0; j < N; j++) /* check() has no bias: take it off */
		for (int i = 0; i < M; i++) {
			float x = (float)result(CUDA_R_32F, (size_t)j * M + i) - (float)i;
			cuMemcpyHtoD(c + 4 * ((size_t)j * M + i), &x, 4);
		}
	check(CUDA_R_32F, 1, 0, K, K, M, 0, 0, 0, 1, 1, 0);
	cublasLtMatrixLayoutDestroy(la);
	cublasLtMatrixLayoutDestroy(lb);
	cublasLtMatrixLayoutDestroy(lc);
	cublasLtMatmulDescDestroy(desc);
}

static void names_carry_the_soname_as_version(void **state)
{
	void *library = dlopen("libcublas.so.12", RTLD_NOW | RTLD_LOCAL);

	assert_non_null(library);
	assert_non_null(dlvsym(library, "cublasGemmEx", "libcublas.so.12"));
	assert_null(dlvsym(library, "cublasGemmEx", "libcublas.so.13"));
	assert_non_null(dlsym(library, "cublasZtrsm_v2")); /* exists, unsupported */
	dlclose(library);
}

static void conversions_round_to_nearest_even(void **state)
{
	for (uint32_t h = 0; h < 0x10000; h++) {
		uint16_t back = float_to_f16(f16_to_float((uint16_t)h));
		if ((h & 0x7fff) <= 0x7c00)
			assert_int_equal(back, h);
		if ((h & 0x7fff) < 0x7bff) { /* half way to the next: to the even one */
			float x = f16_to_float((uint16_t)h), y = f16_to_float((uint16_t)(h + 1));
			assert_int_equal(float_to_f16((x + y) / 2), h & 1 ? h + 1 : h);
		}
	}
	assert_int_equal(float_to_f16(65519.9f), 0x7bff);
	assert_int_equal(float_to_f16(65520.0f), 0x7c00);
	assert_int_equal(float_to_bf16(1.00390625f), 0x3f80);
	assert_int_equal(float_to_bf16(1.01171875f), 0x3f82);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_transpose_and_type),
		cmocka_unit_test(typed_entry_points),
		cmocka_unit_test(half_scalars_with_half_compute),
		cmocka_unit_test(address_arrays_and_device_scalars),
		cmocka_unit_test(edges),
		cmocka_unit_test(bad_arguments),
		cmocka_unit_test(lt_with_bias_and_row_major),
		cmocka_unit_test(names_carry_the_soname_as_version),
		cmocka_unit_test(conversions_round_to_nearest_even),
	};

	return cmocka_run_group_tests(tests, open_device, NULL);
}
