/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that live next to attention. They are never part of a chain; what they read and write
 * decides whether scores that nobody needs any more are known to be gone.
 */
#include "rule_reader.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* (int N, eps, X, gamma, beta, mean, rstd, Y), one row a block. */
bool rule_read_layer_norm(struct reading *r)
{
	const char *at = rule_find(r, "layer_norm_kernelI") + 18;
	const struct type type = rule_template_type(&at, type_unknown);
	const uint64_t rows = r->launch->grid[0];
	uint64_t bytes;

	if (r->function->param_count != 8 || rule_size_of(r, 0) != 4 || rule_size_of(r, 7) != 8 ||
	    !type.bytes)
		return false;
	bytes = (uint64_t)rule_u32_at(r, rule_offset(r, 0)) * (uint64_t)type.bytes;
	r->meaning->role = ROLE_OPAQUE;
	rule_reads(r, rule_offset(r, 2), rows * bytes);
	rule_reads(r, rule_offset(r, 3), bytes);
	rule_reads(r, rule_offset(r, 4), bytes);
	rule_writes(r, rule_offset(r, 5), rows * 4);
	rule_writes(r, rule_offset(r, 6), rows * 4);
	rule_writes(r, rule_offset(r, 7), rows * bytes);
	return true;
}

/* Bytes from the first element to beyond the last, where operand `n` of `operands` of an
 * OffsetCalculator says so; it must have `elements` of them. -1: it has not. */
static int64_t calculated_extent(const struct reading *r, unsigned at, unsigned operands,
				 unsigned n, uint32_t elements)
{
	const uint32_t dims = rule_u32_at(r, at);
	uint64_t product = 1;
	int64_t last = 0;

	for (uint32_t d = 0; d < dims && d < CALCULATOR_DIMS; d++) {
		const uint32_t size = rule_u32_at(r, at + 4 + 12 * d);

		product *= size;
		last += (int64_t)(size - 1) *
			rule_u32_at(r, at + 4 + 12 * CALCULATOR_DIMS + 4 * (operands * d + n));
	}
	return dims <= CALCULATOR_DIMS && product == elements ? last : -1;
}

/* One struct: {functor, identity, {…, num_inputs, num_outputs, …}, calculator of an output's
 * inputs, calculator of outputs and of where their inputs begin, src, dst[2], accumulate, block
 * results, semaphores, …}. The pointers stand at fixed distances from its end; calculators hold
 * stack garbage past their dimensions, so only these words may be taken for pointers. */
bool rule_read_reduce(struct reading *r)
{
	const unsigned bytes = rule_size_of(r, 0), at = rule_offset(r, 0);
	const char *in = rule_find(r, "ReduceOpI"), *out;
	const unsigned config = bytes == 1040	? 4
				: bytes == 1048 ? 8
				: bytes == 1056 ? 16
				: bytes == 1064 ? 24
						: 0;
	const unsigned inner = at + config + 64;
	const unsigned outer = inner + 4 + (12 + 4) * CALCULATOR_DIMS;
	struct type from = type_unknown, to = type_unknown;
	int64_t begins, reads = -1, writes;
	uint64_t outputs, extent;

	if (r->function->param_count != 1 || !config)
		return false;
	out = rule_find(r, "Ej");
	if (out)
		to = out[2] == 'S' ? r->function->functor.type : rule_type_of_letter(out[2]);
	if (in) {
		in += strlen("ReduceOpI");
		from = rule_template_type(&in, type_unknown);
	}
	outputs = rule_u32_at(r, at + config + 8);
	writes = calculated_extent(r, outer, 2, 0, (uint32_t)outputs);
	begins = calculated_extent(r, outer, 2, 1, (uint32_t)outputs);
	if (begins >= 0)
		reads = calculated_extent(r, inner, 1, 0, rule_u32_at(r, at + config + 4));
	r->meaning->role = ROLE_OPAQUE;
	if (reads >= 0 && from.bytes)
		rule_reads(r, at + bytes - 64, (uint64_t)(begins + reads + from.bytes));
	else
		rule_touch(r, at + bytes - 64, ACCESS_READ, 0, 0, false);
	if (writes >= 0 && to.bytes) {
		const uint64_t whole = outputs * (uint64_t)to.bytes;

		extent = (uint64_t)(writes + to.bytes);
		rule_touch(r, at + bytes - 56, ACCESS_WRITE, extent, extent == whole ? whole : 0,
			   true);
	} else {
		rule_touch(r, at + bytes - 56, ACCESS_WRITE, 0, 0, false);
	}
	/* where the largest was found, as int64 */
	if (rule_has(r, "6MaxOpsI") && memory_find(rule_u64_at(r, at + bytes - 48)))
		rule_writes(r, at + bytes - 48, outputs * 8);
	for (unsigned back = rule_has(r, "6MaxOpsI") ? 40 : 48; back >= 24; back -= 8)
		if (memory_find(rule_u64_at(r, at + bytes - back)))
			rule_touch(r, at + bytes - back, back == 24 ? ACCESS_UNKNOWN : ACCESS_WRITE,
				   0, 0, false);
	if (reads >= 0 && writes >= 0)
		rule_mean_reduction(r,
				    &(struct reduction){.from = from,
							.to = to,
							.columns = rule_u32_at(r, at + config + 4),
							.rows = (int64_t)outputs,
							.inner = inner,
							.outer = outer,
							.in = at + bytes - 64,
							.out = at + bytes - 56});
	return true;
}

/* Bytes that input i of a concatenation extends over, by its sizes and strides. */
static uint64_t cat_extent(const struct reading *r, unsigned at, unsigned dims, uint64_t width)
{
	uint64_t last = 0;

	for (unsigned d = 0; d < dims; d++)
		last += (uint64_t)(rule_u32_at(r, at + 4 * d) - 1) *
			rule_u32_at(r, at + 16 + 4 * d);
	return (last + 1) * width;
}

/* (output, {inputs[n], offset[n], dim_size[n], elements[n], contiguous[n], {size[4],
 * stride[4]}[n]}, {size[4], stride[4]}, dim, stride): one launch copies up to n inputs, grid.y of
 * them; if these are all, the whole output is written. Where n is 128 only contiguous inputs are
 * given, without sizes. */
bool rule_read_cat(struct reading *r)
{
	const unsigned n = rule_size_of(r, 1) == 3392 ? 64 : rule_size_of(r, 1) == 2720 ? 128 : 0;
	const char *opaque = rule_find(r, "OpaqueTypeILj");
	const unsigned inputs = r->launch->grid[1], at = n ? rule_offset(r, 1) : 0;
	uint64_t width, total = 0, whole = 1;
	const char *dims;
	unsigned rank;

	if (r->function->param_count != 5 || !n || inputs > n || !opaque ||
	    rule_size_of(r, 2) != 32)
		return false;
	width = (uint64_t)strtoul(opaque + 13, NULL, 10);
	dims = strstr(opaque, "EEjLi");
	if (!dims || !width || dims[5] < '1' || dims[5] > '4')
		return false;
	rank = (unsigned)(dims[5] - '0');
	for (unsigned i = 0; i < inputs; i++) {
		const uint64_t elements = rule_u32_at(r, at + 16 * n + 4 * i);
		const bool dense = r->params[at + 20 * n + i];

		total += elements;
		rule_touch(r, at + 8 * i, ACCESS_READ,
			   dense || n != 64 ? elements * width
					    : cat_extent(r, at + 21 * n + 32 * i, rank, width),
			   0, dense || n == 64);
	}
	for (unsigned d = 0; d < rank; d++)
		whole *= rule_u32_at(r, rule_offset(r, 2) + 4 * d);
	whole *= rule_has(r, "CatArrayBatchedCopy_vectorized") ? 16 : width;
	r->meaning->role = ROLE_OPAQUE;
	rule_touch(r, rule_offset(r, 0), ACCESS_WRITE, whole, total * width == whole ? whole : 0,
		   true);
	rule_mean_cat(r, n, rank, (unsigned)width);
	return true;
}

/* TensorInfo, as indexing kernels take it: {data, sizes[25], strides[25], dims}, in elements. Bytes
 * from its data to beyond the last element; 0: it is not one. */
#define TENSOR_INFO_BYTES 216
static uint64_t tensor_info_extent(const struct reading *r, unsigned param, uint64_t width)
{
	const unsigned at = rule_offset(r, param), sizes = at + 8, strides = sizes + 4 * 25;
	uint64_t last = 0;
	uint32_t dims;

	if (rule_size_of(r, param) != TENSOR_INFO_BYTES)
		return 0;
	dims = rule_u32_at(r, strides + 4 * 25);
	for (uint32_t d = 0; d < dims && d < 25; d++)
		last += (uint64_t)(rule_u32_at(r, sizes + 4 * d) - 1) *
			rule_u32_at(r, strides + 4 * d);
	return dims <= 25 ? (last + 1) * width : 0;
}

/* (TensorInfo out, TensorInfo in, TensorInfo indices, …): rows of a table. */
bool rule_read_index_select(struct reading *r)
{
	const char *at = rule_find(r, "IndexI") + strlen("IndexI");
	const struct type type = rule_template_type(&at, type_unknown);
	const uint64_t width = (uint64_t)type.bytes;
	uint64_t out, in, indices;

	if (r->function->param_count < 4 || !width)
		return false;
	out = tensor_info_extent(r, 0, width);
	in = tensor_info_extent(r, 1, width);
	indices = tensor_info_extent(r, 2, 8); /* int64, or half as wide */
	if (!out || !in || !indices)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_touch(r, rule_offset(r, 0), ACCESS_WRITE, out, 0, true);
	rule_reads(r, rule_offset(r, 1), in);
	rule_reads(r, rule_offset(r, 2), indices);
	return true;
}

/* (output, input, indices, int rows, row bytes, …), one row a block. */
bool rule_read_gather(struct reading *r)
{
	if (r->function->param_count < 5 || rule_size_of(r, 3) != 4 || rule_size_of(r, 4) != 8 ||
	    r->launch->grid[0] != rule_u32_at(r, rule_offset(r, 3)))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_touch(r, rule_offset(r, 1), ACCESS_READ, 0, 0, false);
	rule_touch(r, rule_offset(r, 2), ACCESS_READ, 0, 0, false);
	rule_writes(r, rule_offset(r, 0),
		    rule_u32_at(r, rule_offset(r, 3)) * rule_u64_at(r, rule_offset(r, 4)));
	return true;
}

/* (long N, lambda {OffsetCalculator<3>, output, input, …, index pointers}): where it reads depends
 * on the indices. */
bool rule_read_index(struct reading *r)
{
	const unsigned lambda = rule_offset(r, 1);
	const unsigned pointers =
		lambda + ((4 + 12 * CALCULATOR_DIMS + 12 * CALCULATOR_DIMS + 7) & ~7u);
	const char *opaque = rule_find(r, "OpaqueTypeILi");
	struct meaning *meaning = r->meaning;
	int64_t product = 1;

	if (r->function->param_count != 2 || rule_size_of(r, 0) != 8 || !opaque ||
	    pointers + 16 > lambda + rule_size_of(r, 1))
		return false;
	meaning->dims = (int)rule_u32_at(r, lambda);
	if (meaning->dims < 0 || meaning->dims > VIEW_DIMS)
		return false;
	meaning->view_count = 1;
	meaning->elements = (int64_t)rule_u64_at(r, rule_offset(r, 0));
	rule_set_view(r, 0, pointers, (struct type){-1, (int)strtoul(opaque + 13, NULL, 10)});
	for (int d = 0; d < meaning->dims; d++) {
		meaning->size[d] = rule_u32_at(r, lambda + 4 + 12 * (unsigned)d);
		meaning->views[0].stride[d] =
			rule_u32_at(r, lambda + 4 + 12 * CALCULATOR_DIMS + 12 * (unsigned)d);
		product *= meaning->size[d];
	}
	if (product != meaning->elements)
		return false;
	meaning->role = ROLE_OPAQUE;
	rule_finish_views(r);
	rule_touch(r, pointers + 8, ACCESS_READ, 0, 0, false);
	for (unsigned at = pointers + 16; at + 8 <= lambda + rule_size_of(r, 1); at += 8)
		if (memory_find(rule_u64_at(r, at)))
			rule_touch(r, at, ACCESS_READ, 0, 0, false);
	return true;
}

/* (long N, Philox state, transform, lambda {output, int element bytes, …}): random numbers. */
bool rule_read_distribution(struct reading *r)
{
	uint32_t bytes;

	if (r->function->param_count != 4 || rule_size_of(r, 0) != 8 || rule_size_of(r, 3) < 16)
		return false;
	bytes = rule_u32_at(r, rule_offset(r, 3) + 8);
	if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_writes(r, rule_offset(r, 3), rule_u64_at(r, rule_offset(r, 0)) * bytes);
	return true;
}

/* (int N, functor of the index, output): arange and the like; elements are at least a byte wide. */
bool rule_read_with_index(struct reading *r)
{
	if (r->function->param_count != 3 || rule_size_of(r, 0) != 4 || rule_size_of(r, 2) != 8)
		return false;
	r->meaning->role = ROLE_OPAQUE;
	rule_touch(r, rule_offset(r, 2), ACCESS_WRITE, 0, rule_u32_at(r, rule_offset(r, 0)), false);
	return true;
}

/* (TensorInfo in, TensorInfo out, TensorInfo mask, n, …): a pointer at the start of each. */
bool rule_read_dropout(struct reading *r)
{
	const struct type type = r->function->functor.type;
	uint64_t elements;

	if (r->function->param_count < 4 || rule_size_of(r, 0) != 216 || rule_size_of(r, 3) != 4 ||
	    !type.bytes)
		return false;
	elements = rule_u32_at(r, rule_offset(r, 3));
	r->meaning->role = ROLE_DROPOUT;
	r->meaning->elements = (int64_t)elements;
	rule_reads(r, rule_offset(r, 0), elements * (uint64_t)type.bytes);
	rule_writes(r, rule_offset(r, 1), elements * (uint64_t)type.bytes);
	rule_writes(r, rule_offset(r, 2), elements);
	return true;
}
