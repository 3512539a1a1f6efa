/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps by which a boolean mask hides scores: with a number in their place, or in the softmax; the
 * padding, and after it what a query may not see.
 */
#include <math.h>

#include "shim/spec/spec.h"
#include "shim/spec/spec_walk.h"

/* A second mask that hides by the same number is as good as one that hides what either does. A bias
 * between them would be hidden by the second alone. */
static enum reason hide_also(struct walk *walk, const struct step *step, const struct view *view,
			     const struct ref *ref, bool keeps)
{
	struct attn_spec *spec = &walk->args->spec;
	const float value =
		spec_fill_stored((float)step->meaning.scalar, step->meaning.views[0].dtype);
	enum reason reason;

	if (spec->mask_also.base || spec->late_biases || value != spec->mask_value)
		return stop(walk, REASON_MASK_FORM, step->name);
	walk->mask = -1;
	spec->mask_also_keeps = keeps;
	reason = set_tensor(walk, step, view, &spec->mask_also, ref->index);
	if (reason == REASON_NONE && (spec->mask_also.batches || spec->mask.batches))
		return stop(walk, REASON_MASK_FORM, "masks of windows, one after the other");
	return reason;
}

/* The scores become the step's number where its mask says so. */
static enum reason hide(struct walk *walk, const struct step *step, const struct view *view,
			const struct ref *ref, bool keeps)
{
	struct attn_spec *spec = &walk->args->spec;

	if (walk->masked)
		return hide_also(walk, step, view, ref, keeps);
	walk->masked = true;
	spec->mask_keeps = keeps;
	spec->mask_value = (float)step->meaning.scalar;
	return set_tensor(walk, step, view, &spec->mask, ref->index);
}

/* The probabilities of what was hidden become 0 once more. For rows of which a key is left they are
 * already; rows of which none is are 0 in all. So they are, too, where the fill was finite but no
 * score can be as low as it. With a bias some may be: where that is -inf for all keys that the mask
 * leaves, what is left is NaN, and not all kernels tell such a row from one that is hidden. */
static enum reason apply_mask_again(struct walk *walk, const struct step *step,
				    const struct view *view, const struct ref *ref, bool keeps)
{
	struct attn_spec *spec = &walk->args->spec;
	struct attn_tensor mask = {0};
	enum reason reason = set_tensor(walk, step, view, &mask, ref->index);

	if (reason != REASON_NONE)
		return reason;
	if (!walk->masked || walk->unknown || walk->shifted || spec->late_biases ||
	    keeps != (spec->mask_keeps != 0) || spec->sinks.base || spec->mask_also.base ||
	    spec->empty_row != ATTN_EMPTY_NAN || walk->columns != walk->args->Sk ||
	    step->meaning.scalar != 0 || ref->index != walk->mask ||
	    !same_tensor(&mask, &spec->mask) || isnan(spec->mask_value))
		return stop(walk, REASON_MASK_FORM, step->name);
	if (!spec->bias[0].base &&
	    (spec->mask_value == -INFINITY || (walk->lowest && spec->softcap == 0))) {
		spec->empty_row = ATTN_EMPTY_ZERO;
	} else {
		spec->empty_row = ATTN_EMPTY_AGAIN;
		spec->hidden_value = spec->mask_value;
	}
	spec->mask_value = -INFINITY;
	return REASON_NONE;
}

enum reason spec_apply_mask(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const struct ref *ref;

	if (meaning->view_count != 3)
		return stop(walk, REASON_MASK_FORM, step->name);
	ref = ref_of(step, meaning->views[2].where);
	if (!ref || ref->kind != REF_INPUT || meaning->views[2].dtype != ATTN_BOOL)
		return stop(walk, REASON_MASK_FORM, step->name);
	if (walk->softmax)
		return apply_mask_again(walk, step, &meaning->views[2], ref, meaning->keeps);
	walk->mask = ref->index;
	walk->lowest = meaning->scalar <= spec_lowest(meaning->views[0].dtype);
	return hide(walk, step, &meaning->views[2], ref, meaning->keeps);
}

/* where(mask, x, number) or where(mask, number, x): the number is in device memory, and known. */
enum reason spec_apply_where(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const struct ref *mask, *scores;

	if (rows_apply_safe(walk, step))
		return REASON_NONE;
	if (meaning->view_count != 4)
		return stop(walk, REASON_MASK_FORM, step->name);
	if (meaning->constant <= 0)
		return stop(walk, meaning->constant ? REASON_SCALARS_ON_DEVICE : REASON_MASK_FORM,
			    step->name);
	mask = ref_of(step, meaning->views[1].where);
	scores = ref_of(step, meaning->views[meaning->constant == 2 ? 3 : 2].where);
	if (!mask || mask->kind != REF_INPUT || meaning->views[1].dtype != ATTN_BOOL ||
	    !is_scores(walk, scores))
		return stop(walk, REASON_MASK_FORM, step->name);
	if (walk->softmax)
		return apply_mask_again(walk, step, &meaning->views[1], mask,
					meaning->constant == 3);
	walk->mask = mask->index;
	walk->lowest = meaning->scalar <= spec_lowest(meaning->views[0].dtype);
	return hide(walk, step, &meaning->views[1], mask, meaning->constant == 3);
}

/* Softmax over the keys that a mask leaves: with -inf where it is true. */
enum reason spec_apply_softmax_mask(struct walk *walk, const struct step *step)
{
	struct attn_spec *spec = &walk->args->spec;
	const struct view *view = &step->meaning.views[2];
	const struct ref *ref = ref_of(step, view->where);

	if (walk->masked || walk->shifted || walk->columns != walk->args->Sk || !ref ||
	    ref->kind != REF_INPUT)
		return stop(walk, REASON_MASK_FORM, step->name);
	walk->masked = true;
	spec->mask_keeps = 0;
	spec->mask_value = -INFINITY;
	return set_tensor(walk, step, view, &spec->mask, ref->index);
}
