/* SPDX-License-Identifier: Apache-2.0
 *
 * From what the kernels were found to compute to what ours are to: the model in terms of
 * attention.h, its inputs by the numbers of their pointers.
 */
#include "shim/ask/identify_parts.h"

#include <math.h>

#define SWALLOWS (-0x1p100) /* added to a score, nothing is left of that */

static bool settle(int64_t *heads, int64_t Z, int64_t found)
{
	const bool agrees = *heads == Z || *heads == found;

	*heads = found;
	return agrees;
}

/* Heads are where the products or an operand say so; where none does, all of Z are. */
static bool settle_heads(int64_t *heads, int64_t Z, const struct model *model)
{
	bool agree = model->alibi.heads <= 1 || settle(heads, Z, model->alibi.heads);

	for (int k = 0; k < model->readings && agree; k++) {
		const struct form *form = &model->reading[k].form;

		if (form->along == FORM_MODULO || form->along == FORM_QUOTIENT)
			agree = settle(heads, Z, form->heads);
	}
	return agree;
}

static void set_tensor(struct attn_tensor *tensor, const struct reading *reading, int64_t heads)
{
	const struct form *form = &reading->form;

	*tensor =
		(struct attn_tensor){.base = (uint64_t)reading->input + 1, .dtype = reading->dtype};
	tensor->stride[0] = form->along == FORM_EACH	   ? form->unit * heads
			    : form->along == FORM_QUOTIENT ? form->unit
							   : 0;
	tensor->stride[1] = form->along == FORM_EACH || form->along == FORM_MODULO ? form->unit : 0;
	tensor->stride[2] = form->row;
	tensor->stride[3] = form->column;
}

/* Slopes that no input holds take a bias, too. */
static int set_alibi(struct identity *identity, const struct alibi *alibi, int bias)
{
	identity->slopes = 0;
	if (!alibi->heads)
		return bias;
	identity->slopes = bias + 1;
	identity->slope_first = alibi->first;
	identity->slope_most = (float)alibi->most;
	identity->spec.bias[bias] =
		(struct attn_tensor){.stride = {0, alibi->heads > 1, 0, 0}, .dtype = ATTN_F32};
	identity->spec.bias_scale[bias] = (float)alibi->weight;
	return bias + 1;
}

/* Does the type hold the number? */
static bool type_holds(int dtype, double x)
{
	return dtype != ATTN_F32 && (isinf(x) || x == (dtype == ATTN_F16 ? -65504 : -0x1.fep127));
}

/* A mask of bytes is a mask, unless what it hides is but made small, or a triangle comes with it;
 * all else becomes a bias of the type of Q, where that holds the number. */
static const char *set_flags(struct identity *identity, const struct model *model,
			     const struct reading *reading, int own, int *bias)
{
	struct attn_spec *spec = &identity->spec;

	if (reading->dtype == ATTN_BOOL && !model->beyond &&
	    (reading->replaces || isinf(reading->weight))) {
		set_tensor(&spec->mask, reading, identity->heads);
		spec->mask_keeps = reading->keeps;
		spec->mask_value = (float)reading->weight;
		return NULL;
	}
	if (reading->replaces && reading->weight > SWALLOWS)
		return "whole numbers choose between a score and a number";
	if (*bias == ATTN_MAX_BIAS)
		return "more biases than a kernel takes";
	set_tensor(&spec->bias[*bias], reading, identity->heads);
	spec->bias[*bias].dtype = type_holds(own, reading->weight) ? own : ATTN_F32;
	spec->bias_scale[*bias] = 1;
	if (!isinf(reading->weight))
		spec->round_x = model->round_x;
	identity->flags_type = reading->dtype;
	identity->flags_say = reading->keeps ? COMPLEMENT_KEEPS : COMPLEMENT_HIDES;
	identity->flags_weight = (float)reading->weight;
	identity->beyond = model->beyond;
	identity->flags = ++*bias;
	return NULL;
}

/* The bias is what a mask lacks to one. */
static void set_lacking(struct identity *identity, const struct reading *reading, int bias)
{
	identity->spec.bias[bias].dtype = ATTN_F32;
	identity->spec.bias_scale[bias] = 1;
	identity->flags_type = reading->dtype;
	identity->flags_say = COMPLEMENT_NUMBERS;
	identity->flags_weight = (float)-reading->weight;
	identity->flags = bias + 1;
}

static const char *set_readings(struct identity *identity, const struct model *model, int own,
				int bias)
{
	struct attn_spec *spec = &identity->spec;

	for (int k = 0; k < model->readings; k++) {
		const struct reading *reading = &model->reading[k];

		if (reading->kind == READ_LENGTHS) {
			set_tensor(&spec->lengths, reading, identity->heads);
			continue;
		}
		if (reading->kind == READ_FLAGS) {
			const char *why = set_flags(identity, model, reading, own, &bias);

			if (why)
				return why;
			continue;
		}
		if (bias == ATTN_MAX_BIAS)
			return "more biases than a kernel takes";
		if (reading->kind == READ_RAMP && identity->slopes)
			return "slopes, a second time";
		if (reading->kind == READ_RAMP)
			identity->slopes = bias + 1;
		set_tensor(&spec->bias[bias], reading, identity->heads);
		if (reading->lacking)
			set_lacking(identity, reading, bias);
		else
			spec->bias_scale[bias] = (float)reading->weight;
		bias++;
		spec->round_x = model->round_x;
	}
	return NULL;
}

/* Does it hold for other numbers of keys? Where a mask is cut out of a larger one a kernel may
 * begin elsewhere in that; and of as many keys as queries it is not told which of them a triangle
 * goes on from. */
static bool tells_of_others(const struct attn_args *args, const struct model *model)
{
	bool tells = !model->causal || args->Sq != args->Sk;

	for (int k = 0; k < model->readings; k++)
		tells &= !model->reading[k].pitched;
	return tells;
}

const char *identify_answer(struct identity *identity, const struct model *model,
			    const struct asked *asked)
{
	const struct op_gemm *opener = &asked->chain->steps[0].gemm;
	struct attn_spec *spec = &identity->spec;
	const int bias = identity_bias_place(asked->chain);

	identity->heads = asked->args->H;
	identity->flags = 0;
	identity->beyond = false;
	identity->only_keys = tells_of_others(asked->args, model) ? 0 : asked->args->Sk;
	if (!settle_heads(&identity->heads, opener->batch, model))
		return "inputs disagree on the number of heads";
	if (bias && model->cap > 0)
		return "a softcap after what GEMM1 adds to";
	*spec = asked->args->spec;
	spec->scale = (float)(opener->alpha * model->scale);
	spec->softcap = (float)model->cap;
	if (bias)
		spec->bias_scale[0] = (float)(opener->beta * model->scale);
	spec->window_right = model->causal ? 0 : ATTN_NO_WINDOW;
	spec->window_left = model->left >= 0 ? (int32_t)model->left : ATTN_NO_WINDOW;
	spec->window_shift = (int32_t)model->shift;
	spec->empty_row = asked->empty;
	spec->round_p = asked->p_rounding;
	identity->pointers = asked->inputs;
	identity->overflows = asked->overflows;
	return set_readings(identity, model, asked->args->q.dtype,
			    set_alibi(identity, &model->alibi, bias));
}
