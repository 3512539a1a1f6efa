/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands get their addresses one behind the other; what a form calls unaligned begins an element
 * late.
 */
#include "tools/tune/layout.h"

#include <errno.h>
#include <math.h>

#define ALIGNED 256

struct place {
	const struct call_form *form;
	uint64_t at;
};

/* Room for an operand; late: it begins one element behind an aligned address. */
static uint64_t room(struct place *place, int64_t elements, int dtype, int late)
{
	const uint64_t size = (uint64_t)attn_dtype_size(dtype);
	const uint64_t base = place->at + (late ? size : 0);

	place->at = (base + (uint64_t)elements * size + ALIGNED - 1) / ALIGNED * ALIGNED;
	return base;
}

/* Q, K, V or O: [B,H,rows,columns], the heads sharing it where so asked. */
static struct attn_tensor operand(struct place *place, int32_t rows, int32_t columns, int shared,
				  int late)
{
	const struct call_form *form = place->form;
	const int64_t heads = shared ? 1 : form->H, one = (int64_t)rows * columns;

	return (struct attn_tensor){
		.base = room(place, form->B * heads * one, form->dtype, late),
		.stride = {heads * one, shared ? 0 : one, columns, 1},
		.dtype = form->dtype,
	};
}

/* A bias, a mask or the like: it has the dimensions that it varies along. */
static struct attn_tensor beside(struct place *place, int32_t varies, int dtype)
{
	const struct call_form *form = place->form;
	const int32_t extent[4] = {form->B, form->H, form->Sq, form->Sk};
	struct attn_tensor tensor = {.dtype = dtype};
	int64_t elements = 1;

	if (!varies)
		return tensor;
	for (int i = 3; i >= 0; i--)
		if (varies & FORM_BY_BATCH << i) {
			tensor.stride[i] = elements;
			elements *= extent[i];
		}
	tensor.base = room(place, elements, dtype, 0);
	return tensor;
}

static void lay_out_spec(struct attn_spec *spec, struct place *place)
{
	const struct call_form *form = place->form;

	*spec = (struct attn_spec){
		.scale = 1.0f / sqrtf((float)form->D),
		.softcap = form->traits & FORM_SOFTCAP ? 50.0f : 0.0f,
		.out_scale = 1.0f,
		.round_x = ATTN_F32,
		.round_p = form->dtype,
		.mask = beside(place, form->mask, ATTN_BOOL),
		.mask_keeps = 1,
		.mask_value = -INFINITY,
		.window_left = form->window_left,
		.window_right = form->window_right,
		.window_shift = form->window_shift,
		.window_value = -INFINITY,
		.lengths = beside(place, form->lengths, ATTN_I32),
		.sinks = beside(place, form->sinks, form->dtype),
	};
	for (int i = 0; i < ATTN_MAX_BIAS; i++) {
		spec->bias[i] = beside(place, form->bias[i], form->bias_dtype[i]);
		spec->bias_scale[i] = 1.0f;
	}
}

int tune_layout(struct attn_args *args, struct call_form *form, uint64_t base, uint64_t *bytes)
{
	const int shared = (form->traits & FORM_KV_SHARED) != 0;
	struct place place = {form, base};

	if (form->traits & FORM_POINTERS)
		return -ENOTSUP;
	*args = (struct attn_args){
		.B = form->B,
		.H = form->H,
		.Sq = form->Sq,
		.Sk = form->Sk,
		.D = form->D,
		.Dv = form->Dv,
		.q = operand(&place, form->Sq, form->D, 0, form->traits & FORM_UNALIGNED_Q),
		.v = operand(&place, form->Sk, form->Dv, shared, form->traits & FORM_UNALIGNED_V),
		.o = operand(&place, form->Sq, form->Dv, 0, 0),
	};
	if (form->traits & FORM_K_DOWN) {
		args->k =
			operand(&place, form->D, form->Sk, shared, form->traits & FORM_UNALIGNED_K);
		args->k.stride[2] = 1;
		args->k.stride[3] = form->Sk;
	} else {
		args->k =
			operand(&place, form->Sk, form->D, shared, form->traits & FORM_UNALIGNED_K);
	}
	lay_out_spec(&args->spec, &place);
	*bytes = place.at - base;
	call_form_of(form, args);
	return 0;
}
