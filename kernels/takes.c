/* SPDX-License-Identifier: Apache-2.0
 *
 * What each family demands of a call: see takes.h.
 */
#include "kernels/takes.h"

#include "kernels/launch.h"
#include "kernels/rounded_variants.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define SM90_STRIDE (1 << 22) /* of rows: a tile of them is within reach of 31 bits */

/* Kilobytes; of an architecture that is not known, as little as any from sm_80 on has. */
int attn_shared_of(int arch)
{
	static const struct {
		int arch, most;
	} known[] = {{75, 64}, {80, 163}, {87, 163}, {90, 227}, {100, 227}, {103, 227}, {110, 227}};
	const int count = (int)(sizeof(known) / sizeof(known[0]));
	int n = 0;

	while (n < count && known[n].arch != arch)
		n++;
	return 1024 * (n < count ? known[n].most : arch < 80 ? 64 : 99);
}

/* Does a number of a bias, or a scale, stand for several keys? */
static int is_folded(const struct attn_spec *s)
{
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (s->bias[n].base && s->bias[n].columns)
			return 1;
	return s->scales.base && s->scales.columns;
}

/* Is what biases are added to rounded to `dtype` behind them? */
static int rounds_to(const struct attn_spec *s, int dtype)
{
	return s->round_x == dtype || (s->round_x == ATTN_F16_FLOORED && dtype == ATTN_F16);
}

int attn_possible(const struct attn_args *args)
{
	if (args->B < 1 || args->H < 1 || args->Sq < 1 || args->Sk < 1 || args->D < 1 ||
	    args->Dv < 1 || args->B > 65535 || args->H > 65535)
		return 0;
	if (args->k.dtype != args->q.dtype || args->v.dtype != args->q.dtype)
		return 0;
	if (args->o.dtype != ATTN_F16 && args->o.dtype != ATTN_BF16 && args->o.dtype != ATTN_F32)
		return 0;
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (args->spec.bias[n].base && args->spec.bias[n].dtype > ATTN_F32)
			return 0;
	if (args->spec.sinks.base && args->spec.sinks.dtype > ATTN_F32)
		return 0;
	if (args->spec.scales.base && (args->spec.scales.dtype > ATTN_F32 ||
				       (attn_scales_each(&args->spec) && args->spec.round_s)))
		return 0;
	if (args->spec.lengths.base && args->spec.lengths.dtype != ATTN_I32)
		return 0;
	if (args->spec.round_s &&
	    (args->q.dtype == ATTN_F32 || args->spec.alpha == 0.0f ||
	     (args->spec.softcap != 0.0f) != !!(args->spec.round_s & ATTN_ROUND_CAPPED) ||
	     (args->spec.softcap != 0.0f && !(args->spec.round_s & ATTN_ROUND_WEIGHTS)) ||
	     (args->spec.round_s & ATTN_ROUND_LESS && !(args->spec.round_s & ATTN_ROUND_WEIGHTS)) ||
	     (args->spec.round_s & ATTN_ROUND_BIASED && !rounds_to(&args->spec, args->q.dtype))))
		return 0;
	return !args->spec.mask.base || args->spec.mask.dtype == ATTN_BOOL;
}

/* Does the variant round scores as `round_s` asks for? Three families are for nothing else, and
 * alone in rounding P once it is divided. */
static int rounds_scores(const struct attn_variant *v, int32_t round_s)
{
	const int divides = v->family == ATTN_ROUNDED || v->family == ATTN_ROUNDED_DECODE ||
			    v->family == ATTN_TWICE;

	/* which takes one more walk over the keys, and registers */
	if (round_s & ATTN_ROUND_LESS &&
	    (v->family != ATTN_ROUNDED || v->needs & (ATTN_NEEDS_SHORT | ATTN_NEEDS_USUAL)))
		return 0;
	if (divides || round_s & ATTN_ROUND_WEIGHTS)
		return divides && round_s & ATTN_ROUND_WEIGHTS;
	return !round_s || !(v->needs & ATTN_NEEDS_PLAIN);
}

/* Does a number of 16 bits hold this? */
static int is_narrow(float x, int dtype)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if (isinf(x))
		return 1;
	return dtype == ATTN_BF16 ? !(bits & 0xffff)
				  : !(bits & 0x1fff) && fabsf(x) <= 65504.0f &&
					    (fabsf(x) >= 0x1p-14f || x == 0.0f);
}

/* Is x, when it is stored for the last time, in 16 bits, but for a factor that the exponential may
 * take? rounding_of() of rounded_scores.cuh has the same rule. */
static int is_x_narrow(const struct attn_args *args)
{
	const struct attn_spec *s = &args->spec;
	const int biased = s->bias[0].base || s->bias[1].base;
	const int finite =
		(s->mask.base && s->mask_value != -INFINITY) || s->window_value != -INFINITY;

	if (!is_narrow(s->mask.base ? s->mask_value : 0.0f, args->q.dtype) ||
	    !is_narrow(s->window_value, args->q.dtype))
		return 0;
	if (biased)
		return rounds_to(s, args->q.dtype);
	return s->round_s & (ATTN_ROUND_SCALED | ATTN_ROUND_CAPPED) ||
	       (s->round_s & ATTN_ROUND_PRODUCT && !s->scales.base &&
		(s->scale == s->alpha ||
		 (s->scale / s->alpha > 0.0f && !finite && !s->sinks.base)));
}

/* But for numbers that stand for several keys. */
static int is_usual_beside(const struct attn_spec *s)
{
	return !s->sinks.base && !s->lengths.base && !(s->mask.base && s->late_biases) &&
	       !attn_scales_each(s) && !(s->round_s & ATTN_ROUND_CAPPED);
}

int attn_is_usual(const struct attn_spec *s)
{
	return is_usual_beside(s) && !is_folded(s);
}

/* Does anything that belongs to the scores come again after some batches? */
static int is_of_batches(const struct attn_spec *s)
{
	for (int n = 0; n < ATTN_MAX_BIAS; n++)
		if (s->bias[n].base && s->bias[n].batches)
			return 1;
	return (s->mask.base && s->mask.batches) || (s->lengths.base && s->lengths.batches) ||
	       (s->sinks.base && s->sinks.batches);
}

/* Scales, and biases that stand for several keys, are understood by mma.cu and by those that turn
 * q.k into x by scores.cuh; scales of single scores by decode.cu as well. few.cu and sm90.cu have
 * no register for a batch of the bias's own. */
static int takes_scales(const struct attn_variant *v, const struct attn_spec *s)
{
	switch (v->family) {
	case ATTN_MMA:
	case ATTN_WMMA:
	case ATTN_ROUNDED:
	case ATTN_F32_ANY:
	case ATTN_F32_SM90:
	case ATTN_SPLIT:
		return 1;
	case ATTN_DECODE:
		return (!s->scales.base || attn_scales_each(s)) && !is_folded(s);
	case ATTN_FEW:
	case ATTN_SM90:
		return !s->scales.base && !is_folded(s) && !is_of_batches(s);
	default:
		return !s->scales.base && !is_folded(s);
	}
}

/* again.cuh: by those that know at the end of a row what its weights are relative to, and where
 * nothing but the mask leaves keys out, or counts beside them. */
static int takes_again(const struct attn_variant *v, const struct attn_spec *s)
{
	if (s->empty_row != ATTN_EMPTY_AGAIN)
		return 1;
	return (v->family == ATTN_MMA || v->family == ATTN_F32_ANY || v->family == ATTN_F32_SM90) &&
	       s->mask.base && s->mask_value == -INFINITY && !s->late_biases && !s->lengths.base &&
	       !s->sinks.base && s->window_left == ATTN_NO_WINDOW &&
	       s->window_right == ATTN_NO_WINDOW;
}

int attn_is_plain(const struct attn_spec *s)
{
	int window = s->window_left != ATTN_NO_WINDOW || s->window_right != ATTN_NO_WINDOW;

	return !s->bias[0].base && !s->bias[1].base && !s->mask.base && s->softcap == 0.0f &&
	       !s->scales.base && s->scale > 0.0f && (!window || s->window_value == -INFINITY) &&
	       !s->round_s && attn_is_usual(s);
}

/* Do the rows of an operand start on 16 bytes, its columns (down: its rows) having stride 1? */
static int in_pieces(const struct attn_args *args, const struct attn_tensor *t, int down)
{
	const int64_t unit = t->stride[down ? 2 : 3], line = t->stride[down ? 3 : 2];
	const int piece = 16 / attn_dtype_size(t->dtype);

	return !t->by_array && unit == 1 && t->base % 16 == 0 && line % piece == 0 && line >= 0 &&
	       line <= SM90_STRIDE && (args->B == 1 || t->stride[0] % piece == 0) &&
	       (args->H == 1 || t->stride[1] % piece == 0);
}

static int fits_sm90(const struct attn_variant *v, const struct attn_args *args)
{
	return args->D == v->max_d && args->Dv == v->max_d && in_pieces(args, &args->q, 0) &&
	       in_pieces(args, &args->k, v->needs & ATTN_NEEDS_DOWN) &&
	       in_pieces(args, &args->v, 0);
}

/* Do the rows of an operand start on 16 bytes, with any distance from one to the next? */
static int in_rows(const struct attn_args *args, const struct attn_tensor *t)
{
	const int piece = 16 / attn_dtype_size(t->dtype);

	return !t->by_array && t->stride[3] == 1 && t->base % 16 == 0 &&
	       t->stride[2] % piece == 0 && (args->B == 1 || t->stride[0] % piece == 0) &&
	       (args->H == 1 || t->stride[1] % piece == 0);
}

/* Can K be copied into rows that a map describes (launch.c does so)? */
static int can_repack(const struct attn_tensor *k, int down)
{
	const int64_t unit = k->stride[down ? 2 : 3], line = k->stride[down ? 3 : 2];

	return !k->by_array && unit == 1 && line > 0 && k->stride[0] >= 0 && k->stride[1] >= 0;
}

static int fits_tma(const struct attn_variant *v, const struct attn_args *args)
{
	const int down = v->needs & ATTN_NEEDS_DOWN;
	const struct attn_spec *s = &args->spec;
	const int windowed = s->window_left != ATTN_NO_WINDOW || s->window_right != ATTN_NO_WINDOW;
	const int emptied = windowed || s->bias[0].base || s->mask.base;

	if (emptied && s->empty_row == ATTN_EMPTY_MEAN)
		return 0;
	if (v->needs & ATTN_NEEDS_BIAS && (s->mask.base || s->bias[1].base))
		return 0;
	if (v->needs & ATTN_NEEDS_TWO && (s->mask.base || !s->bias[0].base || !s->bias[1].base))
		return 0;
	for (int n = 0; n < ATTN_MAX_BIAS && v->needs & (ATTN_NEEDS_BIAS | ATTN_NEEDS_TWO); n++)
		if (s->bias[n].base &&
		    (s->bias[n].dtype != v->dtype || !attn_in_map(args, &s->bias[n], 0, 1) ||
		     (s->round_x != ATTN_F32 && s->round_x != v->dtype)))
			return 0;
	if (v->needs & ATTN_NEEDS_MASK && (!s->mask.base || s->bias[0].base || s->bias[1].base ||
					   !attn_in_map(args, &s->mask, 0, 1)))
		return 0;
	return attn_in_map(args, &args->q, 0, args->Sq) &&
	       attn_in_map(args, &args->v, 0, args->Sk) &&
	       (attn_in_map(args, &args->k, down, down ? args->D : args->Sk) ||
		can_repack(&args->k, down));
}

static int fits_twice(const struct attn_variant *v, const struct attn_args *args)
{
	return args->spec.softcap == 0.0f && args->spec.window_value == -INFINITY &&
	       fits_tma(v, args);
}

static int fits_split(const struct attn_args *args)
{
	return attn_in_map(args, &args->q, 0, args->Sq) &&
	       attn_in_map(args, &args->k, 0, args->Sk) && attn_in_map(args, &args->v, 0, args->Sk);
}

/* The kernels of kernels/ladder: f16 throughout, no row without a key that is to be a mean. */
static int fits_ladder(const struct attn_variant *v, const struct attn_args *args)
{
	const struct attn_spec *s = &args->spec;
	const int windowed = s->window_left != ATTN_NO_WINDOW || s->window_right != ATTN_NO_WINDOW;

	if (!attn_is_plain(s) || args->o.dtype != ATTN_F16 ||
	    (windowed && s->empty_row == ATTN_EMPTY_MEAN))
		return 0;
	return !(v->needs & ATTN_NEEDS_PIECES) ||
	       (fits_sm90(v, args) && in_pieces(args, &args->o, 0));
}

/* f32_sm90.cu, where rows are read in pieces: of numbers that are all there. */
static int fits_f32_sm90(const struct attn_variant *v, const struct attn_args *args)
{
	return !(v->needs & ATTN_NEEDS_ROWS) || (args->D % 4 == 0 && args->Dv % 4 == 0);
}

int attn_takes(const struct attn_variant *v, const struct attn_call *call)
{
	const struct attn_args *args = call->args;
	const int index = (int)(v - attn_variants);

	if (args->q.dtype != v->dtype || args->D > v->max_d || args->Dv > v->max_d)
		return 0;
	if (!rounds_scores(v, args->spec.round_s) || !takes_scales(v, &args->spec) ||
	    !takes_again(v, &args->spec))
		return 0;
	if (v->family == ATTN_LADDER)
		return call->arch >= v->min_arch && call->available && call->available[index] &&
		       fits_ladder(v, args);
	if (v->needs & ATTN_NEEDS_USUAL && !attn_is_usual(&args->spec))
		return 0;
	if (v->needs & ATTN_NEEDS_IMAGE &&
	    !(is_usual_beside(&args->spec) && is_folded(&args->spec)))
		return 0;
	/* sm90.cu has no register for it */
	if (v->family == ATTN_SM90 && args->spec.round_x == ATTN_F16_FLOORED)
		return 0;
	if (v->needs & ATTN_NEEDS_PLAIN && !attn_is_plain(&args->spec))
		return 0;
	if (v->most_keys && args->Sk > v->most_keys)
		return 0;
	if (v->needs & ATTN_NEEDS_SHORT && !is_x_narrow(args))
		return 0;
	if (v->needs & ATTN_NEEDS_ROWS &&
	    !(in_rows(args, &args->q) && in_rows(args, &args->k) && in_rows(args, &args->v)))
		return 0;
	/* decode_query.cuh has one limit for both */
	if ((v->family == ATTN_DECODE || v->family == ATTN_ROUNDED_DECODE) &&
	    args->spec.lengths.base && args->spec.window_value != -INFINITY)
		return 0;
	if (!(v->needs & ATTN_NEEDS_ARCH))
		return call->arch >= v->min_arch && v->shared_bytes <= attn_shared_of(call->arch);
	if (call->arch != v->min_arch || !call->available || !call->available[index])
		return 0;
	if (v->family == ATTN_SPLIT)
		return fits_split(args);
	if (v->family == ATTN_F32_SM90)
		return fits_f32_sm90(v, args);
	if (v->family == ATTN_TWICE)
		return fits_twice(v, args);
	return v->family == ATTN_TMA ? fits_tma(v, args) : fits_sm90(v, args);
}
