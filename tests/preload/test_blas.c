/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLAS through every door: linked, dlsym, dlvsym, a program's own stubs, two versions in one
 * process; and what the hooks say about a product.
 */
#include "blas_fixture.h"

#include <errno.h>
#include <string.h>

typedef cublasStatus_t create_call(cublasHandle_t *handle);
typedef cublasStatus_t gemm_call(cublasHandle_t handle, int n, const float *a, const float *b,
				 float *c);

static void dlsym_hands_out_hooks(void **state)
{
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
	assert_int_equal(seen->events[0].op.gemm.alpha_at, 8);
	assert_int_equal(seen->events[0].op.gemm.beta_at, 16);
}

static void a_taken_product_does_not_reach_cublas(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;

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

/* Nothing is asked of the handle, and nothing told. */
static void at_rest_a_product_passes_before_it_is_described(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;

	seen->count = seen->asked = 0;
	seen->watching = false;
	seen->rests = true;
	assert_int_equal(SYMBOL(blas[1], cublasSgemm_v2)(handle, 0, 0, 8, 8, 8, &one, a, 8, b, 8,
							 &zero, c, 8),
			 0);
	assert_int_equal(seen->asked, 1);
	assert_int_equal(seen->count, 0);
	assert_true(c[0] != -1);
}

static void nonsense_is_left_to_cublas(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;
	__typeof__(&cublasSgemm_v2) gemm = SYMBOL(blas[1], cublasSgemm_v2);

	assert_int_equal(gemm(handle, 0, 0, -8, 8, 8, &one, a, 8, b, 8, &zero, c, 8),
			 CUBLAS_STATUS_INVALID_VALUE);
	assert_int_equal(seen->count, 0);
	for (int i = 0; i < 3; i++) {
		seen->count = 0;
		seen->answer = FLOW_PASS;
		assert_int_equal(gemm(handle, 0, CUBLAS_OP_T, 8, 6, 7, &one, a, i == 0 ? 7 : 8, b,
				      i == 1 ? 5 : 6, &zero, c, i == 2 ? 7 : 8),
				 CUBLAS_STATUS_INVALID_VALUE);
		assert_int_equal(seen->count, 1);
		assert_int_equal(seen->events[0].op.kind, OP_OPAQUE);
	}
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

static void a_triangle_solved_is_a_product_in_place(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1;
	float **arrays = (float **)c;
	const struct op_gemm *gemm = &seen->events[0].op.gemm;

	seen->answer = FLOW_TAKEN;
	assert_int_equal(SYMBOL(blas[1], cublasStrsmBatched)(
				 handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
				 CUBLAS_DIAG_UNIT, 4, 6, &one, (const float **)arrays, 5,
				 arrays + 8, 7, 8),
			 0);
	assert_int_equal(seen->events[0].op.kind, OP_GEMM);
	assert_true(gemm->by_array);
	assert_int_equal(gemm->batch, 8);
	assert_int_equal(gemm->m, 4);
	assert_int_equal(gemm->n, 6);
	assert_int_equal(gemm->k, 4);
	assert_int_equal(gemm->a, (uintptr_t)arrays);
	assert_int_equal(gemm->lda, 5);
	assert_int_equal(gemm->b, (uintptr_t)(arrays + 8));
	assert_int_equal(gemm->ldb, 7);
	assert_int_equal(gemm->c, (uintptr_t)(arrays + 8));
	assert_int_equal(gemm->ldc, 7);
	assert_true(gemm->beta == 0);
	assert_false(gemm->plain);
	seen->count = 0;
	assert_int_equal(SYMBOL(blas[1], cublasStrsm_v2)(
				 handle, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T,
				 CUBLAS_DIAG_NON_UNIT, 4, 6, &one, a, 9, b, 7),
			 0);
	assert_false(gemm->by_array);
	assert_int_equal(gemm->k, 6);
	assert_int_equal(gemm->a, (uintptr_t)b);
	assert_int_equal(gemm->lda, 7);
	assert_int_equal(gemm->b, (uintptr_t)a);
	assert_int_equal(gemm->ldb, 9);
	assert_int_equal(gemm->c, (uintptr_t)b);
}

static void arrays_of_pointers_are_named_as_such(void **state)
{
	cublasHandle_t handle = new_handle(1);
	const float one = 1, zero = 0;
	const float **arrays = (const float **)c;
	const struct op_gemm *gemm = &seen->events[0].op.gemm;

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

	seen->answer = FLOW_TAKEN;
	assert_int_equal(SYMBOL(blas[1], cublasSgemmGroupedBatched)(
				 handle, none, none, four, four, four, one, arrays, four, arrays,
				 four, one, (float **)arrays, four, 1, two),
			 0);
	assert_int_equal(seen->count, 1);
	assert_int_equal(seen->events[0].op.kind, OP_OPAQUE);
	assert_string_equal(seen->events[0].name, "cublasSgemmGroupedBatched");
}

static const struct op_gemm *multiply_in(cublasHandle_t handle)
{
	const float one = 1, zero = 0;

	seen->count = 0;
	assert_int_equal(SYMBOL(blas[1], cublasSgemm_v2)(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8,
							 &one, a, 8, b, 8, &zero, c, 8),
			 0);
	return the_gemm();
}

static void set_workspace(cublasHandle_t handle)
{
	assert_int_equal(SYMBOL(blas[1], cublasSetWorkspace_v2)(handle, b, 512), 0);
}

/* What a handle works in lasts until it is told otherwise, is given another stream, or ends: one
 * that comes by the same name knows nothing of it. */
static void a_workspace_ends_with_its_handle(void **state)
{
	cublasHandle_t old = new_handle(1), new;

	assert_int_equal(multiply_in(old)->workspace_bytes, 0);
	set_workspace(old);
	assert_int_equal(multiply_in(old)->workspace, (uintptr_t)b);
	assert_int_equal(multiply_in(old)->workspace_bytes, 512);
	assert_int_equal(SYMBOL(blas[1], cublasSetStream_v2)(old, NULL), 0);
	assert_int_equal(multiply_in(old)->workspace_bytes, 0);
	set_workspace(old);
	assert_int_equal(multiply_in(old)->workspace_bytes, 512);
	assert_int_equal(SYMBOL(blas[1], cublasDestroy_v2)(old), 0);

	new = new_handle(1);
	assert_ptr_equal(new, old);
	assert_int_equal(multiply_in(new)->workspace_bytes, 0);
	assert_int_equal(SYMBOL(blas[1], cublasDestroy_v2)(new), 0);
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
		cmocka_unit_test_setup(at_rest_a_product_passes_before_it_is_described, begin),
		cmocka_unit_test_setup(nonsense_is_left_to_cublas, begin),
		cmocka_unit_test_setup(a_vector_product_is_a_product_of_one_row, begin),
		cmocka_unit_test_setup(a_triangle_solved_is_a_product_in_place, begin),
		cmocka_unit_test_setup(arrays_of_pointers_are_named_as_such, begin),
		cmocka_unit_test_setup(groups_are_opaque, begin),
		cmocka_unit_test_setup(a_workspace_ends_with_its_handle, begin),
	};

	(void)argc;
	if (!blas_start(argv) || cmocka_run_group_tests(alone, NULL, NULL) || !blas_load())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
