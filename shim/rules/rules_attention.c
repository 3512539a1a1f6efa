/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch's own multi-head attention puts before and after its products: heads apart with
 * their bias, rows of nested tensors padded and back.
 */
#include "shim/rules/rule_reader.h"

/* (projections[B,S,3HD], bias[3HD], heads[3,B,H,S,D], factor), accessors of longs; a block a row.
 */
bool rule_read_bias_heads(struct reading *r)
{
	const int64_t width = rule_width(r);
	int64_t in, bias, out, size[3], heads[5];
	bool dense;

	if (!rule_takes(r, 56, 24, 88, (unsigned)width))
		return false;
	in = rule_accessor_elements(r, 0, 3, 8, NULL);
	bias = rule_accessor_elements(r, 1, 1, 8, NULL);
	out = rule_accessor_elements(r, 2, 5, 8, &dense);
	for (unsigned d = 0; d < 3; d++)
		size[d] = rule_accessor_size(r, 0, d, 8);
	for (unsigned d = 0; d < 5; d++)
		heads[d] = rule_accessor_size(r, 2, d, 8);
	return heads[0] == 3 && heads[1] == size[0] && heads[3] == size[1] &&
	       rule_times(heads[2], heads[4]) * 3 == size[2] &&
	       rule_accessor_size(r, 1, 0, 8) == size[2] &&
	       rule_times(size[0], size[1]) == r->launch->grid[0] && rule_reads(r, 0, in * width) &&
	       rule_reads(r, 1, bias * width) && rule_writes_some(r, 2, out * width, dense);
}

/* (in, out, int offsets, int sizes, int out sizes, int, int): sizes are on the device. */
bool rule_read_remove_padding(struct reading *r)
{
	if (!rule_takes(r, 8, 8, 8, 8, 8, 4, 4))
		return false;
	for (unsigned i = 0; i < 5; i++)
		rule_follows(r, i, i == 1 ? ACCESS_WRITE : ACCESS_READ);
	return true;
}

/* (in, out, value, int offsets, int sizes, int, int rows, int columns, int batch): the output is
 * written in whole. */
bool rule_read_add_padding(struct reading *r)
{
	const int64_t width = rule_width(r);

	return rule_takes(r, 8, 8, (unsigned)width, 8, 8, 4, 4, 4, 4) &&
	       r->launch->grid[0] == (uint64_t)PARAM(8) && rule_follows(r, 0, ACCESS_READ) &&
	       rule_writes(r, 1, rule_product(PARAM(6), PARAM(7), PARAM(8), width)) &&
	       rule_follows(r, 3, ACCESS_READ) && rule_follows(r, 4, ACCESS_READ);
}
