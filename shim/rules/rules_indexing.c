/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that are told by indices where to read or to write: anywhere in the tensor they index,
 * whose extent is in their parameters.
 */
#include "shim/rules/rule_reader.h"

#include <stdlib.h>
#include <string.h>

#include "shim/op/memory.h"

/* Bytes of an index of the type that a letter stands for; 0: of none that there is. */
static int64_t index_width(char letter)
{
	const int bytes = rule_type_of_letter(letter).bytes;

	return bytes == 4 || bytes == 8 ? bytes : 0;
}

/* How many elements a TensorInfo has in all; 0: none. */
static int64_t count(const struct reading *r, unsigned param)
{
	int64_t product = 1, size;

	for (int d = 0; (size = rule_tensor_size(r, param, d)) != 0; d++)
		product = rule_times(product, size);
	return product;
}

/* (TensorInfo out, TensorInfo in, TensorInfo indices, int out dim, int in dim, [total,] inner, long
 * in size): rows of a table. The infos have size 1 in the dimension that is indexed. */
bool rule_read_index_select(struct reading *r)
{
	const bool large = rule_takes(r, 216, 216, 216, 4, 4, 4, 4, 8);
	const int64_t width = rule_width(r), index = index_width(*r->behind);
	const int to = (int)PARAM(3), from = (int)PARAM(4);
	int64_t out, in, rows;
	bool dense;

	if ((!large && !rule_takes(r, 216, 216, 216, 4, 4, 4, 8)) || to < 0 || from < 0)
		return false;
	rows = rule_tensor_size(r, 2, 0);
	out = rule_tensor_elements(r, 0, to, rows, &dense);
	in = rule_tensor_elements(r, 1, from, PARAM(large ? 7 : 6), NULL);
	return rule_tensor_size(r, 0, to) == 1 && rule_tensor_size(r, 1, from) == 1 &&
	       rule_times(count(r, 0), large ? rows : 1) == PARAM(5) &&
	       rule_writes_some(r, 0, out * width, dense) && rule_reads(r, 1, in * width) &&
	       rule_reads(r, 2, rule_tensor_elements(r, 2, -1, 0, NULL) * index);
}

/* (TensorInfo out, TensorInfo in, TensorInfo indices, int out dim, int in dim, total, inner, long
 * out size, long out elements, operation, factor): rows added to those of a table. */
bool rule_read_index_add(struct reading *r)
{
	const int64_t width = rule_width(r), index = index_width(*r->behind);
	const int into = (int)PARAM(3), from = (int)PARAM(4);
	int64_t out, in, whole;

	if (r->function->param_count != 11 || rule_size_of(r, 7) != 8 || rule_size_of(r, 8) != 8 ||
	    into < 0 || from < 0)
		return false;
	whole = PARAM(8);
	out = rule_tensor_elements(r, 0, into, PARAM(7), NULL);
	in = rule_tensor_elements(r, 1, from, rule_tensor_size(r, 2, 0), NULL);
	return out && rule_times(whole, width) && rule_tensor_size(r, 0, into) == 1 &&
	       rule_tensor_size(r, 1, from) == 1 &&
	       rule_changes(r, 0, (whole > out ? whole : out) * width) &&
	       rule_reads(r, 1, in * width) &&
	       rule_reads(r, 2, rule_tensor_elements(r, 2, -1, 0, NULL) * index);
}

/* (output, input, indices, int rows, long row bytes, long rows of the input, long bytes from one of
 * them to the next, and of the output's, bool), one row a block. */
bool rule_read_gather(struct reading *r)
{
	const int64_t rows = PARAM(3), bytes = PARAM(4), table = PARAM(5), in_step = PARAM(6),
		      out_step = PARAM(7);

	rule_skip_numbers(r);
	return rule_takes(r, 8, 8, 8, 4, 8, 8, 8, 8, 1) && rows >= 1 &&
	       r->launch->grid[0] == (uint64_t)rows && rule_times(bytes, 1) &&
	       rule_times(table, in_step) && rule_times(rows, out_step) && in_step >= bytes &&
	       out_step >= bytes &&
	       rule_writes_some(r, 0, (rows - 1) * out_step + bytes, out_step == bytes) &&
	       rule_reads(r, 1, (table - 1) * in_step + bytes) &&
	       rule_reads(r, 2, rows * index_width(*r->behind));
}

/* How far the indices lead: {count, pointers[25], sizes[25], strides[25]}, in bytes; -1: it is none
 * of these. */
static int64_t indexed_reach(const struct reading *r, unsigned at)
{
	const int64_t count = (int64_t)rule_u64_at(r, at);
	const unsigned sizes = at + 8 + 8 * CALCULATOR_DIMS, strides = sizes + 8 * CALCULATOR_DIMS;
	int64_t reach = 0;

	if (count < 1 || count > CALCULATOR_DIMS)
		return -1;
	for (unsigned i = 0; i < count; i++) {
		const int64_t size = (int64_t)rule_u64_at(r, sizes + 8 * i);
		const int64_t stride = (int64_t)rule_u64_at(r, strides + 8 * i);

		if (size < 1 || (size > 1 && stride && !rule_times(size - 1, stride)))
			return -1;
		reach += (size - 1) * stride;
	}
	return reach <= RULE_ROOM ? reach : -1;
}

/* (long N, lambda {OffsetCalculator<3>, output, input, indices as above, …}): x[i, j] or
 * x[i, j] = y. */
bool rule_read_index(struct reading *r)
{
	const unsigned lambda = rule_offset(r, 1), out = lambda + 608, in = out + 8;
	const char *opaque = rule_find(r, "OpaqueTypeILi");
	const bool into = rule_has(r, "21index_put_kernel_implI");
	int64_t n, width, reach, extent[3];
	bool dense;

	if (!rule_takes(r, 8, 1240) || !opaque || (!into && !rule_has(r, "17index_kernel_implI")))
		return false;
	width = strtol(opaque + strlen("OpaqueTypeILi"), NULL, 10);
	n = rule_number(r, 0);
	reach = indexed_reach(r, in + 8);
	for (unsigned i = 0; i < 3; i++)
		extent[i] = rule_calculated(r, lambda, 3, i, n, width, i ? NULL : &dense);
	if (width < 1 || width > 16 || reach < 0 || extent[0] < 0 || extent[1] < 0 || extent[2] < 0)
		return false;
	rule_writes_at(r, out, extent[0] + width + (into ? reach : 0), dense && !into);
	rule_reads_at(r, in, extent[1] + width + (into ? 0 : reach));
	for (unsigned i = 0; i < rule_u64_at(r, in + 8); i++)
		rule_reads_at(r, in + 16 + 8 * i, extent[2] + 8);
	return true;
}

/* (long N, lambda {OffsetCalculator<3>, output, indices, input, long rows, long row stride}). */
bool rule_read_index_copy(struct reading *r)
{
	const unsigned lambda = rule_offset(r, 1), at = lambda + 608;
	const char *opaque = rule_find(r, "OpaqueTypeILi");
	int64_t n, width, rows, stride, extent[3];

	if (!rule_takes(r, 8, 648) || !opaque)
		return false;
	width = strtol(opaque + strlen("OpaqueTypeILi"), NULL, 10);
	n = rule_number(r, 0);
	rows = (int64_t)rule_u64_at(r, at + 24);
	stride = (int64_t)rule_u64_at(r, at + 32);
	for (unsigned i = 0; i < 3; i++) {
		extent[i] = rule_calculated(r, lambda, 3, i, n, width, NULL);
		if (extent[i] < 0)
			return false;
	}
	if (width < 1 || width > 16 || !rule_times(rule_times(rows, stride), width))
		return false;
	return rule_writes_at(r, at, extent[0] + (rows - 1) * stride * width + width, false) &&
	       rule_reads_at(r, at + 8, extent[1] + 8) &&
	       rule_reads_at(r, at + 16, extent[2] + width);
}

/* (int N, lambda {OffsetCalculator<operands>, indices, long rows, operation, self, long row stride,
 * long elements of self, source or value}): self[index] = source, and the other way round. */
bool rule_read_scatter(struct reading *r)
{
	const char *name = rule_find(r, "scatter_gather_internal_kernelILb");
	const char *fill = name ? NULL : rule_find(r, "scatter_fill_internal_kernelI");
	const unsigned operands = name ? 3 : 2, lambda = rule_offset(r, 1);
	const unsigned at = lambda + ((4 + 12 * CALCULATOR_DIMS + 100 * operands + 7) & ~7u);
	int64_t n, width, index, rows, stride, whole, reach, self, extent[3];
	bool scatter = true, dense;

	if ((!name && !fill) || !rule_takes(r, 4, name ? 664 : 560))
		return false;
	if (name) {
		name += strlen("scatter_gather_internal_kernelILb");
		scatter = name[0] == '1';
		name += name[0] && name[1] == 'E' ? 2 : 0;
	} else {
		name = fill + strlen("scatter_fill_internal_kernelI");
	}
	width = rule_opaque_bytes(&name);
	index = *name == 'i' ? 4 : *name == 'l' || *name == 'E' ? 8 : 0;
	n = rule_number(r, 0);
	rows = (int64_t)rule_u64_at(r, at + 8);
	stride = (int64_t)rule_u64_at(r, at + 32);
	whole = (int64_t)rule_u64_at(r, at + 40);
	if (!width || !index || !rule_times(rows, 1) || !rule_times(whole, width) || stride < 0 ||
	    (stride && !rule_times(rule_times(rows, stride), width)))
		return false;
	reach = (rows - 1) * stride * width;
	for (unsigned i = 0; i < operands; i++) { /* self, source, indices */
		extent[i] = rule_calculated(r, lambda, operands, i, n, width, i ? NULL : &dense);
		if (extent[i] < 0)
			return false;
	}
	self = extent[0] + width + (scatter ? reach : 0);
	rule_reads_at(r, at, extent[operands - 1] + index);
	if (!scatter || rule_has(r, "12TensorAssignE"))
		rule_writes_at(r, at + 24, self, dense && !scatter);
	else /* an addition to 16 bits reads and writes the neighbour as well */
		rule_changes_at(r, at + 24, self > whole * width ? self : whole * width);
	if (operands == 3)
		rule_reads_at(r, at + 48, extent[1] + width + (scatter ? 0 : reach));
	return true;
}

/* (indices, gradient, gradient of the table, int N, long columns, int padding): as many rows of the
 * table as there may be. */
bool rule_read_embedding_backward(struct reading *r)
{
	const int64_t width = rule_width(r);

	rule_next_type(r);
	return rule_takes(r, 8, 8, 8, 4, 8, 4) &&
	       rule_reads(r, 0, PARAM(3) * index_width(*r->behind)) &&
	       rule_reads(r, 1, rule_product(PARAM(3), PARAM(4), width)) &&
	       rule_follows(r, 2, ACCESS_UNKNOWN);
}

/* (indices, {sizes[25]}, int dims, long N, how many, long value): flat indices become one row of
 * them for each dimension, in place. */
bool rule_read_write_indices(struct reading *r)
{
	return rule_takes(r, 8, 200, 4, 8, 8, 8) && PARAM(2) <= 25 &&
	       rule_changes(r, 0, rule_product(PARAM(3), PARAM(2), 8)) && rule_reads(r, 4, 8);
}

/* (the last of the running sums, the last of the mask, long size). */
bool rule_read_masked_scatter_check(struct reading *r)
{
	return rule_takes(r, 8, 8, 8) && rule_reads(r, 0, 8) && rule_reads(r, 1, 1);
}

/* Tensors are worked on in parts where the offsets of one go beyond 31 bits. */
static bool may_be_a_part(const struct reading *r)
{
	for (int i = 0; i < r->meaning->view_count; i++) {
		uint64_t begin, end;

		if (!memory_reach(r->meaning->views[i].base, &begin, &end) ||
		    end - begin > INT32_MAX)
			return true;
	}
	return false;
}

/* (int N, functor {source, …}, array<char *, 4>): out = mask ? source[how many were taken before] :
 * in. */
bool rule_read_masked_scatter(struct reading *r)
{
	const struct functor *functor = &r->function->functor;
	const struct type types[4] = {functor->operand[1], functor->operand[1], functor->operand[2],
				      functor->operand[3]};
	const unsigned source = rule_offset(r, 1);
	const int64_t n = rule_number(r, 0);

	if (!rule_takes(r, 4, 16, 32) || n < 1 || functor->operands != 4 || !types[0].bytes ||
	    types[2].dtype != ATTN_BOOL || types[3].bytes != 8)
		return false;
	r->meaning->view_count = 4;
	for (unsigned i = 0; i < 4; i++)
		rule_set_view(r, (int)i, rule_offset(r, 2) + 8 * i, types[i]);
	rule_one_dimension(r, n);
	if (may_be_a_part(r))
		rule_follows_at(r, source, ACCESS_READ);
	else
		rule_reads_at(r, source, n * types[0].bytes);
	rule_follows_all(r, source + 8, 8);
	return rule_finish_views(r);
}
