/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS through every door: linked, dlsym, dlvsym, a program's own stubs, two versions in one
 * process; and what the hooks say about a product.
 */
#include "harness.h"

#include <cublasLt.h>
#include <cublas_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe.h"

#define PROBE "libprobe.so"

static struct probe *seen;
static void *blas[2], *lt[2]; /* 12, 13 */
static float *a, *b, *c;      /* 64 x 64 of device memory */

#define SYMBOL(library, name) ((__typeof__(&name))dlsym(library, #name))

typedef cublasStatus_t create_call(cublasHandle_t *handle);
typedef cublasStatus_t gemm_call(cublasHandle_t handle, int n, const float *a, const float *b,
				 float *c);

static int begin(void **state)
{
	(void)state;
	memset(seen, 0, sizeof(*seen));
	seen->active = seen->watching = true;
	for (int i = 0; i < 64 * 64; i++) {
		a[i] = i % 5;
		b[i] = i % 7;
		c[i] = -1;
	}
	return 0;
}

/* The one GEMM seen: before and after, nothing of what cuBLAS did inside. */
static const struct op_gemm *the_gemm(void)
{
	assert_int_equal(seen->count, 2);
	assert_int_equal(seen->events[0].when, PROBE_BEFORE);
	assert_int_equal(seen->events[1].when, PROBE_AFTER);
	assert_int_equal(seen->events[0].op.kind, OP_GEMM);
	assert_int_equal(seen->events[0].depth, 0);
	assert_int_equal(seen->events[1].depth, 0);
	return &seen->events[0].op.gemm;
}

static cublasHandle_t new_handle(int which)
{
	cublasHandle_t handle = NULL;

	assert_int_equal(SYMBOL(blas[which], cublasCreate_v2)(&handle), 0);
	assert_non_null(handle);
	seen->count = 0;
	return handle;
}

static void dlsym_hands_out_hooks(void **state)
{
	(void)state;
	assert_string_equal(owner(dlsym(blas[1], "cublasGemmEx")), PROBE);
	assert_string_equal(owner(dlsym(lt[1], "cublasLtMatmul")), PROBE);
	/* libcublas's own dependency, through its handle */
	assert_string_equal(owner(dlsym(blas[1], "cublasLtMatmul")), PROBE);
	assert_ptr_equal(dlsym(blas[1], "cublasGemmEx"),
			 dlvsym(blas[1], "cublasGemmEx", "libcublas.so.13"));
	assert_null(dlvsym(blas[1], "cublasGemmEx", "libcublas.so.12"));
	assert_ptr_equal(dlsym(blas[1], "cublasGemmEx"), dlsym(blas[1], "cublasGemmEx"));
	assert_ptr_not_equal(dlsym(blas[0], "cublasGemmEx"), dlsym(blas[1], "cublasGemmEx"));
	/* Not hooked: cuBLAS's own. */
	assert_string_equal(owner(dlsym(blas[1], "cublasGetVersion_v2")), "libcublas.so.13");
	assert_null(dlsym(blas[1], "cublasNoSuchThing"));
}

static void each_version_gets_its_own_calls(void **state)
{
	const float one = 1, zero = 0;

	(void)state;
	for (int which = 0; which < 2; which++) {
		cublasHandle_t handle = new_handle(which);

		assert_int_equal(SYMBOL(blas[which], cublasSgemm_v2)(handle, 0, 0, 8, 8, 8, &one, a,
								     8, b, 8, &zero, c, 8),
				 0);
		the_gemm();
		assert_int_equal(seen->events[0].blas, which ? 130100 : 120800);
		assert_int_equal(SYMBOL(blas[which], cublasDestroy_v2)(handle), 0);
	}
}

static void linked_users_of_two_versions_coexist(void **state)
{
	void *user[2] = {
		dlopen(beside("libuser12.so"), RTLD_NOW | RTLD_LOCAL),
		dlopen(beside("libuser13.so"), RTLD_NOW | RTLD_LOCAL),
	};
	cublasHandle_t handle[2];
	gemm_call *gemm[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_non_null(user[i]);
		gemm[i] = (gemm_call *)dlsym(user[i], "user_gemm");
		assert_int_equal(((create_call *)dlsym(user[i], "user_create"))(&handle[i]), 0);
	}
	/* The handle decides, whoever calls. */
	for (int i = 0; i < 4; i++) {
		seen->count = 0;
		assert_int_equal(gemm[i & 1](handle[i >> 1], 8, a, b, c), 0);
		the_gemm();
		assert_int_equal(seen->events[0].blas, i >> 1 ? 130100 : 120800);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(((cublasStatus_t(*)(cublasHandle_t))dlsym(
					 user[i], "user_destroy"))(handle[i]),
				 0);
}

static void a_stub_is_reached_once_and_does_not_recurse(void **state)
{
	void *stub = dlopen(beside("libstub.so"), RTLD_NOW | RTLD_LOCAL);
	unsigned *calls = dlsym(stub, "stub_calls");
	cublasHandle_t handle;

	(void)state;
	assert_non_null(stub);
	/* Without a library there is nobody else to ask. */
	assert_int_equal(((cublasStatus_t(*)(cublasHandle_t))dlsym(stub, "stub_destroy"))(NULL),
			 CUBLAS_STATUS_NOT_INITIALIZED);
	assert_int_equal(*calls, 1);
	*calls = 0;
	assert_int_equal(((create_call *)dlsym(stub, "stub_create"))(&handle), 0);
	assert_int_equal(((gemm_call *)dlsym(stub, "stub_gemm"))(handle, 8, a, b, c), 0);
	the_gemm();
	assert_true(*calls <= 2);
	/* Who asks for the stub by its own handle gets the stub. */
	assert_string_equal(owner(dlsym(stub, "cublasSgemm_v2")), "libstub.so");
}

static void a_product_is_told_as_it_was_said(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float alpha = 0.125f, beta = 0;
	const struct op_gemm *gemm;

	(void)state;
	errno = 4242;
	assert_int_equal(SYMBOL(blas[1], cublasGemmStridedBatchedEx)(
				 handle, CUBLAS_OP_T, CUBLAS_OP_N, 6, 5, 4, &alpha, a, CUDA_R_32F,
				 16, 100, b, CUDA_R_32F, 17, 200, &beta, c, CUDA_R_32F, 18, 300, 3,
				 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
			 0);
	assert_int_equal(errno, 4242);
	gemm = the_gemm();
	assert_string_equal(gemm->entry, "cublasGemmStridedBatchedEx");
	assert_ptr_equal(gemm->handle, handle);
	assert_int_equal(gemm->transa, CUBLAS_OP_T);
	assert_int_equal(gemm->transb, CUBLAS_OP_N);
	assert_int_equal(gemm->m, 6);
	assert_int_equal(gemm->n, 5);
	assert_int_equal(gemm->k, 4);
	assert_int_equal(gemm->a, (uintptr_t)a);
	assert_int_equal(gemm->b, (uintptr_t)b);
	assert_int_equal(gemm->c, (uintptr_t)c);
	assert_int_equal(gemm->d, 0);
	assert_int_equal(gemm->lda, 16);
	assert_int_equal(gemm->ldb, 17);
	assert_int_equal(gemm->ldc, 18);
	assert_int_equal(gemm->stride_a, 100);
	assert_int_equal(gemm->stride_b, 200);
	assert_int_equal(gemm->stride_c, 300);
	assert_int_equal(gemm->batch, 3);
	assert_int_equal(gemm->atype, CUDA_R_32F);
	assert_int_equal(gemm->compute_type, CUBLAS_COMPUTE_32F);
	assert_int_equal(gemm->algo, CUBLAS_GEMM_DEFAULT);
	assert_true(gemm->alpha == 0.125 && gemm->beta == 0);
	assert_true(gemm->plain);
	assert_false(gemm->by_array);
	assert_false(gemm->scalars_on_device);
	assert_ptr_equal(seen->events[0].op.stream, CU_STREAM_LEGACY);
	assert_non_null(seen->events[0].op.context);

	/* The 64-bit twin says the same. */
	seen->count = 0;
	assert_int_equal(SYMBOL(blas[1], cublasGemmStridedBatchedEx_64)(
				 handle, CUBLAS_OP_T, CUBLAS_OP_N, 6, 5, 4, &alpha, a, CUDA_R_32F,
				 16, 100, b, CUDA_R_32F, 17, 200, &beta, c, CUDA_R_32F, 18, 300, 3,
				 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
			 0);
	gemm = the_gemm();
	assert_int_equal(gemm->stride_c, 300);
	assert_int_equal(gemm->ldc, 18);
}

typedef cublasStatus_t hgemm(cublasHandle_t handle, cublasOperation_t transa,
			     cublasOperation_t transb, int m, int n, int k, const uint16_t *alpha,
			     const void *A, int lda, const void *B, int ldb, const uint16_t *beta,
			     void *C, int ldc);

static void scalars_are_read_in_their_own_type(void **state)
{
	static const struct {
		uint16_t bits;
		double value;
	} halves[] = {{0x3c00, 1},	 {0xc000, -2},	  {0x2e66, 0.0999755859375},
		      {0x0001, 0x1p-24}, {0x7bff, 65504}, {0x03ff, 1023 * 0x1p-24},
		      {0x0400, 0x1p-14}};
	cublasHandle_t handle = new_handle(1);
	const double dalpha = 0.3, dbeta = 0.7;
	uint16_t zero = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
		seen->count = 0;
		assert_int_equal(((hgemm *)dlsym(blas[1], "cublasHgemm"))(handle, 0, 0, 4, 4, 4,
									  &halves[i].bits, a, 4, b,
									  4, &zero, c, 4),
				 0);
		assert_true(the_gemm()->alpha == halves[i].value);
		assert_int_equal(the_gemm()->compute_type, CUBLAS_COMPUTE_16F);
		assert_int_equal(the_gemm()->ctype, CUDA_R_16F);
	}
	seen->count = 0;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(SYMBOL(blas[1], cublasDgemm_v2)(handle, 0, 0, 4, 4, 4, &dalpha,
							 (double *)a, 4, (double *)b, 4, &dbeta,
							 (double *)c, 4),
			 0);
	assert_int_equal(seen->count, 1);
	assert_true(seen->events[0].op.gemm.alpha == 0.3 && seen->events[0].op.gemm.beta == 0.7);
	assert_false(seen->events[0].op.gemm.plain);
}

static void the_handles_state_is_asked(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;
	CUstream stream;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	(void)state;
	assert_int_equal(SYMBOL(driver, cuStreamCreate)(&stream, 0), 0);
	assert_int_equal(SYMBOL(blas[1], cublasSetStream_v2)(handle, (cudaStream_t)stream), 0);
	assert_int_equal(SYMBOL(blas[1], cublasSetMathMode)(handle, CUBLAS_TF32_TENSOR_OP_MATH), 0);
	seen->count = 0;
	assert_int_equal(SYMBOL(blas[1], cublasSgemm_v2)(handle, 0, 0, 8, 8, 8, &one, a, 8, b, 8,
							 &zero, c, 8),
			 0);
	assert_ptr_equal(seen->events[0].op.stream, stream);
	assert_int_equal(the_gemm()->math_mode, CUBLAS_TF32_TENSOR_OP_MATH);

	assert_int_equal(
		SYMBOL(blas[1], cublasSetPointerMode_v2)(handle, CUBLAS_POINTER_MODE_DEVICE), 0);
	seen->count = 0;
	seen->answer = FLOW_TAKEN;
	/* Not to be read on the host. */
	assert_int_equal(SYMBOL(blas[1], cublasSgemm_v2)(handle, 0, 0, 8, 8, 8, (float *)8, a, 8, b,
							 8, (float *)16, c, 8),
			 0);
	assert_true(seen->events[0].op.gemm.scalars_on_device);
}

static void a_taken_product_does_not_reach_cublas(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;

	(void)state;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(SYMBOL(blas[1], cublasSgemm_v2)(handle, 0, 0, 8, 8, 8, &one, a, 8, b, 8,
							 &zero, c, 8),
			 0);
	assert_int_equal(seen->count, 1);
	assert_true(c[0] == -1);
	seen->answer = FLOW_PASS;
	assert_int_equal(SYMBOL(blas[1], cublasSgemm_v2)(handle, 0, 0, 8, 8, 8, &one, a, 8, b, 8,
							 &zero, c, 8),
			 0);
	assert_true(c[0] != -1);
}

static void nonsense_is_left_to_cublas(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;
	__typeof__(&cublasSgemm_v2) gemm = SYMBOL(blas[1], cublasSgemm_v2);

	(void)state;
	assert_int_equal(gemm(handle, 0, 0, -8, 8, 8, &one, a, 8, b, 8, &zero, c, 8),
			 CUBLAS_STATUS_INVALID_VALUE);
	assert_int_equal(seen->count, 0);
	assert_int_equal(gemm(NULL, 0, 0, 8, 8, 8, &one, a, 8, b, 8, &zero, c, 8),
			 CUBLAS_STATUS_NOT_INITIALIZED);
	seen->count = 0;
	seen->active = seen->watching = false;
	assert_int_equal(gemm(handle, 0, 0, 8, 8, 8, &one, a, 8, b, 8, &zero, c, 8), 0);
	assert_int_equal(seen->count, 0);
}

static void a_vector_product_is_a_product_of_one_row(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;
	__typeof__(&cublasSgemvStridedBatched) gemv = SYMBOL(blas[1], cublasSgemvStridedBatched);
	const struct op_gemm *gemm = &seen->events[0].op.gemm;

	(void)state;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(
		gemv(handle, CUBLAS_OP_N, 5, 7, &one, a, 9, 90, b, 2, 20, &zero, c, 3, 30, 4), 0);
	assert_int_equal(seen->events[0].op.kind, OP_GEMM);
	assert_int_equal(gemm->m, 1);
	assert_int_equal(gemm->n, 5);
	assert_int_equal(gemm->k, 7);
	assert_int_equal(gemm->a, (uintptr_t)b);
	assert_int_equal(gemm->b, (uintptr_t)a);
	assert_int_equal(gemm->transa, CUBLAS_OP_N);
	assert_int_equal(gemm->transb, CUBLAS_OP_T);
	assert_int_equal(gemm->lda, 2);
	assert_int_equal(gemm->ldb, 9);
	assert_int_equal(gemm->ldc, 3);
	assert_int_equal(gemm->stride_a, 20);
	assert_int_equal(gemm->stride_b, 90);
	assert_int_equal(gemm->stride_c, 30);
	assert_false(gemm->plain);
}

static void arrays_of_pointers_are_named_as_such(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;
	const float **arrays = (const float **)c;
	const struct op_gemm *gemm = &seen->events[0].op.gemm;

	(void)state;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(SYMBOL(blas[1], cublasSgemmBatched)(handle, 0, 1, 4, 5, 6, &one, arrays, 7,
							     arrays + 8, 8, &zero,
							     (float **)arrays + 16, 9, 8),
			 0);
	assert_int_equal(seen->events[0].op.kind, OP_GEMM);
	assert_true(gemm->by_array);
	assert_int_equal(gemm->batch, 8);
	assert_int_equal(gemm->a, (uintptr_t)arrays);
	assert_int_equal(gemm->b, (uintptr_t)(arrays + 8));
	assert_int_equal(gemm->c, (uintptr_t)(arrays + 16));
	assert_int_equal(gemm->stride_a, 0);
	assert_true(gemm->plain);
}

static void groups_are_opaque(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const cublasOperation_t none[1] = {CUBLAS_OP_N};
	const int four[1] = {4}, two[1] = {2};
	const float one[1] = {1};
	const float **arrays = (const float **)c;

	(void)state;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(SYMBOL(blas[1], cublasSgemmGroupedBatched)(
				 handle, none, none, four, four, four, one, arrays, four, arrays,
				 four, one, (float **)arrays, four, 1, two),
			 0);
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].op.kind, OP_OPAQUE);
	assert_string_equal(seen->events[0].name, "cublasSgemmGroupedBatched");
}

/* ---- cublasLt ----------------------------------------------------------------------------------
 */

static cublasLtMatrixLayout_t layout(cudaDataType type, cublasLtOrder_t order, int rows, int cols,
				     int ld)
{
	cublasLtMatrixLayout_t created;

	assert_int_equal(SYMBOL(lt[1], cublasLtMatrixLayoutCreate)(&created, type, rows, cols, ld),
			 0);
	assert_int_equal(SYMBOL(lt[1], cublasLtMatrixLayoutSetAttribute)(
				 created, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order)),
			 0);
	return created;
}

static cublasLtMatmulDesc_t operation(void)
{
	cublasLtMatmulDesc_t desc;

	assert_int_equal(
		SYMBOL(lt[1], cublasLtMatmulDescCreate)(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
	return desc;
}

static cublasStatus_t matmul(cublasLtMatmulDesc_t desc, const float *beta,
			     cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
			     cublasLtMatrixLayout_t lc, const void *C, void *workspace)
{
	static cublasLtHandle_t handle;
	const float one = 1;

	if (!handle)
		assert_int_equal(SYMBOL(lt[1], cublasLtCreate)(&handle), 0);
	seen->count = 0;
	return SYMBOL(lt[1], cublasLtMatmul)(handle, desc, &one, a, la, b, lb, beta, C, lc, c, lc,
					     NULL, workspace, workspace ? 256 : 0, (cudaStream_t)2);
}

static void lt_is_asked_for_what_it_hides(void **state)
{
	const float zero = 0;
	const struct op_gemm *gemm;
	cublasLtMatrixLayout_t la = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 6, 9);
	cublasLtMatrixLayout_t lb = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 5, 10);
	cublasLtMatrixLayout_t lc = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 6, 5, 11);
	cublasLtMatmulDesc_t desc = operation();
	int32_t transpose = CUBLAS_OP_T;

	(void)state;
	assert_int_equal(SYMBOL(lt[1], cublasLtMatmulDescSetAttribute)(
				 desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose)),
			 0);
	assert_int_equal(matmul(desc, &zero, la, lb, lc, b, NULL), 0);
	gemm = the_gemm();
	assert_string_equal(gemm->entry, "cublasLtMatmul");
	assert_int_equal(gemm->m, 6);
	assert_int_equal(gemm->n, 5);
	assert_int_equal(gemm->k, 8);
	assert_int_equal(gemm->transa, CUBLAS_OP_T);
	assert_int_equal(gemm->lda, 9);
	assert_int_equal(gemm->ldb, 10);
	assert_int_equal(gemm->ldc, 11);
	assert_int_equal(gemm->batch, 1);
	/* beta is zero: C is not read, wherever it points. */
	assert_int_equal(gemm->c, (uintptr_t)c);
	assert_int_equal(gemm->d, 0);
	assert_true(gemm->plain);
	assert_ptr_equal(seen->events[0].op.stream, CU_STREAM_PER_THREAD);
}

static void lt_takes_a_cublas_handle(void **state)
{
	const float one = 1, zero = 0;
	cublasLtMatrixLayout_t l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	cublasLtMatmulDesc_t desc = operation();

	(void)state;
	for (int which = 0; which < 2; which++) {
		cublasHandle_t handle = new_handle(which);

		seen->answer = FLOW_TAKEN;
		/* Through the exported name: the handle decides. */
		assert_int_equal(SYMBOL(RTLD_DEFAULT, cublasLtMatmul)(
					 (cublasLtHandle_t)handle, desc, &one, a, l, b, l, &zero, c,
					 l, c, l, NULL, NULL, 0, NULL),
				 0);
		assert_int_equal(seen->events[0].op.kind, OP_GEMM);
		assert_int_equal(seen->events[0].blas / 10000, which ? 13 : 12);
		seen->answer = FLOW_PASS;
	}
}

static void lt_row_major_is_turned_round(void **state)
{
	const float zero = 0;
	const struct op_gemm *gemm;
	cublasLtMatrixLayout_t la = layout(CUDA_R_32F, CUBLASLT_ORDER_ROW, 6, 8, 9);
	cublasLtMatrixLayout_t lb = layout(CUDA_R_32F, CUBLASLT_ORDER_ROW, 8, 5, 10);
	cublasLtMatrixLayout_t lc = layout(CUDA_R_32F, CUBLASLT_ORDER_ROW, 6, 5, 11);

	(void)state;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(operation(), &zero, la, lb, lc, c, NULL), 0);
	gemm = &seen->events[0].op.gemm;
	assert_int_equal(seen->events[0].op.kind, OP_GEMM);
	/* C^T[5,6] = B^T[5,8] A^T[8,6]; row-major X is column-major X^T. */
	assert_int_equal(gemm->m, 5);
	assert_int_equal(gemm->n, 6);
	assert_int_equal(gemm->k, 8);
	assert_int_equal(gemm->a, (uintptr_t)b);
	assert_int_equal(gemm->b, (uintptr_t)a);
	assert_int_equal(gemm->transa, CUBLAS_OP_N);
	assert_int_equal(gemm->transb, CUBLAS_OP_N);
	assert_int_equal(gemm->lda, 10);
	assert_int_equal(gemm->ldb, 9);
	assert_int_equal(gemm->ldc, 11);
	assert_true(gemm->plain);
}

/* As XLA says it: P lies in rows, V and O in columns. */
static void lt_one_factor_in_rows_is_a_plain_product(void **state)
{
	const float zero = 0;
	const struct op_gemm *gemm;
	cublasLtMatrixLayout_t la = layout(CUDA_R_32F, CUBLASLT_ORDER_ROW, 6, 8, 9);
	cublasLtMatrixLayout_t lb = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 5, 10);
	cublasLtMatrixLayout_t lc = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 6, 5, 11);

	(void)state;
	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(operation(), &zero, la, lb, lc, c, NULL), 0);
	gemm = &seen->events[0].op.gemm;
	assert_int_equal(gemm->m, 6);
	assert_int_equal(gemm->n, 5);
	assert_int_equal(gemm->k, 8);
	assert_int_equal(gemm->a, (uintptr_t)a);
	assert_int_equal(gemm->transa, CUBLAS_OP_T);
	assert_int_equal(gemm->transb, CUBLAS_OP_N);
	assert_int_equal(gemm->lda, 9);
	assert_true(gemm->plain);
	assert_null(gemm->besides);
	seen->answer = FLOW_PASS;
}

/* The log shall say which of all the things that Lt can do was too much. */
static void lt_says_what_is_more_than_a_product(void **state)
{
	const float zero = 0;
	cublasLtMatrixLayout_t l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	const struct op_gemm *gemm = &seen->events[0].op.gemm;
	cublasLtMatmulDesc_t relu = operation(), scaled = operation();
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU;
	void *scale = a + 1000;

	(void)state;
	assert_int_equal(SYMBOL(lt[1], cublasLtMatmulDescSetAttribute)(
				 relu, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)),
			 0);
	assert_int_equal(
		SYMBOL(lt[1], cublasLtMatmulDescSetAttribute)(
			scaled, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &scale, sizeof(scale)),
		0);
	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(relu, &zero, l, l, l, c, NULL), 0);
	assert_false(gemm->plain);
	assert_string_equal(gemm->besides, "epilogue_RELU");
	assert_int_equal(matmul(scaled, &zero, l, l, l, c, NULL), 0);
	assert_false(gemm->plain);
	assert_string_equal(gemm->besides, "scale_of_B");
	seen->answer = FLOW_PASS;
}

static void lt_side_effects_are_told(void **state)
{
	const float zero = 0, one = 1;
	cublasLtMatrixLayout_t l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	cublasLtMatmulDesc_t desc = operation();
	cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
	const struct op_gemm *gemm = &seen->events[0].op.gemm;
	void *bias = a + 1000;
	int fills = 0;

	(void)state;
	assert_int_equal(SYMBOL(lt[1], cublasLtMatmulDescSetAttribute)(
				 desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)),
			 0);
	assert_int_equal(SYMBOL(lt[1], cublasLtMatmulDescSetAttribute)(
				 desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
			 0);
	assert_int_equal(matmul(desc, &zero, l, l, l, c, a + 2000), 0);
	assert_int_equal(gemm->extra, (uintptr_t)bias);
	assert_int_equal(gemm->extra_bytes, 8 * sizeof(float));
	assert_false(gemm->plain);
	for (unsigned i = 0; i < seen->count; i++)
		if (seen->events[i].op.kind == OP_FILL && seen->events[i].when == PROBE_BEFORE) {
			fills++;
			assert_int_equal(seen->events[i].op.fill.target.base,
					 (uintptr_t)(a + 2000));
			assert_int_equal(seen->events[i].op.fill.target.bytes, 256);
		}
	assert_int_equal(fills, 1);

	/* C read from one place, D written to another. */
	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(operation(), &one, l, l, l, b, NULL), 0);
	assert_int_equal(gemm->c, (uintptr_t)b);
	assert_int_equal(gemm->d, (uintptr_t)c);
	assert_true(gemm->beta == 1);
	seen->answer = FLOW_PASS;
}

int main(int argc, char **argv)
{
	/* Needs a process without libcublas. */
	const struct CMUnitTest alone[] = {
		cmocka_unit_test_setup(a_stub_is_reached_once_and_does_not_recurse, begin),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(dlsym_hands_out_hooks, begin),
		cmocka_unit_test_setup(each_version_gets_its_own_calls, begin),
		cmocka_unit_test_setup(linked_users_of_two_versions_coexist, begin),
		cmocka_unit_test_setup(a_product_is_told_as_it_was_said, begin),
		cmocka_unit_test_setup(scalars_are_read_in_their_own_type, begin),
		cmocka_unit_test_setup(the_handles_state_is_asked, begin),
		cmocka_unit_test_setup(a_taken_product_does_not_reach_cublas, begin),
		cmocka_unit_test_setup(nonsense_is_left_to_cublas, begin),
		cmocka_unit_test_setup(a_vector_product_is_a_product_of_one_row, begin),
		cmocka_unit_test_setup(arrays_of_pointers_are_named_as_such, begin),
		cmocka_unit_test_setup(groups_are_opaque, begin),
		cmocka_unit_test_setup(lt_is_asked_for_what_it_hides, begin),
		cmocka_unit_test_setup(lt_takes_a_cublas_handle, begin),
		cmocka_unit_test_setup(lt_row_major_is_turned_round, begin),
		cmocka_unit_test_setup(lt_one_factor_in_rows_is_a_plain_product, begin),
		cmocka_unit_test_setup(lt_says_what_is_more_than_a_product, begin),
		cmocka_unit_test_setup(lt_side_effects_are_told, begin),
	};
	void *driver;
	CUcontext context;

	(void)argc;
	start_under(argv, PROBE, "../../simgpu");
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	seen = dlsym(RTLD_DEFAULT, "probe");
	if (!driver || !seen || SYMBOL(driver, cuInit)(0) ||
	    SYMBOL(driver, cuDevicePrimaryCtxRetain)(&context, 0) ||
	    SYMBOL(driver, cuCtxSetCurrent)(context) ||
	    SYMBOL(driver, cuMemAlloc_v2)((CUdeviceptr *)&a, 64 * 64 * sizeof(float)) ||
	    SYMBOL(driver, cuMemAlloc_v2)((CUdeviceptr *)&b, 64 * 64 * sizeof(float)) ||
	    SYMBOL(driver, cuMemAlloc_v2)((CUdeviceptr *)&c, 64 * 64 * sizeof(float)))
		return 1;
	if (cmocka_run_group_tests(alone, NULL, NULL))
		return 1;
	for (int i = 0; i < 2; i++) {
		blas[i] = dlopen(i ? "libcublas.so.13" : "libcublas.so.12", RTLD_NOW | RTLD_LOCAL);
		lt[i] = dlopen(i ? "libcublasLt.so.13" : "libcublasLt.so.12",
			       RTLD_NOW | RTLD_LOCAL);
		if (!blas[i] || !lt[i])
			return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
