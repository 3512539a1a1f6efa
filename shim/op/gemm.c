/* SPDX-License-Identifier: Apache-2.0
 *
 * Column-major cuBLAS words to role-neutral strides. Leading dimensions of a dimension of size one
 * are not trusted: callers patch them.
 */
#include "shim/real/cublas_headers.h"
#include "shim/op/gemm.h"

#include <string.h>

int dtype_of_cuda(cudaDataType type)
{
	switch ((int)type) {
	case CUDA_R_16F:
		return ATTN_F16;
	case CUDA_R_16BF:
		return ATTN_BF16;
	case CUDA_R_32F:
		return ATTN_F32;
	default:
		return -1;
	}
}

int cuda_type_bytes(cudaDataType type)
{
	switch ((int)type) {
	case CUDA_R_8I:
	case CUDA_R_8U:
	case CUDA_R_8F_E4M3:
	case CUDA_R_8F_E5M2:
		return 1;
	case CUDA_R_16F:
	case CUDA_R_16BF:
	case CUDA_R_16I:
	case CUDA_R_16U:
	case CUDA_C_8I:
	case CUDA_C_8U:
		return 2;
	case CUDA_R_32F:
	case CUDA_R_32I:
	case CUDA_R_32U:
	case CUDA_C_16F:
	case CUDA_C_16BF:
		return 4;
	case CUDA_R_64F:
	case CUDA_C_32F:
	case CUDA_R_64I:
	case CUDA_R_64U:
		return 8;
	case CUDA_C_64F:
		return 16;
	default:
		return 0;
	}
}

int bytes_of_cuda(cudaDataType type)
{
	const int bytes = cuda_type_bytes(type);

	return bytes ? bytes : 1;
}

static struct matrix matrix_make(uint64_t base, cudaDataType type, int64_t rows, int64_t cols,
				 bool transposed, int64_t ld, int64_t stride, int64_t run,
				 int64_t inner)
{
	struct matrix matrix = {
		.base = base,
		.dtype = dtype_of_cuda(type),
		.element = bytes_of_cuda(type),
		.rows = rows,
		.cols = cols,
		.row_stride = transposed ? ld : 1,
		.col_stride = transposed ? 1 : ld,
		.batch_stride = stride,
		.run = run,
		.run_stride = inner,
	};

	return matrix;
}

void gemm_from_op(struct gemm *gemm, const struct op_gemm *op)
{
	gemm->batch = op->batch;
	gemm->a = matrix_make(op->a, op->atype, op->m, op->k, op->transa != 0, op->lda,
			      op->stride_a, op->run, op->inner_a);
	gemm->b = matrix_make(op->b, op->btype, op->k, op->n, op->transb != 0, op->ldb,
			      op->stride_b, op->run, op->inner_b);
	gemm->c = matrix_make(op->d ? op->d : op->c, op->ctype, op->m, op->n, false, op->ldc,
			      op->stride_c, op->run, op->inner_c);
}

void matrix_dimensions(const struct matrix *matrix, int64_t batch, int64_t size[MATRIX_DIMS],
		       int64_t stride[MATRIX_DIMS])
{
	const bool runs = matrix->run > 1;

	size[0] = matrix->rows;
	size[1] = matrix->cols;
	size[2] = runs ? batch / matrix->run : batch;
	size[3] = runs ? matrix->run : 1;
	stride[0] = matrix->row_stride;
	stride[1] = matrix->col_stride;
	stride[2] = matrix->batch_stride;
	stride[3] = matrix->run_stride;
}

/* Elements from the first to the last of a matrix whose batch lies evenly, goes forwards and
 * surely not beyond what 64 bits hold, as nearly all; -1: of another. */
static int64_t usual_reach(const struct matrix *matrix, int64_t batch)
{
	const int64_t rows = matrix->rows - 1, cols = matrix->cols - 1, more = batch - 1;
	const int64_t strides = matrix->row_stride | matrix->col_stride | matrix->batch_stride;

	if (matrix->run > 1 || (uint64_t)(rows | cols | more) >> 20 || (uint64_t)strides >> 36)
		return -1;
	return rows * matrix->row_stride + cols * matrix->col_stride + more * matrix->batch_stride;
}

void matrix_extent(const struct matrix *matrix, int64_t batch, uint64_t *begin, uint64_t *end)
{
	int64_t low = 0, high = 0, size[MATRIX_DIMS], stride[MATRIX_DIMS];
	int64_t reach = usual_reach(matrix, batch);
	bool beyond = false;

	*begin = *end = matrix->base;
	if (reach >= 0) {
		*end += (uint64_t)((reach + 1) * matrix->element);
		return;
	}
	matrix_dimensions(matrix, batch, size, stride);
	for (int i = 0; i < MATRIX_DIMS; i++) {
		if (size[i] <= 0)
			return;
		beyond |= __builtin_mul_overflow(size[i] - 1, stride[i], &reach);
		if (stride[i] < 0)
			beyond |= __builtin_add_overflow(low, reach, &low);
		else
			beyond |= __builtin_add_overflow(high, reach, &high);
	}
	beyond |= __builtin_add_overflow(high, 1, &high);
	beyond |= __builtin_mul_overflow(low, (int64_t)matrix->element, &low);
	beyond |= __builtin_mul_overflow(high, (int64_t)matrix->element, &high);
	/* Nonsense that the library will refuse; until then it may touch all there is. */
	*begin = beyond ? 0 : matrix->base + (uint64_t)low;
	*end = beyond ? UINT64_MAX : matrix->base + (uint64_t)high;
}

bool matrix_even(const struct matrix *matrix, int64_t batch, int64_t *stride)
{
	*stride = batch == 1 ? 0 : matrix->run > 1 ? matrix->run_stride : matrix->batch_stride;
	return matrix->run <= 1 || matrix->run >= batch ||
	       matrix->batch_stride == matrix->run_stride * matrix->run;
}

/* As most lie: each dimension begins where the one before it ends. */
static bool in_a_row(const int64_t size[MATRIX_DIMS], const int64_t stride[MATRIX_DIMS])
{
	int64_t expected = 1;

	for (int i = 0; i < MATRIX_DIMS; i++) {
		if (size[i] <= 1)
			continue;
		if (stride[i] != expected || __builtin_mul_overflow(expected, size[i], &expected))
			return false;
	}
	return true;
}

bool matrix_dense(const struct matrix *matrix, int64_t batch)
{
	int64_t size[MATRIX_DIMS], stride[MATRIX_DIMS], expected = 1;

	matrix_dimensions(matrix, batch, size, stride);
	if (in_a_row(size, stride))
		return true;
	/* Take the dimensions in order of stride; each must begin where the smaller ones end. */
	for (int taken = 0; taken < MATRIX_DIMS; taken++) {
		int next = -1;

		for (int i = 0; i < MATRIX_DIMS; i++)
			if (size[i] > 1 && (next < 0 || stride[i] < stride[next]))
				next = i;
		if (next < 0)
			return true;
		if (stride[next] != expected)
			return false;
		if (__builtin_mul_overflow(expected, size[next], &expected))
			return false;
		size[next] = 1;
	}
	return true;
}

/* A mode without the flags above it. */
#define MATH_MODE(mode) ((mode)&0xf)

/* Modes in which products of fp32 operands may see eleven bits of them, as TF32 and fp16 have. The
 * older one is what programs set that were written for the first tensor cores. */
static bool mode_takes_less(int mode)
{
	return MATH_MODE(mode) == CUBLAS_TF32_TENSOR_OP_MATH ||
	       MATH_MODE(mode) == 1; /* CUBLAS_TENSOR_OP_MATH, deprecated */
}

enum fp32_product gemm_fp32_product(const struct op_gemm *op)
{
	if (MATH_MODE(op->math_mode) == CUBLAS_PEDANTIC_MATH)
		return FP32_NO_OTHER;
	switch (op->compute_type) {
	case CUBLAS_COMPUTE_32F_FAST_TF32:
		return FP32_MAY_TF32;
	case CUBLAS_COMPUTE_32F:
		return mode_takes_less(op->math_mode) ? FP32_MAY_TF32 : FP32_AS_IS;
	case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
		return FP32_AS_IS;
	default:
		return FP32_NO_OTHER;
	}
}

bool gemm_sums_wide(const struct op_gemm *op)
{
	switch (op->compute_type) {
	case CUBLAS_COMPUTE_32F:
	case CUBLAS_COMPUTE_32F_PEDANTIC:
	case CUBLAS_COMPUTE_32F_FAST_16F:
	case CUBLAS_COMPUTE_32F_FAST_16BF:
	case CUBLAS_COMPUTE_32F_FAST_TF32:
		return true;
	default:
		return false;
	}
}
