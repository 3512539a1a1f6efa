/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that programs choose: a scale that was measured is one of them to a few digits, what
 * stands for a key that is not seen is one of few; and what numbers were rounded to.
 */
#include "shim/ask/identify_parts.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "shim/base/elementary.h"

#define NEAR  0x1p-9  /* a number of the program's own is meant */
#define PLAIN 0x1p-14 /* … or a short one */
#define FILLS 64

#define LACKING_LEAST 500  /* of weights: fp32 rounds scores beside it to 2^-15 */
#define LACKING_NEAR  1e-4 /* which tells a weight no better than so */

/* The float and the double that begin at a byte of a step's parameters, 0 where there is none. */
static bool constants_at(const struct step *step, unsigned at, double constant[2])
{
	float narrow;

	if (!step->function || at + 4 > step->function->bytes)
		return false;
	memcpy(&narrow, step->params + at, 4);
	constant[0] = (double)narrow;
	constant[1] = 0;
	if (at + 8 <= step->function->bytes)
		memcpy(&constant[1], step->params + at, 8);
	return true;
}

/* With few enough digits to be somebody's choice; else as found. */
static double rounded(double found)
{
	const double unit = power_of_two(exponent_of(found) - 6),
		     short_of = nearest(found / unit) * unit;

	return fabs(short_of / found - 1) < PLAIN ? short_of : found;
}

double identify_meant(const struct chain *chain, int64_t D, double found)
{
	double best = rounded(found), nearest_by = NEAR, constant[2];
	const double usual[] = {1, 1 / sqrt((double)D)};

	for (int n = 0; n < 2; n++)
		if (fabs(usual[n] / found - 1) < nearest_by) {
			best = usual[n];
			nearest_by = fabs(usual[n] / found - 1);
		}
	for (int s = 1; s < chain->step_count; s++)
		for (unsigned at = 0; constants_at(&chain->steps[s], at, constant); at += 4)
			for (int n = 0; n < 2; n++)
				if (fabs(constant[n] / found - 1) < nearest_by) {
					best = constant[n];
					nearest_by = fabs(constant[n] / found - 1);
				}
	return best;
}

int identify_fills(const struct chain *chain, double *fill, int room)
{
	static const double usual[] = {-FLT_MAX, -65504, -0x1.fep127, -1e9, -1e4, -1e5,
				       -1e6,	 -1e10,	 -1e30,	      -1e8, -1e7};
	double constant[2];
	int count = 0;

	/* Where two do as well, a bias in the scores' own type holds this one. */
	if (chain->steps[0].gemm.ctype == CUDA_R_16BF)
		fill[count++] = -0x1.fep127;
	for (unsigned n = 0; n < sizeof(usual) / sizeof(*usual) && count < room; n++)
		fill[count++] = usual[n];
	for (int s = 1; s < chain->step_count; s++)
		for (unsigned at = 0; constants_at(&chain->steps[s], at, constant); at += 4)
			for (int n = 0; n < 2 && count < room; n++)
				if (constant[n] < -100 && constant[n] >= -FLT_MAX)
					fill[count++] = constant[n];
	return count;
}

/* The number that hides keys which one was found for. */
static double hiding(const struct chain *chain, double found)
{
	double fill[FILLS];
	const int count = identify_fills(chain, fill, FILLS);

	for (int n = 0; n < count; n++)
		if (fabs(fill[n] / found + 1) < LACKING_NEAR)
			return -fill[n];
	return found;
}

bool identify_lacking(const struct chain *chain, struct model *model)
{
	for (int k = 0; k < model->readings && model->later == 0; k++) {
		struct reading *reading = &model->reading[k];

		if (reading->kind == READ_BIAS && reading->weight > LACKING_LEAST) {
			reading->weight = hiding(chain, reading->weight);
			reading->lacking = true;
			return true;
		}
	}
	return false;
}

static bool holds(double x, int dtype)
{
	const float narrow = (float)x;
	uint32_t bits;

	memcpy(&bits, &narrow, sizeof(bits));
	if (dtype == ATTN_BF16)
		return !(bits & 0xffff);
	return !(bits & 0x1fff) && (x == 0 || exponent_of(x) >= -14);
}

int identify_rounding(const float *p, int64_t count, int p_dtype)
{
	bool half = true, brain = true;

	for (int64_t n = 0; n < count; n++) {
		if (!(p[n] > 0x1p-14f))
			continue;
		half = half && holds((double)p[n], ATTN_F16);
		brain = brain && holds((double)p[n], ATTN_BF16);
	}
	return half && p_dtype != ATTN_BF16 ? ATTN_F16 : brain ? ATTN_BF16 : ATTN_F32;
}
