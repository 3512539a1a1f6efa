/* SPDX-License-Identifier: Apache-2.0
 *
 * cublasLt, whose calls say little and whose descriptors say the rest: what the hooks make of
 * orders, epilogues, scales and workspaces.
 */
#include "blas_fixture.h"

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

/* C[6,5] = A[6,8] B[8,5] with A in rows, B and C in this order. */
static const struct op_gemm *product_in_rows(cublasLtOrder_t order)
{
	const float zero = 0;
	cublasLtMatrixLayout_t la = layout(CUDA_R_32F, CUBLASLT_ORDER_ROW, 6, 8, 9);
	cublasLtMatrixLayout_t lb = layout(CUDA_R_32F, order, 8, 5, 10);
	cublasLtMatrixLayout_t lc = layout(CUDA_R_32F, order, 6, 5, 11);

	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(operation(), &zero, la, lb, lc, c, NULL), 0);
	seen->answer = FLOW_PASS;
	assert_int_equal(seen->events[0].op.kind, OP_GEMM);
	assert_int_equal(seen->events[0].op.gemm.k, 8);
	assert_true(seen->events[0].op.gemm.plain);
	return &seen->events[0].op.gemm;
}

static void lt_row_major_is_turned_round(void **state)
{
	const struct op_gemm *gemm = product_in_rows(CUBLASLT_ORDER_ROW);

	/* C^T[5,6] = B^T[5,8] A^T[8,6]; row-major X is column-major X^T. */
	assert_int_equal(gemm->m, 5);
	assert_int_equal(gemm->n, 6);
	assert_int_equal(gemm->a, (uintptr_t)b);
	assert_int_equal(gemm->b, (uintptr_t)a);
	assert_int_equal(gemm->transa, CUBLAS_OP_N);
	assert_int_equal(gemm->transb, CUBLAS_OP_N);
	assert_int_equal(gemm->lda, 10);
	assert_int_equal(gemm->ldb, 9);
	assert_int_equal(gemm->ldc, 11);
}

/* As XLA says it: P lies in rows, V and O in columns. */
static void lt_one_factor_in_rows_is_a_plain_product(void **state)
{
	const struct op_gemm *gemm = product_in_rows(CUBLASLT_ORDER_COL);

	assert_int_equal(gemm->m, 6);
	assert_int_equal(gemm->n, 5);
	assert_int_equal(gemm->a, (uintptr_t)a);
	assert_int_equal(gemm->transa, CUBLAS_OP_T);
	assert_int_equal(gemm->transb, CUBLAS_OP_N);
	assert_int_equal(gemm->lda, 9);
	assert_null(gemm->besides);
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

static void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
		const void *value, size_t size)
{
	assert_int_equal(
		SYMBOL(lt[1], cublasLtMatmulDescSetAttribute)(desc, attribute, value, size), 0);
}

static bool touches(const void *address, uint64_t bytes, bool read, bool written)
{
	const struct op_gemm *gemm = &seen->events[0].op.gemm;

	for (int i = 0; i < gemm->beside_count; i++) {
		const struct op_operand *o = &gemm->beside[i];

		if (o->begin == (uintptr_t)address && o->end == o->begin + bytes)
			return o->read == read && o->written == written && !o->whole;
	}
	return false;
}

/* None of it is surely overwritten: the gradient of a bias may be shorter than the longer side. */
static void lt_touches_what_pointers_lead_to(void **state)
{
	const float zero = 0;
	cublasLtMatrixLayout_t l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	cublasLtMatmulDesc_t scaled = operation(), gradient = operation();
	const uint32_t epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD;
	void *at[] = {a + 1000, a + 1100, a + 1200};
	const int64_t stride = 32;

	seen->answer = FLOW_TAKEN;
	set(scaled, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &at[0], sizeof(at[0]));
	set(scaled, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, &at[1], sizeof(at[1]));
	assert_int_equal(matmul(scaled, &zero, l, l, l, c, NULL), 0);
	assert_int_equal(seen->events[0].op.gemm.beside_count, 2);
	assert_true(touches(at[0], 4, true, false));
	assert_true(touches(at[1], 4, true, false));

	set(gradient, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
	set(gradient, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at[0], sizeof(at[0]));
	set(gradient, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at[1], sizeof(at[1]));
	set(gradient, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &stride, sizeof(stride));
	assert_int_equal(matmul(gradient, &zero, l, l, l, c, NULL), 0);
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].op.gemm.beside_count, 1);
	assert_true(touches(at[0], 8 * sizeof(float), false, true));
	assert_int_equal(seen->events[0].op.gemm.extra, (uintptr_t)at[1]);
	seen->answer = FLOW_PASS;
}

static void lt_factors_may_lie_on_the_device(void **state)
{
	cublasLtMatrixLayout_t l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	const int32_t mode = CUBLASLT_POINTER_MODE_DEVICE;
	cublasLtMatmulDesc_t desc = operation();

	set(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof(mode));
	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(desc, (const float *)16, l, l, l, c, NULL), 0);
	assert_true(seen->events[0].op.gemm.scalars_on_device);
	assert_int_equal(seen->events[0].op.gemm.beta_at, 16);
	assert_true(seen->events[0].op.gemm.alpha_at != 0);
	seen->answer = FLOW_PASS;
}

/* A product of which only a triangle is stored is no product, nor known. */
static void lt_half_a_product_may_be_anything(void **state)
{
	const float zero = 0;
	cublasLtMatrixLayout_t l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	const int32_t lower = CUBLAS_FILL_MODE_LOWER, conjugated = CUBLAS_OP_CONJG, two = 2;
	const cublasLtMatrixLayoutAttribute_t batch_mode = (cublasLtMatrixLayoutAttribute_t)8;
	cublasLtMatmulDesc_t desc = operation();

	set(desc, CUBLASLT_MATMUL_DESC_FILL_MODE, &lower, sizeof(lower));
	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(desc, &zero, l, l, l, c, NULL), 0);
	assert_int_equal(seen->events[0].op.kind, OP_OPAQUE);

	/* Nor is one of groups, or of conjugates. */
	desc = operation();
	set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &conjugated, sizeof(conjugated));
	assert_int_equal(matmul(desc, &zero, l, l, l, c, NULL), 0);
	assert_int_equal(seen->events[0].op.kind, OP_OPAQUE);
	SYMBOL(lt[1], cublasLtMatrixLayoutSetAttribute)
	(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &two, sizeof(two));
	SYMBOL(lt[1], cublasLtMatrixLayoutSetAttribute)(l, batch_mode, &two, sizeof(two));
	assert_int_equal(matmul(operation(), &zero, l, l, l, c, NULL), 0);
	assert_int_equal(seen->events[0].op.kind, OP_OPAQUE);

	/* Nor what is none, and refused. */
	l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	matmul(operation(), &zero, l, layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 7, 8, 8), l, c, NULL);
	assert_int_equal(seen->events[0].op.kind, OP_OPAQUE);
	seen->answer = FLOW_PASS;
}

/* What may be refused is not sure to write. */
static void lt_bias_may_be_missing(void **state)
{
	const cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS;
	cublasLtMatrixLayout_t l = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);
	cublasLtMatmulDesc_t desc = operation();
	const float zero = 0;

	seen->answer = FLOW_TAKEN;
	assert_int_equal(matmul(desc, &zero, l, l, l, c, NULL), 0);
	assert_false(seen->events[0].op.gemm.may_fail);
	set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof(bias));
	assert_int_equal(matmul(desc, &zero, l, l, l, c, NULL), 0);
	assert_true(seen->events[0].op.gemm.may_fail);
	seen->answer = FLOW_PASS;
}

static void lt_at_rest_passes_before_it_is_described(void **state)
{
	const float zero = 0;
	cublasLtMatrixLayout_t square = layout(CUDA_R_32F, CUBLASLT_ORDER_COL, 8, 8, 8);

	seen->watching = false;
	seen->rests = true;
	seen->asked = 0;
	assert_int_equal(matmul(operation(), &zero, square, square, square, b, NULL), 0);
	assert_int_equal(seen->asked, 1);
	assert_int_equal(seen->count, 0);
	assert_true(c[0] != -1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lt_is_asked_for_what_it_hides, begin),
		cmocka_unit_test_setup(lt_takes_a_cublas_handle, begin),
		cmocka_unit_test_setup(lt_row_major_is_turned_round, begin),
		cmocka_unit_test_setup(lt_one_factor_in_rows_is_a_plain_product, begin),
		cmocka_unit_test_setup(lt_says_what_is_more_than_a_product, begin),
		cmocka_unit_test_setup(lt_side_effects_are_told, begin),
		cmocka_unit_test_setup(lt_touches_what_pointers_lead_to, begin),
		cmocka_unit_test_setup(lt_factors_may_lie_on_the_device, begin),
		cmocka_unit_test_setup(lt_half_a_product_may_be_anything, begin),
		cmocka_unit_test_setup(lt_bias_may_be_missing, begin),
		cmocka_unit_test_setup(lt_at_rest_passes_before_it_is_described, begin),
	};

	(void)argc;
	if (!blas_start(argv) || !blas_load())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
