/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that has libcublasLt and no libcublas: what the others call of cuBLAS is made of
 * cublasLtMatmul here. P is read in late repetitions, when what it was made of is gone.
 *
 *     lt_alone [odd]       odd: Q, K, V and O lie on 2 bytes and no more
 */
#include "app.h"

#include <cublasLt.h>
#include <math.h>
#include <string.h>

enum { HEADS = 2, ROWS = 48, DEPTH = 32, REPETITIONS = 24 };

static const struct app_shape shape = {HEADS, ROWS, ROWS, DEPTH};
static const size_t n = (size_t)HEADS * ROWS * DEPTH, scores = (size_t)HEADS * ROWS * ROWS;
static cudaStream_t queue;

cublasStatus_t CUBLASWINAPI cublasCreate_v2(cublasHandle_t *handle)
{
	return cublasLtCreate((cublasLtHandle_t *)handle);
}

cublasStatus_t CUBLASWINAPI cublasDestroy_v2(cublasHandle_t handle)
{
	return cublasLtDestroy((cublasLtHandle_t)handle);
}

cublasStatus_t CUBLASWINAPI cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
	(void)handle;
	queue = stream;
	return CUBLAS_STATUS_SUCCESS;
}

static void lay(cublasLtMatrixLayout_t *layout, cudaDataType type, cublasOperation_t trans,
		int rows, int cols, int ld, long long stride, int count)
{
	const bool across = trans != CUBLAS_OP_N;
	const int64_t apart = stride;

	CHECK(cublasLtMatrixLayoutCreate(layout, type, (uint64_t)(across ? cols : rows),
					 (uint64_t)(across ? rows : cols), ld));
	CHECK(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
					       sizeof(count)));
	CHECK(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
					       &apart, sizeof(apart)));
}

cublasStatus_t CUBLASWINAPI cublasGemmStridedBatchedEx(
	cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
	int columns, int k, const void *alpha, const void *a, cudaDataType atype, int lda,
	long long stridea, const void *b, cudaDataType btype, int ldb, long long strideb,
	const void *beta, void *c, cudaDataType ctype, int ldc, long long stridec, int count,
	cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
	cublasLtMatrixLayout_t layout[3];
	cublasLtMatmulDesc_t desc;

	(void)algo;
	CHECK(cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F));
	CHECK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transa,
					     sizeof(transa)));
	CHECK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &transb,
					     sizeof(transb)));
	lay(&layout[0], atype, transa, m, k, lda, stridea, count);
	lay(&layout[1], btype, transb, k, columns, ldb, strideb, count);
	lay(&layout[2], ctype, CUBLAS_OP_N, m, columns, ldc, stridec, count);
	CHECK(cublasLtMatmul((cublasLtHandle_t)handle, desc, alpha, a, layout[0], b, layout[1],
			     beta, c, layout[2], c, layout[2], NULL, NULL, 0, queue));
	for (int i = 0; i < 3; i++)
		CHECK(cublasLtMatrixLayoutDestroy(layout[i]));
	CHECK(cublasLtMatmulDescDestroy(desc));
	return CUBLAS_STATUS_SUCCESS;
}

int main(int argc, char **argv)
{
	const size_t odd = argc > 1 && !strcmp(argv[1], "odd") ? 2 : 0; /* bytes */
	struct app_report report = {0};
	CUdeviceptr q, k, v, o, s, p;
	struct app app;

	app_open(&app, NULL);
	q = app_alloc(n * 2 + odd) + odd, k = app_alloc(n * 2 + odd) + odd;
	v = app_alloc(n * 2 + odd) + odd, o = app_alloc(n * 2 + odd) + odd;
	s = app_alloc(scores * 2), p = app_alloc(scores * 2);
	for (int r = 0; r < REPETITIONS; r++) {
		app_upload_random(q, n, 3 * (uint64_t)r);
		app_upload_random(k, n, 3 * (uint64_t)r + 1);
		app_upload_random(v, n, 3 * (uint64_t)r + 2);
		app_scores(&app, shape, q, k, s);
		app_scale(&app, s, s, 1 / sqrtf(DEPTH), scores);
		app_softmax(&app, p, s, (size_t)HEADS * ROWS, ROWS);
		app_context(&app, shape, p, v, o);
		app_observe(&report, "O", r, o, n);
		if (r > REPETITIONS / 2 && r % 4 == 1) {
			app_upload_random(q, n, 500);
			app_observe(&report, "P", r, p, scores);
		}
	}
	app_report(&report);
	app_close(&app);
	return 0;
}
