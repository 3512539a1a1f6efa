/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a chain rounds its scores: what each of its steps stores in 16 bits on the way from S to P
 * (`round_s` of attention.h). Fused kernels keep all of that in fp32; one that repeats it is asked
 * for where the difference shows. And from where on S is infinite there.
 */
#include "shim/spec/spec_walk.h"

#include <math.h>

#include "shim/base/elementary.h"

/* Scores in 16 bits times such a number are exact. */
static bool exact_factor(double factor)
{
	return factor != 0 && fabs(factor) == power_of_two(exponent_of(factor));
}

static bool is_narrow(int dtype)
{
	return dtype == ATTN_F16 || dtype == ATTN_BF16;
}

float spec_fill_stored(float value, int dtype)
{
	/* half a unit above the largest number */
	const float beyond = dtype == ATTN_F16	  ? 65520.0f
			     : dtype == ATTN_BF16 ? 0x1.ffp127f
						  : INFINITY;

	return fabsf(value) >= beyond ? copysignf(INFINITY, value) : value;
}

/* fp16 rounds 65520 and more to an infinity, so that a sum in fp32 that is larger than the number
 * below that becomes one. Sums in another order differ by a few units in the last place, here
 * 0.004: which lie so near are taken for what they are not as often one way as the other. */
#define LARGEST_FINITE 0x1.ffdffep+15 /* of those that are rounded to 65504 */

float spec_overflow(const struct walk *walk)
{
	const struct op_gemm *opener = &walk->chain->steps[0].gemm;

	/* a floor makes numbers of infinities */
	if (walk->floored || opener->atype != CUDA_R_16F || opener->ctype != CUDA_R_16F ||
	    !gemm_sums_wide(opener) || opener->scalars_on_device || opener->alpha == 0 ||
	    opener->beta != 0)
		return 0;
	return (float)(LARGEST_FINITE / fabs(opener->alpha));
}

/* Are the steps around `at` a softcap, each of which stores 16 bits: divided by it, tanh, times it?
 */
static bool is_softcap(const struct chain *chain, int at, int narrow)
{
	if (at + 1 >= chain->step_count)
		return false;
	for (int i = at - 1; i <= at + 1; i++) {
		const struct meaning *meaning = &chain->steps[i].meaning;

		if (meaning->role != (i == at ? ROLE_TANH : ROLE_SCALE) ||
		    meaning->views[0].dtype != narrow)
			return false;
	}
	return true;
}

/* One step before the softmax, which stores `dtype`. False: kernels do not round in this order.
 * `each`: scales differ within a head, which is done without rounding; *sums: so many were stored
 * in fp32 since. */
static bool before_softmax(const struct meaning *meaning, int dtype, bool each, int *sums,
			   int32_t *round_s)
{
	const bool scaled = *round_s & (ATTN_ROUND_SCALED | ATTN_ROUND_CAPPED);
	const bool biased = *round_s & ATTN_ROUND_BIASED;

	switch (meaning->role) {
	case ROLE_SCALE:
		if (exact_factor(meaning->scalar))
			return true;
		if (scaled || biased)
			return false;
		if (is_narrow(dtype))
			*round_s |= ATTN_ROUND_SCALED;
		return true;
	case ROLE_MULTIPLY:
	case ROLE_DIVIDE:
		if (is_narrow(dtype))
			*round_s |= ATTN_ROUND_SCALED;
		return !scaled && !biased && !each;
	case ROLE_COPY:
		if (is_narrow(dtype) && *sums)
			*round_s |= ATTN_ROUND_BIASED;
		else if (is_narrow(dtype) && !biased)
			*round_s |= ATTN_ROUND_SCALED; /* of what was narrow already: no change */
		return !is_narrow(dtype) || *sums < 2;
	case ROLE_ADD:
	case ROLE_ADD_SCALED:
		if (is_narrow(dtype))
			*round_s |= ATTN_ROUND_BIASED;
		else
			++*sums;
		return is_narrow(dtype) ? !*sums : !biased;
	case ROLE_SOFTMAX:
		return exact_factor(meaning->factor) || !(scaled || biased);
	case ROLE_ADD_CONSTANT:
	case ROLE_MASKED_FILL:
	case ROLE_WHERE:
	case ROLE_MAXIMUM:
		return true;
	default:
		return false;
	}
}

/* Is it the step that takes the largest off each row? Behind that nothing is added any more. */
static bool takes_off(const struct walk *walk, int at)
{
	const struct chain *chain = walk->chain;

	if (!walk->shifted || chain->steps[at].meaning.role != ROLE_ADD_SCALED)
		return false;
	for (int i = at + 1; i < chain->step_count; i++)
		if (chain->steps[i].meaning.role == ROLE_ADD_SCALED)
			return false;
	return true;
}

/* May that which comes behind it come before softmax, as far as numbers are concerned? */
static bool behind_largest(const struct meaning *meaning, int dtype)
{
	return meaning->role == ROLE_SOFTMAX
		       ? exact_factor(meaning->factor)
		       : (meaning->role == ROLE_SCALE && exact_factor(meaning->scalar)) ||
				 (meaning->role == ROLE_COPY && !is_narrow(dtype));
}

int32_t spec_rounding(const struct walk *walk)
{
	const struct chain *chain = walk->chain;
	const struct op_gemm *opener = &chain->steps[0].gemm;
	const int narrow = walk->args->v.dtype;
	const int product = dtype_of_cuda(opener->ctype);
	int32_t round_s = 0;
	bool softmax = false, less = false;
	int sums = 0;

	if (walk->unknown || !is_narrow(narrow) || opener->alpha == 0)
		return 0;
	/* cuBLAS 13 rounds alpha q.k before it adds beta C, and then the sum (H100, fp16 and bf16:
	 * 6e-5 of the scores are another number, 0.1 of them where it were rounded once). */
	if (is_narrow(product))
		round_s = ATTN_ROUND_PRODUCT | (chain->preload >= 0 ? ATTN_ROUND_BIASED : 0);
	if (is_narrow(product) && product != narrow)
		return 0;
	for (int i = 1; i < chain->step_count; i++) {
		const struct meaning *meaning = &chain->steps[i].meaning;
		const int dtype = meaning->view_count ? meaning->views[0].dtype : -1;

		if (is_narrow(dtype) && dtype != narrow)
			return 0;
		/* what lies beside the scores, or what is found of them: no number changes */
		if (!softmax && (meaning->role == ROLE_CAT || meaning->role == ROLE_ROW_MAX))
			continue;
		if (!softmax && takes_off(walk, i)) {
			if (is_narrow(dtype) && sums)
				return 0;
			round_s |= is_narrow(dtype) ? ATTN_ROUND_LESS : 0;
			less = true;
			continue;
		}
		if (!softmax && less) {
			if (!behind_largest(meaning, dtype))
				return 0;
			softmax = meaning->role == ROLE_SOFTMAX;
			continue;
		}
		if (!softmax && is_softcap(chain, i + 1, narrow)) {
			round_s |= ATTN_ROUND_CAPPED;
			i += 2;
			continue;
		}
		if (!softmax && !before_softmax(meaning, dtype, attn_scales_each(&walk->args->spec),
						&sums, &round_s))
			return 0;
		if (softmax && meaning->role == ROLE_SCALE && !exact_factor(meaning->scalar))
			return 0;
		softmax = softmax || meaning->role == ROLE_SOFTMAX;
	}
	if (round_s & ATTN_ROUND_BIASED && walk->args->spec.round_x != narrow &&
	    walk->args->spec.round_x != ATTN_F16_FLOORED)
		return 0;
	return round_s | ATTN_ROUND_WEIGHTS;
}
