/* SPDX-License-Identifier: Apache-2.0
 *
 * A GEMM without its spelling: three matrices with element strides, whatever transpose flags and
 * entry point said it. C[z,i,j] = alpha * sum_l A[z,i,l] B[z,l,j] + beta * C[z,i,j].
 *
 * Matching on transpose flags would miss K stored transposed and take dP = dO V^T for QK^T; strides
 * and dataflow decide instead.
 */
#ifndef FASHIM_GEMM_H
#define FASHIM_GEMM_H

#include "kernels/attention.h"
#include "shim/op/op.h"

struct matrix {
	uint64_t base;
	int dtype;   /* enum attn_dtype, -1: another */
	int element; /* bytes */
	int64_t rows, cols;
	int64_t row_stride, col_stride, batch_stride; /* elements */
	int64_t run, run_stride; /* run > 1: entries come in runs of as many, run_stride apart;
				    batch_stride then leads from one run to the next */
};

struct gemm {
	struct matrix a; /* [batch][m][k] */
	struct matrix b; /* [batch][k][n] */
	struct matrix c; /* [batch][m][n] */
	int64_t batch;
};

/* Entries of one of the program's products. */
static inline int64_t gemm_part(const struct op_gemm *op)
{
	return op->parts > 1 ? op->batch / op->parts : op->batch;
}

void gemm_from_op(struct gemm *gemm, const struct op_gemm *op);

/* All dimensions of a matrix, batch entries in runs being two: sizes and strides in elements. */
#define MATRIX_DIMS 4
void matrix_dimensions(const struct matrix *matrix, int64_t batch, int64_t size[MATRIX_DIMS],
		       int64_t stride[MATRIX_DIMS]);

/* Smallest byte range that holds every element: [*begin, *end). */
void matrix_extent(const struct matrix *matrix, int64_t batch, uint64_t *begin, uint64_t *end);

/* Are all entries one distance apart? *stride: elements; 0 for a single entry. */
bool matrix_even(const struct matrix *matrix, int64_t batch, int64_t *stride);

/* Do the elements fill their extent without a hole? */
bool matrix_dense(const struct matrix *matrix, int64_t batch);

/* enum attn_dtype of a cudaDataType, or -1; bytes of an element, 0: not byte-sized or unknown, or
 * taken for at most a byte. */
int dtype_of_cuda(cudaDataType type);
int cuda_type_bytes(cudaDataType type);
int bytes_of_cuda(cudaDataType type);

/* What a product of fp32 operands was asked for, by compute type or by the handle's math mode. */
enum fp32_product {
	FP32_AS_IS,    /* fp32 arithmetic, or what is as exact */
	FP32_MAY_TF32, /* operands may be rounded to TF32 first */
	FP32_NO_OTHER  /* 16-bit parts are allowed, or one prescribed arithmetic is demanded */
};
enum fp32_product gemm_fp32_product(const struct op_gemm *op);

/* Does a product of 16-bit numbers sum in fp32, whatever it stores? */
bool gemm_sums_wide(const struct op_gemm *op);

#endif
