/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated cuBLASLt: descriptors, layouts, one heuristic result, and cublasLtMatmul with the
 * bias, ReLU and GELU epilogues. The opaque structures of the API hold the fields below.
 */
#include "blas_gemm.h"

#include <cublasLt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef SIM_CUBLAS_VERSION
#define SIM_CUBLAS_VERSION 130100
#endif

struct desc {
	int32_t compute, scale, pointer_mode, transa, transb, transc, fill, epilogue;
	int32_t bias_type, sm_count, fast_accumulate, aux_type;
	uint64_t bias, aux, scale_at[4];
	int64_t bias_batch, aux_ld, aux_batch;
};

struct layout {
	uint32_t type;
	int32_t order;
	uint64_t rows, columns;
	int64_t ld;
	int32_t batch, mode;
	int64_t stride;
};

_Static_assert(sizeof(struct desc) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");
_Static_assert(sizeof(struct layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");

struct field {
	int attribute;
	size_t offset, size;
};

#define FIELD(attribute, type, member)                                                             \
	{                                                                                          \
		attribute, offsetof(struct type, member), sizeof(((struct type *)0)->member)       \
	}

static const struct field desc_fields[] = {
	FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, desc, compute),
	FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, desc, scale),
	FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, desc, pointer_mode),
	FIELD(CUBLASLT_MATMUL_DESC_TRANSA, desc, transa),
	FIELD(CUBLASLT_MATMUL_DESC_TRANSB, desc, transb),
	FIELD(CUBLASLT_MATMUL_DESC_TRANSC, desc, transc),
	FIELD(CUBLASLT_MATMUL_DESC_FILL_MODE, desc, fill),
	FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, desc, epilogue),
	FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, desc, bias),
	FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, desc, bias_batch),
	FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, desc, bias_type),
	FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, desc, aux),
	FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, desc, aux_ld),
	FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, desc, aux_batch),
	FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, desc, aux_type),
	FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, desc, sm_count),
	FIELD(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, desc, scale_at[0]),
	FIELD(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, desc, scale_at[1]),
	FIELD(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, desc, scale_at[2]),
	FIELD(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, desc, scale_at[3]),
	{CUBLASLT_MATMUL_DESC_FAST_ACCUM, offsetof(struct desc, fast_accumulate), 1},
};

static const struct field layout_fields[] = {
	FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, layout, type),
	FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, layout, order),
	FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, layout, rows),
	FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, layout, columns),
	FIELD(CUBLASLT_MATRIX_LAYOUT_LD, layout, ld),
	FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout, batch),
	FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout, stride),
	FIELD(8 /* batch mode, newer headers only */, layout, mode),
};

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

static const struct field *find(const struct field *table, size_t count, int attribute)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].attribute == attribute)
			return &table[i];
	return NULL;
}

static cublasStatus_t set(void *object, const struct field *f, const void *buffer, size_t size)
{
	if (!object || !f || !buffer || size < f->size)
		return CUBLAS_STATUS_INVALID_VALUE;
	memcpy((char *)object + f->offset, buffer, f->size);
	return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(const void *object, const struct field *f, void *buffer, size_t size,
			  size_t *written)
{
	if (!object || !f || (!size && !written) || (size && (!buffer || size < f->size)))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (written)
		*written = f->size;
	if (size)
		memcpy(buffer, (const char *)object + f->offset, f->size);
	return CUBLAS_STATUS_SUCCESS;
}

/* ---- descriptors ------------------------------------------------------------------------ */

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t handle,
							    size_t size,
							    cublasComputeType_t compute,
							    cudaDataType_t scale)
{
	struct desc *d = (struct desc *)handle;

	if (!d || size < sizeof(*d))
		return CUBLAS_STATUS_INVALID_VALUE;
	memset(d, 0, sizeof(*d));
	d->compute = compute;
	d->scale = scale;
	d->fill = CUBLAS_FILL_MODE_FULL;
	d->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	d->bias_type = -1;
	d->aux_type = -1;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
						     cublasComputeType_t compute,
						     cudaDataType_t scale)
{
	if (!out)
		return CUBLAS_STATUS_INVALID_VALUE;
	*out = malloc(sizeof(**out));
	if (!*out)
		return CUBLAS_STATUS_ALLOC_FAILED;
	return cublasLtMatmulDescInit_internal(*out, sizeof(**out), compute, scale);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle)
{
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
							   cublasLtMatmulDescAttributes_t attribute,
							   const void *buffer, size_t size)
{
	return set(handle, find(desc_fields, COUNT(desc_fields), attribute), buffer, size);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t handle,
							   cublasLtMatmulDescAttributes_t attribute,
							   void *buffer, size_t size,
							   size_t *written)
{
	return get(handle, find(desc_fields, COUNT(desc_fields), attribute), buffer, size, written);
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t handle,
							      size_t size, cudaDataType type,
							      uint64_t rows, uint64_t columns,
							      int64_t ld)
{
	struct layout *l = (struct layout *)handle;

	if (!l || size < sizeof(*l))
		return CUBLAS_STATUS_INVALID_VALUE;
	*l = (struct layout){.type = type,
			     .order = CUBLASLT_ORDER_COL,
			     .rows = rows,
			     .columns = columns,
			     .ld = ld,
			     .batch = 1};
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
						       cudaDataType type, uint64_t rows,
						       uint64_t columns, int64_t ld)
{
	if (!out)
		return CUBLAS_STATUS_INVALID_VALUE;
	*out = malloc(sizeof(**out));
	if (!*out)
		return CUBLAS_STATUS_ALLOC_FAILED;
	return cublasLtMatrixLayoutInit_internal(*out, sizeof(**out), type, rows, columns, ld);
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle)
{
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutSetAttribute(
	cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t attribute,
	const void *buffer, size_t size)
{
	return set(handle, find(layout_fields, COUNT(layout_fields), attribute), buffer, size);
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutGetAttribute(
	cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t attribute, void *buffer,
	size_t size, size_t *written)
{
	return get(handle, find(layout_fields, COUNT(layout_fields), attribute), buffer, size,
		   written);
}

/* ---- handle, preference, heuristic ------------------------------------------------------ */

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t *out)
{
	if (!out)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!blas_driver())
		return CUBLAS_STATUS_NOT_INITIALIZED;
	*out = malloc(16);
	return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle)
{
	if (!handle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

size_t CUBLASWINAPI cublasLtGetVersion(void)
{
	return SIM_CUBLAS_VERSION;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref,
								  size_t size)
{
	if (!pref)
		return CUBLAS_STATUS_INVALID_VALUE;
	memset(pref, 0, size);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
	if (!pref)
		return CUBLAS_STATUS_INVALID_VALUE;
	*pref = calloc(1, sizeof(**pref));
	return *pref ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
	free(pref);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(
	cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attribute,
	const void *buffer, size_t size)
{
	(void)attribute;
	return pref && buffer && size ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* SIMGPU_LT_FINDS=no: the library knows no way, whatever it is asked for. */
static bool finds(void)
{
	const char *value = getenv("SIMGPU_LT_FINDS");

	return !value || strcmp(value, "no");
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(
	cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
	cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
	cublasLtMatmulPreference_t pref, int requested, cublasLtMatmulHeuristicResult_t results[],
	int *returned)
{
	if (!handle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!desc || !a || !b || !c || !d || !pref || requested < 1 || !results || !returned)
		return CUBLAS_STATUS_INVALID_VALUE;
	*returned = 0;
	if (!finds())
		return CUBLAS_STATUS_NOT_SUPPORTED;
	memset(results, 0, sizeof(*results));
	results->state = CUBLAS_STATUS_SUCCESS;
	results->wavesCount = 1;
	*returned = 1;
	return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ------------------------------------------------------------------------ */

static bool operand(struct gemm_operand *x, const void *base, const struct layout *l,
		    bool transposed)
{
	*x = (struct gemm_operand){.base = (uintptr_t)base,
				   .type = (int32_t)l->type,
				   .batch = l->stride,
				   .by_array = l->mode == 1};
	if (l->order != CUBLASLT_ORDER_COL && l->order != CUBLASLT_ORDER_ROW)
		return false;
	bool by_column = (l->order == CUBLASLT_ORDER_COL) != transposed;
	x->row = by_column ? 1 : l->ld;
	x->column = by_column ? l->ld : 1;
	return true;
}

static bool epilogue(struct gemm_args *g, const struct desc *d)
{
	switch (d->epilogue) {
	case CUBLASLT_EPILOGUE_DEFAULT:
	case CUBLASLT_EPILOGUE_BIAS:
		break;
	case CUBLASLT_EPILOGUE_RELU:
	case CUBLASLT_EPILOGUE_RELU_BIAS:
		g->relu = 1;
		break;
	case CUBLASLT_EPILOGUE_GELU:
	case CUBLASLT_EPILOGUE_GELU_BIAS:
		g->gelu = 1;
		break;
	default:
		return false;
	}
	if (d->epilogue & CUBLASLT_EPILOGUE_BIAS) {
		g->bias = d->bias;
		g->bias_batch = d->bias_batch;
		g->bias_type = d->bias_type >= 0 ? d->bias_type : g->d.type;
		return d->bias && blas_type_size(g->bias_type);
	}
	return true;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
					   const void *alpha, const void *A,
					   cublasLtMatrixLayout_t a_layout, const void *B,
					   cublasLtMatrixLayout_t b_layout, const void *beta,
					   const void *C, cublasLtMatrixLayout_t c_layout, void *D,
					   cublasLtMatrixLayout_t d_layout,
					   const cublasLtMatmulAlgo_t *algo, void *workspace,
					   size_t workspace_bytes, cudaStream_t stream)
{
	const struct desc *d = (const struct desc *)desc;
	const struct layout *la = (const struct layout *)a_layout;
	const struct layout *lb = (const struct layout *)b_layout;
	const struct layout *lc = (const struct layout *)c_layout;
	const struct layout *ld = (const struct layout *)d_layout;
	struct gemm_args g = {0};

	(void)algo;
	if (!handle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!d || !la || !lb || !lc || !ld)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (blas_scale_type(d->compute) < 0 || d->pointer_mode > CUBLASLT_POINTER_MODE_DEVICE)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (!operand(&g.a, A, la, d->transa != CUBLAS_OP_N) ||
	    !operand(&g.b, B, lb, d->transb != CUBLAS_OP_N) || !operand(&g.c, C, lc, false) ||
	    !operand(&g.d, D, ld, false))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	g.m = (int64_t)ld->rows;
	g.n = (int64_t)ld->columns;
	g.k = (int64_t)(d->transa == CUBLAS_OP_N ? la->columns : la->rows);
	g.batch = ld->batch;
	uint64_t am = d->transa == CUBLAS_OP_N ? la->rows : la->columns;
	uint64_t bk = d->transb == CUBLAS_OP_N ? lb->rows : lb->columns;
	uint64_t bn = d->transb == CUBLAS_OP_N ? lb->columns : lb->rows;
	if (am != ld->rows || bk != (uint64_t)g.k || bn != ld->columns || lc->rows != ld->rows ||
	    lc->columns != ld->columns || la->batch != ld->batch || lb->batch != ld->batch)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!epilogue(&g, d))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	g.scale_type = d->scale;
	if (workspace && workspace_bytes &&
	    blas_driver()->fill((uintptr_t)workspace, 0xa5, workspace_bytes, (CUstream)stream))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	return cublasLt_for_cublas_gemm(
		&g, alpha, beta, d->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE, (CUstream)stream);
}
