/* SPDX-License-Identifier: Apache-2.0
 *
 * As much of cuDNN as the test programs use, on the simulated driver: packed tensors of two-byte
 * elements, set to a value or copied. Works on its handle's stream, through the driver, as cuDNN
 * does; types and results are ints and pointers, so that no header of cuDNN's is needed.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { HALF = 2, RANK = 8 };

struct handle {
	CUstream stream;
	__typeof__(&cuMemsetD16Async) set;
	__typeof__(&cuMemcpyDtoDAsync) copy;
};

struct tensor {
	int type, rank, dim[RANK], stride[RANK];
};

int cudnnCreate(struct handle **handle);
int cudnnDestroy(struct handle *handle);
int cudnnSetStream(struct handle *handle, CUstream stream);
int cudnnGetStream(struct handle *handle, CUstream *stream);
int cudnnCreateTensorDescriptor(struct tensor **tensor);
int cudnnDestroyTensorDescriptor(struct tensor *tensor);
int cudnnSetTensorNdDescriptor(struct tensor *tensor, int type, int rank, const int *dim,
			       const int *stride);
int cudnnGetTensorNdDescriptor(const struct tensor *tensor, int wanted, int *type, int *rank,
			       int *dim, int *stride);
int cudnnSetTensor(struct handle *handle, const struct tensor *tensor, void *data,
		   const void *value);
int cudnnTransformTensor(struct handle *handle, const float *alpha, const struct tensor *from,
			 const void *x, const float *beta, const struct tensor *to, void *y);

#define STRING_OF(name) #name
#define NAME(name)	STRING_OF(name)

int cudnnCreate(struct handle **handle)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	*handle = driver ? calloc(1, sizeof(**handle)) : NULL;
	if (!*handle)
		return EXECUTION_FAILED;
	(*handle)->set = (__typeof__((*handle)->set))dlsym(driver, NAME(cuMemsetD16Async));
	(*handle)->copy = (__typeof__((*handle)->copy))dlsym(driver, NAME(cuMemcpyDtoDAsync));
	return (*handle)->set && (*handle)->copy ? SUCCESS : EXECUTION_FAILED;
}

int cudnnDestroy(struct handle *handle)
{
	free(handle);
	return SUCCESS;
}

int cudnnSetStream(struct handle *handle, CUstream stream)
{
	handle->stream = stream;
	return SUCCESS;
}

int cudnnGetStream(struct handle *handle, CUstream *stream)
{
	*stream = handle->stream;
	return SUCCESS;
}

int cudnnCreateTensorDescriptor(struct tensor **tensor)
{
	*tensor = calloc(1, sizeof(**tensor));
	return *tensor ? SUCCESS : EXECUTION_FAILED;
}

int cudnnDestroyTensorDescriptor(struct tensor *tensor)
{
	free(tensor);
	return SUCCESS;
}

int cudnnSetTensorNdDescriptor(struct tensor *tensor, int type, int rank, const int *dim,
			       const int *stride)
{
	if (rank < 1 || rank > RANK)
		return BAD_PARAM;
	tensor->type = type;
	tensor->rank = rank;
	memcpy(tensor->dim, dim, (size_t)rank * sizeof(*dim));
	memcpy(tensor->stride, stride, (size_t)rank * sizeof(*stride));
	return SUCCESS;
}

int cudnnGetTensorNdDescriptor(const struct tensor *tensor, int wanted, int *type, int *rank,
			       int *dim, int *stride)
{
	const size_t count = (size_t)(wanted < tensor->rank ? wanted : tensor->rank);

	*type = tensor->type;
	*rank = tensor->rank;
	memcpy(dim, tensor->dim, count * sizeof(*dim));
	memcpy(stride, tensor->stride, count * sizeof(*stride));
	return SUCCESS;
}

/* Elements of a packed tensor, 0 for any other. */
static size_t packed(const struct tensor *tensor)
{
	size_t count = 1;

	for (int i = tensor->rank - 1; i >= 0; i--) {
		if ((size_t)tensor->stride[i] != count || tensor->dim[i] < 1)
			return 0;
		count *= (size_t)tensor->dim[i];
	}
	return tensor->type == HALF ? count : 0;
}

int cudnnSetTensor(struct handle *handle, const struct tensor *tensor, void *data,
		   const void *value)
{
	const size_t count = packed(tensor);
	uint16_t bits;

	if (!count)
		return NOT_SUPPORTED;
	memcpy(&bits, value, sizeof(bits));
	return handle->set((CUdeviceptr)(uintptr_t)data, bits, count, handle->stream)
		       ? EXECUTION_FAILED
		       : SUCCESS;
}

int cudnnTransformTensor(struct handle *handle, const float *alpha, const struct tensor *from,
			 const void *x, const float *beta, const struct tensor *to, void *y)
{
	const size_t count = packed(from);

	if (!count || count != packed(to) || *alpha != 1 || *beta != 0)
		return NOT_SUPPORTED;
	return handle->copy((CUdeviceptr)(uintptr_t)y, (CUdeviceptr)(uintptr_t)x, 2 * count,
			    handle->stream)
		       ? EXECUTION_FAILED
		       : SUCCESS;
}
