/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits in units of rounding. A chain of 16-bit operands sums in fp32, so that rounding S and P to
 * their own type is all there is to see; fp32 operands are multiplied exactly enough, but each sum
 * over D or over the keys rounds as it goes, which costs some steps more.
 */
#include "shim/act/verdict.h"

#include <math.h>
#include <stddef.h>

/* What rounding may cost the program's own O: generous for a chain whose meaning is known by rule,
 * strict where the data alone decide. Root mean square, maximum. */
#define RULE_RMS 48
#define RULE_MAX 192
#define DATA_RMS 12
#define DATA_MAX 64
/* Counted as a difference in the log. */
#define NOTICEABLE 16

#define F16_STEP   0x1p-12
#define BF16_STEP  0x1p-9
#define F32_STEP   0x1p-24
#define TF32_STEP  0x1p-12 /* as many bits as fp16 */
#define F32_IN_SUM (4 * F32_STEP)

static double step_of(int dtype, double fp32)
{
	return dtype == ATTN_BF16 ? BF16_STEP : dtype == ATTN_F16 ? F16_STEP : fp32;
}

/* The program's answer is not to move further than this, root mean square over all of O, however
 * much closer to the exact one the fused one may be. Llama's in bf16 moved by 0.015, which its
 * model made less of than of its own SDPA; T5's, by more, its model made its whole tolerance of. */
#define MOVED_RMS 0x1p-6

/* It should rather not move further than this, half of that. Of 116 sites of other people's models
 * in bf16 most moved by 0.006 to 0.010, by the rounding of their scores alone, of 65 in fp16 all
 * but two by less than 0.0018; what a model makes of it may be ten times as much at its output. A
 * kernel that rounds as the program does (rounded.cu) is taken then, or none: LongT5's and MViTv2's
 * outputs moved by 0.23 and 0.10 of their largest where one site of several was let off. That
 * kernel moved O by 1.2e-4 at most in 480 comparisons: where it moves it further than is wanted of
 * any, the program's roundings were misread (MPT's by 5e-3). */
#define WANTED_BF16 (4 * BF16_STEP)
#define WANTED_F16  (8 * F16_STEP)

/* Nor a single number in fp16. Of 63 programs of libraries O moved nowhere by more than 0.0041 of
 * its largest; but for Linformer's, whose scores decide between few keys: by 0.0084, of which its
 * layers made 0.029 (1.6e-3, root mean square, as others'). */
#define SINGLE_F16 (24 * F16_STEP)

/* In fp32 O moves by 2e-6 at most where its scores are of moderate size (500 comparisons in other
 * people's models); Visformer's moved by 2e-5, one unit in the last place of its scores being as
 * much as 1, and what it makes of another site's 3e-7 was 0.06 of its output. */
#define WANTED_F32 16

/* Where a program chooses, no more than a kernel does that rounds as the program does. Choices of
 * experts that fell otherwise moved the outputs of GPT-OSS by 0.4 of their largest, O itself having
 * moved by 0.0026. */
#define CHOOSING (0.5 * BF16_STEP)

/* Below its smallest normal number fp16 has no relative precision: an O that small, root mean
 * square, is made of its rounding, and a normalisation behind it makes that large. */
#define F16_NORMAL 0x1p-14

/* A limit on each element is for fp32 alone, which has the bits to tell any mistake from rounding.
 * In 16 bits a row whose every key carries a large negative bias is decided by rounding, so that
 * two correct answers may have nothing in common there. */
struct rounding rounding_of(const struct attn_args *args, bool tf32)
{
	const double fp32 = tf32 ? TF32_STEP : F32_IN_SUM;
	const double of_v = step_of(args->v.dtype, fp32),
		     rounded = step_of(args->spec.round_p, fp32);
	const double of_p = rounded > of_v ? rounded : of_v;
	const double of_o = step_of(args->o.dtype, F32_IN_SUM);
	struct rounding rounding = {
		.output = step_of(args->o.dtype, F32_STEP),
		.chain = of_p > of_o ? of_p : of_o,
		.apart = INFINITY,
		.moved = INFINITY,
		.wanted = INFINITY,
		.single = args->v.dtype == ATTN_F16 ? SINGLE_F16 : INFINITY,
	};

	if (args->v.dtype == ATTN_F32)
		rounding.apart = 2 * RULE_MAX * rounding.chain; /* each may be off by that much */
	else
		rounding.moved = MOVED_RMS;
	rounding.wanted = args->v.dtype == ATTN_F32   ? WANTED_F32 * rounding.chain
			  : args->v.dtype == ATTN_F16 ? WANTED_F16
						      : WANTED_BF16;
	if (args->spec.round_s & ATTN_ROUND_WEIGHTS)
		rounding.moved = rounding.wanted;
	if (args->o.dtype == ATTN_F16)
		rounding.least = F16_NORMAL;
	return rounding;
}

double rounding_where_choices(int dtype)
{
	return dtype == ATTN_F16 || dtype == ATTN_BF16 ? CHOOSING : INFINITY;
}

double verdict_rms(double sum, uint64_t count)
{
	return count && sum > 0 ? __builtin_sqrt(sum / (double)count) : 0;
}

bool verdict_explains(const struct drift_sampled_result *r, const struct rounding *rounding,
		      bool by_data)
{
	const double most_rms = (by_data ? DATA_RMS : RULE_RMS) * rounding->chain;
	const double most = (by_data ? DATA_MAX : RULE_MAX) * rounding->chain;

	return !r->app_nonfinite &&
	       verdict_rms(r->sum_app2, r->count) <=
		       most_rms * verdict_rms(r->sum_ref2, r->count) &&
	       r->max_app <= most * r->max_ref;
}

double verdict_own_error(const struct drift_sampled_result *r)
{
	return r->max_ref > 0 ? r->max_app / r->max_ref : 0;
}

/* Measured, fp32, 127 comparisons of 32 rows in 21 models: ours was 0.8 times as large as the
 * program's in the median, 2.3 and 2.7 times in two of them, with sums of squares alike. A site is
 * compared again and again, and given up for one that fails. */
#define LUCK 2

bool verdict_as_exact(const struct drift_sampled_result *r, const struct rounding *rounding,
		      double factor, double known)
{
	const double step = rounding->output;
	double own = known * r->max_ref;

	if (own > LUCK * r->max_app)
		own = LUCK * r->max_app;
	if (own < r->max_app)
		own = r->max_app;

	return !r->fused_nonfinite &&
	       verdict_rms(r->sum_fused2, r->count) <=
		       factor * verdict_rms(r->sum_app2, r->count) +
			       step * verdict_rms(r->sum_ref2, r->count) &&
	       r->max_fused <= factor * own + 2 * step * r->max_ref;
}

bool verdict_moved(const struct drift_result *d, double limit)
{
	return !isinf(limit) && !(d->sum_diff2 <= limit * limit * d->sum_app2);
}

const char *verdict_disagreement(const struct drift_result *d, const struct rounding *rounding)
{
	if (d->nonfinite_mismatch)
		return "what is no number on one side is one on the other";
	if (!(isinf(rounding->apart) || d->max_abs <= rounding->apart * d->max_app))
		return "single numbers are far apart";
	if (verdict_moved(d, rounding->moved))
		return "it moves too far";
	if (d->sum_diff2 != 0 && !(d->sum_app2 >= rounding->least * rounding->least * d->count))
		return "below the normal numbers of fp16";
	return NULL;
}

bool verdict_empty(const struct drift_sampled_result *r)
{
	return !(r->sum_ref2 > 0);
}

bool verdict_no_numbers(const struct drift_result *d)
{
	return d->count == 0;
}

double verdict_noticeable(const struct rounding *rounding)
{
	return NOTICEABLE * rounding->chain;
}
