/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax over the last dimension, forward and backward.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

static bool set_softmax(struct reading *r, unsigned out, unsigned in, struct type to,
			struct type from, int64_t rows, int64_t cols, bool log)
{
	if (!to.bytes || !from.bytes || !rule_times(rule_times(rows, cols), 8))
		return false;
	r->meaning->role = to.dtype < 0 || from.dtype < 0 ? ROLE_OPAQUE
			   : log			  ? ROLE_LOG_SOFTMAX
							  : ROLE_SOFTMAX;
	r->meaning->view_count = 2;
	rule_set_view(r, 0, out, to);
	rule_set_view(r, 1, in, from);
	rule_one_dimension(r, rows * cols);
	r->meaning->softmax_cols = cols;
	r->meaning->softmax_apart = 1;
	r->meaning->factor = 1;
	return true;
}

static bool read_softmax(struct reading *r, unsigned out, unsigned in, struct type to,
			 struct type from, int64_t rows, int64_t cols, bool log)
{
	return set_softmax(r, out, in, to, from, rows, cols, log) && rule_finish_views(r);
}

/* The mask of a softmax that leaves out where it is true: a row without a key left is NaN, as with
 * scores of -inf. It is as large as what it masks, or has a row for each `chunk` of elements, told
 * by the two parameters behind it (a newer form's). False: the words contradict each other. */
static bool view_mask(struct reading *r, int64_t rows, int64_t cols)
{
	struct meaning *meaning = r->meaning;
	const bool in_chunks = r->function->param_count == 8 && r->params[rule_offset(r, 7)];
	const int64_t chunk = in_chunks ? rule_number(r, 6) : cols, each = chunk / cols;

	if (chunk < cols || chunk % cols || rows % each || rows * cols > INT32_MAX)
		return false;
	meaning->view_count = 3;
	rule_set_view(r, 2, rule_offset(r, 5), type_bool);
	rule_one_dimension(r, rows * cols);
	if (!in_chunks)
		return true;
	meaning->dims = 3;
	meaning->size[0] = cols;
	meaning->size[1] = each;
	meaning->size[2] = rows / each;
	for (int i = 0; i < 2; i++) {
		meaning->views[i].stride[1] = cols * meaning->views[i].element;
		meaning->views[i].stride[2] = chunk * meaning->views[i].element;
	}
	meaning->views[2].stride[2] = cols;
	/* Up to 128 columns a warp takes two rows, and for both the first one's row of the mask. */
	if (cols <= 128 && each % 2)
		meaning->role = ROLE_OPAQUE;
	return true;
}

/* <input, output, accumulator, log2, is_log, is_masked>(dst, src, rows, stride, columns, mask, …)
 */
bool rule_read_softmax_warp(struct reading *r)
{
	const struct type from = rule_next_type(r), to = rule_next_type(r);
	const char *at = strstr(r->behind, "ELb");
	int64_t rows, cols;
	bool log, masked;

	if (!rule_takes(r, 8, 8, 4, 4, 4, 8, 4, 1) && !rule_takes(r, 8, 8, 4, 4, 4, 8))
		return false;
	if (!at || !at[3] || strncmp(at + 4, "ELb", 3) != 0)
		return false;
	log = at[3] == '1';
	masked = at[7] == '1';
	rows = PARAM(2);
	cols = PARAM(4);
	if (PARAM(3) != cols ||
	    !set_softmax(r, rule_offset(r, 0), rule_offset(r, 1), to, from, rows, cols, log))
		return false;
	if (masked && (!rule_u64_at(r, rule_offset(r, 5)) || !view_mask(r, rows, cols)))
		return false;
	if (masked && log)
		r->meaning->role = ROLE_OPAQUE;
	return rule_finish_views(r);
}

/* <input, accumulator, output, …>, perhaps behind numbers: what is read, and what is written. */
static void read_types(struct reading *r, struct type *first, struct type *third)
{
	rule_skip_numbers(r);
	*first = rule_next_type(r);
	rule_next_type(r);
	*third = rule_next_type(r);
}

/* As above, (output, input, columns), one row a block. */
bool rule_read_softmax_block(struct reading *r)
{
	struct type from, to;

	read_types(r, &from, &to);
	return (rule_takes(r, 8, 8, 4) || rule_takes(r, 8, 8, 8)) &&
	       read_softmax(r, rule_offset(r, 0), rule_offset(r, 1), to, from, r->launch->grid[0],
			    PARAM(2), rule_has(r, "LogSoftMax"));
}

/* What a gradient of `elements` reads and writes: (gradient of the input, output, its gradient). */
static bool read_gradient(struct reading *r, struct type to, struct type from, int64_t elements)
{
	const int64_t read = rule_product(elements, from.bytes);

	return rule_writes(r, 0, rule_product(elements, to.bytes)) && rule_reads(r, 1, read) &&
	       rule_reads(r, 2, read);
}

/* <[numbers at a time,] gradients, accumulator, output, …>(gradient, output, its gradient,
 * columns), one row a block. */
bool rule_read_softmax_block_backward(struct reading *r)
{
	struct type to, from;

	read_types(r, &to, &from);
	return (rule_takes(r, 8, 8, 8, 4) || rule_takes(r, 8, 8, 8, 8)) &&
	       read_gradient(r, to, from, rule_times(r->launch->grid[0], PARAM(3)));
}

/* <gradients, accumulator, output, …>(gradient, output, its gradient, outer, columns, inner). */
bool rule_read_softmax_spatial_backward(struct reading *r)
{
	struct type to, from;

	read_types(r, &to, &from);
	return rule_takes(r, 8, 8, 8, 4, 4, 4) &&
	       read_gradient(r, to, from, rule_product(PARAM(3), PARAM(4), PARAM(5)));
}

/* <input, accumulator, output, …>(output, input, outer, columns, inner): over another dimension
 * than the last. */
bool rule_read_softmax_spatial(struct reading *r)
{
	const int64_t outer = PARAM(2), columns = PARAM(3), inner = PARAM(4);
	struct type from, to;

	read_types(r, &from, &to);
	if (r->function->param_count != 5 || outer < 1 || columns < 1 || inner < 1 ||
	    !read_softmax(r, rule_offset(r, 0), rule_offset(r, 1), to, from,
			  rule_times(outer, inner), columns, rule_has(r, "LogSoftMax")))
		return false;
	r->meaning->softmax_apart = inner;
	return true;
}

/* <gradients, result, …>(grad_input, grad, output, rows, stride, columns, mask): whoever sees this
 * reads P. */
bool rule_read_softmax_backward(struct reading *r)
{
	const struct type from = rule_next_type(r), to = rule_next_type(r);
	const int64_t elements = rule_times(PARAM(3), PARAM(5));

	return rule_takes(r, 8, 8, 8, 4, 4, 4, 8) && PARAM(4) == PARAM(5) &&
	       rule_reads(r, 6, elements) && /* no mask, or one as large */
	       read_gradient(r, to, from, elements);
}
