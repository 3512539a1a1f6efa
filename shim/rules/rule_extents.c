/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a tensor reaches, by the ways in which kernels are told of one. Sizes below 1, strides
 * below 0 and extents beyond any memory mean that the words are something else.
 */
#include "shim/rules/rule_reader.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DIMS 25

struct shape {
	unsigned dims;
	int64_t size[MAX_DIMS], stride[MAX_DIMS];
};

int64_t rule_product_of(unsigned count, const int64_t *factors)
{
	int64_t product = 1;

	for (unsigned i = 0; i < count; i++)
		product = rule_times(product, factors[i]);
	return product;
}

/* As they mostly lie: the one that runs fastest first, and nothing between. */
static bool in_a_row(unsigned dims, const int64_t *size, const int64_t *stride, int64_t step)
{
	for (unsigned d = 0; d < dims && step; d++) {
		if (size[d] <= 1)
			continue;
		if (stride[d] != step)
			return false;
		step = rule_times(step, size[d]);
	}
	return step != 0;
}

bool rule_dense(unsigned dims, const int64_t *size, const int64_t *stride, int64_t step)
{
	bool taken[MAX_DIMS] = {false};

	if (in_a_row(dims, size, stride, step))
		return true;
	for (unsigned n = 0; n < dims; n++) {
		int next = -1;

		for (unsigned d = 0; d < dims; d++)
			if (!taken[d] && size[d] > 1 && (next < 0 || stride[d] < stride[next]))
				next = (int)d;
		if (next < 0)
			break;
		if (!step || stride[next] != step)
			return false;
		step = rule_times(step, size[next]);
		taken[next] = true;
	}
	return true;
}

/* How far the last element begins behind the first; -1: not a shape. */
static int64_t shape_reach(const struct shape *shape)
{
	int64_t last = 0;

	for (unsigned d = 0; d < shape->dims; d++) {
		if (shape->size[d] < 1 || shape->stride[d] < 0 || shape->stride[d] > RULE_ROOM)
			return -1;
		if (shape->size[d] > 1 && shape->stride[d]) {
			const int64_t reach = rule_times(shape->size[d] - 1, shape->stride[d]);

			if (!reach)
				return -1;
			last += reach;
		}
	}
	return last <= RULE_ROOM ? last : -1;
}

int64_t rule_reach(unsigned dims, const int64_t *size, const int64_t *stride)
{
	struct shape shape;

	shape.dims = dims;
	memcpy(shape.size, size, dims * sizeof(*size));
	memcpy(shape.stride, stride, dims * sizeof(*stride));
	return shape_reach(&shape) + 1;
}

static int64_t word_at(const struct reading *r, unsigned at, unsigned bytes)
{
	return bytes == 8 ? (int64_t)rule_u64_at(r, at) : (int32_t)rule_u32_at(r, at);
}

/* 0: it is not one. */
static unsigned tensor_word(const struct reading *r, unsigned param)
{
	const unsigned bytes = rule_size_of(r, param);

	return bytes == 216 ? 4 : bytes == 416 ? 8 : 0;
}

static bool tensor_shape(const struct reading *r, unsigned param, struct shape *shape)
{
	const unsigned word = tensor_word(r, param), at = rule_offset(r, param) + 8;

	if (!word)
		return false;
	shape->dims = rule_u32_at(r, at + 2 * MAX_DIMS * word);
	if (shape->dims > MAX_DIMS)
		return false;
	for (unsigned d = 0; d < shape->dims; d++) {
		shape->size[d] = word_at(r, at + word * d, word);
		shape->stride[d] = word_at(r, at + word * (MAX_DIMS + d), word);
	}
	return true;
}

int64_t rule_tensor_elements(const struct reading *r, unsigned param, int dim, int64_t size,
			     bool *dense)
{
	struct shape shape;

	if (!tensor_shape(r, param, &shape) || dim >= (int)shape.dims)
		return 0;
	if (dim >= 0)
		shape.size[dim] = size;
	if (dense)
		*dense = rule_dense(shape.dims, shape.size, shape.stride, 1);
	return shape_reach(&shape) + 1;
}

int64_t rule_tensor_size(const struct reading *r, unsigned param, int dim)
{
	struct shape shape;

	return tensor_shape(r, param, &shape) && dim >= 0 && dim < (int)shape.dims ? shape.size[dim]
										   : 0;
}

int64_t rule_accessor_size(const struct reading *r, unsigned param, unsigned dim, unsigned word)
{
	return word_at(r, rule_offset(r, param) + 8 + word * dim, word);
}

int64_t rule_accessor_elements(const struct reading *r, unsigned param, unsigned dims,
			       unsigned word, bool *dense)
{
	struct shape shape;

	shape.dims = dims;
	if (rule_size_of(r, param) != 8 + 2 * dims * word)
		return 0;
	for (unsigned d = 0; d < dims; d++) {
		shape.size[d] = rule_accessor_size(r, param, d, word);
		shape.stride[d] = rule_accessor_size(r, param, dims + d, word);
	}
	if (dense)
		*dense = rule_dense(shape.dims, shape.size, shape.stride, 1);
	return shape_reach(&shape) + 1;
}

int64_t rule_calculated(const struct reading *r, unsigned at, unsigned operands, unsigned n,
			int64_t elements, int64_t width, bool *dense)
{
	struct shape shape;
	int64_t product = 1;

	shape.dims = rule_u32_at(r, at);
	if (shape.dims > MAX_DIMS)
		return -1;
	for (unsigned d = 0; d < shape.dims; d++) {
		shape.size[d] = (int32_t)rule_u32_at(r, at + 4 + 12 * d);
		shape.stride[d] = (int32_t)rule_u32_at(r, at + 4 + 12 * CALCULATOR_DIMS +
								  4 * (operands * d + n));
		product = rule_times(product, shape.size[d]);
	}
	if (product != elements)
		return -1;
	if (dense)
		*dense = rule_dense(shape.dims, shape.size, shape.stride, width);
	return shape_reach(&shape);
}

int64_t rule_opaque_bytes(const char **at)
{
	static const char opaque[] = "NS0_10OpaqueTypeILi";
	char *end;
	long bytes;

	if (strncmp(*at, opaque, strlen(opaque)) != 0)
		return rule_template_type(at, type_unknown).bytes;
	bytes = strtol(*at + strlen(opaque), &end, 10);
	if (strncmp(end, "EEE", 3) != 0 || bytes < 1 || bytes > 16)
		return 0;
	*at = end + 3;
	return bytes;
}
