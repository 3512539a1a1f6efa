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

/* How a version spells it: by pairs in the operands' type, or one by one in fp32; the template, P's
 * type `T`, the scores' `F`, numbers a thread `n`; and the parameters, of which the last is a
 * factor: P `p`, the scores `s` where they lie elsewhere, mask `m`, slopes `a`, then four sizes, or
 * three where there are as many queries as keys, `i`, and the factor, `t` of P's type or `f`. */
static const struct form {
	const char *name;
	bool pairs;
	const char *template, *params;
} forms[] = {
	{"14softmax_kernelI", false, "TFn", "psmaiiiif"},
	{"17softmax_kernel_h2I", true, "Tn", "psmaiiiit"},
	{"20softmax_kernel_h2_v2I", true, "Tn", "psmaiiiit"},
	{"17softmax_kernel_v4I", false, "nTF", "psmiiiit"},
	{"17softmax_kernel_v4I", false, "nTF", "psmiiit"},
	{"23softmax_kernel_v4_half2I", true, "Tn", "pmiiiit"},
	{"23softmax_kernel_v4_half2I", true, "Tn", "pmiiit"},
	{"23softmax_kernel_v5_half2I", true, "Tn", "pmiiiit"},
	{"23softmax_kernel_v5_half2I", true, "Tn", "pmiiit"},
};

/* What a launch says in its form. */
struct said {
	struct type to, from;
	int64_t items, size[4]; /* keys, queries, heads, sequences */
	unsigned out, in, mask, slopes, factor;
};

/* Template arguments that begin at `at`. */
static bool read_template(struct said *said, const char *template, const char *at)
{
	said->to = said->from = type_unknown;
	for (; *template; template ++)
		if (*template != 'n') {
			const struct type type = rule_template_type(&at, said->to);

			*(*template == 'T' ? &said->to : &said->from) = type;
		} else {
			if (strncmp(at, "Li", 2) != 0 || at[2] < '1' || at[2] > '4' || at[3] != 'E')
				return false;
			said->items = at[2] - '0';
			at += 4;
		}
	if (!said->from.bytes)
		said->from = said->to;
	return said->to.dtype >= 0 && said->from.dtype >= 0;
}

static bool read_params(struct said *said, const struct reading *r, const char *params)
{
	int64_t sizes[4];
	unsigned n = 0;

	if (r->function->param_count != strlen(params))
		return false;
	for (unsigned i = 0; params[i]; i++) {
		const unsigned bytes = rule_size_of(r, i);

		if (bytes != (params[i] == 'i' || params[i] == 'f' ? 4
			      : params[i] == 't'		   ? (unsigned)said->to.bytes
								   : 8))
			return false;
		if (params[i] == 'i')
			sizes[n++] = rule_number(r, i);
		else
			*(params[i] == 'p'   ? &said->out
			  : params[i] == 's' ? &said->in
			  : params[i] == 'm' ? &said->mask
			  : params[i] == 'a' ? &said->slopes
					     : &said->factor) = rule_offset(r, i);
	}
	if (params[1] != 's')
		said->in = said->out;
	for (unsigned d = 0; d < 4; d++)
		said->size[d] = sizes[d < 2 && n == 3 ? 2 : 3 - d];
	return true;
}

static bool read_form(struct said *said, const struct reading *r, bool *pairs)
{
	for (unsigned i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		const char *at = strstr(r->function->name, forms[i].name);

		memset(said, 0, sizeof(*said));
		*pairs = forms[i].pairs;
		if (at && read_template(said, forms[i].template, at + strlen(forms[i].name)) &&
		    read_params(said, r, forms[i].params))
			return true;
	}
	return false;
}

bool rule_read_masked_softmax(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	struct said said;
	bool pairs;

	if (!read_form(&said, r, &pairs) ||
	    !rule_times(rule_times(rule_times(said.size[0], said.size[1]),
				   rule_times(said.size[2], said.size[3])),
			4) ||
	    r->launch->grid[1] != (uint64_t)said.size[3] ||
	    r->launch->grid[2] != (uint64_t)said.size[2] || (pairs && said.size[0] % 2) ||
	    (int64_t)r->launch->block[0] * said.items * (pairs ? 2 : 1) < said.size[0] ||
	    !rule_u64_at(r, said.mask) || (said.slopes && rule_u64_at(r, said.slopes)))
		return false;
	meaning->role = ROLE_SOFTMAX;
	meaning->view_count = 3;
	rule_set_view(r, 0, said.out, said.to);
	rule_set_view(r, 1, said.in, said.from);
	rule_set_view(r, 2, said.mask, said.to);
	set_dimensions(meaning, said.size);
	meaning->softmax_cols = said.size[0];
	meaning->softmax_apart = 1;
	meaning->summed = pairs ? said.to.dtype : ATTN_F32;
	meaning->factor = rule_value_at(
		r, said.factor,
		rule_size_of(r, r->function->param_count - 1) == 4 ? ATTN_F32 : said.to.dtype);
	meaning->shown_by_ones = true;
	meaning->added = hidden(meaning->summed);
	return rule_finish_views(r);
}
