/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that ggml puts around the products of its attention, in the forms that they had over
 * time: what a block of another form says is not guessed. None of them is in a namespace: where a
 * name could be somebody else's, all of the signature is asked for.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

#include "shim/rules/shadow.h"

/* ---- softmax -------------------------------------------------------------------------------- */

/* soft_max_params, by byte. */
enum {
	PARAMS_COLUMNS = 16,
	PARAMS_ROWS = 48, /* three sizes: of a matrix, of matrices, of these */
	PARAMS_MASK_STRIDES = 72,
	PARAMS_MASK_SIZES = 96, /* matrices of the mask, and these, come round again */
	PARAMS_SCALE = 112,
	PARAMS_SLOPE = 116, /* most of ALiBi's; 0: there are none */
	PARAMS_BYTES = 128
};

/* Adds a dimension to all views; a stride of 0: it comes round again. `sink`: of the sinks. */
static bool add_dimension(struct meaning *meaning, int64_t size, int64_t dense, int64_t mask,
			  int64_t sink)
{
	const int d = meaning->dims;

	if (size == 1)
		return true;
	if (d == VIEW_DIMS || size < 1)
		return false;
	meaning->size[d] = size;
	for (int i = 0; i < meaning->view_count; i++)
		meaning->views[i].stride[d] = i == 2   ? mask
					      : i == 3 ? sink
						       : dense * meaning->views[i].element;
	meaning->dims++;
	return true;
}

/* The type of the mask: <bool, int, int, T>. */
static struct type mask_type(const struct reading *r)
{
	const char *at = rule_find(r, "12soft_max_f32I");

	at = at ? strstr(at, "ELi") : NULL;
	at = at ? strstr(at + 3, "ELi") : NULL;
	at = at ? strchr(at + 3, 'E') : NULL;
	if (!at)
		return type_unknown;
	at++;
	return rule_template_type(&at, type_unknown);
}

/* sinks: where the pointer to them is; 0: there are none. */
static bool set_views(struct reading *r, unsigned out, unsigned mask, unsigned sinks, float scale)
{
	struct meaning *meaning = r->meaning;
	const struct type type = mask_type(r);

	if (type.dtype < 0 || type.dtype > ATTN_F32)
		return false;
	meaning->role = ROLE_SOFTMAX;
	meaning->view_count = sinks ? 4 : rule_u64_at(r, mask) ? 3 : 2;
	if (sinks && !rule_u64_at(r, mask))
		return false;
	rule_set_view(r, 0, out, type_float);
	rule_set_view(r, 1, rule_offset(r, 0), type_float);
	rule_set_view(r, 2, mask, type);
	rule_set_view(r, 3, sinks, type_float);
	meaning->softmax_apart = 1;
	meaning->factor = (double)scale;
	meaning->added = 1;
	meaning->summed = ATTN_F32;
	return true;
}

/* (x, mask, [sinks,] out, soft_max_params): [ne03,ne02,ne01,columns], a block a row. */
static bool read_by_params(struct reading *r, unsigned out)
{
	struct meaning *meaning = r->meaning;
	const unsigned at = rule_offset(r, out + 1);
	const int64_t columns = (int64_t)rule_u64_at(r, at + PARAMS_COLUMNS);
	const bool sinks = out == 3 && rule_u64_at(r, rule_offset(r, 2));
	int64_t size[3], again[3], stride[3], done = columns;

	if (rule_f32_at(r, at + PARAMS_SLOPE) != 0 || columns < 1)
		return false;
	again[0] = 0;
	again[1] = (int64_t)rule_u64_at(r, at + PARAMS_MASK_SIZES);
	again[2] = (int64_t)rule_u64_at(r, at + PARAMS_MASK_SIZES + 8);
	for (unsigned d = 0; d < 3; d++) {
		size[d] = (int64_t)rule_u64_at(r, at + PARAMS_ROWS + 8 * d);
		stride[d] = (int64_t)rule_u64_at(r, at + PARAMS_MASK_STRIDES + 8 * d);
		again[d] = d ? again[d] : size[d];
		if (size[d] != r->launch->grid[d] || again[d] < 1 || stride[d] < 0 ||
		    stride[d] > RULE_ROOM || (again[d] < size[d] && size[d] % again[d]))
			return false;
	}
	if (!rule_times(rule_times(rule_times(columns, size[0]), rule_times(size[1], size[2])),
			4) ||
	    !set_views(r, rule_offset(r, out), rule_offset(r, 1), sinks ? rule_offset(r, 2) : 0,
		       rule_f32_at(r, at + PARAMS_SCALE)))
		return false;
	meaning->softmax_cols = columns;
	meaning->elements = columns * size[0] * size[1] * size[2];
	add_dimension(meaning, columns, 1, meaning->views[2].element, 0);
	for (unsigned d = 0; d < 3; d++) {
		const int64_t once = again[d] < size[d] ? again[d] : size[d];
		const int64_t sink = d == 1 ? meaning->views[3].element : 0; /* one a head */

		if (!add_dimension(meaning, once, done, stride[d], sink) ||
		    !add_dimension(meaning, size[d] / once, done * once, 0, sink * once))
			return false;
		done *= size[d];
	}
	return rule_finish_views(r);
}

/* (x, mask, out, int columns, int rows of the mask, float scale, float slope, float, float, int): a
 * block a row, and the mask comes round again. */
static bool read_by_words(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	const int64_t columns = rule_number(r, 3), once = rule_number(r, 4);
	const int64_t rows = r->launch->grid[0];
	const int64_t of_mask = once < rows ? once : rows;

	if (columns < 1 || once < 1 || rows % of_mask || rule_f32_at(r, rule_offset(r, 6)) != 0 ||
	    r->launch->grid[1] != 1 || r->launch->grid[2] != 1 ||
	    !rule_times(rule_times(columns, rows), 4) ||
	    !set_views(r, rule_offset(r, 2), rule_offset(r, 1), 0,
		       rule_f32_at(r, rule_offset(r, 5))))
		return false;
	meaning->softmax_cols = columns;
	meaning->elements = columns * rows;
	add_dimension(meaning, columns, 1, meaning->views[2].element, 0);
	add_dimension(meaning, of_mask, columns, columns * meaning->views[2].element, 0);
	add_dimension(meaning, rows / of_mask, columns * of_mask, 0, 0);
	return rule_finish_views(r);
}

bool rule_read_ggml_softmax(struct reading *r)
{
	if (rule_takes(r, 8, 8, 8, 8, PARAMS_BYTES))
		return read_by_params(r, 3);
	if (rule_takes(r, 8, 8, 8, PARAMS_BYTES))
		return read_by_params(r, 2);
	return rule_takes(r, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4) && read_by_words(r);
}

/* ---- element by element --------------------------------------------------------------------- */

static bool read_unary(struct reading *r, enum rule_role role, struct type to, struct type from,
		       unsigned out, unsigned in, int64_t elements)
{
	if (!to.bytes || !from.bytes || !rule_times(elements, 4))
		return false;
	r->meaning->role = role;
	r->meaning->view_count = 2;
	rule_set_view(r, 0, rule_offset(r, out), to);
	rule_set_view(r, 1, rule_offset(r, in), from);
	rule_one_dimension(r, elements);
	return rule_finish_views(r);
}

static void convert_types(const struct reading *r, const char *needle, struct type *from,
			  struct type *to)
{
	const char *at = strstr(r->function->name, needle) + strlen(needle);

	*from = rule_template_type(&at, type_unknown);
	*to = rule_template_type(&at, *from);
}

/* <from, to>(in, out, long sizes[2], long size, {…, size of the third}, long strides[3]): each
 * thread begins at a row of its own, all are gone over. Before, (in, out, long sizes[3], long
 * strides[3]), a block in z for each matrix; and (in, out, long elements). */
bool rule_read_ggml_convert(struct reading *r)
{
	struct meaning *meaning = r->meaning;
	const bool now = rule_takes(r, 8, 8, 8, 8, 8, 12, 8, 8, 8);
	int64_t size[4], from_size;
	struct type from, to;

	convert_types(r, "13convert_unaryI", &from, &to);
	if (rule_takes(r, 8, 8, 8))
		return read_unary(r, ROLE_COPY, to, from, 1, 0, rule_number(r, 2));
	if (!now && !rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8))
		return false;
	size[0] = rule_number(r, 2);
	size[1] = rule_number(r, 3);
	from_size = now ? rule_number(r, 4) : r->launch->grid[2];
	size[2] = now ? rule_u32_at(r, rule_offset(r, 5) + 8) : rule_number(r, 4);
	if (!from.bytes || !to.bytes || size[2] < 1 || from_size < 1 || from_size % size[2] ||
	    (!now && r->launch->grid[1] != (uint64_t)size[1]) ||
	    (uint64_t)r->launch->grid[0] * r->launch->block[0] < (uint64_t)size[0])
		return false;
	size[3] = from_size / size[2];
	meaning->elements = rule_times(rule_times(size[0], size[1]), rule_times(size[2], size[3]));
	if (!rule_times(meaning->elements, 4))
		return false;
	meaning->role = ROLE_COPY;
	meaning->view_count = 2;
	meaning->dims = 4;
	rule_set_view(r, 0, rule_offset(r, 1), to);
	rule_set_view(r, 1, rule_offset(r, 0), from);
	for (int d = 0, done = 0; d < 4; d++) {
		const int64_t stride = d ? rule_number(r, (now ? 6 : 5) + (unsigned)d - 1) : 1;

		if (stride < 0 || stride > RULE_ROOM)
			return false;
		meaning->size[d] = size[d];
		meaning->views[0].stride[d] =
			done ? meaning->views[0].stride[d - 1] * size[d - 1] : to.bytes;
		meaning->views[1].stride[d] = stride * from.bytes;
		done = 1;
	}
	return rule_finish_views(r);
}

/* <from, to>(in, out, long quarters). */
bool rule_read_ggml_convert_four(struct reading *r)
{
	struct type from, to;

	convert_types(r, "23convert_unary_cont_vec4I", &from, &to);
	return rule_takes(r, 8, 8, 8) &&
	       read_unary(r, ROLE_COPY, to, from, 1, 0, rule_times(rule_number(r, 2), 4));
}

/* (in, out, float factor, float summand, int or long elements); before, without a summand. */
bool rule_read_ggml_scale(struct reading *r)
{
	const bool before = rule_takes(r, 8, 8, 4, 4);

	if (!before && !rule_takes(r, 8, 8, 4, 4, 4) && !rule_takes(r, 8, 8, 4, 4, 8))
		return false;
	r->meaning->scalar = (double)rule_f32_at(r, rule_offset(r, 2));
	return read_unary(
		r, !before && rule_f32_at(r, rule_offset(r, 3)) != 0 ? ROLE_OPAQUE : ROLE_SCALE,
		type_float, type_float, 1, 0, rule_number(r, before ? 3 : 4));
}

/* (in, out, float factor, float cap, int elements): cap * tanh(factor * in). */
bool rule_read_ggml_softcap(struct reading *r)
{
	if (!rule_takes(r, 8, 8, 4, 4, 4))
		return false;
	r->meaning->scalar = (double)rule_f32_at(r, rule_offset(r, 2));
	r->meaning->factor = (double)rule_f32_at(r, rule_offset(r, 3));
	return read_unary(r, ROLE_SOFTCAP, type_float, type_float, 1, 0, rule_number(r, 4));
}

/* <function, T>(in, out, int elements). */
bool rule_read_ggml_unary(struct reading *r)
{
	const bool tanh = rule_has(r, "7op_tanhEfEE") || rule_has(r, "7op_tanhfEE");
	const char *at = rule_find(r, "fEE");
	struct type type;

	if (!at || !rule_has(r, "EvPKT0_PS") || !rule_takes(r, 8, 8, 4))
		return false;
	at += strlen("fEE");
	type = rule_template_type(&at, type_unknown);
	return read_unary(r, tanh ? ROLE_TANH : ROLE_OPAQUE, type, type, 1, 0, rule_number(r, 2));
}

/* ---- arrays of addresses -------------------------------------------------------------------- */

/* (A, B, C, their arrays, C's array, long entries, long of these, long all, and bytes from one to
 * the next: two for A, two for B, two for C; long entries of B that share one of A, twice). */
struct pointers {
	int64_t entries, outer, all;
	int64_t stride[3][2], shared[2];
};

static bool read_pointers(const struct reading *r, struct pointers *p)
{
	if (!rule_takes(r, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8))
		return false;
	p->entries = rule_number(r, 5);
	p->outer = rule_number(r, 6);
	p->all = rule_number(r, 7);
	for (unsigned i = 0; i < 6; i++) {
		p->stride[i / 2][i % 2] = rule_number(r, 8 + i);
		if (rule_number(r, 8 + i) < 0 || rule_number(r, 8 + i) > RULE_ROOM)
			return false;
	}
	for (unsigned i = 0; i < 2; i++)
		p->shared[i] = rule_number(r, 14 + i);
	return p->shared[0] > 0 && p->shared[1] > 0 && p->all > 0 && p->all <= RULE_ROOM / 16 &&
	       rule_times(p->entries, p->outer) == p->all &&
	       (uint64_t)r->launch->grid[0] * r->launch->block[0] >= (uint64_t)p->outer &&
	       (uint64_t)r->launch->grid[1] * r->launch->block[1] >= (uint64_t)p->entries;
}

bool rule_read_ggml_pointers(struct reading *r)
{
	struct pointers p;

	if (!read_pointers(r, &p))
		return false;
	r->meaning->role = ROLE_ADDRESSES;
	return rule_writes(r, 3, p.all * 16) && rule_writes(r, 4, p.all * 8);
}

#define MOST 1024 /* entries; the shadow has room for arrays of two each */

void rules_put_addresses(const struct function *function, const struct op_launch *launch,
			 const unsigned char *params)
{
	static uint64_t word[3 * MOST]; /* flow lock */
	const struct reading r = {.function = function, .launch = launch, .params = params};
	struct pointers p;

	if (rule_put_range(&r) || !read_pointers(&r, &p) || p.all > MOST)
		return;
	for (int64_t outer = 0; outer < p.outer; outer++)
		for (int64_t inner = 0; inner < p.entries; inner++)
			for (int i = 0; i < 3; i++) {
				const int64_t a = i ? inner : inner / p.shared[0];
				const int64_t b = i ? outer : outer / p.shared[1];

				word[i * p.all + outer * p.entries + inner] =
					rule_u64_at(&r, rule_offset(&r, (unsigned)i)) +
					(uint64_t)(a * p.stride[i][0] + b * p.stride[i][1]);
			}
	shadow_put(rule_u64_at(&r, rule_offset(&r, 3)), word, (uint64_t)p.all * 16);
	shadow_put(rule_u64_at(&r, rule_offset(&r, 4)), word + 2 * p.all, (uint64_t)p.all * 8);
}
