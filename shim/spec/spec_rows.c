/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs do with whole rows of scores. Safe softmax asks of each row whether all of it is
 * -inf, and makes its P 0; a sink is appended as a column, and the row's largest score taken off
 * before softmax, which changes nothing; or softmax itself is spelt out.
 */
#include "shim/spec/spec_walk.h"

bool rows_in_order(const struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;

	for (int i = 0; i < meaning->view_count; i++) {
		const struct view *view = &meaning->views[i];
		const struct ref *ref = i ? ref_of(step, view->where) : NULL;

		if (i &&
		    (!ref || ref->kind != REF_VALUE || walk->sides[ref->index].what != SIDE_NONE))
			continue;
		if (!view_in_order(meaning, view))
			return false;
	}
	return true;
}

bool rows_turned(const struct walk *walk, const struct step *step, int64_t *outer)
{
	const struct meaning *meaning = &step->meaning;
	const struct view *in = &meaning->views[1];
	const int64_t entry = walk->args->Sq * walk->columns; /* elements of P for one of Z */
	int64_t within = 1, first = 1, second = 1, apart = 0;

	if (meaning->role != ROLE_COPY || meaning->view_count != 2 ||
	    !view_in_order(meaning, &meaning->views[0]))
		return false;
	for (int d = 0; d < meaning->dims; d++) {
		const int64_t size = meaning->size[d], stride = in->stride[d] / in->element;

		if (size == 1)
			continue;
		if (within < entry && stride == within) {
			within *= size;
		} else if (within == entry && second == 1 &&
			   (first == 1 || stride == apart * first)) {
			apart = first == 1 ? stride : apart;
			first *= size;
		} else if (within == entry && stride == entry * second) {
			second *= size;
		} else {
			return false;
		}
	}
	if (within != entry || second == 1 || apart != entry * second || first * second != walk->Z)
		return false;
	*outer = first;
	return true;
}

bool rows_dead(const struct walk *walk, const struct step *step)
{
	const struct chain *chain = walk->chain;

	if (step->meaning.role != ROLE_COPY)
		return false;
	for (int i = 0; i < step->ref_count; i++) {
		const struct ref *made = &step->refs[i];

		if (made->kind != REF_VALUE || made->mode != ACCESS_WRITE)
			continue;
		if (made->index == chain->p_value || chain->values[made->index].used)
			return false;
	}
	return true;
}

/* The version of the scores, or the side value, that a step reads; -1: none or several. */
static int value_read(const struct step *step)
{
	int index = -1;

	for (int i = 0; i < step->ref_count; i++) {
		const struct ref *ref = &step->refs[i];

		if (ref->kind != REF_VALUE || ref->mode == ACCESS_WRITE)
			continue;
		if (index >= 0)
			return -1;
		index = ref->index;
	}
	return index;
}

bool rows_note_side(struct walk *walk, const struct step *step, enum reason *reason)
{
	const struct meaning *meaning = &step->meaning;
	const int read = value_read(step);
	const bool scores =
		read >= 0 && (read == walk->value || (walk->softmax && read == walk->scores));
	enum side what = SIDE_NONE;
	int of = read;

	switch (meaning->role) {
	case ROLE_IS_NEGINF:
		if (scores)
			what = SIDE_HIDDEN;
		break;
	case ROLE_ROW_ALL:
		if (read >= 0 && walk->sides[read].what == SIDE_HIDDEN) {
			what = SIDE_EMPTY;
			of = walk->sides[read].of;
		}
		break;
	case ROLE_ROW_MAX:
		if (scores)
			what = SIDE_LARGEST;
		break;
	case ROLE_ROW_SUM:
		if (!walk->raised)
			return false;
		/* no weight is above 1; what is infinite in 16 bits divides them to nothing */
		if (read == walk->value &&
		    (meaning->views[0].dtype != ATTN_F16 || walk->columns < 65504))
			what = SIDE_SUM;
		break;
	default:
		return false;
	}
	*reason = REASON_NONE;
	if (what == SIDE_NONE || walk->chain->transposed ||
	    (what == SIDE_HIDDEN && !rows_in_order(walk, step)) ||
	    meaning->elements != walk->Z * walk->args->Sq * walk->columns ||
	    (what != SIDE_HIDDEN && meaning->softmax_cols != walk->columns)) {
		*reason = stop(walk, REASON_SCORES_READ_BY, step->name);
		return true;
	}
	for (int i = 0; i < step->ref_count; i++) {
		const struct ref *made = &step->refs[i];

		if (made->kind != REF_VALUE || made->mode != ACCESS_WRITE ||
		    made->where != meaning->views[0].where)
			continue; /* or where the largest was found */
		walk->sides[made->index].what = what;
		walk->sides[made->index].of = of;
	}
	return true;
}

/* One number for each row of `columns` scores, row after row. */
static bool per_row(const struct meaning *meaning, const struct view *view, int64_t columns)
{
	int64_t within = 1, expected = view->element;

	for (int d = 0; d < meaning->dims; d++) {
		const bool inner = within < columns;

		if (meaning->size[d] == 1)
			continue;
		if (view->stride[d] != (inner ? 0 : expected))
			return false;
		*(inner ? &within : &expected) *= meaning->size[d];
	}
	return within == columns;
}

bool rows_is_side(const struct walk *walk, const struct step *step, const struct view *view,
		  enum side what, int of)
{
	const struct ref *ref = ref_of(step, view->where);

	return ref && ref->kind == REF_VALUE && ref->delta == 0 &&
	       walk->sides[ref->index].what == what && walk->sides[ref->index].of == of &&
	       per_row(&step->meaning, view, walk->columns);
}

enum reason rows_apply_exp(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;

	/* without their largest they may be too large for it, as softmax's never are */
	if (walk->softmax || walk->unknown || !walk->shifted || walk->columns != walk->args->Sk ||
	    meaning->view_count != 2 || meaning->views[0].dtype < 0 ||
	    meaning->views[0].dtype > ATTN_F32 || meaning->views[1].dtype != walk->dtype)
		return stop(walk, REASON_UNKNOWN_KERNEL, step->name);
	walk->scores = walk->from;
	walk->raised = true;
	return REASON_NONE;
}

enum reason rows_apply_sum(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const struct ref *weights;

	if (meaning->role != ROLE_DIVIDE || meaning->view_count != 3 ||
	    !rows_is_side(walk, step, &meaning->views[2], SIDE_SUM, walk->from))
		return stop(walk, REASON_MASK_FORM, step->name);
	weights = ref_of(step, meaning->views[1].where);
	if (!weights || weights->kind != REF_VALUE || weights->index != walk->from)
		return stop(walk, REASON_MASK_FORM, step->name);
	walk->raised = false;
	walk->softmax = true;
	return walk->mixed ? stop(walk, REASON_MASK_FORM, "biases are rounded in two ways")
			   : REASON_NONE;
}

bool rows_apply_safe(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const struct ref *kept;

	if (!walk->softmax || meaning->view_count != 4 || meaning->constant != 2 ||
	    meaning->scalar != 0 ||
	    !rows_is_side(walk, step, &meaning->views[1], SIDE_EMPTY, walk->scores))
		return false;
	kept = ref_of(step, meaning->views[3].where);
	if (!kept || kept->kind != REF_VALUE || kept->index != walk->from)
		return false;
	walk->args->spec.empty_row = ATTN_EMPTY_ZERO;
	return true;
}

bool rows_drop_sink(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const struct view *to = &meaning->views[0], *from = &meaning->views[1];
	const int64_t keys = walk->args->Sk, rows = walk->Z * walk->args->Sq;
	int64_t within = 1, above = 1; /* elements of a row, and rows, that are gone through */
	const struct ref *ref;

	if (meaning->role != ROLE_COPY || !walk->softmax || walk->chain->transposed ||
	    walk->columns != keys + 1 || meaning->view_count != 2 ||
	    meaning->elements != rows * keys)
		return false;
	ref = ref_of(step, from->where);
	if (!ref || ref->kind != REF_VALUE || ref->delta != 0)
		return false;
	for (int d = 0; d < meaning->dims; d++) {
		const bool inner = within < keys;
		const int64_t apart = inner ? within : above * (keys + 1);

		if (meaning->size[d] == 1)
			continue;
		if (from->stride[d] != apart * from->element ||
		    to->stride[d] != within * above * to->element)
			return false;
		*(inner ? &within : &above) *= meaning->size[d];
	}
	if (within != keys || above != rows)
		return false;
	walk->columns = keys;
	return true;
}

enum reason rows_apply_cat(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const int64_t keys = walk->args->Sk;
	struct view column = meaning->views[2];
	const struct ref *scores = ref_of(step, meaning->views[1].where);
	const struct ref *sinks = ref_of(step, column.where);

	if (walk->softmax || walk->shifted || walk->chain->transposed || walk->columns != keys ||
	    meaning->softmax_cols != keys + 1 ||
	    meaning->elements != walk->Z * walk->args->Sq * (keys + 1) || !scores ||
	    scores->kind != REF_VALUE || scores->index != walk->from || !sinks ||
	    sinks->kind != REF_INPUT || attn_dtype_size(walk->dtype) != column.element)
		return stop(walk, REASON_MASK_FORM, step->name);
	column.dtype = walk->dtype; /* the kernel knows but how wide it is */
	walk->columns = keys + 1;
	return spec_set_tensor(walk, step, &column, 1, &walk->args->spec.sinks, sinks->index);
}
