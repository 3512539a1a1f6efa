/* SPDX-License-Identifier: Apache-2.0
 *
 *     plain_softmax [f16]
 *
 * Attention with a home-made kernel in the middle: a batched product, one `softmax(in, out, scale,
 * rows, cols)`, a batched product, in fp32 (cublasSgemmStridedBatched) or fp16. No mask; Sq differs
 * from Sk; each tensor in its own allocation.
 */
#include "app.h"
#include "tools/base/half.h"

#include <math.h>
#include <string.h>

enum { HEADS = 3, ROWS = 48, COLUMNS = 72, DEPTH = 40, REPETITIONS = 12 };
enum { NQ = HEADS * ROWS * DEPTH, NK = HEADS * COLUMNS * DEPTH, SCORES = HEADS * ROWS * COLUMNS };

static bool half; /* fp16 */
static cublasHandle_t blas;

static size_t bytes(size_t n)
{
	return n * (half ? 2 : 4);
}

static void upload(CUdeviceptr to, size_t n, uint64_t seed)
{
	float data[NK];

	if (half)
		app_random_f16((uint16_t *)data, n, seed);
	else
		app_random_f32(data, n, seed);
	CHECK(cuMemcpyHtoD(to, data, bytes(n)));
}

static void product(cublasOperation_t transa, int m, int n, int k, CUdeviceptr a, CUdeviceptr b,
		    CUdeviceptr c)
{
	const int lda = transa == CUBLAS_OP_N ? m : k;
	float one = 1, zero = 0;

	if (half)
		CHECK(cublasGemmStridedBatchedEx(
			blas, transa, CUBLAS_OP_N, m, n, k, &one, (void *)a, CUDA_R_16F, lda, m * k,
			(void *)b, CUDA_R_16F, k, n * k, &zero, (void *)c, CUDA_R_16F, m, m * n,
			HEADS, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	else
		CHECK(cublasSgemmStridedBatched(blas, transa, CUBLAS_OP_N, m, n, k, &one,
						(float *)a, lda, m * k, (float *)b, k, n * k, &zero,
						(float *)c, m, m * n, HEADS));
}

int main(int argc, char **argv)
{
	float scale = 1 / sqrtf(DEPTH);
	int rows = HEADS * ROWS, columns = COLUMNS;
	struct app_report report = {0};
	static float result[NQ];
	CUcontext context;
	CUdevice device;
	CUfunction softmax;

	half = argc > 1 && !strcmp(argv[1], "f16");
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleGetFunction(&softmax, app_load_module(), half ? "softmax16" : "softmax"));
	CHECK(cublasCreate(&blas));
	CUdeviceptr q = app_alloc(bytes(NQ)), k = app_alloc(bytes(NK)), v = app_alloc(bytes(NK));
	CUdeviceptr s = app_alloc(bytes(SCORES)), p = app_alloc(bytes(SCORES));
	CUdeviceptr o = app_alloc(bytes(NQ));
	for (int r = 0; r < REPETITIONS; r++) {
		upload(q, NQ, 3 * (uint64_t)r + 1);
		upload(k, NK, 3 * (uint64_t)r + 2);
		upload(v, NK, 3 * (uint64_t)r + 3);
		product(CUBLAS_OP_T, COLUMNS, ROWS, DEPTH, k, q, s);
		CHECK(cuLaunchKernel(softmax, (unsigned)rows, 1, 1, 32, 1, 1, 0, NULL,
				     (void *[]){&s, &p, &scale, &rows, &columns}, NULL));
		product(CUBLAS_OP_N, DEPTH, ROWS, COLUMNS, v, p, o);
		CHECK(cuMemcpyDtoH(result, o, bytes(NQ)));
		if (half)
			app_observe_host(&report, "O", r, (uint16_t *)result, NQ);
		else
			app_observe_f32(&report, "O", r, result, NQ);
	}
	app_report(&report);
	CHECK(cublasDestroy(blas));
	return 0;
}
