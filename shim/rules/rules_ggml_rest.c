/* SPDX-License-Identifier: Apache-2.0
 *
 * ggml's kernels between one attention and the next: which bytes they touch, no more. All of a
 * graph's tensors lie in one allocation, scores among them: where the end of an operand is not
 * known, it is in the scores.
 *
 * A size that is divided by comes as {magic, shift, size}.
 */
#include "shim/rules/rule_reader.h"

#include <string.h>

static int64_t divisor(const struct reading *r, unsigned param)
{
	return rule_u32_at(r, rule_offset(r, param) + 8);
}

/* Sizes and strides of an operand, in elements, the first dimension without a gap. */
struct extent {
	int64_t size[4], stride[4];
};

/* Elements from the first to the last. 0: it is none. */
static int64_t reach(const struct extent *e)
{
	int64_t last = 0;

	for (int d = 0; d < 4; d++) {
		if (e->size[d] < 1 || e->stride[d] < 0 || e->size[d] > RULE_ROOM)
			return 0;
		if (e->size[d] > 1 && e->stride[d]) {
			const int64_t more = rule_times(e->size[d] - 1, e->stride[d]);

			if (!more)
				return 0;
			last += more;
		}
	}
	return last < RULE_ROOM / 8 ? last + 1 : 0;
}

static bool dense(const struct extent *e)
{
	int64_t next = 1;

	for (int d = 0; d < 4; d++) {
		if (e->size[d] > 1 && e->stride[d] != next)
			return false;
		next *= e->size[d];
	}
	return true;
}

static bool touch(struct reading *r, unsigned param, const struct extent *e, int bytes, bool writes,
		  bool whole)
{
	const int64_t elements = reach(e);

	if (!elements || bytes < 1)
		return false;
	if (writes)
		rule_writes_some(r, param, elements * bytes, whole && dense(e));
	else
		rule_reads(r, param, elements * bytes);
	return true;
}

/* So many threads, in each of the three dimensions? */
static bool threads(const struct reading *r, int64_t x, int64_t y, int64_t z)
{
	const int64_t all[3] = {x, y, z};

	for (int d = 0; d < 3; d++)
		if ((int64_t)r->launch->grid[d] * r->launch->block[d] < all[d])
			return false;
	return true;
}

/* <function, A, B, C, …>(A, B, C, sizes[3] and {…, size}, {…, size of B}[4], strides of C[3], of A
 * [4], of B[4], further B …): one B or, in its place, all of the further ones. Before, (A, B, C,
 * int sizes[4], of B[4], strides[3] of each). */
bool rule_read_ggml_binary(struct reading *r)
{
	const char *at = rule_find(r, "ffEE");
	struct extent a = {.stride = {1}}, b = {.stride = {1}}, c = {.stride = {1}};
	const unsigned count = r->function->param_count;
	const bool now = count >= 22 && rule_size_of(r, 6) == 12;
	struct type type[3];

	if (!at || (!now && count != 20) || rule_size_of(r, 0) != 8 || rule_size_of(r, 1) != 8 ||
	    rule_size_of(r, 2) != 8)
		return false;
	at += strlen("ffEE");
	type[0] = rule_template_type(&at, type_unknown);
	type[1] = rule_template_type(&at, type[0]);
	type[2] = rule_template_type(&at, type[0]);
	for (unsigned i = 3; i < count; i++)
		if (rule_size_of(r, i) != (now && i >= 22 ? 8 : now && i >= 6 && i < 11 ? 12 : 4))
			return false;
	for (unsigned d = 0; d < 4; d++) {
		a.size[d] = now && d == 3 ? divisor(r, 6) : rule_number(r, 3 + d);
		b.size[d] = now ? divisor(r, 7 + d) : rule_number(r, 7 + d);
		if (d)
			c.stride[d] = rule_number(r, 10 + d);
		if (now) {
			a.stride[d] = rule_number(r, 14 + d);
			b.stride[d] = rule_number(r, 18 + d);
		} else if (d) {
			a.stride[d] = rule_number(r, 13 + d);
			b.stride[d] = rule_number(r, 16 + d);
		}
		c.size[d] = a.size[d];
	}
	if (!threads(r, 1, a.size[1], rule_times(a.size[2], a.size[3])) ||
	    !touch(r, 2, &c, type[2].bytes, true, true) ||
	    !touch(r, 0, &a, type[0].bytes, false, false))
		return false;
	for (unsigned i = now && count > 22 ? 22 : 1; i < count; i = i == 1 ? count : i + 1)
		if (!touch(r, i, &b, type[1].bytes, false, false))
			return false;
	r->meaning->role = ROLE_OPAQUE;
	return true;
}

/* A factor or summand of a norm: (pointer, long strides[3], {…, size}[4]) at `param`. */
static bool touch_packed(struct reading *r, unsigned param)
{
	struct extent e = {.stride = {1}};

	for (unsigned d = 0; d < 4; d++) {
		e.size[d] = divisor(r, param + 4 + d);
		if (d)
			e.stride[d] = rule_number(r, param + d);
	}
	return !rule_u64_at(r, rule_offset(r, param)) || touch(r, param, &e, 4, false, false);
}

/* <threads, …>(in, out, int columns, long strides[3], float, [factor, [summand, [float]]]): a block
 * a row. */
bool rule_read_ggml_rms_norm(struct reading *r)
{
	static const unsigned sizes[24] = {8,  8,  4,  8, 8, 8, 4, 8,  8,  8,  8,  12,
					   12, 12, 12, 8, 8, 8, 8, 12, 12, 12, 12, 4};
	const unsigned count = r->function->param_count;
	struct extent in = {.stride = {1}}, out = {.stride = {1}};

	if ((count != 7 && count != 15 && count != 23 && count != 24) ||
	    !rule_takes_sizes(r, count, sizes))
		return false;
	in.size[0] = out.size[0] = rule_number(r, 2);
	for (unsigned d = 1; d < 4; d++) {
		in.size[d] = out.size[d] = r->launch->grid[d - 1];
		in.stride[d] = rule_number(r, 2 + d);
		out.stride[d] = out.stride[d - 1] * out.size[d - 1];
	}
	if (!touch(r, 1, &out, 4, true, true) || !touch(r, 0, &in, 4, false, false) ||
	    (count > 7 && !touch_packed(r, 7)) || (count > 15 && !touch_packed(r, 15)))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	return true;
}

/* <bool, bool, in, [out]>(in, out, int sizes[3], strides of in[3], of out[3], dimensions [and where
 * they begin], positions, float, float, float, {float, float}, float, factors, rows, int stride of
 * rows, [bool]): pairs of numbers in each row are turned. With rows, out is written where these
 * say. Before, (in, out, int size, int rows, strides of in[2], dimensions, positions, …, factors,
 * [rows, their stride]). */
bool rule_read_ggml_rope(struct reading *r)
{
	static const unsigned now[] = {8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
				       4, 8, 4, 4, 4, 8, 4, 8, 8, 4, 1};
	static const unsigned then[] = {8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4,
					4, 8, 4, 4, 4, 8, 4, 8, 8, 4};
	static const unsigned before[] = {8, 8, 4, 4, 4, 4, 4, 8, 4, 4, 4, 8, 4, 8, 8, 4};
	const bool is_now = rule_takes_sizes(r, 23, now), is_then = rule_takes_sizes(r, 21, then);
	const bool is_before = rule_takes_sizes(r, 14, before) || rule_takes_sizes(r, 16, before);
	const bool names_rows = r->function->param_count > 14;
	const unsigned positions = is_now ? 13 : is_then ? 12 : 7, strides = is_before ? 4 : 5;
	const unsigned factors = positions + 6, dims = is_before ? 6 : 11;
	const char *at = strstr(r->function->name, "ELb");
	struct extent in = {.stride = {1}}, out = {.stride = {1}};
	int64_t rows = r->launch->grid[0];
	struct type from, to;

	if (!at || r->launch->block[0] != 1 ||
	    2 * (int64_t)r->launch->grid[1] * r->launch->block[1] < rule_number(r, 2) ||
	    (!is_now && !is_then && !is_before))
		return false;
	at = strchr(at + 3, 'E') + 1;
	from = rule_template_type(&at, type_unknown);
	to = *at == 'E' ? from : rule_template_type(&at, from);
	in.size[0] = rule_number(r, 2);
	in.size[1] = rule_number(r, 3);
	in.size[2] = is_before ? rows / (in.size[1] ? in.size[1] : 1) : rule_number(r, 4);
	if (!rule_times(in.size[1], in.size[2]) || rows % (in.size[1] * in.size[2]))
		return false;
	in.size[3] = rows / (in.size[1] * in.size[2]);
	for (unsigned d = 1; d < 4; d++) {
		out.size[d] = in.size[d];
		in.stride[d] = is_before && d == 3 ? 0 : rule_number(r, strides + d - 1);
		out.stride[d] = is_before ? (d == 1 ? in.size[0] : in.size[0] * in.size[1])
					  : rule_number(r, 8 + d - 1);
	}
	out.size[0] = in.size[0];
	if (!touch(r, 0, &in, from.bytes, false, false))
		return false;
	if (names_rows && rule_number(r, factors + 2)) {
		rule_follows(r, 1, ACCESS_WRITE);
		rule_reads(r, factors + 1, in.size[2] * 8);
	} else if (!touch(r, 1, &out, to.bytes, true,
			  !is_now || !r->params[rule_offset(r, 22)] ||
				  rule_number(r, dims) >= in.size[0])) {
		return false;
	}
	rule_reads(r, positions, in.size[2] * 4);
	rule_reads(r, factors, in.size[0] * 2);
	r->meaning->role = ROLE_OPAQUE;
	return true;
}

/* <from, index, to>(in, indices, out, long elements, long sizes of indices[4], strides of in[3], of
 * indices[3], of out[3], {…, size}[5]): rows of out, which the indices name. Before, without the
 * last, and sizes of in for elements. */
bool rule_read_ggml_set_rows(struct reading *r)
{
	const char *at = strstr(r->function->name, "10k_set_rowsI");
	const bool now = r->function->param_count == 22;
	struct extent in = {.stride = {1}}, index = {.stride = {0, 0, 0, 0}};
	struct type from, of_index;

	if (!at || (!now && r->function->param_count != 20))
		return false;
	for (unsigned i = 0; i < r->function->param_count; i++)
		if (rule_size_of(r, i) != (now && i >= 17 ? 12 : 8))
			return false;
	at += strlen("10k_set_rowsI");
	from = rule_template_type(&at, type_unknown);
	of_index = rule_template_type(&at, from);
	for (unsigned d = 0; d < 3; d++) {
		in.size[d] = now ? divisor(r, 17 + d) : rule_number(r, 3 + d);
		in.stride[d + 1] = rule_number(r, (now ? 8 : 11) + d);
		index.size[d] = rule_number(r, (now ? 4 : 7) + d);
		index.stride[d] = rule_number(r, (now ? 11 : 14) + d);
	}
	index.size[3] = 1;
	in.size[3] = rule_number(r, now ? 3 : 6);
	if (now) {
		const int64_t each = rule_times(rule_times(in.size[0], in.size[1]), in.size[2]);

		if (!each || in.size[3] % each)
			return false;
		in.size[3] /= each;
	}
	if (!touch(r, 0, &in, from.bytes, false, false) ||
	    !touch(r, 1, &index, of_index.bytes, false, false))
		return false;
	rule_follows(r, 2, ACCESS_WRITE);
	r->meaning->role = ROLE_OPAQUE;
	return true;
}

/* <function, T>(a, b, out, long elements, long columns, row strides of a and b). */
bool rule_read_ggml_gated(struct reading *r)
{
	const char *at = rule_find(r, "fEE");
	struct extent in[2], out = {.stride = {1}};
	struct type type;
	int64_t columns;

	if (!at || !rule_takes(r, 8, 8, 8, 8, 8, 8, 8))
		return false;
	at += strlen("fEE");
	type = rule_template_type(&at, type_unknown);
	columns = rule_number(r, 4);
	out.size[0] = rule_number(r, 3);
	out.size[1] = out.size[2] = out.size[3] = 1;
	if (columns < 1 || out.size[0] < 1 || out.size[0] % columns ||
	    !threads(r, out.size[0], 1, 1) || !touch(r, 2, &out, type.bytes, true, true))
		return false;
	for (unsigned i = 0; i < 2; i++) {
		in[i] = (struct extent){.size = {columns, out.size[0] / columns, 1, 1},
					.stride = {1, rule_number(r, 5 + i)}};
		if (!touch(r, i, &in[i], type.bytes, false, false))
			return false;
	}
	r->meaning->role = ROLE_OPAQUE;
	return true;
}

/* The types of <from, to> behind the needle. */
static bool copied_types(const struct reading *r, const char *needle, struct type type[2])
{
	const char *at = rule_find(r, needle);

	if (!at)
		return false;
	at += strlen(needle);
	type[0] = rule_template_type(&at, type_unknown);
	type[1] = rule_template_type(&at, type[0]);
	return type[0].bytes && type[1].bytes;
}

/* Those in the name of a function, as cpy_1_f32_f16(). */
static bool named_types(const struct reading *r, struct type type[2])
{
	static const struct {
		const char *name;
		const struct type *type;
	} known[] = {{"f32", &type_float}, {"f16", &type_half}, {"bf16", &type_bfloat}};
	const char *at = rule_find(r, "cpy_1_f");

	if (!at)
		return false;
	at += strlen("cpy_1");
	for (unsigned s = 0; s < 2; s++) {
		unsigned n = 0;

		while (n < 3 &&
		       (*at != '_' || strncmp(at + 1, known[n].name, strlen(known[n].name))))
			n++;
		if (n == 3)
			return false;
		type[s] = *known[n].type;
		at += 1 + strlen(known[n].name);
	}
	return *at == 'E';
}

/* <cpy_1_scalar<from, to>>(in, out, long elements, sizes of in[3], strides of in[4], sizes of out
 * [3], strides of out[4]): strides in bytes. Once <cpy_1_flt<from, to>>, before <cpy_1_FROM_TO>,
 * words of four bytes, and for a while two more: where addresses lie to write to, if any, and which
 * of these. */
bool rule_read_ggml_copy(struct reading *r)
{
	struct extent side[2];
	struct type type[2];
	const unsigned word = rule_size_of(r, 2), count = r->function->param_count;

	if (!copied_types(r, "12cpy_1_scalarI", type) && !copied_types(r, "9cpy_1_fltI", type) &&
	    !named_types(r, type))
		return false;
	if ((count != 17 && (count != 19 || word != 4 || rule_size_of(r, 17) != 8 ||
			     rule_size_of(r, 18) != 4 || rule_u64_at(r, rule_offset(r, 17)))) ||
	    (word != 4 && word != 8) || rule_size_of(r, 0) != 8 || rule_size_of(r, 1) != 8)
		return false;
	for (unsigned i = 2; i < 17; i++)
		if (rule_size_of(r, i) != word)
			return false;
	for (unsigned s = 0; s < 2; s++) {
		int64_t done = 1;

		for (unsigned d = 0; d < 4; d++) {
			const int64_t stride = rule_number(r, 6 + 7 * s + d);

			side[s].size[d] = d < 3 ? rule_number(r, 3 + 7 * s + d)
						: rule_number(r, 2) / (done ? done : 1);
			if (stride < 0 || stride % type[s].bytes)
				return false;
			side[s].stride[d] = stride / type[s].bytes;
			done = rule_times(done, side[s].size[d]);
		}
		if (done != rule_number(r, 2))
			return false;
	}
	if (!threads(r, rule_number(r, 2), 1, 1) ||
	    !touch(r, 1, &side[1], type[1].bytes, true, true) ||
	    !touch(r, 0, &side[0], type[0].bytes, false, false))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	return true;
}

/* <from, to>(in, out, long elements). */
bool rule_read_ggml_copy_dense(struct reading *r)
{
	struct extent all = {.size = {rule_number(r, 2), 1, 1, 1}, .stride = {1}};
	struct type type[2];

	if (!copied_types(r, "21cpy_scalar_contiguousI", type) || !rule_takes(r, 8, 8, 8) ||
	    !threads(r, all.size[0], 1, 1) || !touch(r, 1, &all, type[1].bytes, true, true) ||
	    !touch(r, 0, &all, type[0].bytes, false, false))
		return false;
	r->meaning->role = ROLE_OPAQUE;
	return true;
}

/* <from, to>, or <T> where 16 bytes are moved at a time, (in, int indices, out, long columns, long
 * size, {…, size}, strides of out[3], bytes of in[3], strides of indices[3]): rows of in, which the
 * indices name; a block in x for each. */
bool rule_read_ggml_get_rows(struct reading *r)
{
	const bool wide = rule_has(r, "20k_get_rows_float_vecI");
	const char *at = strchr(rule_find(r, "k_get_rows_float"), 'I');
	struct extent index = {.size = {1, 1, 1, 1}}, out = {.stride = {1}};
	struct type type;

	if (!at || !rule_takes(r, 8, 8, 8, 8, 8, 12, 8, 8, 8, 8, 8, 8, 8, 8, 8))
		return false;
	at++;
	type = rule_template_type(&at, type_unknown);
	if (!wide)
		type = rule_template_type(&at, type);
	if (!type.bytes)
		return false;
	out.size[0] = rule_times(rule_number(r, 3), wide ? 16 / type.bytes : 1);
	out.size[1] = index.size[0] = r->launch->grid[0];
	out.size[2] = index.size[1] = rule_number(r, 4);
	out.size[3] = index.size[2] = divisor(r, 5);
	for (unsigned d = 0; d < 3; d++) {
		out.stride[d + 1] = rule_number(r, 6 + d);
		index.stride[d] = rule_number(r, 12 + d);
	}
	if (!touch(r, 2, &out, type.bytes, true, true) || !touch(r, 1, &index, 4, false, false))
		return false;
	rule_follows(r, 0, ACCESS_READ);
	r->meaning->role = ROLE_OPAQUE;
	return true;
}
