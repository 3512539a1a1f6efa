/* SPDX-License-Identifier: Apache-2.0
 *
 * cuSPARSE's products of a sparse matrix (CSR, COO) with a dense one or a vector. Descriptors
 * are asked of the library's getters; batches and other formats are not understood.
 */
#include "shim/hook/hook_library.h"

#include <string.h>

struct sparse_call {
	struct library_call *call;
	const struct library *library;
};

static uint64_t index_bytes(cusparseIndexType_t type)
{
	switch ((int)type) {
	case SPARSE_INDEX_16:
		return 2;
	case SPARSE_INDEX_32:
		return 4;
	case SPARSE_INDEX_64:
		return 8;
	default:
		return 0;
	}
}

static void unknown(const struct sparse_call *told)
{
	told->call->operands.unknown = true;
}

static void add_sparse(const struct sparse_call *told, cusparseConstSpMatDescr_t desc)
{
	__typeof__(&cusparseSpMatGetFormat) get_format =
		LIBRARY_ASK(told->library, cusparseSpMatGetFormat);
	__typeof__(&cusparseSpMatGetStridedBatch) get_batch =
		LIBRARY_ASK(told->library, cusparseSpMatGetStridedBatch);
	__typeof__(&cusparseCsrGet) get_csr = LIBRARY_ASK(told->library, cusparseCsrGet);
	__typeof__(&cusparseCooGet) get_coo = LIBRARY_ASK(told->library, cusparseCooGet);
	cusparseSpMatDescr_t matrix = (cusparseSpMatDescr_t)(uintptr_t)desc;
	struct operands *operands = &told->call->operands;
	void *outer = NULL, *inner = NULL, *values = NULL;
	int64_t rows = -1, columns = -1, stored = -1, outers = -1;
	cusparseIndexType_t outer_type = 0, inner_type = 0;
	cusparseIndexBase_t base;
	cudaDataType type = CUDA_R_32F;
	cusparseFormat_t format;
	int batch;

	if (!desc || !get_format || !get_batch || (int)get_format(desc, &format) != 0 ||
	    (int)get_batch(desc, &batch) != 0 || batch > 1) {
		unknown(told);
		return;
	}
	if ((int)format == SPARSE_COO) {
		if (!get_coo || (int)get_coo(matrix, &rows, &columns, &stored, &outer, &inner,
					     &values, &inner_type, &base, &type) != 0)
			unknown(told);
		outer_type = inner_type;
		outers = stored;
	} else if ((int)format == SPARSE_CSR) {
		if (!get_csr || (int)get_csr(matrix, &rows, &columns, &stored, &outer, &inner,
					     &values, &outer_type, &inner_type, &base, &type) != 0)
			unknown(told);
		outers = rows + 1;
	} else {
		unknown(told);
	}
	if (operands->unknown)
		return;
	operands_add_array(operands, outer, outers, index_bytes(outer_type), OPERAND_READ);
	operands_add_array(operands, inner, stored, index_bytes(inner_type), OPERAND_READ);
	operands_add_array(operands, values, stored, operands_type_bytes(type), OPERAND_READ);
}

static void add_dense(const struct sparse_call *told, cusparseConstDnMatDescr_t desc,
		      enum operand_use use)
{
	__typeof__(&cusparseDnMatGet) get = LIBRARY_ASK(told->library, cusparseDnMatGet);
	__typeof__(&cusparseDnMatGetStridedBatch) get_batch =
		LIBRARY_ASK(told->library, cusparseDnMatGetStridedBatch);
	struct tensor matrix = {.rank = 2};
	void *values;
	int64_t ld, stride;
	cudaDataType type;
	cusparseOrder_t order;
	int batch, contiguous;

	if (!desc || !get || !get_batch || (int)get_batch(desc, &batch, &stride) != 0 ||
	    batch > 1 ||
	    (int)get((cusparseDnMatDescr_t)(uintptr_t)desc, &matrix.dim[0], &matrix.dim[1], &ld,
		     &values, &type, &order) != 0 ||
	    ((int)order != SPARSE_COLUMNS && (int)order != SPARSE_ROWS)) {
		unknown(told);
		return;
	}
	contiguous = (int)order == SPARSE_COLUMNS ? 0 : 1;
	matrix.stride[contiguous] = 1;
	matrix.stride[1 - contiguous] = ld;
	matrix.element = operands_type_bytes(type);
	operands_add_tensor(&told->call->operands, values, &matrix, use);
}

static void add_vector(const struct sparse_call *told, cusparseConstDnVecDescr_t desc,
		       enum operand_use use)
{
	__typeof__(&cusparseDnVecGet) get = LIBRARY_ASK(told->library, cusparseDnVecGet);
	cudaDataType type;
	void *values;
	int64_t size;

	if (!desc || !get ||
	    (int)get((cusparseDnVecDescr_t)(uintptr_t)desc, &size, &values, &type) != 0)
		unknown(told);
	else
		operands_add_array(&told->call->operands, values, size, operands_type_bytes(type),
				   use);
}

/* Stream and scalars. Returns how the output is used: read as well unless beta is 0. */
static enum operand_use add_scalars(const struct sparse_call *told, cusparseHandle_t handle,
				    const void *alpha, const void *beta, cudaDataType compute)
{
	static const char zeros[16];
	__typeof__(&cusparseGetStream) get_stream = LIBRARY_ASK(told->library, cusparseGetStream);
	__typeof__(&cusparseGetPointerMode) get_mode =
		LIBRARY_ASK(told->library, cusparseGetPointerMode);
	const uint64_t bytes = operands_type_bytes(compute);
	cudaStream_t stream = NULL;
	cusparsePointerMode_t mode;

	if (!handle || !get_stream || !get_mode || !bytes || !beta ||
	    (int)get_stream(handle, &stream) != 0 || (int)get_mode(handle, &mode) != 0) {
		unknown(told);
		return OPERAND_UPDATED;
	}
	told->call->op.stream = hook_stream((CUstream)stream, false);
	if ((int)mode == SPARSE_SCALARS_ON_HOST)
		return memcmp(beta, zeros, bytes) == 0 ? OPERAND_WHOLE : OPERAND_UPDATED;
	operands_add(&told->call->operands, alpha, bytes, OPERAND_READ);
	operands_add(&told->call->operands, beta, bytes, OPERAND_READ);
	return OPERAND_UPDATED;
}

/* The workspace comes without its size, which the library tells; it may hold what was prepared. */
#define ADD_WORKSPACE(function, buffer, ...)                                                       \
	do {                                                                                       \
		__typeof__(&function) get = LIBRARY_ASK(library, function);                        \
		size_t bytes = 0;                                                                  \
                                                                                                   \
		if (!get || (int)get(__VA_ARGS__, &bytes) != 0)                                    \
			unknown(&told);                                                            \
		operands_add(&call.operands, buffer, bytes, OPERAND_UPDATED);                      \
	} while (0)

LIBRARY_HOOK(cusparseStatus_t, cusparseSpMM,
	     (cusparseHandle_t handle, cusparseOperation_t opA, cusparseOperation_t opB,
	      const void *alpha, cusparseConstSpMatDescr_t A, cusparseConstDnMatDescr_t B,
	      const void *beta, cusparseDnMatDescr_t C, cudaDataType compute,
	      cusparseSpMMAlg_t algo, void *buffer),
	     (handle, opA, opB, alpha, A, B, beta, C, compute, algo, buffer), handle, 1, {
		     const struct sparse_call told = {&call, library};
		     enum operand_use use = add_scalars(&told, handle, alpha, beta, compute);

		     add_sparse(&told, A);
		     add_dense(&told, B, OPERAND_READ);
		     add_dense(&told, C, use);
		     if (!call.operands.unknown)
			     ADD_WORKSPACE(cusparseSpMM_bufferSize, buffer, handle, opA, opB, alpha,
					   A, B, beta, C, compute, algo);
	     })

LIBRARY_HOOK(cusparseStatus_t, cusparseSpMV,
	     (cusparseHandle_t handle, cusparseOperation_t opA, const void *alpha,
	      cusparseConstSpMatDescr_t A, cusparseConstDnVecDescr_t x, const void *beta,
	      cusparseDnVecDescr_t y, cudaDataType compute, cusparseSpMVAlg_t algo, void *buffer),
	     (handle, opA, alpha, A, x, beta, y, compute, algo, buffer), handle, 1, {
		     const struct sparse_call told = {&call, library};
		     enum operand_use use = add_scalars(&told, handle, alpha, beta, compute);

		     add_sparse(&told, A);
		     add_vector(&told, x, OPERAND_READ);
		     add_vector(&told, y, use);
		     if (!call.operands.unknown)
			     ADD_WORKSPACE(cusparseSpMV_bufferSize, buffer, handle, opA, alpha, A,
					   x, beta, y, compute, algo);
	     })
