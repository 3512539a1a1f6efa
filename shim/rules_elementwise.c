/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise kernels: one output, up to three operands, contiguous or strided, with or without
 * casts, and the functors of the score algebra.
 */
#include "rule_reader.h"

#include <math.h>
#include <string.h>

static enum rule_role functor_role(const struct reading *r)
{
	static const struct {
		enum rule_role role;
		const char *first, *second;
	} functors[] = {
#define FUNCTOR(role, first, second) {ROLE_##role, first, second},
#include "kernel_rules.def"
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

	for (int i = 0; i < 4; i++)
		functor.operand[i] = rule_operand_type(r, i);
	return functor;
}

static int64_t view_bytes(const struct meaning *meaning, const struct view *view)
{
	int64_t last = 0;

	for (int d = 0; d < meaning->dims; d++)
		last += (meaning->size[d] - 1) * view->stride[d];
	return last + view->element;
}

/* A strided output is dense if its dimensions, taken by stride, leave no hole. */
static bool view_dense(const struct meaning *meaning, const struct view *view)
{
	int64_t expected = view->element;
	bool taken[VIEW_DIMS] = {false};

	for (int n = 0; n < meaning->dims; n++) {
		int next = -1;

		for (int d = 0; d < meaning->dims; d++)
			if (!taken[d] && meaning->size[d] > 1 &&
			    (next < 0 || view->stride[d] < view->stride[next]))
				next = d;
		if (next < 0)
			return true;
		if (view->stride[next] != expected)
			return false;
		expected *= meaning->size[next];
		taken[next] = true;
	}
	return true;
}

/* Scalars of the functors we know, at `at`: a binary functor with one operand bound keeps an empty
 * functor (uninitialised) in its first word and the scalar, in fp32, in its second; addition keeps
 * its factor for the second operand, masked fill its value, in its first; the addition of a number
 * keeps the number and its factor. */
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
	} else if (meaning->role == ROLE_IS_NEGINF) {
		/* a comparison holds which one it is, and the number */
		if (rule_has(r, "CompareEqFunctor") &&
		    (bytes < 8 || rule_u32_at(r, at) != 0 || rule_f32_at(r, at + 4) != -INFINITY))
			meaning->role = ROLE_OPAQUE;
	} else if (meaning->role != ROLE_TANH && meaning->role != ROLE_COPY &&
		   meaning->role != ROLE_WHERE && meaning->role != ROLE_MULTIPLY &&
		   meaning->role != ROLE_DIVIDE) {
		meaning->role = ROLE_OPAQUE;
	}
}

bool rule_finish_views(struct reading *r)
{
	struct meaning *meaning = r->meaning;

	for (int i = 0; i < meaning->view_count; i++) {
		const struct view *view = &meaning->views[i];
		const int64_t bytes = view_bytes(meaning, view);

		if (!view->element) { /* of unknown width: at least one byte, at most eight */
			int64_t least = view_dense(meaning, view) ? meaning->elements : 0;

			rule_touch(r, (unsigned)view->where, i ? ACCESS_READ : ACCESS_WRITE, 0,
				   (uint64_t)least, false);
			meaning->role = ROLE_OPAQUE;
		} else if (i) {
			rule_reads(r, (unsigned)view->where, (uint64_t)bytes);
		} else {
			rule_touch(r, (unsigned)view->where, ACCESS_WRITE, (uint64_t)bytes,
				   view_dense(meaning, view) ? (uint64_t)bytes : 0, true);
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
	for (int i = 0; i < r->meaning->view_count; i++)
		r->meaning->views[i].stride[0] = r->meaning->views[i].element;
}

/* (int N, functor, array<char *, operands>): contiguous operands, the output first. */
bool rule_read_vectorized(struct reading *r)
{
	const unsigned count = rule_size_of(r, 2) / 8;

	if (r->function->param_count != 3 || rule_size_of(r, 0) != 4 || count < 1 || count > 4)
		return false;
	r->meaning->role = (enum rule_role)r->function->functor.role;
	r->meaning->view_count = (int)count;
	for (unsigned i = 0; i < count; i++)
		rule_set_view(r, (int)i, rule_offset(r, 2) + 8 * i,
			      r->function->functor.operand[i]);
	rule_one_dimension(r, (int32_t)rule_u32_at(r, rule_offset(r, 0)));
	read_functor(r, rule_offset(r, 1), rule_size_of(r, 1));
	return rule_finish_views(r);
}

/* (int N, functor, array<char *, 2>, trivial, trivial, LoadWithCast<1>, StoreWithCast<1>): the
 * casts hold {scalar type, element bytes}. */
bool rule_read_unrolled(struct reading *r)
{
	if (r->function->param_count != 7 || rule_size_of(r, 0) != 4 || rule_size_of(r, 2) != 16 ||
	    !rule_has(r, "23TrivialOffsetCalculatorILi1E") || !rule_has(r, "12LoadWithCastILi1E") ||
	    !rule_has(r, "13StoreWithCastILi1E") || rule_size_of(r, 5) != 8 ||
	    rule_size_of(r, 6) != 8)
		return false;
	r->meaning->role = (enum rule_role)r->function->functor.role;
	r->meaning->view_count = 2;
	for (unsigned i = 0; i < 2; i++) {
		const unsigned cast = rule_offset(r, i ? 5 : 6);
		const struct type type = rule_type_of_scalar_type(r->params[cast]);

		if (type.bytes != (int)rule_u32_at(r, cast + 4))
			return false;
		rule_set_view(r, (int)i, rule_offset(r, 2) + 8 * i, type);
	}
	rule_one_dimension(r, (int32_t)rule_u32_at(r, rule_offset(r, 0)));
	if (r->meaning->role != ROLE_COPY)
		r->meaning->role = ROLE_OPAQUE;
	return rule_finish_views(r);
}

/* With casts the operands' types follow the functor, a byte each. 0: its size is not known. */
static unsigned functor_bytes(enum rule_role role)
{
	switch (role) {
	case ROLE_ADD:
		return 4;
	case ROLE_COPY: /* empty ones */
	case ROLE_MULTIPLY:
	case ROLE_DIVIDE:
		return 1;
	default:
		return 0;
	}
}

/* (int N, lambda {OffsetCalculator<operands>, array<char *, operands>, functor}). The calculator is
 * {int dims, {divisor, magic, shift} sizes[25], unsigned strides[25][operands]} with strides in
 * bytes; entries beyond dims are uninitialised. */
static bool read_strided_as(struct reading *r, bool casts)
{
	struct meaning *meaning = r->meaning;
	const unsigned lambda = rule_offset(r, 1), bytes = rule_size_of(r, 1);
	const unsigned strides = lambda + 4 + 12 * CALCULATOR_DIMS;
	unsigned operands, functor, size, pointers = 0;
	int64_t product = 1;

	if (r->function->param_count != 2 || rule_size_of(r, 0) != 4)
		return false;
	for (operands = 1; operands <= 4; operands++) {
		pointers = (4 + 12 * CALCULATOR_DIMS + 4 * CALCULATOR_DIMS * operands + 7) & ~7u;
		if (bytes >= pointers + 8 * operands && bytes <= pointers + 8 * operands + 64)
			break;
	}
	if (operands > 4)
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
		product *= meaning->size[d];
		for (unsigned i = 0; i < operands; i++)
			meaning->views[i].stride[d] =
				rule_u32_at(r, strides + 4 * ((unsigned)d * operands + i));
	}
	if (product != meaning->elements)
		return false;
	functor = pointers + 8 * operands;
	size = functor_bytes(meaning->role);
	for (unsigned i = 0; i < operands; i++)
		rule_set_view(r, (int)i, pointers + 8 * i,
			      !casts ? r->function->functor.operand[i]
			      : size ? rule_type_of_scalar_type(r->params[functor + size + i])
				     : type_unknown);
	if (casts && meaning->role != ROLE_ADD && meaning->role != ROLE_COPY)
		meaning->role = ROLE_OPAQUE;
	else
		read_functor(r, functor, lambda + bytes - functor);
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
