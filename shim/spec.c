/* SPDX-License-Identifier: Apache-2.0
 *
 * The score algebra. Walking the steps from S to P, an expression of the form
 *     softcap * tanh(scale * qk / softcap) + sum bias_scale * bias, then mask, then softmax
 * is kept up to date; a step that would leave this form ends the walk with a reason.
 */
#include "spec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "memory.h"

#define ANY_VALUE (-1) /* behind an unknown kernel: data will tell */

struct walk {
	struct attn_args *args;
	const struct chain *chain;
	int64_t Z; /* batch entries of the GEMMs: B * H */
	int64_t H; /* 0: not settled by any broadcast operand */
	int value; /* the version the walk is at, or ANY_VALUE */
	bool softmax, tanh, masked, unknown;
	char *detail;
};

static enum reason stop(struct walk *walk, enum reason reason, const char *detail)
{
	snprintf(walk->detail, 96, "%s", detail ? detail : "");
	return reason;
}

/* ---- operands ------------------------------------------------------------------------------- */

static void operand(struct attn_tensor *tensor, uint64_t base, const struct matrix *matrix,
		    bool flip, int64_t H)
{
	tensor->base = base;
	tensor->dtype = matrix->dtype;
	tensor->by_array = 0;
	tensor->stride[0] = matrix->batch_stride * H;
	tensor->stride[1] = matrix->batch_stride;
	tensor->stride[2] = flip ? matrix->col_stride : matrix->row_stride;
	tensor->stride[3] = flip ? matrix->row_stride : matrix->col_stride;
}

static uint64_t input_address(const struct chain *chain, int index, uint64_t address)
{
	const struct input *input = &chain->inputs[index];

	return input->snapshot ? input->snapshot + (address - input->begin) : address;
}

static void set_operands(struct attn_args *args, const struct chain *chain, int64_t H)
{
	const struct op_gemm *closer = &chain->closer;
	const bool p_is_a = closer->a == chain->values[chain->p_value].begin;
	uint64_t v = p_is_a ? closer->b : closer->a, begin, end;
	struct gemm first, last;

	gemm_from_op(&first, &chain->steps[0].gemm);
	gemm_from_op(&last, closer);
	args->H = (int32_t)H;
	args->B = (int32_t)(first.batch / H);
	args->Sk = (int32_t)first.a.rows;
	args->Sq = (int32_t)first.b.cols;
	args->D = (int32_t)first.a.cols;
	args->Dv = (int32_t)(p_is_a ? last.c.cols : last.c.rows);
	operand(&args->k, input_address(chain, 0, first.a.base), &first.a, false, H);
	operand(&args->q, input_address(chain, 1, first.b.base), &first.b, true, H);
	matrix_extent(p_is_a ? &last.b : &last.a, last.batch, &begin, &end);
	for (int i = 2; i < chain->input_count; i++) /* V, when it was registered as an input */
		if (chain->inputs[i].begin == begin && chain->inputs[i].end == end &&
		    chain->inputs[i].snapshot)
			v = input_address(chain, i, v);
	operand(&args->v, v, p_is_a ? &last.b : &last.a, !p_is_a, H);
	operand(&args->o, last.c.base, &last.c, !p_is_a, H);
}

/* ---- broadcast operands --------------------------------------------------------------------- */

/* An element-wise launch walks its output in coalesced dimensions; this finds the strides of one
 * operand along keys, queries, heads and batches. The iteration space is [Z][Sq][Sk] in linear
 * order, and each of its dimensions is a product of pieces of those. Z may fall into two pieces,
 * heads and batches; all operands of a chain must agree where. */
static bool split(struct walk *walk, const struct meaning *meaning, const struct view *view,
		  int64_t stride[4])
{
	const int64_t target[3] = {walk->args->Sk, walk->args->Sq, walk->Z};
	int64_t piece_size[4], piece_stride[4]; /* of Z */
	int pieces = 0, dim = 0;
	int64_t left = meaning->dims ? meaning->size[0] : 1; /* of the iteration dimension */
	int64_t step = meaning->dims ? view->stride[0] : 0;

	stride[2] = stride[3] = 0;
	for (int t = 0; t < 3; t++) {
		int64_t need = target[t];
		bool first = true;

		while (need > 1) {
			int64_t take;

			while (left == 1 && dim + 1 < meaning->dims) {
				dim++;
				left = meaning->size[dim];
				step = view->stride[dim];
			}
			take = left < need ? left : need;
			if (take <= 1 || left % take || need % take)
				return false;
			if (t < 2) {
				if (!first)
					return false; /* keys or queries in several pieces */
				stride[3 - t] = step;
			} else if (pieces &&
				   piece_stride[pieces - 1] * piece_size[pieces - 1] == step) {
				piece_size[pieces - 1] *= take;
			} else {
				if (pieces == 4)
					return false;
				piece_size[pieces] = take;
				piece_stride[pieces++] = step;
			}
			first = false;
			need /= take;
			left /= take;
			step *= take;
		}
	}
	if (pieces > 2)
		return false;
	if (pieces == 2) {
		if (walk->H && walk->H != piece_size[0])
			return false;
		walk->H = piece_size[0];
	}
	stride[1] = pieces ? piece_stride[0] : 0;
	stride[0] = pieces == 2 ? piece_stride[1] : -1; /* -1: follows heads, once H is known */
	return true;
}

static enum reason set_tensor(struct walk *walk, const struct step *step, const struct view *view,
			      struct attn_tensor *tensor, int index)
{
	int64_t stride[4];

	if (view->dtype < 0 || !split(walk, &step->meaning, view, stride))
		return stop(walk, REASON_MASK_FORM, step->name);
	tensor->base = input_address(walk->chain, index, view->base);
	tensor->dtype = view->dtype;
	tensor->by_array = 0;
	for (int i = 0; i < 4; i++) {
		if (stride[i] != -1 && stride[i] % view->element)
			return stop(walk, REASON_MASK_FORM, step->name);
		tensor->stride[i] =
			i == 0 && stride[0] == -1 ? INT64_MIN : stride[i] / view->element;
	}
	return REASON_NONE;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static const struct ref *ref_of(const struct step *step, int where)
{
	for (int i = 0; i < step->ref_count; i++)
		if (step->refs[i].where == where && step->refs[i].mode != ACCESS_WRITE)
			return &step->refs[i];
	return NULL;
}

static enum reason add_bias(struct walk *walk, const struct step *step, const struct view *view,
			    double factor)
{
	struct attn_spec *spec = &walk->args->spec;
	const struct ref *ref = ref_of(step, view->where);
	enum reason reason;
	int n;

	if (walk->softmax || walk->masked || !ref || ref->kind != REF_INPUT)
		return stop(walk, REASON_MASK_FORM, step->name);
	for (n = 0; n < ATTN_MAX_BIAS && spec->bias[n].base; n++)
		;
	if (n == ATTN_MAX_BIAS)
		return stop(walk, REASON_MASK_FORM, "more than two biases");
	reason = set_tensor(walk, step, view, &spec->bias[n], ref->index);
	if (reason == REASON_NONE && spec->bias[n].dtype > ATTN_F32)
		return stop(walk, REASON_MASK_FORM, step->name);
	spec->bias_scale[n] = (float)factor;
	if (step->meaning.views[0].dtype >= 0)
		spec->round_x = step->meaning.views[0].dtype;
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
	if (first && first->kind == REF_VALUE)
		return add_bias(walk, step, &meaning->views[2], scaled ? meaning->scalar : 1);
	if (second && second->kind == REF_VALUE && !scaled)
		return add_bias(walk, step, &meaning->views[1], 1);
	return stop(walk, REASON_MASK_FORM, step->name);
}

static enum reason apply_scale(struct walk *walk, const struct step *step)
{
	struct attn_spec *spec = &walk->args->spec;
	const float factor = (float)step->meaning.scalar;

	if (walk->softmax) {
		spec->out_scale *= factor;
		return REASON_NONE;
	}
	spec->scale *= factor;
	if (walk->tanh)
		spec->softcap *= factor;
	for (int i = 0; i < ATTN_MAX_BIAS; i++)
		spec->bias_scale[i] *= factor;
	if (walk->masked)
		spec->mask_value *= factor;
	return REASON_NONE;
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

static enum reason apply_mask(struct walk *walk, const struct step *step)
{
	struct attn_spec *spec = &walk->args->spec;
	const struct meaning *meaning = &step->meaning;
	const struct ref *ref;

	if (walk->softmax || walk->masked || meaning->view_count != 3)
		return stop(walk, REASON_MASK_FORM, step->name);
	ref = ref_of(step, meaning->views[2].where);
	if (!ref || ref->kind != REF_INPUT || meaning->views[2].dtype != ATTN_BOOL)
		return stop(walk, REASON_MASK_FORM, step->name);
	walk->masked = true;
	spec->mask_keeps = 0;
	spec->mask_value = (float)meaning->scalar;
	return set_tensor(walk, step, &meaning->views[2], &spec->mask, ref->index);
}

static enum reason apply_softmax(struct walk *walk, const struct step *step)
{
	if (walk->softmax || step->meaning.softmax_cols != walk->args->Sk)
		return stop(walk, REASON_NOT_SOFTMAX, step->name);
	walk->softmax = true;
	return REASON_NONE;
}

static enum reason apply(struct walk *walk, const struct step *step)
{
	const struct meaning *meaning = &step->meaning;

	if (meaning->role != ROLE_UNKNOWN && meaning->role != ROLE_OPAQUE &&
	    meaning->elements != walk->Z * walk->args->Sq * walk->args->Sk)
		return stop(walk, REASON_LAYOUT, step->name);
	switch (meaning->role) {
	case ROLE_SCALE:
		return apply_scale(walk, step);
	case ROLE_ADD:
	case ROLE_ADD_SCALED:
		return apply_add(walk, step);
	case ROLE_TANH:
		return apply_tanh(walk, step);
	case ROLE_MASKED_FILL:
		return apply_mask(walk, step);
	case ROLE_COPY:
		return REASON_NONE;
	case ROLE_SOFTMAX:
		return apply_softmax(walk, step);
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

/* Each step must read the version the walk is at, no other, and hands on the version it writes. A
 * step without a rule may do as it likes with the chain's values, but must not read anything else.
 */
static enum reason follow(struct walk *walk, const struct step *step)
{
	int next = walk->value;

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

static void settle_heads(struct attn_tensor *tensor, int64_t H)
{
	if (tensor->base && tensor->stride[0] == INT64_MIN)
		tensor->stride[0] = tensor->stride[1] * H;
}

static enum reason check_gemms(struct walk *walk)
{
	const struct chain *chain = walk->chain;
	const struct op_gemm *opener = &chain->steps[0].gemm, *closer = &chain->closer;

	if (opener->beta != 0 || closer->beta != 0)
		return stop(walk, REASON_BETA, "");
	if (closer->d)
		return stop(walk, REASON_EPILOGUE, closer->entry);
	if (opener->atype == CUDA_R_32F || closer->atype == CUDA_R_32F)
		return stop(walk, REASON_PRECISION, "fp32 operands");
	if (opener->atype != closer->atype)
		return stop(walk, REASON_DTYPE, "QK^T and PV in different types");
	if (walk->args->D > 256 || walk->args->Dv > 256)
		return stop(walk, REASON_NO_KERNEL, "head dimension above 256");
	return REASON_NONE;
}

/* The one pointer of the chain's unknown kernels that is an input; 0: none, or more than one
 * (*count). */
static uint64_t outside_pointer(const struct chain *chain, int *count)
{
	uint64_t pointer = 0;

	*count = 0;
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].outside) {
			pointer = chain->values[i].begin;
			++*count;
		}
	for (int i = 0; i < chain->input_count; i++)
		if (pointer && chain->inputs[i].begin == pointer)
			pointer = input_address(chain, i, pointer);
	return pointer;
}

/* A chain with unknown kernels: the spec that was identified, its bias (if any) where it is this
 * time. */
static enum reason by_data_spec(struct walk *walk, const struct attn_spec *given)
{
	struct attn_args *args = walk->args;
	int count;
	uint64_t pointer = outside_pointer(walk->chain, &count);

	if (args->spec.bias[0].base || args->spec.mask.base)
		return stop(walk, REASON_UNACCOUNTED_POINTER, "a mask beside an unknown kernel");
	if (count > 1)
		return stop(walk, REASON_UNACCOUNTED_POINTER, "more than one pointer");
	if (!given)
		return REASON_NONE;
	args->spec = *given;
	args->spec.window_shift = given->window_shift ? args->Sk - args->Sq : 0;
	if (given->bias[0].base)
		args->spec.bias[0].base = pointer;
	return REASON_NONE;
}

enum reason spec_of_chain(struct attn_args *args, const struct chain *chain,
			  const struct attn_spec *given, bool *by_data, char *detail)
{
	const struct op_gemm *opener = &chain->steps[0].gemm;
	struct walk walk = {.args = args, .chain = chain, .Z = opener->batch, .detail = detail};
	enum reason reason = chain->unfit;

	detail[0] = '\0';
	*by_data = false;
	memset(args, 0, sizeof(*args));
	set_operands(args, chain, walk.Z);
	plain_spec(&args->spec, opener->alpha);
	args->spec.out_scale = (float)chain->closer.alpha;
	args->spec.round_p = args->v.dtype;
	if (reason != REASON_NONE)
		return stop(&walk, reason, chain->detail);
	for (int i = 1; i < chain->step_count; i++) {
		const struct step *step = &chain->steps[i];

		reason = follow(&walk, step);
		if (reason == REASON_NONE)
			reason = apply(&walk, step);
		if (reason != REASON_NONE)
			return reason;
	}
	if (walk.value != ANY_VALUE && walk.value != chain->p_value)
		return stop(&walk, REASON_SCORES_READ_BY, chain->steps[chain->step_count - 1].name);
	if (!walk.softmax && !walk.unknown)
		return stop(&walk, REASON_NOT_SOFTMAX, "");
	reason = check_gemms(&walk);
	if (reason != REASON_NONE)
		return reason;
	if (!walk.H)
		walk.H = walk.Z;
	set_operands(args, chain, walk.H);
	for (int i = 0; i < ATTN_MAX_BIAS; i++)
		settle_heads(&args->spec.bias[i], walk.H);
	settle_heads(&args->spec.mask, walk.H);
	if (walk.unknown) {
		*by_data = true;
		return by_data_spec(&walk, given);
	}
	return REASON_NONE;
}

/* ---- recognition by data -------------------------------------------------------------------- */

#define MAX_SCALES 6

static int dtype_of_scores(const struct chain *chain)
{
	return dtype_of_cuda(chain->steps[0].gemm.ctype);
}

/* Any word of an unknown kernel's parameters that reads as a plausible fp32 factor may be the
 * scale. */
static int guess_scales(float scales[MAX_SCALES], const struct attn_args *args,
			const struct chain *chain)
{
	int count = 2;

	scales[0] = 1;
	scales[1] = 1 / sqrtf((float)args->D);
	for (int i = 1; i < chain->step_count; i++) {
		const struct step *step = &chain->steps[i];

		if (step->meaning.role != ROLE_UNKNOWN)
			continue;
		for (unsigned p = 0; p < step->function->param_count; p++)
			for (unsigned at = 0; at + 4 <= step->function->param_size[p]; at += 4) {
				bool known = false;
				float word;

				memcpy(&word, step->params + step->function->param_offset[p] + at,
				       4);
				if (!isfinite(word) || fabsf(word) < 1e-4f || fabsf(word) > 1e3f)
					continue;
				for (int k = 0; k < count; k++)
					known = known || scales[k] == word;
				if (!known && count < MAX_SCALES)
					scales[count++] = word;
			}
	}
	return count;
}

/* Forms an additive bias may have: one value a score, one a pair of query and key, one a key. */
static int guess_biases(struct attn_tensor *forms, int max, const struct attn_args *args,
			uint64_t pointer)
{
	const int64_t Sq = args->Sq, Sk = args->Sk, Z = (int64_t)args->B * args->H;
	const int64_t stride[3][3] = {{Sq * Sk, Sk, 1}, {0, Sk, 1}, {0, 0, 1}};
	const int64_t elements[3] = {Z * Sq * Sk, Sq * Sk, Sk};
	const struct allocation *allocation = memory_find(pointer);
	const int dtypes[2] = {args->q.dtype, ATTN_F32};
	int count = 0;

	for (int d = 0; allocation && d < 2; d++)
		for (int f = 0; f < 3 && count < max; f++) {
			if (pointer + (uint64_t)elements[f] * (uint64_t)attn_dtype_size(dtypes[d]) >
				    allocation->base + allocation->bytes ||
			    (f == 1 && Z == 1) || (f == 2 && Sq == 1))
				continue;
			forms[count++] = (struct attn_tensor){.base = pointer,
							      .dtype = dtypes[d],
							      .stride = {stride[f][0] * args->H,
									 stride[f][0], stride[f][1],
									 stride[f][2]}};
		}
	return count;
}

int spec_guess(struct attn_spec *guess, int max, const struct attn_args *args,
	       const struct chain *chain)
{
	struct attn_tensor biases[7] = {{0}};
	float scales[MAX_SCALES];
	const int scale_count = guess_scales(scales, args, chain);
	int count = 0, bias_count = 1, outside;
	const uint64_t pointer = outside_pointer(chain, &outside);

	if (pointer)
		bias_count += guess_biases(biases + 1, 6, args, pointer);
	for (int b = 0; b < bias_count; b++)
		/* A pointer must not be explained away: with one, a causal pattern is the
		 * pointer's. */
		for (int causal = 0; causal < (pointer ? 1 : 3); causal++)
			for (int i = 0; i < scale_count && count < max; i++) {
				struct attn_spec *spec = &guess[count];

				if (causal == 2 && args->Sq == args->Sk)
					continue;
				*spec = args->spec;
				spec->scale *= scales[i];
				spec->window_right = causal ? 0 : ATTN_NO_WINDOW;
				spec->window_shift = causal == 2 ? args->Sk - args->Sq : 0;
				spec->bias[0] = biases[b];
				spec->bias_scale[0] = 1;
				if (b)
					spec->round_x = dtype_of_scores(chain);
				count++;
			}
	return count;
}

/* ---- words ---------------------------------------------------------------------------------- */

static const char *dtype_name(int dtype)
{
	static const char *const names[] = {"f16", "bf16", "f32", "bool", "f64"};

	return dtype >= 0 && dtype < ATTN_DTYPE_COUNT ? names[dtype] : "?";
}

static int describe(const struct attn_args *args, const struct attn_tensor *tensor,
		    const char *what, char *text, size_t size)
{
	const bool batch = tensor->stride[0] && args->B > 1,
		   head = tensor->stride[1] && args->H > 1;
	char heads[16];

	snprintf(heads, sizeof(heads), "%s", head ? "H" : "1");
	return snprintf(text, size, "%s [%s,%s,%s,%s] %s", what, batch ? "B" : "1", heads,
			tensor->stride[2] ? "Sq" : "1", tensor->stride[3] ? "Sk" : "1",
			dtype_name(tensor->dtype));
}

void spec_describe_mask(const struct attn_args *args, char *text, size_t size)
{
	const struct attn_spec *spec = &args->spec;
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < ATTN_MAX_BIAS; i++)
		if (spec->bias[i].base && used < size)
			used += (size_t)describe(args, &spec->bias[i], used ? " + bias" : "bias",
						 text + used, size - used);
	if (spec->mask.base && used < size)
		used += (size_t)describe(args, &spec->mask, used ? " + mask" : "mask", text + used,
					 size - used);
	if (spec->window_right == 0 && used < size)
		used += (size_t)snprintf(text + used, size - used, "%scausal", used ? " + " : "");
	if (!used)
		snprintf(text, size, "none");
}
