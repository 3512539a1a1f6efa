/* SPDX-License-Identifier: Apache-2.0
 *
 * Declared operands (operands.h).
 */
#include "shim/operands/operands.h"

#include "shim/op/gemm.h"

static int64_t magnitude(int64_t stride)
{
	return stride < 0 ? -stride : stride;
}

/* Do the elements, in some order of the dimensions, follow one another without a gap? Dimensions
 * are taken out of `left` from the smallest stride up. */
static bool is_dense(const struct tensor *tensor)
{
	unsigned left = 0;
	int64_t next = 1;

	for (int i = 0; i < tensor->rank; i++)
		if (tensor->dim[i] > 1)
			left |= 1u << i;
	while (left) {
		int i = 0;

		while (i < tensor->rank &&
		       (!(left >> i & 1) || magnitude(tensor->stride[i]) != next))
			i++;
		if (i == tensor->rank)
			return false;
		left &= ~(1u << i);
		next *= tensor->dim[i]; /* fits: the extent was computed before */
	}
	return true;
}

bool tensor_extent(const struct tensor *tensor, int64_t *low, int64_t *high, bool *dense)
{
	int64_t reach, total = 1;
	bool empty = false;

	*low = *high = 0;
	*dense = false;
	if (tensor->rank < 0 || tensor->rank > TENSOR_RANK || !tensor->element)
		return false;
	for (int i = 0; i < tensor->rank; i++) {
		if (tensor->dim[i] < 0)
			return false;
		empty |= tensor->dim[i] == 0;
	}
	if (empty)
		return true;
	for (int i = 0; i < tensor->rank; i++) {
		if (__builtin_mul_overflow(tensor->dim[i] - 1, tensor->stride[i], &reach) ||
		    __builtin_mul_overflow(reach, (int64_t)tensor->element, &reach) ||
		    __builtin_add_overflow(reach < 0 ? *low : *high, reach,
					   reach < 0 ? low : high) ||
		    __builtin_mul_overflow(total, tensor->dim[i], &total))
			return false;
	}
	if (__builtin_add_overflow(*high, (int64_t)tensor->element, high))
		return false;
	*dense = is_dense(tensor);
	return true;
}

uint64_t operands_type_bytes(cudaDataType type)
{
	return (uint64_t)cuda_type_bytes(type);
}

static void add(struct operands *operands, uint64_t begin, uint64_t end, enum operand_use use)
{
	struct op_library *library = &operands->library;

	if (begin >= end || library->count == OPERANDS_MAX) {
		operands->unknown = true;
		return;
	}
	library->operand[library->count++] = (struct op_operand){
		.begin = begin,
		.end = end,
		.read = (use & OPERAND_READ) != 0,
		.written = use != OPERAND_READ,
		.whole = use == OPERAND_WHOLE || use == OPERAND_SCRATCH,
	};
}

void operands_add(struct operands *operands, const void *address, uint64_t bytes,
		  enum operand_use use)
{
	const uint64_t begin = (uint64_t)(uintptr_t)address;

	if (begin && bytes)
		add(operands, begin, begin + bytes, use);
}

void operands_add_array(struct operands *operands, const void *address, int64_t count,
			uint64_t element, enum operand_use use)
{
	uint64_t bytes;

	if (count < 0 || !element || __builtin_mul_overflow((uint64_t)count, element, &bytes))
		operands->unknown = true;
	else
		operands_add(operands, address, bytes, use);
}

void operands_add_tensor(struct operands *operands, const void *address,
			 const struct tensor *tensor, enum operand_use use)
{
	const uint64_t first = (uint64_t)(uintptr_t)address;
	int64_t low, high;
	bool dense;

	if (!tensor_extent(tensor, &low, &high, &dense))
		operands->unknown = true;
	else if (first && low < high)
		add(operands, first + (uint64_t)low, first + (uint64_t)high,
		    use == OPERAND_WHOLE && !dense ? OPERAND_WRITTEN : use);
}

bool operands_settle(struct operands *operands)
{
	struct op_operand *o = operands->library.operand, moved;
	const int count = operands->library.count;
	int reads = 0;

	if (operands->unknown)
		return false;
	for (int i = 0; i < count; i++) {
		if (!o[i].read)
			continue;
		moved = o[i];
		o[i] = o[reads];
		o[reads++] = moved;
	}
	for (int i = reads; i < count; i++)
		for (int k = 0; k < reads; k++)
			if (o[i].begin < o[k].end && o[k].begin < o[i].end)
				o[i].whole = false;
	return true;
}
