/* SPDX-License-Identifier: Apache-2.0
 *
 * Column-major words to strides: for every transpose form each element's address is that of
 * cuBLAS's own definition; extents and density of contiguous, padded, interleaved and broadcast
 * matrices.
 */
#include "tests/cmocka.h"

#include <string.h>

#include "shim/op/gemm.h"

enum { M = 5, N = 7, K = 3, LDA = 11, LDB = 13, LDC = 17, BATCH = 4 };

static struct op_gemm make(int transa, int transb)
{
	return (struct op_gemm){
		.transa = transa,
		.transb = transb,
		.m = M,
		.n = N,
		.k = K,
		.a = 0x100000,
		.b = 0x200000,
		.c = 0x300000,
		.atype = CUDA_R_16F,
		.btype = CUDA_R_16F,
		.ctype = CUDA_R_32F,
		.lda = LDA,
		.ldb = LDB,
		.ldc = LDC,
		.stride_a = 1000,
		.stride_b = 2000,
		.stride_c = 3000,
		.batch = BATCH,
		.alpha = 1,
	};
}

static uint64_t address(const struct matrix *matrix, int64_t z, int64_t i, int64_t j)
{
	return matrix->base + (uint64_t)((z * matrix->batch_stride + i * matrix->row_stride +
					  j * matrix->col_stride) *
					 matrix->element);
}

/* Element (i,j) of a column-major matrix or of its transpose, as cuBLAS documents it. */
static uint64_t documented(uint64_t base, int trans, int64_t i, int64_t j, int64_t ld,
			   int64_t stride, int64_t z, int64_t element)
{
	const int64_t row = trans ? j : i, column = trans ? i : j;

	return base + (uint64_t)((z * stride + column * ld + row) * element);
}

static void test_forms(void **state)
{
	for (int transa = 0; transa < 3; transa++)
		for (int transb = 0; transb < 3; transb++) {
			struct op_gemm op = make(transa, transb);
			struct gemm gemm;

			gemm_from_op(&gemm, &op);
			assert_int_equal(gemm.batch, BATCH);
			assert_int_equal(gemm.a.rows, M);
			assert_int_equal(gemm.a.cols, K);
			assert_int_equal(gemm.b.rows, K);
			assert_int_equal(gemm.b.cols, N);
			assert_int_equal(gemm.c.rows, M);
			assert_int_equal(gemm.c.cols, N);
			for (int64_t z = 0; z < BATCH; z++)
				for (int64_t l = 0; l < K; l++) {
					for (int64_t i = 0; i < M; i++)
						assert_int_equal(address(&gemm.a, z, i, l),
								 documented(op.a, transa, i, l, LDA,
									    1000, z, 2));
					for (int64_t j = 0; j < N; j++)
						assert_int_equal(address(&gemm.b, z, l, j),
								 documented(op.b, transb, l, j, LDB,
									    2000, z, 2));
				}
			for (int64_t i = 0; i < M; i++)
				for (int64_t j = 0; j < N; j++)
					assert_int_equal(
						address(&gemm.c, 2, i, j),
						documented(op.c, 0, i, j, LDC, 3000, 2, 4));
		}
}

/* The extent is exactly the smallest range that holds every element. */
static void test_extent(void **state)
{
	for (int form = 0; form < 4; form++) {
		struct op_gemm op = make(form & 1, form >> 1);
		uint64_t begin, end, low = UINT64_MAX, high = 0;
		struct gemm gemm;

		gemm_from_op(&gemm, &op);
		matrix_extent(&gemm.a, gemm.batch, &begin, &end);
		for (int64_t z = 0; z < BATCH; z++)
			for (int64_t i = 0; i < M; i++)
				for (int64_t l = 0; l < K; l++) {
					uint64_t at = address(&gemm.a, z, i, l);

					low = at < low ? at : low;
					high = at + 2 > high ? at + 2 : high;
				}
		assert_int_equal(begin, low);
		assert_int_equal(end, high);
	}
}

static void test_extent_odd(void **state)
{
	struct matrix matrix = {.base = 1000,
				.element = 2,
				.rows = 4,
				.cols = 8,
				.row_stride = 8,
				.col_stride = 1,
				.batch_stride = -32};
	uint64_t begin, end;

	matrix_extent(&matrix, 3, &begin, &end); /* batches go down */
	assert_int_equal(begin, 1000 - 2 * 64);
	assert_int_equal(end, 1000 + 64);
	matrix.batch_stride = 0; /* one matrix for all */
	matrix_extent(&matrix, 3, &begin, &end);
	assert_int_equal(begin, 1000);
	assert_int_equal(end, 1064);
	matrix.rows = 0; /* nothing at all */
	matrix_extent(&matrix, 3, &begin, &end);
	assert_int_equal(begin, end);
}

static void test_dense(void **state)
{
	static const struct {
		int64_t rows, cols, row_stride, col_stride, batch_stride, batch;
		bool dense;
	} rows[] = {
		{4, 8, 8, 1, 32, 3, true},  /* [z][i][j] */
		{4, 8, 1, 4, 32, 3, true},  /* [z][j][i] */
		{4, 8, 24, 1, 8, 3, true},  /* [i][z][j]: heads beside one another */
		{4, 8, 9, 1, 36, 3, false}, /* padded rows */
		{4, 8, 8, 1, 33, 3, false}, /* a gap between batches */
		{4, 8, 8, 1, 0, 3, false},  /* all batches the same */
		{4, 8, 8, 1, 0, 1, true},   /* one batch: its stride does not matter */
		{1, 8, 999, 1, 8, 3, true}, /* one row: nor does its stride */
		{4, 1, 1, 999, 4, 3, true}, /* one column */
		{4, 8, 8, 2, 64, 3, false}, /* every other element */
		{4, 8, 4, 1, 32, 3, false}, /* rows that overlap */
		{1, 1, 5, 5, 1, 6, true},   {1, 1, 5, 5, 2, 6, false},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct matrix matrix = {.rows = rows[i].rows,
					      .cols = rows[i].cols,
					      .row_stride = rows[i].row_stride,
					      .col_stride = rows[i].col_stride,
					      .batch_stride = rows[i].batch_stride,
					      .element = 2};

		if (matrix_dense(&matrix, rows[i].batch) != rows[i].dense)
			fail_msg("row %u", i);
	}
}

/* Entries in runs: heads that share a matrix, or lie beside one another. */
static void test_runs(void **state)
{
	struct matrix matrix = {.base = 1000,
				.element = 2,
				.rows = 4,
				.cols = 8,
				.row_stride = 8,
				.col_stride = 1,
				.batch_stride = 32,
				.run = 3,
				.run_stride = 0};
	uint64_t begin, end;
	int64_t stride;

	matrix_extent(&matrix, 6, &begin, &end); /* two matrices, each three times */
	assert_int_equal(begin, 1000);
	assert_int_equal(end, 1000 + 2 * 64);
	assert_false(matrix_even(&matrix, 6, &stride));
	assert_false(matrix_dense(&matrix, 6));
	assert_true(matrix_even(&matrix, 3, &stride)); /* a single run */
	assert_int_equal(stride, 0);
	matrix.run_stride = 32;
	matrix.batch_stride = 96;
	assert_true(matrix_even(&matrix, 6, &stride));
	assert_int_equal(stride, 32);
	assert_true(matrix_dense(&matrix, 6));
	matrix.batch_stride = 100; /* a gap between runs */
	matrix_extent(&matrix, 6, &begin, &end);
	assert_int_equal(end, 1000 + 64 + 2 * (64 + 100));
	assert_false(matrix_even(&matrix, 6, &stride));
	assert_false(matrix_dense(&matrix, 6));
	matrix.run = 0; /* no runs */
	assert_true(matrix_even(&matrix, 6, &stride));
	assert_int_equal(stride, 100);
}

/* Lt writes D where it has one of its own; C then is only read. */
static void test_output_of_lt(void **state)
{
	struct op_gemm op = make(0, 0);
	struct gemm gemm;

	op.d = 0x400000;
	gemm_from_op(&gemm, &op);
	assert_int_equal(gemm.c.base, 0x400000);
}

static void test_types(void **state)
{
	assert_int_equal(dtype_of_cuda(CUDA_R_16F), ATTN_F16);
	assert_int_equal(dtype_of_cuda(CUDA_R_16BF), ATTN_BF16);
	assert_int_equal(dtype_of_cuda(CUDA_R_32F), ATTN_F32);
	assert_int_equal(dtype_of_cuda(CUDA_R_64F), -1);
	assert_int_equal(dtype_of_cuda(CUDA_C_16F), -1);
	assert_int_equal(dtype_of_cuda(CUDA_R_8I), -1);
	assert_int_equal(bytes_of_cuda(CUDA_R_16BF), 2);
	assert_int_equal(bytes_of_cuda(CUDA_R_32F), 4);
	assert_int_equal(bytes_of_cuda(CUDA_R_64F), 8);
	assert_int_equal(bytes_of_cuda(CUDA_C_64F), 16);
	assert_int_equal(bytes_of_cuda(CUDA_R_8F_E4M3), 1);
}

/* Strides that lead out of the address space: all of it, and no dense one. */
static void test_extent_beyond(void **state)
{
	static const struct matrix beyond[] = {
		{.base = 4096,
		 .element = 2,
		 .rows = 2,
		 .cols = 3,
		 .row_stride = 1,
		 .col_stride = INT64_MAX},
		{.base = 4096,
		 .element = 2,
		 .rows = 3,
		 .cols = 2,
		 .row_stride = INT64_MAX - 1,
		 .col_stride = INT64_MAX - 1},
		{.base = 4096,
		 .element = 8,
		 .rows = 2,
		 .cols = 2,
		 .row_stride = 1,
		 .col_stride = INT64_MAX / 4},
		{.base = 4096,
		 .element = 2,
		 .rows = 3,
		 .cols = 2,
		 .row_stride = INT64_MIN,
		 .col_stride = 1},
		{.base = 4096,
		 .element = 2,
		 .rows = 1,
		 .cols = 1,
		 .row_stride = 1,
		 .col_stride = 1,
		 .batch_stride = INT64_MAX / 2},
		{.base = 4096,
		 .element = 2,
		 .rows = INT64_C(1) << 40,
		 .cols = INT64_C(1) << 40,
		 .row_stride = 1,
		 .col_stride = INT64_C(1) << 40},
	};
	uint64_t begin, end;

	for (size_t i = 0; i < sizeof(beyond) / sizeof(*beyond); i++) {
		matrix_extent(&beyond[i], 4, &begin, &end);
		assert_int_equal(begin, 0);
		assert_int_equal(end, UINT64_MAX);
		assert_false(matrix_dense(&beyond[i], 4));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),	   cmocka_unit_test(test_extent),
		cmocka_unit_test(test_extent_odd), cmocka_unit_test(test_dense),
		cmocka_unit_test(test_runs),	   cmocka_unit_test(test_output_of_lt),
		cmocka_unit_test(test_types),	   cmocka_unit_test(test_extent_beyond),
	};

	return cmocka_run_group_tests_name("gemm", tests, NULL, NULL);
}
