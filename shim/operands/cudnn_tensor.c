/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in cuDNN's words (cudnn_tensor.h).
 */
#include "shim/operands/cudnn_tensor.h"

#include <string.h>

#include "shim/operands/cudnn_attributes.h"
#include "shim/real/library_types.h"

uint64_t cudnn_type_bytes(int type)
{
	switch (type) {
	case DATA_INT8:
	case DATA_UINT8:
	case DATA_BOOLEAN:
	case DATA_FP8_E4M3:
	case DATA_FP8_E5M2:
		return 1;
	case DATA_HALF:
	case DATA_BFLOAT16:
		return 2;
	case DATA_FLOAT:
	case DATA_INT32:
		return 4;
	case DATA_DOUBLE:
	case DATA_INT64:
		return 8;
	default:
		return 0;
	}
}

static bool copy_numbers(int64_t *to, int *rank, int type, int64_t count, const void *array)
{
	if (type != TYPE_INT64 || count < 0 || count > TENSOR_RANK)
		return false;
	memcpy(to, array, (size_t)count * sizeof(*to));
	*rank = (int)count;
	return true;
}

bool cudnn_tensor_set(struct cudnn_tensor *tensor, int name, int type, int64_t count,
		      const void *array)
{
	struct tensor *shape = &tensor->shape;
	int64_t number = 0;
	bool truth = false;
	int data_type = -1, rank;

	if (!array)
		return false;
	if (name == TENSOR_DIMENSIONS)
		return copy_numbers(shape->dim, &shape->rank, type, count, array);
	if (name == TENSOR_STRIDES) {
		tensor->has_strides = true;
		return copy_numbers(shape->stride, &rank, type, count, array);
	}
	if (count != 1)
		return false;
	if (type == TYPE_INT64)
		memcpy(&number, array, sizeof(number));
	else if (type == TYPE_BOOLEAN)
		memcpy(&truth, array, sizeof(truth));
	else if (type == TYPE_DATA_TYPE || name == TENSOR_REORDERING_MODE)
		memcpy(&data_type, array, sizeof(data_type));
	else
		return false;
	switch (name) {
	case TENSOR_DATA_TYPE:
		shape->element = cudnn_type_bytes(data_type);
		return true;
	case TENSOR_UNIQUE_ID:
		tensor->id = number;
		tensor->has_id = true;
		return type == TYPE_INT64;
	case TENSOR_IS_VIRTUAL:
		tensor->is_virtual = truth;
		return type == TYPE_BOOLEAN;
	case TENSOR_IS_BY_VALUE:
		tensor->by_value = truth;
		return type == TYPE_BOOLEAN;
	case TENSOR_VECTOR_COUNT:
		return type == TYPE_INT64 && number == 1;
	case TENSOR_REORDERING_MODE:
		return data_type == 0;
	default:
		return false;
	}
}
