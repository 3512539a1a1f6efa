/* SPDX-License-Identifier: Apache-2.0
 *
 * What two kernels mean that others read the accesses of (rules_reduce.c, rules_cat.c), where they
 * work on rows of scores: reductions of each row to one number, and a column put behind the rows.
 * All else that they are used for keeps ROLE_OPAQUE.
 */
#include "shim/rules/rule_reader.h"

/* Do the dimensions of operand `n` of an OffsetCalculator's `operands` follow one another without a
 * gap, the first in steps of `step` bytes? */
static bool calculator_dense(const struct reading *r, unsigned at, unsigned operands, unsigned n,
			     int64_t step)
{
	const uint32_t dims = rule_u32_at(r, at);

	for (uint32_t d = 0; d < dims && d < CALCULATOR_DIMS; d++) {
		const uint32_t size = rule_u32_at(r, at + 4 + 12 * d);

		if (size > 1 &&
		    step != rule_u32_at(r, at + 4 + 12 * CALCULATOR_DIMS + 4 * (operands * d + n)))
			return false;
		step *= size;
	}
	return dims <= CALCULATOR_DIMS;
}

void rule_mean_reduction(struct reading *r, const struct reduction *what)
{
	struct meaning *meaning = r->meaning;
	const bool all = rule_has(r, "15and_kernel_cuda") && what->from.dtype == ATTN_BOOL;
	const bool most = (rule_has(r, "6MaxOpsI") || rule_has(r, "13MaxNanFunctorI")) &&
			  what->from.dtype >= 0 && what->from.dtype <= ATTN_F32;
	const bool sum = rule_has(r, "11sum_functorI") && what->from.dtype >= 0 &&
			 what->from.dtype <= ATTN_F32;

	if ((!all && !most && !sum) || what->to.dtype != what->from.dtype ||
	    !calculator_dense(r, what->inner, 1, 0, what->from.bytes) ||
	    !calculator_dense(r, what->outer, 2, 1, what->columns * what->from.bytes) ||
	    !calculator_dense(r, what->outer, 2, 0, what->to.bytes))
		return;
	meaning->role = all ? ROLE_ROW_ALL : sum ? ROLE_ROW_SUM : ROLE_ROW_MAX;
	meaning->view_count = 2;
	rule_set_view(r, 0, what->out, what->to);
	rule_set_view(r, 1, what->in, what->from);
	rule_one_dimension(r, what->rows * what->columns);
	meaning->softmax_cols = what->columns;
	meaning->softmax_apart = 1;
}

/* {size[4], stride[4]}: without a gap? The last dimension has `columns`, the others are as of
 * `like`. */
static bool tensor_dense(const struct reading *r, unsigned at, unsigned like, unsigned rank,
			 uint32_t columns)
{
	uint32_t step = 1;

	for (unsigned d = rank; d-- > 0;) {
		const uint32_t size = rule_u32_at(r, at + 4 * d);

		if (size != (d == rank - 1 ? columns : rule_u32_at(r, like + 4 * d)) ||
		    (size > 1 && rule_u32_at(r, at + 16 + 4 * d) != step))
			return false;
		step *= size;
	}
	return true;
}

void rule_mean_cat(struct reading *r, unsigned n, unsigned rank, unsigned width)
{
	const unsigned at = rule_offset(r, 1), out = rule_offset(r, 2);
	const unsigned sizes = at + 21 * n, second = sizes + 32; /* of inputs, where n is 64 */
	const uint32_t columns = rule_u32_at(r, out + 4 * (rank - 1));
	const struct type type = {-1, (int)width};
	struct meaning *meaning = r->meaning;
	uint32_t step = 1;

	if (r->launch->grid[1] != 2 || rank < 2 || rule_size_of(r, 3) != 4 ||
	    rule_u32_at(r, rule_offset(r, 3)) != rank - 1 ||
	    rule_has(r, "CatArrayBatchedCopy_vectorized") || rule_u32_at(r, at + 8 * n) != 0 ||
	    rule_u32_at(r, at + 8 * n + 4) != columns - 1 ||
	    rule_u32_at(r, at + 12 * n) != columns - 1 || rule_u32_at(r, at + 12 * n + 4) != 1 ||
	    !tensor_dense(r, out, out, rank, columns) ||
	    (n == 64 && !tensor_dense(r, sizes, out, rank, columns - 1)))
		return;
	meaning->role = ROLE_CAT;
	meaning->view_count = 3;
	meaning->dims = (int)rank - 1;
	meaning->elements = columns;
	meaning->softmax_cols = columns;
	rule_set_view(r, 0, rule_offset(r, 0), type);
	rule_set_view(r, 1, at, type);
	rule_set_view(r, 2, at + 8, type);
	for (int d = 0; d < meaning->dims; d++) { /* of the column, the innermost first */
		const unsigned from = rank - 2 - (unsigned)d;
		const uint32_t size = rule_u32_at(r, out + 4 * from);

		meaning->size[d] = size;
		meaning->views[2].stride[d] =
			(int64_t)width * (n == 64 ? rule_u32_at(r, second + 16 + 4 * from) : step);
		meaning->elements *= size;
		step *= size;
	}
}
