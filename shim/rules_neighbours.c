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
	const char *at = strstr(r->function->name, "layer_norm_kernelI") + 18;
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

/* One struct: {functor, identity, {…, num_inputs, num_outputs, …}, calculators, src, dst[2],
 * accumulate, block results, semaphores, …}. The pointers stand at fixed distances from its end;
 * calculators hold stack garbage, so only these words may be taken for pointers. */
bool rule_read_reduce(struct reading *r)
{
	const unsigned bytes = rule_size_of(r, 0), at = rule_offset(r, 0);
	const char *out = strstr(r->function->name, "Ej");
	const unsigned config = bytes == 1040 ? 4 : bytes == 1048 ? 8 : bytes == 1056 ? 16 : 0;
	struct type type = type_unknown;
	uint64_t outputs;

	if (r->function->param_count != 1 || !config)
		return false;
	if (out)
		type = out[2] == 'S' ? rule_functor_type(r) : rule_type_of_letter(out[2]);
	outputs = rule_u32_at(r, at + config + 8);
	r->meaning->role = ROLE_OPAQUE;
	rule_touch(r, at + bytes - 64, ACCESS_READ, 0, 0, false);
	rule_touch(r, at + bytes - 56, ACCESS_WRITE, 0, outputs * (uint64_t)type.bytes, false);
	for (unsigned back = 48; back >= 24; back -= 8)
		if (memory_find(rule_u64_at(r, at + bytes - back)))
			rule_touch(r, at + bytes - back, back == 24 ? ACCESS_UNKNOWN : ACCESS_WRITE,
				   0, 0, false);
	return true;
}

/* (output, {inputs[n], offset[n], dim_size[n], elements[n], …}, {size[4], stride[4]}, dim, stride):
 * one launch copies up to n inputs, grid.y of them; if these are all, the whole output is written.
 */
bool rule_read_cat(struct reading *r)
{
	const unsigned n = rule_size_of(r, 1) == 3392 ? 64 : rule_size_of(r, 1) == 2720 ? 128 : 0;
	const char *opaque = strstr(r->function->name, "OpaqueTypeILj");
	const unsigned inputs = r->launch->grid[1], at = n ? rule_offset(r, 1) : 0;
	uint64_t width, total = 0, whole = 1;
	const char *dims;

	if (r->function->param_count != 5 || !n || inputs > n || !opaque ||
	    rule_size_of(r, 2) != 32)
		return false;
	width = (uint64_t)strtoul(opaque + 13, NULL, 10);
	dims = strstr(opaque, "EEjLi");
	if (!dims || !width)
		return false;
	for (unsigned i = 0; i < inputs; i++) {
		const uint64_t elements = rule_u32_at(r, at + 16 * n + 4 * i);

		total += elements;
		rule_touch(r, at + 8 * i, ACCESS_READ, elements * width, 0,
			   r->params[at + 20 * n + i]);
	}
	for (unsigned d = 0; d < (unsigned)(dims[5] - '0') && d < 4; d++)
		whole *= rule_u32_at(r, rule_offset(r, 2) + 4 * d);
	whole *= rule_has(r, "CatArrayBatchedCopy_vectorized") ? 16 : width;
	r->meaning->role = ROLE_OPAQUE;
	rule_touch(r, rule_offset(r, 0), ACCESS_WRITE, whole, total * width == whole ? whole : 0,
		   true);
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
	const char *opaque = strstr(r->function->name, "OpaqueTypeILi");
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
	const struct type type = rule_functor_type(r);
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
