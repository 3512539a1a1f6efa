/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stand-ins say about a call's arguments (standin.h). Handles, enumerators and results are
 * pointers and ints to whoever calls, so the vendor's headers are not needed.
 */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

int cudnnGetVersion(void);
int cudnnGetVersion(void) /* has no hook */
{
	return 1;
}

#define GET_STREAM(name)                                                                           \
	int name(const struct standin_handle *handle, void **stream);                              \
	int name(const struct standin_handle *handle, void **stream)                               \
	{                                                                                          \
		if (!handle)                                                                       \
			return 1;                                                                  \
		*stream = handle->stream;                                                          \
		return 0;                                                                          \
	}
GET_STREAM(cudnnGetStream)
GET_STREAM(cusolverDnGetStream)
GET_STREAM(cusparseGetStream)

#define GET_NUMBER(name, type, field)                                                              \
	int name(const type *object, int *number);                                                 \
	int name(const type *object, int *number)                                                  \
	{                                                                                          \
		*number = object->field;                                                           \
		return 0;                                                                          \
	}
GET_NUMBER(ncclCommCount, struct standin_handle, ranks)
GET_NUMBER(ncclCommUserRank, struct standin_handle, rank)
GET_NUMBER(ncclCommCuDevice, struct standin_handle, device)
GET_NUMBER(cusparseGetPointerMode, struct standin_handle, scalars_on_device)
GET_NUMBER(cusparseSpMatGetFormat, struct standin_matrix, format)
GET_NUMBER(cusparseSpMatGetStridedBatch, struct standin_matrix, batch)

int cudnnGetTensorNdDescriptor(const struct standin_tensor *tensor, int wanted, int *type,
			       int *rank, int *dim, int *stride);
int cudnnGetTensorNdDescriptor(const struct standin_tensor *tensor, int wanted, int *type,
			       int *rank, int *dim, int *stride)
{
	if (!tensor || wanted < tensor->rank)
		return 3;
	*type = tensor->type;
	*rank = tensor->rank;
	memcpy(dim, tensor->dim, sizeof(tensor->dim));
	memcpy(stride, tensor->stride, sizeof(tensor->stride));
	return 0;
}

int cudnnGetFilterNdDescriptor(const struct standin_tensor *tensor, int wanted, int *type,
			       int *format, int *rank, int *dim);
int cudnnGetFilterNdDescriptor(const struct standin_tensor *tensor, int wanted, int *type,
			       int *format, int *rank, int *dim)
{
	if (!tensor || wanted < tensor->rank)
		return 3;
	*type = tensor->type;
	*format = tensor->format;
	*rank = tensor->rank;
	memcpy(dim, tensor->dim, sizeof(tensor->dim));
	return 0;
}

int cudnnBackendCreateDescriptor(int type, void **descriptor);
int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
	(void)type;
	if (standin.result)
		return standin_called("cudnnBackendCreateDescriptor");
	*descriptor = malloc(64);
	return *descriptor ? 0 : 1;
}

int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendDestroyDescriptor(void *descriptor)
{
	free(descriptor);
	return standin.result ? standin_called("cudnnBackendDestroyDescriptor") : 0;
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t wanted, int64_t *count,
			     void *array);
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t wanted, int64_t *count,
			     void *array)
{
	(void)descriptor, (void)type, (void)wanted;
	if (standin.result)
		return standin_called("cudnnBackendGetAttribute");
	*count = 1;
	if (name == 402)
		*(int64_t *)array = 256;
	return 0;
}

int cufftPlan1d(int *plan, int n, int type, int batch);
int cufftPlan1d(int *plan, int n, int type, int batch)
{
	(void)n, (void)type, (void)batch;
	if (!standin.result)
		*plan = 7;
	return standin_called("cufftPlan1d");
}

int cufftGetSize(int plan, size_t *bytes);
int cufftGetSize(int plan, size_t *bytes)
{
	(void)plan;
	*bytes = 512;
	return 0;
}

#define GETRF_SIZE(name)                                                                           \
	int name(void *handle, int m, int n, void *a, int lda, int *count);                        \
	int name(void *handle, int m, int n, void *a, int lda, int *count)                         \
	{                                                                                          \
		(void)handle, (void)m, (void)n, (void)a, (void)lda;                                \
		*count = 10;                                                                       \
		return 0;                                                                          \
	}
GETRF_SIZE(cusolverDnSgetrf_bufferSize)
GETRF_SIZE(cusolverDnDgetrf_bufferSize)
GETRF_SIZE(cusolverDnCgetrf_bufferSize)
GETRF_SIZE(cusolverDnZgetrf_bufferSize)

int cusparseCsrGet(const struct standin_matrix *m, int64_t *rows, int64_t *columns, int64_t *stored,
		   void **outer, void **inner, void **values, int *outer_type, int *inner_type,
		   int *base, int *type);
int cusparseCsrGet(const struct standin_matrix *m, int64_t *rows, int64_t *columns, int64_t *stored,
		   void **outer, void **inner, void **values, int *outer_type, int *inner_type,
		   int *base, int *type)
{
	*rows = m->rows;
	*columns = m->columns;
	*stored = m->stored;
	*outer = m->outer;
	*inner = m->inner;
	*values = m->values;
	*outer_type = *inner_type = m->index_type;
	*base = 0;
	*type = m->type;
	return 0;
}

int cusparseDnMatGet(const struct standin_matrix *m, int64_t *rows, int64_t *columns, int64_t *ld,
		     void **values, int *type, int *order);
int cusparseDnMatGet(const struct standin_matrix *m, int64_t *rows, int64_t *columns, int64_t *ld,
		     void **values, int *type, int *order)
{
	*rows = m->rows;
	*columns = m->columns;
	*ld = m->ld;
	*values = m->values;
	*type = m->type;
	*order = m->order;
	return 0;
}

int cusparseDnMatGetStridedBatch(const struct standin_matrix *m, int *batch, int64_t *stride);
int cusparseDnMatGetStridedBatch(const struct standin_matrix *m, int *batch, int64_t *stride)
{
	*batch = m->batch;
	*stride = 0;
	return 0;
}

int cusparseSpMM_bufferSize(void *handle, int opA, int opB, const void *alpha, const void *a,
			    const void *b, const void *beta, const void *c, int compute, int algo,
			    size_t *bytes);
int cusparseSpMM_bufferSize(void *handle, int opA, int opB, const void *alpha, const void *a,
			    const void *b, const void *beta, const void *c, int compute, int algo,
			    size_t *bytes)
{
	(void)handle, (void)opA, (void)opB, (void)alpha, (void)a, (void)b, (void)beta, (void)c;
	(void)compute, (void)algo;
	*bytes = 128;
	return 0;
}
