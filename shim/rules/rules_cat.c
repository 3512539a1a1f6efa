/* SPDX-License-Identifier: Apache-2.0
 *
 * Concatenation: many inputs, one output that may be written in whole.
 */
#include "shim/rules/rule_reader.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that input i of a concatenation extends over, by its sizes and strides; 0: these are not
 * any. */
static uint64_t cat_extent(const struct reading *r, unsigned at, unsigned dims, int64_t width)
{
	int64_t last = 0;

	for (unsigned d = 0; d < dims; d++) {
		const int64_t size = (int32_t)rule_u32_at(r, at + 4 * d);
		const int64_t stride = (int32_t)rule_u32_at(r, at + 16 + 4 * d);

		if (size < 1 || stride < 0)
			return 0;
		last += (size - 1) * stride;
	}
	return (uint64_t)rule_times(last + 1, width);
}

/* What is read from parameter `at` on, of inputs that lie one behind another: one entry of the
 * list, which has no room for as many as a launch takes. */
struct run {
	unsigned at;
	uint64_t bytes; /* 0: of none yet */
};

static void end_run(struct reading *r, struct run *run)
{
	if (run->bytes)
		rule_touch(r, run->at, ACCESS_READ, run->bytes, 0, true);
	run->bytes = 0;
}

static void add_to_run(struct reading *r, struct run *run, unsigned at, uint64_t bytes)
{
	if (!run->bytes || rule_u64_at(r, run->at) + run->bytes != rule_u64_at(r, at)) {
		end_run(r, run);
		run->at = at;
	}
	run->bytes += bytes;
}

/* (output, {inputs[n], offset[n], dim_size[n], elements[n], contiguous[n], {size[4],
 * stride[4]}[n]}, {size[4], stride[4]}, dim, stride): one launch copies up to n inputs, grid.y of
 * them; if these are all, the whole output is written (sizes and strides are in 16 bytes where
 * the kernel moves so many at a time). Where n is 128 only contiguous inputs are
 * given, without sizes. */
bool rule_read_cat(struct reading *r)
{
	const unsigned n = rule_size_of(r, 1) == 3392 ? 64 : rule_size_of(r, 1) == 2720 ? 128 : 0;
	const char *opaque = rule_find(r, "OpaqueTypeILj");
	const unsigned inputs = r->launch->grid[1], at = n ? rule_offset(r, 1) : 0;
	const bool many = inputs >= ACCESS_MAX;
	uint64_t width, unit, total = 0, whole = 1, reach;
	struct run run = {0};
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
		const uint64_t extent = dense || n != 64 ? elements * width
							 : cat_extent(r, at + 21 * n + 32 * i, rank,
								      (int64_t)width);

		total += elements;
		if (elements && !extent)
			return false;
		if (elements && many && dense)
			add_to_run(r, &run, at + 8 * i, extent);
		else if (elements)
			rule_touch(r, at + 8 * i, ACCESS_READ, extent, 0, dense || n == 64);
	}
	end_run(r, &run);
	for (unsigned d = 0; d < rank; d++)
		whole *= rule_u32_at(r, rule_offset(r, 2) + 4 * d);
	unit = rule_has(r, "CatArrayBatchedCopy_vectorized") ? 16 : width;
	whole *= unit;
	reach = cat_extent(r, rule_offset(r, 2), rank, (int64_t)unit);
	if (!whole || reach < whole || total * width > whole)
		return false;
	rule_touch(r, rule_offset(r, 0), ACCESS_WRITE, reach,
		   total * width == whole && reach == whole ? whole : 0, true);
	rule_mean_cat(r, n, rank, (unsigned)width);
	return true;
}
