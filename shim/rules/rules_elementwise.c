/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise kernels: one output, up to three operands, contiguous or strided, with or without
 * casts, and the functors of the score algebra.
 */
#include "shim/rules/rule_reader.h"

#include <math.h>
#include <string.h>

/* Bytes of the widest of PyTorch's numbers, a complex one of doubles. */
#define WIDEST 16

/* Bytes, at most, that copies of rows may lie apart (CU_DEVICE_ATTRIBUTE_MAX_PITCH is 2^31 - 1). */
#define COMB_PITCH (1 << 30)

static enum rule_role functor_role(const struct reading *r)
{
	static const struct {
		enum rule_role role;
		const char *first, *second;
	} functors[] = {
#define FUNCTOR(role, first, second) {ROLE_##role, first, second},
#include "shim/rules/kernel_rules.def"
#undef FUNCTOR
	};
	unsigned i = 0;

	while (!rule_has(r, functors[i].first) || !rule_has(r, functors[i].second))
		i++;
	return functors[i].role;
}

struct functor rule_functor(const struct reading *r)
{
	struct functor functor = {.role = functor_role(r), .type = rule_functor_type(r)};

	rule_functor_operands(r, &functor);
	return functor;
}

static int64_t view_bytes(const struct meaning *meaning, const struct view *view)
{
	int64_t last = 0;

	for (int d = 0; d < meaning->dims; d++)
		last += (meaning->size[d] - 1) * view->stride[d];
	return last + view->element;
}

static bool view_dense(const struct meaning *meaning, const struct view *view)
{
	return rule_dense((unsigned)meaning->dims, meaning->size, view->stride, view->element);
}

/* Scalars of the functors we know, at `at`: a binary functor with one operand bound keeps an empty
 * functor (uninitialised) in its first word and the scalar, in fp32, in its second; addition keeps
 * its factor for the second operand, masked fill its value, in its first; the addition of a number
 * keeps the number and its factor; a maximum with a number keeps that behind an empty functor. */
static void read_functor(struct reading *r, unsigned at, unsigned bytes)
{
	struct meaning *meaning = r->meaning;

	if (meaning->role == ROLE_SCALE && bytes >= 8) {
		meaning->scalar = rule_f32_at(r, at + 4);
	} else if (meaning->role == ROLE_ADD && bytes >= 4 && meaning->views[0].dtype >= 0) {
		meaning->scalar = rule_f32_at(r, at);
		if (meaning->scalar != 1)
			meaning->role = ROLE_ADD_SCALED;
	} else if (meaning->role == ROLE_ADD_CONSTANT && bytes >= 8) {
		meaning->scalar = (double)rule_f32_at(r, at) * rule_f32_at(r, at + 4);
	} else if (meaning->role == ROLE_MASKED_FILL && bytes >= 2 &&
		   meaning->views[0].dtype >= 0) {
		meaning->scalar = rule_value_at(r, at, meaning->views[0].dtype);
	} else if (meaning->role == ROLE_FILL && meaning->view_count == 1 &&
		   bytes >= (unsigned)meaning->views[0].element) {
		meaning->scalar_where = (int)at;
	} else if (meaning->role == ROLE_MAXIMUM && meaning->view_count == 2) {
		const struct view *out = &meaning->views[0];

		if (out->dtype < 0 || out->dtype > ATTN_F32 || bytes < 2 * (unsigned)out->element)
			meaning->role = ROLE_OPAQUE;
		else
			meaning->scalar = rule_value_at(r, at + (unsigned)out->element, out->dtype);
	} else if (meaning->role == ROLE_IS_NEGINF) {
		/* a comparison holds which one it is, and the number */
		if (rule_has(r, "CompareEqFunctor") &&
		    (bytes < 8 || rule_u32_at(r, at) != 0 || rule_f32_at(r, at + 4) != -INFINITY))
			meaning->role = ROLE_OPAQUE;
	} else if (meaning->role != ROLE_TANH && meaning->role != ROLE_EXP &&
		   meaning->role != ROLE_COPY && meaning->role != ROLE_WHERE &&
		   meaning->role != ROLE_MULTIPLY && meaning->role != ROLE_DIVIDE &&
		   meaning->role != ROLE_MAXIMUM) {
		meaning->role = ROLE_OPAQUE;
	}
}

/* The same of one that casts what it loads and stores: of few is it known what they mean then. */
static void read_cast_functor(struct reading *r, bool casts, unsigned at, unsigned bytes)
{
	const enum rule_role role = r->meaning->role;

	if (casts && role != ROLE_ADD && role != ROLE_COPY && role != ROLE_MULTIPLY &&
	    role != ROLE_DIVIDE && (role != ROLE_MAXIMUM || r->meaning->view_count != 3))
		r->meaning->role = ROLE_OPAQUE;
	else
		read_functor(r, at, bytes);
}

/* Does the output take the same part of each row, rows lying one behind another, or every other
 * element? It is one of two that launches write by turns, as halves that are put together are. */
static void note_comb(struct reading *r)
{
	const struct meaning *meaning = r->meaning;
	const struct view *out = &meaning->views[0];
	struct access *last = r->list && r->list->count ? &r->list->item[r->list->count - 1] : NULL;
	int64_t width = out->element, pitch = 0, size[VIEW_DIMS];
	int next;

	if (!last || last->where != out->where || last->sure_end != last->begin ||
	    meaning->elements <= 1)
		return;
	memcpy(size, meaning->size, sizeof(size));
	do { /* what is dense becomes one element */
		next = -1;
		for (int d = 0; d < meaning->dims; d++)
			if (size[d] > 1 && out->stride[d] == width)
				next = d;
		if (next >= 0) {
			width = rule_times(width, size[next]);
			size[next] = 1;
		}
	} while (next >= 0 && width);
	for (int d = 0; d < meaning->dims; d++)
		if (size[d] > 1 && (!pitch || out->stride[d] < pitch))
			pitch = out->stride[d];
	if (width <= 0 || pitch <= width || pitch > COMB_PITCH ||
	    !rule_dense((unsigned)meaning->dims, size, out->stride, pitch))
		return;
	last->comb = (uint32_t)width;
	last->pitch = (uint32_t)pitch;
}

bool rule_finish_views(struct reading *r)
{
	struct meaning *meaning = r->meaning;

	for (int i = 0; i < meaning->view_count; i++) {
		const struct view *view = &meaning->views[i];
		const int64_t bytes = view_bytes(meaning, view);

		if (!view->element) { /* of unknown width: at least one byte */
			int64_t least = view_dense(meaning, view) ? meaning->elements : 0;

			rule_touch(r, (unsigned)view->where, i ? ACCESS_READ : ACCESS_WRITE,
				   (uint64_t)bytes + WIDEST, (uint64_t)least, true);
			meaning->role = ROLE_OPAQUE;
		} else if (i) {
			rule_reads_at(r, (unsigned)view->where, bytes);
		} else {
			rule_writes_at(r, (unsigned)view->where, bytes, view_dense(meaning, view));
			note_comb(r);
		}
	}
	return true;
}

void rule_set_view(struct reading *r, int n, unsigned where, struct type type)
{
	r->meaning->views[n].where = (int)where;
	r->meaning->views[n].base = rule_u64_at(r, where);
	r->meaning->views[n].dtype = type.dtype;
	r->meaning->views[n].element = type.bytes;
}

void rule_one_dimension(struct reading *r, int64_t elements)
{
	r->meaning->elements = elements;
	r->meaning->dims = 1;
	r->meaning->size[0] = elements;
	for (int i = 0; i < r->meaning->view_count; i++) {
		const int element = r->meaning->views[i].element;

		r->meaning->views[i].stride[0] = element ? element : WIDEST;
	}
}

/* A functor that nobody knows may hold pointers of its own, to follow as far as they go. */
static void touch_functor(struct reading *r, unsigned at, unsigned bytes)
{
	if (!r->function->functor.plain)
		rule_follows_all(r, at, bytes);
}

/* Does the functor take so many operands, as far as its name tells? */
static bool takes(const struct reading *r, unsigned operands)
{
	const int named = r->function->functor.operands;

	return operands >= 1 && operands <= FUNCTOR_OPERANDS && (!named || named == (int)operands);
}

/* (int N, functor, array<char *, operands>): contiguous operands, the output first. */
bool rule_read_vectorized(struct reading *r)
{
	const unsigned count = rule_size_of(r, 2) / 8;

	if (r->function->param_count != 3 || rule_size_of(r, 0) != 4 || !takes(r, count) ||
	    rule_size_of(r, 2) != 8 * count || (int32_t)rule_u32_at(r, rule_offset(r, 0)) < 1)
		return false;
	r->meaning->role = (enum rule_role)r->function->functor.role;
	r->meaning->view_count = (int)count;
	for (unsigned i = 0; i < count; i++)
		rule_set_view(r, (int)i, rule_offset(r, 2) + 8 * i,
			      r->function->functor.operand[i]);
	rule_one_dimension(r, (int32_t)rule_u32_at(r, rule_offset(r, 0)));
	read_functor(r, rule_offset(r, 1), rule_size_of(r, 1));
	touch_functor(r, rule_offset(r, 1), rule_size_of(r, 1));
	return rule_finish_views(r);
}

/* The types in {scalar types[count], element bytes[count]}. */
static bool cast_types(const struct reading *r, unsigned param, unsigned count, struct type *types)
{
	const unsigned at = rule_offset(r, param), bytes = at + ((count + 3) & ~3u);

	if (rule_size_of(r, param) != bytes - at + 4 * count)
		return false;
	for (unsigned i = 0; i < count; i++) {
		types[i] = rule_type_of_scalar_type(r->params[at + i]);
		if (!types[i].bytes || types[i].bytes != (int)rule_u32_at(r, bytes + 4 * i))
			return false;
	}
	return true;
}

/* (int N, functor, array<char *, operands>, trivial, trivial, LoadWithCast<inputs>,
 * StoreWithCast<1>), or both without casts. */
bool rule_read_unrolled(struct reading *r)
{
	const unsigned count = rule_size_of(r, 2) / 8;
	const bool without = rule_has(r, "15LoadWithoutCastE") &&
			     rule_has(r, "16StoreWithoutCastE") && rule_size_of(r, 5) == 1 &&
			     rule_size_of(r, 6) == 1;
	struct type types[FUNCTOR_OPERANDS];

	if (r->function->param_count != 7 || rule_size_of(r, 0) != 4 || !takes(r, count) ||
	    rule_size_of(r, 2) != 8 * count || !rule_has(r, "23TrivialOffsetCalculatorILi") ||
	    rule_has(r, "16OffsetCalculatorILi") || rule_size_of(r, 3) != 1 ||
	    rule_size_of(r, 4) != 1 || (int32_t)rule_u32_at(r, rule_offset(r, 0)) < 1)
		return false;
	if (without)
		memcpy(types, r->function->functor.operand, sizeof(types));
	else if (count < 2 || !rule_has(r, "12LoadWithCastILi") ||
		 !rule_has(r, "13StoreWithCastILi1E") || !cast_types(r, 6, 1, types) ||
		 !cast_types(r, 5, count - 1, types + 1))
		return false;
	r->meaning->role = (enum rule_role)r->function->functor.role;
	r->meaning->view_count = (int)count;
	for (unsigned i = 0; i < count; i++)
		rule_set_view(r, (int)i, rule_offset(r, 2) + 8 * i, types[i]);
	rule_one_dimension(r, (int32_t)rule_u32_at(r, rule_offset(r, 0)));
	read_cast_functor(r, !without, rule_offset(r, 1), rule_size_of(r, 1));
	touch_functor(r, rule_offset(r, 1), rule_size_of(r, 1));
	return rule_finish_views(r);
}

/* No element starts between two others, so a type that is read off the wrong place seldom fits. */
static bool steps_fit(const struct meaning *meaning, const struct view *view, bool exactly)
{
	int64_t least = 0;

	for (int d = 0; d < meaning->dims; d++) {
		const int64_t stride = meaning->size[d] > 1 ? view->stride[d] : 0;

		if (view->element && stride % view->element)
			return false;
		if (stride && (!least || stride < least))
			least = stride;
	}
	return !exactly || !least || least == view->element;
}

/* (int N, lambda {OffsetCalculator<operands>, array<char *, operands>, functor}). The calculator is
 * {int dims, {divisor, magic, shift} sizes[25], unsigned strides[25][operands]} with strides in
 * bytes; entries beyond dims are uninitialised. */
static bool read_strided_as(struct reading *r, bool casts)
{
	struct meaning *meaning = r->meaning;
	const unsigned lambda = rule_offset(r, 1), bytes = rule_size_of(r, 1);
	const unsigned strides = lambda + 4 + 12 * CALCULATOR_DIMS;
	unsigned operands, functor, size = 0, pointers = 0;
	int64_t product = 1;

	if (r->function->param_count != 2 || rule_size_of(r, 0) != 4)
		return false;
	for (operands = 1; operands <= FUNCTOR_OPERANDS; operands++) {
		pointers = (4 + 12 * CALCULATOR_DIMS + 4 * CALCULATOR_DIMS * operands + 7) & ~7u;
		if (bytes >= pointers + 8 * operands && bytes <= pointers + 8 * operands + 64)
			break;
	}
	if (!takes(r, operands))
		return false;
	pointers += lambda;
	meaning->dims = (int)rule_u32_at(r, lambda);
	if (meaning->dims < 0 || meaning->dims > VIEW_DIMS)
		return false;
	meaning->role = (enum rule_role)r->function->functor.role;
	meaning->view_count = (int)operands;
	meaning->elements = (int32_t)rule_u32_at(r, rule_offset(r, 0));
	for (int d = 0; d < meaning->dims; d++) {
		meaning->size[d] = rule_u32_at(r, lambda + 4 + 12 * (unsigned)d);
		if (meaning->size[d] < 1 || meaning->size[d] > meaning->elements)
			return false;
		product = rule_times(product, meaning->size[d]);
		for (unsigned i = 0; i < operands; i++) {
			const int64_t stride =
				(int32_t)rule_u32_at(r, strides + 4 * ((unsigned)d * operands + i));

			if (stride < 0 || (stride && !rule_times(meaning->size[d], stride)))
				return false;
			meaning->views[i].stride[d] = stride;
		}
	}
	if (product != meaning->elements)
		return false;
	functor = pointers + 8 * operands;
	if (casts)
		size = (unsigned)r->function->functor.bytes;
	for (unsigned i = 0; i < operands; i++) {
		struct view *view = &meaning->views[i];

		rule_set_view(r, (int)i, pointers + 8 * i,
			      !casts ? r->function->functor.operand[i]
			      : size ? rule_type_of_scalar_type(r->params[functor + size + i])
				     : type_unknown);
		if (steps_fit(meaning, view, casts && size))
			continue;
		if (!casts)
			return false;
		view->dtype = type_unknown.dtype;
		view->element = type_unknown.bytes;
	}
	touch_functor(r, functor, lambda + bytes - functor);
	read_cast_functor(r, casts, functor, lambda + bytes - functor);
	return rule_finish_views(r);
}

bool rule_read_strided(struct reading *r)
{
	return read_strided_as(r, false);
}

bool rule_read_strided_cast(struct reading *r)
{
	return read_strided_as(r, true);
}
