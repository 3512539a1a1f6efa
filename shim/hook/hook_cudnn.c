/* SPDX-License-Identifier: Apache-2.0
 *
 * cuDNN's older functions, one for each row of cudnn_hooks.def. Their descriptors are opaque; the
 * library's own getters say what they hold. Factors (alpha, beta) always lie in host memory.
 */
#include "shim/operands/cudnn_tensor.h"
#include "shim/hook/hook_library.h"

#define RANK 8 /* CUDNN_DIM_MAX */

struct cudnn_call {
	struct operands *operands;
	const struct library *library;
};

static bool ask_tensor(const struct library *library, cudnnTensorDescriptor_t desc,
		       struct tensor *tensor, int *type_number)
{
	__typeof__(&cudnnGetTensorNdDescriptor) get =
		LIBRARY_ASK(library, cudnnGetTensorNdDescriptor);
	int dim[RANK], stride[RANK], rank = -1;
	cudnnDataType_t type;

	if (!get || !desc || (int)get(desc, RANK, &type, &rank, dim, stride) != 0 || rank < 0 ||
	    rank > RANK)
		return false;
	tensor->rank = rank;
	tensor->element = cudnn_type_bytes((int)type);
	*type_number = (int)type;
	for (int i = 0; i < rank; i++) {
		tensor->dim[i] = dim[i];
		tensor->stride[i] = stride[i];
	}
	return true;
}

/* Filters are packed. */
static bool ask_filter(const struct library *library, cudnnFilterDescriptor_t desc,
		       struct tensor *tensor, int *type_number)
{
	__typeof__(&cudnnGetFilterNdDescriptor) get =
		LIBRARY_ASK(library, cudnnGetFilterNdDescriptor);
	int dim[RANK], rank = -1;
	int64_t next = 1;
	cudnnDataType_t type;
	cudnnTensorFormat_t format;

	if (!get || !desc || (int)get(desc, RANK, &type, &format, &rank, dim) != 0 || rank < 0 ||
	    rank > RANK || (int)format == FORMAT_VECTORS)
		return false;
	tensor->rank = rank;
	tensor->element = cudnn_type_bytes((int)type);
	*type_number = (int)type;
	for (int i = rank - 1; i >= 0; i--) {
		tensor->dim[i] = dim[i];
		tensor->stride[i] = next;
		if (__builtin_mul_overflow(next, (int64_t)dim[i], &next))
			return false;
	}
	return true;
}

/* Is what a factor says about the memory there was before something else than: forget it? */
static bool keeps(const void *factor, int type)
{
	if (!factor)
		return true;
	return type == DATA_DOUBLE ? *(const double *)factor != 0 : *(const float *)factor != 0;
}

static void add_tensor(const struct cudnn_call *call, cudnnTensorDescriptor_t desc,
		       const void *address, enum operand_use use, const void *const *factor)
{
	struct tensor tensor;
	int type;

	if (!address) /* optional, or to be refused */
		return;
	if (!ask_tensor(call->library, desc, &tensor, &type))
		call->operands->unknown = true;
	else
		operands_add_tensor(call->operands, address, &tensor,
				    factor && keeps(*factor, type) ? OPERAND_UPDATED : use);
}

static void add_filter(const struct cudnn_call *call, cudnnFilterDescriptor_t desc,
		       const void *address, enum operand_use use, const void *const *factor)
{
	struct tensor tensor;
	int type;

	if (!address)
		return;
	if (!ask_filter(call->library, desc, &tensor, &type))
		call->operands->unknown = true;
	else
		operands_add_tensor(call->operands, address, &tensor,
				    factor && keeps(*factor, type) ? OPERAND_UPDATED : use);
}

/* The words of an operand list. */
#define READ(desc, address)	   add_tensor(&told, desc, address, OPERAND_READ, NULL);
#define WRITTEN(desc, address)	   add_tensor(&told, desc, address, OPERAND_WRITTEN, NULL);
#define UPDATE(desc, address)	   add_tensor(&told, desc, address, OPERAND_UPDATED, NULL);
#define WHOLE(desc, address)	   add_tensor(&told, desc, address, OPERAND_WHOLE, NULL);
#define READ_FILTER(desc, address) add_filter(&told, desc, address, OPERAND_READ, NULL);
#define BLEND(desc, address, factor)                                                               \
	add_tensor(&told, desc, address, OPERAND_WHOLE, &(const void *){factor});
#define BLEND_FILTER(desc, address, factor)                                                        \
	add_filter(&told, desc, address, OPERAND_WHOLE, &(const void *){factor});
#define SCRATCH(address, bytes) operands_add(told.operands, address, bytes, OPERAND_SCRATCH);
#define PARTLY(address, bytes)	operands_add(told.operands, address, bytes, OPERAND_WRITTEN);
#define KEPT(address, bytes)	operands_add(told.operands, address, bytes, OPERAND_UPDATED);

#define CUDNN(name, parameters, arguments, ...)                                                    \
	LIBRARY_HOOK(cudnnStatus_t, name, parameters, arguments, handle, 1, {                      \
		const struct cudnn_call told = {&call.operands, library};                          \
                                                                                                   \
		LIBRARY_STREAM(call, library, cudnnGetStream, handle);                             \
		__VA_ARGS__                                                                        \
	})
#include "shim/real/cudnn_hooks.def"
