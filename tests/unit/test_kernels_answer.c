/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention in double precision by plain loops, exactly or as a chain of kernels would round it:
 * see test_kernels_case.h.
 */
#include "tests/unit/test_kernels_case.h"

#include <math.h>
#include <stdlib.h>

/* Adds as a chain of kernels would: 16-bit operands are summed with room to spare, fp32 ones are
 * not. */
static double answer_add(double sum, double term, int dtype, bool rounded)
{
	return rounded && dtype == ATTN_F32 ? (float)(sum + term) : sum + term;
}

/* A score that is rounded, and what it is if all that is computed in fp32 before errs one way or
 * the other: the three differ where a rounding may fall on either side. */
struct rounded_score {
	double low, mid, high;
};

/* Sums are taken in fp32 at best. */
static double answer_store(double x, int dtype)
{
	return dtype == ATTN_F64 ? x : number_round((float)x, dtype);
}

/* x = round(factor * x + term), from numbers known to `error` */
static void answer_round(struct rounded_score *x, double factor, double term, double error,
			 int dtype)
{
	const double one = factor * x->low + term, other = factor * x->high + term;

	error += 0x1p-23 * (fabs(factor * x->mid) + fabs(term));
	x->mid = answer_store(factor * x->mid + term, dtype);
	x->low = answer_store(fmin(one, other) - error, dtype);
	x->high = answer_store(fmax(one, other) + error, dtype);
}

/* The softcap of what is stored, whose steps are stored. */
static void answer_cap(struct rounded_score *x, double cap, int dtype)
{
	double *each[] = {&x->low, &x->mid, &x->high};

	answer_round(x, 1 / cap, 0, 0, dtype);
	for (int n = 0; n < 3; n++)
		*each[n] = answer_store(
			tanh(*each[n]) * (1 + (n - 1) * copysign(0x1p-22, *each[n])), dtype);
	answer_round(x, cap, 0, 0, dtype);
}

/* What q.k is multiplied by beside `scale`. */
static double answer_scale(const struct attn_args *a, int b, int h, int i, int j)
{
	const struct attn_tensor *t = &a->spec.scales;
	const double own = t->base ? number_load(element_at(t, a->H, b, h, i, j), t->dtype) : 1;

	return a->spec.scales_divide ? 1 / own : own;
}

/* S as `round_s` has it: q.k = sum of terms whose magnitudes add up to `size`. */
static struct rounded_score answer_stored(const struct attn_args *a, double own, double sum,
					  double size)
{
	const struct attn_spec *s = &a->spec;
	struct rounded_score x = {sum, sum, sum};

	answer_round(&x, s->alpha, 0, fabs(s->alpha) * a->D * 0x1p-24 * size,
		     s->round_s & ATTN_ROUND_PRODUCT ? a->q.dtype : ATTN_F64);
	answer_round(&x, s->scale / s->alpha * own, 0, 0,
		     s->round_s & ATTN_ROUND_SCALED ? a->q.dtype : ATTN_F64);
	return x;
}

/* `loose`: by how much x may be another number, with round_s. */
/* Does the mask replace x[i,j]? */
static bool is_hidden(const struct attn_args *a, int b, int h, int i, int j)
{
	const struct attn_spec *s = &a->spec;

	return s->mask.base && (number_load(element_at(&s->mask, a->H, b, h, i, j), ATTN_BOOL) !=
				0) != (s->mask_keeps != 0);
}

static double answer_score(const struct problem *p, int b, int h, int i, int j, bool rounded,
			   double *loose)
{
	const struct attn_args *a = &p->args;
	const struct attn_spec *s = &a->spec;
	int dtype = a->q.dtype;
	struct rounded_score stored = {0};
	double x = 0, size = 0, own = answer_scale(a, b, h, i, j);

	for (int d = 0; d < a->D; d++) {
		double term = number_load(element_at(&a->q, a->H, b, h, i, d), dtype) *
			      number_load(element_at(&a->k, a->H, b, h, j, d), dtype);

		x = answer_add(x, term, dtype, rounded);
		size += fabs(term);
	}
	if (s->round_s)
		stored = answer_stored(a, own, x, size);
	if (s->round_s & ATTN_ROUND_CAPPED)
		answer_cap(&stored, s->softcap, dtype);
	if (s->overflow != 0 && !s->round_s && fabs(x) > s->overflow)
		x = copysign(INFINITY, x);
	x = s->round_s ? stored.mid : x * s->scale;
	if (rounded && !s->round_s)
		x = number_round(x, dtype);
	if (s->scales.base && !s->round_s) /* a kernel of its own */
		x = rounded ? number_round(x * own, dtype) : x * own;
	if (s->softcap != 0 && !s->round_s) {
		x = s->softcap * tanh(x / s->softcap);
		if (rounded)
			x = number_round(x, dtype);
	}
	for (int n = 0; n <= ATTN_MAX_BIAS; n++) {
		if (n == ATTN_MAX_BIAS - s->late_biases && is_hidden(a, b, h, i, j)) {
			x = s->mask_value;
			stored = (struct rounded_score){x, x, x};
		}
		if (n == ATTN_MAX_BIAS || !s->bias[n].base)
			continue;
		double bias =
			s->bias_scale[n] *
			number_load(element_at(&s->bias[n], a->H, b, h, i, j), s->bias[n].dtype);
		answer_round(&stored, 1, bias, 0, s->round_x);
		x = answer_store(x + bias, s->round_x);
	}
	*loose = s->round_s && stored.high != stored.low ? fabs(stored.high - stored.low) : 0;
	if (s->window_left != ATTN_NO_WINDOW && j < (int64_t)i + s->window_shift - s->window_left)
		x = s->window_value;
	if (s->window_right != ATTN_NO_WINDOW && j > (int64_t)i + s->window_shift + s->window_right)
		x = s->window_value;
	if (s->lengths.base &&
	    j >= number_load(element_at(&s->lengths, a->H, b, h, i, 0), ATTN_I32))
		x = -INFINITY;
	return x;
}

/* What one step of a rounded weight is: one that a kernel finds a little larger or smaller, as it
 * is with any flip among the scores of its row, may be rounded to the next number. */
static double weight_step(double x, int dtype)
{
	return x * (dtype == ATTN_F16 ? 0x1p-10 : 0x1p-7);
}

/* Each score of a row, and the sink, less the largest, as a program stores that (ATTN_ROUND_LESS).
 * Where another order of a sum makes another number of one of them, or of the largest, by as much
 * as `loose` says, it may be another number here. */
static void answer_less(double *x, double *loose, int count, double *sink, double most, int dtype)
{
	double other = 0;

	for (int j = 0; j < count; j++)
		if (x[j] + loose[j] >= most)
			other = fmax(other, loose[j]);
	for (int j = 0; j < count; j++) {
		const double apart = other + loose[j] + 0x1p-20 * fabs(x[j]);
		const double less = number_round(x[j] - most, dtype);

		if (x[j] == -INFINITY)
			continue;
		loose[j] = fmax(fabs(number_round(x[j] - most - apart, dtype) - less),
				fabs(number_round(fmin(x[j] - most + apart, 0), dtype) - less));
		x[j] = less;
	}
	*sink = number_round(*sink - most, dtype);
}

double problem_row_loose(const struct problem *p, int b, int h, int i, bool rounded, double *out)
{
	const struct attn_args *a = &p->args;
	double *x = malloc((size_t)a->Sk * sizeof(*x)), most = -INFINITY, sum = 0;
	double *loose = malloc((size_t)a->Sk * sizeof(*loose)), flips = 0, loosest = 0;
	double sink = -INFINITY;
	const bool weights = a->spec.round_s & ATTN_ROUND_WEIGHTS;
	const bool again = a->spec.empty_row == ATTN_EMPTY_AGAIN;
	int shown = 0; /* keys that are not made 0 again */
	bool empty;

	if (a->spec.sinks.base)
		sink = number_load(element_at(&a->spec.sinks, a->H, b, h, i, 0),
				   a->spec.sinks.dtype);
	most = sink;
	empty = sink == -INFINITY;
	for (int j = 0; j < a->Sk; j++) {
		x[j] = answer_score(p, b, h, i, j, rounded, &loose[j]);
		if (again && is_hidden(a, b, h, i, j))
			x[j] = a->spec.hidden_value;
		if (x[j] != -INFINITY)
			empty = false;
		if (x[j] > most)
			most = x[j];
	}
	if (a->spec.round_s & ATTN_ROUND_LESS && !empty) {
		answer_less(x, loose, a->Sk, &sink, most, a->q.dtype);
		most = 0;
	}
	if (sink != -INFINITY)
		sum = exp(sink - most);
	for (int j = 0; j < a->Sk; j++) {
		x[j] = x[j] == -INFINITY ? 0 : exp(x[j] - most);
		sum += x[j];
	}
	for (int j = 0; j < a->Sk; j++) {
		x[j] = empty ? 1.0 / a->Sk : x[j] / sum;
		if (rounded || (weights && !empty))
			x[j] = number_round((float)x[j], weights ? a->spec.round_p : a->q.dtype);
		shown += !is_hidden(a, b, h, i, j);
		if (again && is_hidden(a, b, h, i, j))
			x[j] = 0;
	}
	for (int d = 0; d < a->Dv; d++)
		out[d] = 0;
	for (int j = 0; j < a->Sk; j++)
		for (int d = 0; d < a->Dv; d++)
			out[d] = answer_add(
				out[d],
				x[j] * number_load(element_at(&a->v, a->H, b, h, j, d), a->v.dtype),
				a->v.dtype, rounded);
	for (int d = 0; d < a->Dv; d++) {
		out[d] *= a->spec.out_scale;
		if (empty && a->spec.empty_row == ATTN_EMPTY_NAN)
			out[d] = NAN;
		if (empty && again)
			out[d] = shown ? NAN : 0;
		if (empty && a->spec.empty_row == ATTN_EMPTY_ZERO)
			out[d] = 0;
		if (rounded)
			out[d] = number_round(out[d], a->q.dtype);
	}
	for (int j = 0; j < a->Sk; j++) {
		const double step = weights && !empty ? weight_step(x[j], a->spec.round_p) : 0;
		double far = 0;

		if (x[j] == 0 || (loose[j] == 0 && step == 0))
			continue;
		for (int d = 0; d < a->Dv; d++)
			far = fmax(far, fabs(a->spec.out_scale * number_load(element_at(&a->v, a->H,
											b, h, j, d),
									     a->v.dtype) -
					     out[d]));
		flips += (x[j] * expm1(loose[j]) + step) * far;
		loosest = fmax(loosest, loose[j]);
	}
	free(loose);
	free(x);
	return flips * exp(loosest);
}

void problem_row(const struct problem *p, int b, int h, int i, bool rounded, double *out)
{
	problem_row_loose(p, b, h, i, rounded, out);
}
