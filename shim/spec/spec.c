/* SPDX-License-Identifier: Apache-2.0
 *
 * The score algebra. Walking the steps from S to P, an expression of the form
 *     softcap * tanh(scale * scales * qk / softcap) + sum bias_scale * bias, mask, softmax
 * is kept up to date; a step that would leave this form ends the walk with a reason. Steps that
 * look at whole rows are in spec_rows.c, boolean masks in spec_masks.c, scores in another order in
 * spec_order.c.
 */
#include "shim/spec/spec.h"

#include <math.h>
#include <string.h>

#include "shim/base/elementary.h"
#include "shim/spec/spec_walk.h"

/* ---- steps ---------------------------------------------------------------------------------- */

static enum reason add_bias(struct walk *walk, const struct step *step, const struct view *view,
			    double factor, int rounded)
{
	struct attn_spec *spec = &walk->args->spec;
	const struct ref *ref = ref_of(step, view->where);
	struct attn_tensor again = {0};
	enum reason reason;
	int n;

	if (walk->softmax || !ref || ref->kind != REF_INPUT)
		return stop(walk, REASON_MASK_FORM, step->name);
	for (n = 0; n < ATTN_MAX_BIAS && spec->bias[n].base; n++)
		;
	if (n == ATTN_MAX_BIAS) { /* but some add one of them twice */
		if (ref->index != walk->added || (walk->masked && !spec->late_biases) ||
		    (rounded >= 0 && rounded != spec->round_x) ||
		    set_tensor(walk, step, view, &again, ref->index) != REASON_NONE ||
		    !same_tensor(&again, &spec->bias[n - 1]))
			return stop(walk, REASON_MASK_FORM, "more than two biases");
		spec->bias_scale[n - 1] += (float)factor;
		return REASON_NONE;
	}
	walk->added = ref->index;
	reason = set_tensor(walk, step, view, &spec->bias[n], ref->index);
	if (reason == REASON_NONE && spec->bias[n].dtype > ATTN_F32)
		return stop(walk, REASON_MASK_FORM, step->name);
	spec->bias_scale[n] = (float)factor;
	if (walk->masked && !spec->late_biases)
		spec->late_biases = ATTN_MAX_BIAS - n;
	walk->mixed |= n && rounded == ATTN_F32 && spec->round_x != ATTN_F32;
	if (rounded >= 0)
		spec->round_x = rounded;
	return reason;
}

static enum reason apply_add(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const bool scaled = meaning->role == ROLE_ADD_SCALED;
	const struct ref *first, *second;

	if (meaning->view_count != 3)
		return stop(walk, REASON_MASK_FORM, step->name);
	first = ref_of(step, meaning->views[1].where);
	second = ref_of(step, meaning->views[2].where);
	if (scaled && meaning->scalar == -1 && !walk->softmax && is_scores(walk, first) &&
	    rows_is_side(walk, step, &meaning->views[2], SIDE_LARGEST, walk->from)) {
		walk->shifted = true;
		return REASON_NONE;
	}
	if (is_scores(walk, first))
		return add_bias(walk, step, &meaning->views[2], scaled ? meaning->scalar : 1,
				meaning->views[0].dtype);
	if (is_scores(walk, second) && !scaled)
		return add_bias(walk, step, &meaning->views[1], 1, meaning->views[0].dtype);
	return stop(walk, REASON_MASK_FORM, step->name);
}

#define ROUNDED_BEFORE "biases are rounded before they are scaled"

/* A sum that was rounded to 16 bits is not what kernels round that scale first; where all keys of a
 * row carry a large bias, that decides the row. */
static bool rounded_before(const struct attn_spec *spec, double factor)
{
	return spec->bias[0].base && spec->round_x != ATTN_F32 &&
	       fabs(factor) != power_of_two(exponent_of(factor));
}

static void scale_scores(struct walk *walk, float factor)
{
	struct attn_spec *spec = &walk->args->spec;

	spec->scale *= factor;
	if (walk->tanh)
		spec->softcap *= factor;
	for (int i = 0; i < ATTN_MAX_BIAS; i++)
		spec->bias_scale[i] *= factor;
	if (walk->masked)
		spec->mask_value *= factor;
	walk->lowest = walk->lowest && factor == 1;
}

static enum reason apply_scale(struct walk *walk, const struct step *step)
{
	const float factor = (float)step->meaning.scalar;

	if (walk->softmax) {
		walk->args->spec.out_scale *= factor;
		return REASON_NONE;
	}
	if (rounded_before(&walk->args->spec, step->meaning.scalar))
		return stop(walk, REASON_MASK_FORM, ROUNDED_BEFORE);
	scale_scores(walk, factor);
	return REASON_NONE;
}

/* S times a tensor, or divided by one: a learned temperature, one for each head, a mask of ones and
 * zeros. Its numbers are the device's, and may be others the next time. */
static enum reason apply_scales(struct walk *walk, const struct step *step)
{
	struct attn_spec *spec = &walk->args->spec;
	const struct meaning *meaning = &step->meaning;
	const bool divides = meaning->role == ROLE_DIVIDE;
	const enum reason not =
		meaning->constant ? REASON_SCALARS_ON_DEVICE : REASON_UNKNOWN_KERNEL;
	const struct ref *scores, *scales;
	enum reason reason;
	int at = 2;

	if (walk->softmax || meaning->view_count != 3)
		return stop(walk, not, step->name);
	if (spec->scales.base)
		return stop(walk, not, "multiplied by two tensors");
	if (walk->tanh || walk->masked || spec->bias[0].base)
		return stop(walk, not, "multiplied after a bias or mask");
	scores = ref_of(step, meaning->views[1].where);
	if (!divides && scores && scores->kind == REF_INPUT)
		at = 1;
	scores = ref_of(step, meaning->views[3 - at].where);
	scales = ref_of(step, meaning->views[at].where);
	if (!is_scores(walk, scores) || !scales || scales->kind != REF_INPUT)
		return stop(walk, not, step->name);
	reason = set_tensor(walk, step, &meaning->views[at], &spec->scales, scales->index);
	if (reason == REASON_NONE && spec->scales.dtype > ATTN_F32)
		return stop(walk, not, step->name);
	spec->scales_divide = divides;
	return reason;
}

static enum reason apply_tanh(struct walk *walk, const struct step *step)
{
	struct attn_spec *spec = &walk->args->spec;

	if (walk->softmax || walk->tanh || walk->masked || spec->bias[0].base)
		return stop(walk, REASON_MASK_FORM, step->name);
	walk->tanh = true;
	spec->softcap = 1;
	return REASON_NONE;
}

static enum reason apply_softcap(struct walk *walk, const struct step *step)
{
	enum reason reason;

	if (walk->softmax)
		return stop(walk, REASON_MASK_FORM, step->name);
	scale_scores(walk, (float)step->meaning.scalar);
	reason = apply_tanh(walk, step);
	if (reason == REASON_NONE)
		scale_scores(walk, (float)step->meaning.factor);
	return reason;
}

/* What softmax adds to the scores. */
static enum reason apply_softmax_bias(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	struct attn_spec *spec = &walk->args->spec;
	const bool made = meaning->shown_by_ones;
	enum reason reason;

	if (walk->columns != walk->args->Sk || (made && spec->mask_also.base))
		return stop(walk, REASON_MASK_FORM, step->name);
	reason = add_bias(walk, step, &meaning->views[2], made ? 1 : meaning->added,
			  meaning->summed);
	for (int n = 0; n < ATTN_MAX_BIAS && made && reason == REASON_NONE; n++)
		if (spec->bias[n].base && (n + 1 == ATTN_MAX_BIAS || !spec->bias[n + 1].base)) {
			if (spec->bias[n].batches || spec->bias[n].columns)
				return stop(walk, REASON_MASK_FORM, step->name);
			spec->bias[n].dtype = meaning->summed;
		}
	return reason;
}

/* One more score for each row that meets no V, where softmax itself takes it. */
static enum reason apply_sinks(struct walk *walk, const struct step *step)
{
	const struct view *view = &step->meaning.views[3];
	const struct ref *ref = ref_of(step, view->where);

	if (walk->columns != walk->args->Sk || walk->shifted || !ref || ref->kind != REF_INPUT)
		return stop(walk, REASON_MASK_FORM, step->name);
	return set_tensor(walk, step, view, &walk->args->spec.sinks, ref->index);
}

static enum reason apply_softmax(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const int64_t apart = walk->chain->transposed ? walk->args->Sq : 1;
	enum reason reason = REASON_NONE;

	if (walk->softmax || meaning->softmax_cols != walk->columns ||
	    meaning->softmax_apart != apart)
		return stop(walk, REASON_NOT_SOFTMAX, step->name);
	if (meaning->factor != 1 && walk->columns != walk->args->Sk) /* the sink is scaled, too */
		return stop(walk, REASON_MASK_FORM, step->name);
	if (rounded_before(&walk->args->spec, meaning->factor))
		return stop(walk, REASON_MASK_FORM, ROUNDED_BEFORE);
	scale_scores(walk, (float)meaning->factor);
	walk->scores = walk->from;
	if (meaning->view_count > 2)
		reason = meaning->views[2].dtype == ATTN_BOOL ? spec_apply_softmax_mask(walk, step)
							      : apply_softmax_bias(walk, step);
	if (reason == REASON_NONE && meaning->view_count > 3)
		reason = apply_sinks(walk, step);
	walk->softmax = true;
	return walk->mixed ? stop(walk, REASON_MASK_FORM, "biases are rounded in two ways")
			   : reason;
}

/* The scores as another type, or for another: not as whole numbers, nor their bits. A sum in fp32
 * that becomes one in 16 bits is rounded as one that never was wider: a fill of -3e38 in it hides
 * then. */
static enum reason apply_copy(struct walk *walk, const struct step *step)
{
	struct attn_spec *spec = &walk->args->spec;
	const struct meaning *meaning = &step->meaning;
	const int to = meaning->views[0].dtype, from = meaning->views[1].dtype;

	if (!meaning->view_count) /* the driver's, of bytes */
		return REASON_NONE;
	if (!walk->softmax && spec->bias[0].base && (to == ATTN_F16 || to == ATTN_BF16)) {
		spec->round_x = to;
		walk->mixed = false;
	}

	if (meaning->view_count == 2 &&
	    ((to < 0) != (from < 0) || (from >= 0 && !walk->unknown && from != walk->dtype)))
		return stop(walk, REASON_DTYPE, step->name);
	return REASON_NONE;
}

/* A step that goes through the scores in their own order, or is told so. */
static enum reason apply_in_order(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;

	if (meaning->role != ROLE_SOFTMAX && !rows_in_order(walk, step))
		walk->astray = step->name;
	if (walk->raised)
		return rows_apply_sum(walk, step);
	if (!spec_follows_floor(walk, step))
		return stop(walk, REASON_MASK_FORM, step->name);
	/* once the scores stand relative to one another, or beside a sink, softmax is all that may
	 * come; and, where there is no sink, a factor for the distances */
	if (!walk->softmax && (walk->shifted || walk->columns != walk->args->Sk) &&
	    meaning->role != ROLE_SOFTMAX && meaning->role != ROLE_EXP &&
	    meaning->role != ROLE_COPY && (meaning->role != ROLE_ADD_SCALED || walk->shifted) &&
	    (meaning->role != ROLE_SCALE || walk->columns != walk->args->Sk ||
	     !(meaning->scalar > 0)))
		return stop(walk, REASON_MASK_FORM, step->name);
	switch (meaning->role) {
	case ROLE_SCALE:
		return apply_scale(walk, step);
	case ROLE_ADD:
	case ROLE_ADD_SCALED:
		return apply_add(walk, step);
	case ROLE_ADD_CONSTANT: /* x + 0 is how some spell a copy */
		return meaning->scalar == 0 ? REASON_NONE
					    : stop(walk, REASON_MASK_FORM, step->name);
	case ROLE_TANH:
		return apply_tanh(walk, step);
	case ROLE_SOFTCAP:
		return apply_softcap(walk, step);
	case ROLE_MASKED_FILL:
		return spec_apply_mask(walk, step);
	case ROLE_MAXIMUM:
		return spec_apply_floor(walk, step);
	case ROLE_WHERE:
		return spec_apply_where(walk, step);
	case ROLE_MULTIPLY:
	case ROLE_DIVIDE: /* by a number that nobody but the device knows, or by a tensor */
		return apply_scales(walk, step);
	case ROLE_COPY:
		return apply_copy(walk, step);
	case ROLE_SOFTMAX:
		return apply_softmax(walk, step);
	case ROLE_EXP:
		return rows_apply_exp(walk, step);
	case ROLE_LOG_SOFTMAX:
		return stop(walk, REASON_NOT_SOFTMAX, "log_softmax");
	case ROLE_DROPOUT:
		return stop(walk, REASON_DROPOUT, step->name);
	case ROLE_UNKNOWN:
		walk->unknown = true;
		return REASON_NONE;
	default:
		return stop(walk, REASON_UNKNOWN_KERNEL, step->name);
	}
}

static enum reason apply(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;
	const bool own = order_is_own(walk);
	struct step told;

	if (meaning->role == ROLE_CAT)
		return own ? rows_apply_cat(walk, step) : stop(walk, REASON_LAYOUT, step->name);
	if (own && rows_drop_sink(walk, step))
		return REASON_NONE;
	if (meaning->role != ROLE_UNKNOWN && meaning->role != ROLE_OPAQUE &&
	    meaning->elements != walk->Z * walk->args->Sq * walk->columns)
		return stop(walk, REASON_LAYOUT, step->name);
	if (own && walk->softmax && !walk->turned && rows_turned(walk, step, &walk->turned))
		return apply_copy(walk, step);
	if ((!own || !rows_in_order(walk, step)) && order_copy(walk, step))
		return apply_copy(walk, step);
	if (own)
		return apply_in_order(walk, step);
	told = *step;
	if (order_tell(walk, &told))
		return apply_in_order(walk, &told);
	return stop(walk, meaning->role == ROLE_SOFTMAX ? REASON_NOT_SOFTMAX : REASON_LAYOUT,
		    step->name);
}

/* Each step must read the version the walk is at, no other, and hands on the version it writes. A
 * step without a rule may do as it likes with the chain's values, but must not read anything else.
 */
static enum reason follow(struct walk *walk, const struct step *step)
{
	const bool sides = step->meaning.role == ROLE_WHERE ||
			   step->meaning.role == ROLE_ADD_SCALED ||
			   step->meaning.role == ROLE_DIVIDE;
	int next = walk->value;

	walk->from = walk->value;
	for (int i = 0; i < step->ref_count; i++) {
		const struct ref *ref = &step->refs[i];

		if (step->meaning.role == ROLE_UNKNOWN) {
			if (ref->slot < 0)
				return stop(walk, REASON_UNACCOUNTED_POINTER, step->name);
			next = ANY_VALUE;
			continue;
		}
		if (ref->kind != REF_VALUE)
			continue;
		if (ref->mode == ACCESS_WRITE)
			next = ref->index;
		else if (sides && walk->sides[ref->index].what != SIDE_NONE)
			continue;
		else if (walk->value != ANY_VALUE && ref->index != walk->value)
			return stop(walk, REASON_SCORES_READ_BY, step->name);
	}
	walk->value = next;
	return REASON_NONE;
}

static void plain_spec(struct attn_spec *spec, double scale)
{
	memset(spec, 0, sizeof(*spec));
	spec->scale = (float)scale;
	spec->out_scale = 1;
	spec->round_x = ATTN_F32;
	spec->round_p = ATTN_F32;
	spec->window_left = spec->window_right = ATTN_NO_WINDOW;
	spec->window_value = -INFINITY;
}

/* QK^T of fp32 numbers, and PV of 16-bit ones: whether Q and K were cast from such is for the
 * caller to find out (originals.h). */
static bool widened(const struct walk *walk)
{
	const struct op_gemm *opener = &walk->chain->steps[0].gemm;
	const int narrow = dtype_of_cuda(walk->chain->closer.atype);

	return opener->atype == CUDA_R_32F && opener->ctype == CUDA_R_32F && !walk->unknown &&
	       !walk->fold && (narrow == ATTN_F16 || narrow == ATTN_BF16);
}

static enum reason check_gemms(struct walk *walk)
{
	const struct chain *chain = walk->chain;
	const struct op_gemm *opener = &chain->steps[0].gemm, *closer = &chain->closer;

	if (closer->beta != 0)
		return stop(walk, REASON_BETA, closer->entry);
	if (walk->unknown && chain->transposed)
		return stop(walk, REASON_LAYOUT, "transposed scores beside an unknown kernel");
	if (closer->d)
		return stop(walk, REASON_EPILOGUE, closer->entry);
	if (opener->atype != closer->atype && !widened(walk))
		return stop(walk, REASON_DTYPE, "QK^T and PV in different types");
	if (opener->atype == CUDA_R_32F &&
	    (gemm_fp32_product(opener) == FP32_NO_OTHER ||
	     (closer->atype == CUDA_R_32F && gemm_fp32_product(closer) == FP32_NO_OTHER)))
		return stop(walk, REASON_PRECISION, "fp32 by 16-bit parts, or pedantic");
	if (walk->args->D > 256 || walk->args->Dv > 256)
		return stop(walk, REASON_NO_KERNEL, "head dimension above 256");
	return REASON_NONE;
}

/* From S to P. */
static enum reason walk_steps(struct walk *walk)
{
	const struct chain *chain = walk->chain;
	struct attn_args *args = walk->args;
	enum reason reason = REASON_NONE;

	walk->value = 0;
	walk->softmax = walk->tanh = walk->masked = walk->unknown = walk->again = false;
	walk->shifted = walk->raised = walk->lowest = walk->mixed = walk->floored = false;
	walk->mask = walk->added = -1;
	walk->turned = 0;
	walk->order.count = 0;
	walk->reordered = false;
	walk->astray = NULL;
	walk->dtype = dtype_of_cuda(chain->steps[0].gemm.ctype);
	memset(walk->sides, 0, sizeof(walk->sides));
	memset(args, 0, sizeof(*args));
	spec_set_operands(args, chain, walk->Z);
	plain_spec(&args->spec, chain->steps[0].gemm.alpha);
	args->spec.out_scale = (float)chain->closer.alpha;
	args->spec.round_p = args->v.dtype;
	if (chain->unfit != REASON_NONE)
		return stop(walk, chain->unfit, chain->detail);
	walk->columns = args->Sk;
	spec_set_preload(walk);
	for (int i = 1; i < chain->step_count && reason == REASON_NONE; i++) {
		const struct step *step = &chain->steps[i];

		if (rows_dead(walk, step) ||
		    (order_is_own(walk) && rows_note_side(walk, step, &reason)))
			continue;
		reason = follow(walk, step);
		if (reason == REASON_NONE)
			reason = apply(walk, step);
		if (step->meaning.view_count && step->meaning.views[0].dtype >= 0)
			walk->dtype = step->meaning.views[0].dtype;
		if (walk->softmax && (walk->dtype == ATTN_F16 || walk->dtype == ATTN_BF16) &&
		    args->spec.round_p == ATTN_F32)
			args->spec.round_p = walk->dtype; /* and widened again, for PV in fp32 */
		if (!walk->softmax)
			args->spec.mask_value =
				spec_fill_stored(args->spec.mask_value, walk->dtype);
	}
	if (reason == REASON_NONE && walk->columns - args->Sk != chain->further)
		return stop(walk, REASON_MASK_FORM,
			    "a further column in softmax: an attention sink");
	return reason;
}

enum reason spec_of_chain(struct attn_args *args, const struct chain *chain,
			  const struct identity *given, bool *by_data, char *detail)
{
	struct walk walk = {
		.args = args, .chain = chain, .Z = chain->steps[0].gemm.batch, .detail = detail};
	enum reason reason;
	float overflow;

	detail[0] = '\0';
	*by_data = false;
	reason = spec_settle_runs(&walk);
	if (reason == REASON_NONE)
		reason = walk_steps(&walk);
	if (walk.again)
		reason = walk_steps(&walk);
	if (reason != REASON_NONE)
		return reason;
	if (walk.value != ANY_VALUE && walk.value != chain->p_value)
		return stop(&walk, REASON_SCORES_READ_BY, chain->steps[chain->step_count - 1].name);
	if (!walk.softmax && !walk.unknown)
		return stop(&walk, REASON_NOT_SOFTMAX, "");
	if (walk.astray)
		return stop(&walk, REASON_LAYOUT, walk.astray);
	if (walk.reordered && (walk.unknown || walk.turned))
		return stop(&walk, REASON_LAYOUT, "entries in another order");
	if (!order_is_own(&walk)) {
		reason = spec_fold_turned(&walk, order_rows_turned(&walk));
		if (reason == REASON_NONE) /* operands over rows are of heads, too */
			reason = walk_steps(&walk);
		if (reason != REASON_NONE)
			return reason;
	}
	reason = check_gemms(&walk);
	if (reason != REASON_NONE)
		return reason;
	if (walk.unknown && args->spec.scales.base) /* what data tell of it is true only now */
		return stop(&walk, REASON_SCALARS_ON_DEVICE, "beside an unknown kernel");
	if (walk.unknown && args->spec.mask_also.base)
		return stop(&walk, REASON_MASK_FORM, "two masks beside an unknown kernel");
	detail[0] = '\0';
	args->spec.round_s = spec_rounding(&walk);
	overflow = spec_overflow(&walk);
	args->spec.overflow = walk.unknown ? 0 : overflow;
	args->spec.alpha = (float)chain->steps[0].gemm.alpha;
	if (walk.turned && spec_settle_turned(&walk) != REASON_NONE)
		return REASON_LAYOUT;
	if (walk.fold)
		return walk.unknown ? stop(&walk, REASON_UNACCOUNTED_POINTER,
					   "folded heads beside an unknown kernel")
				    : spec_set_folded(&walk);
	if (walk.unknown && given && given->heads) {
		if (walk.H && walk.H != given->heads)
			return stop(&walk, REASON_LAYOUT, "heads of another number");
		walk.H = given->heads;
	}
	if (!walk.H)
		walk.H = walk.Z;
	spec_set_operands(args, chain, walk.H);
	if (walk.turned)
		spec_turn(args, walk.turned);
	for (int i = 0; i < ATTN_MAX_BIAS; i++)
		spec_settle_heads(&args->spec.bias[i], walk.H);
	spec_settle_heads(&args->spec.scales, walk.H);
	spec_settle_heads(&args->spec.mask, walk.H);
	spec_settle_heads(&args->spec.mask_also, walk.H);
	spec_settle_heads(&args->spec.sinks, walk.H);
	if (walk.unknown) {
		*by_data = true;
		reason = identity_apply(args, chain, given, detail);
		args->spec.overflow = given && given->overflows ? overflow : 0;
		return reason;
	}
	return REASON_NONE;
}
