/* SPDX-License-Identifier: Apache-2.0
 *
 * FasterTransformer's softmax: a mask of ones where a key is shown enters as (1 - mask) * -10000,
 * in fp32 or, two numbers at a time, in the operands' own 16 bits.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#define HIDDEN 10000.0

/* -10000 as the type has it. */
static double hidden(int dtype)
{
	return dtype == ATTN_BF16 ? -9984 : -HIDDEN;
}

/* A sequence after the other, its heads, its queries, its keys; the mask without heads. */
static void set_dimensions(struct meaning *meaning, const int64_t size[4])
{
	int64_t dense = 1, masked = 1;

	meaning->dims = 4;
	meaning->elements = 1;
	for (int d = 0; d < 4; d++) {
		meaning->size[d] = size[d];
		for (int i = 0; i < 3; i++)
			meaning->views[i].stride[d] = (i < 2	? dense
						       : d == 2 ? 0
								: masked) *
						      meaning->views[i].element;
		dense *= size[d];
		masked *= d == 2 ? 1 : size[d];
		meaning->elements *= size[d];
	}
}

/* <T, scores, items> or, by two, <T, items, …>(P, S, mask, slopes, int sequences, int heads, int
 * queries, int keys, float or T factor). */
bool rule_read_masked_softmax(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	const bool pairs = rule_has(r, "softmax_kernel_h2");
	const char *at = strstr(r->function->name, "softmax_kernel");
	struct type to, from;
	int64_t size[4], items;

	at = strchr(at, 'I');
	if (!at)
		return false;
	at++;
	to = rule_template_type(&at, type_unknown);
	from = pairs ? to : rule_template_type(&at, to);
	if (to.dtype < 0 || from.dtype < 0 || strncmp(at, "Li", 2) != 0 ||
	    !rule_takes(r, 8, 8, 8, 8, 4, 4, 4, 4, pairs ? (unsigned)to.bytes : 4))
		return false;
	items = at[2] - '0';
	for (unsigned d = 0; d < 4; d++)
		size[d] = rule_number(r, 7 - d);
	if (!rule_times(rule_times(rule_times(size[0], size[1]), rule_times(size[2], size[3])),
			4) ||
	    r->launch->grid[1] != (uint64_t)size[3] || r->launch->grid[2] != (uint64_t)size[2] ||
	    items < 1 || items > 4 || (pairs && size[0] % 2) ||
	    (int64_t)r->launch->block[0] * items * (pairs ? 2 : 1) < size[0] ||
	    !rule_u64_at(r, rule_offset(r, 2)) || rule_u64_at(r, rule_offset(r, 3)))
		return false;
	meaning->role = ROLE_SOFTMAX;
	meaning->view_count = 3;
	rule_set_view(r, 0, rule_offset(r, 0), to);
	rule_set_view(r, 1, rule_offset(r, 1), from);
	rule_set_view(r, 2, rule_offset(r, 2), to);
	set_dimensions(meaning, size);
	meaning->softmax_cols = size[0];
	meaning->softmax_apart = 1;
	meaning->factor = pairs ? rule_value_at(r, rule_offset(r, 8), to.dtype)
				: (double)rule_f32_at(r, rule_offset(r, 8));
	meaning->shown_by_ones = true;
	meaning->summed = pairs ? to.dtype : ATTN_F32;
	meaning->added = hidden(meaning->summed);
	return rule_finish_views(r);
}
