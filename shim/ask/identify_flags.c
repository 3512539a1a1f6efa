/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks of zeros and ones, of which any value but 0 must count as one, or of bytes 1 alone, or
 * those above 0. Whether what lies there is one only the kernels know: lengths, and numbers that
 * are added, may be zeros and ones as well. Where scores are all the same, flags at random show by
 * which keys are left what they are of and which of both hides. What a hidden key's score becomes
 * decides rows that see nothing, and rows whose scores are lower still: these are made, on either
 * side of each number that it may be.
 */
#include "shim/ask/identify_parts.h"

#include <math.h>

#include "shim/ask/fit_parts.h"
#include "shim/base/elementary.h"

#define HALF	  64	 /* keys of 128 that are seen */
#define FEW	  3	 /* a row, so that in some all scores are low that are */
#define TURNS	  16	 /* to have such a row */
#define REACH	  4	 /* differences of scores that P shows well */
#define FAR	  10	 /* and 2^this times as much, which what is added swallows or does not */
#define ASIDE	  0x1p-6 /* of a number, on either side of it */
#define FILLS	  24	 /* numbers that are tried */
#define SOME_ROWS 6	 /* that are looked at first */
#define LOWEST	  8192	 /* below 0: scores that are seen beside hidden ones */

static const char refused[] = "the kernels could not be launched again";

static int flags_input(const struct probe *probe)
{
	for (int i = 0; i < probe->inputs; i++)
		if (probe->input[i].is == PROBE_FLAGS)
			return i;
	return -1;
}

const struct reading *identify_flags_reading(const struct model *model)
{
	for (int k = 0; k < model->readings; k++)
		if (model->reading[k].kind == READ_FLAGS)
			return &model->reading[k];
	return NULL;
}

static struct content flags_of(const struct probe *probe, int input, int type, unsigned ones,
			       unsigned seed)
{
	return (struct content){.kind = CONTENT_FLAGS,
				.dtype = type,
				.seed = seed,
				.ones = ones,
				.count = probe_elements(probe, input, type)};
}

struct content identify_flags_content(const struct probe *probe, const struct model *model,
				      int input, unsigned kept, unsigned seed)
{
	const struct reading *reading = identify_flags_reading(model);

	return reading ? flags_of(probe, input, reading->dtype, reading->keeps ? kept : 128 - kept,
				  seed)
		       : flags_of(probe, input, ATTN_BOOL, 0, seed);
}

/* Does any of the rows have a key, by this reading? */
static bool leave_keys(const struct fit_grid *grid, const struct content *lengths,
		       const struct form *form)
{
	for (int r = 0; r < grid->rows; r++)
		if (content_value(lengths, fit_form_at(form, grid->row[r].z, grid->row[r].i, 0)) >=
		    1)
			return true;
	return false;
}

/* Lengths of 0 and 1 look the same. */
static bool are_lengths(struct probe *probe, int input, struct observation *run)
{
	struct model model = {.left = -1, .round_s = ATTN_F32, .round_x = ATTN_F32};

	if (!probe->input[input].words)
		return false;
	run->input[input] = (struct content){.kind = CONTENT_WORDS,
					     .dtype = ATTN_I32,
					     .words = probe->input[input].words,
					     .count = probe_elements(probe, input, ATTN_I32)};
	return probe_run(probe, run) && fit_edges(&probe->grid, run, input, &model) &&
	       leave_keys(&probe->grid, &run->input[input], &model.reading[0].form);
}

const char *identify_flags(struct probe *probe, struct observation *run, struct model *model)
{
	const int input = flags_input(probe);
	uint64_t bytes;

	if (input < 0)
		return NULL;
	bytes = probe->input[input].bytes;
	if (are_lengths(probe, input, run)) {
		probe->input[input].is = PROBE_LENGTHS;
		return NULL;
	}
	for (int n = 0; n < PROBE_WIDTHS; n++) {
		if (!probe->input[input].flags[n])
			continue;
		probe->input[input].bytes = probe->input[input].flags[n];
		run->input[input] = flags_of(probe, input, probe_flag_types[n], HALF, 41);
		if (!probe_run(probe, run))
			return refused;
		if (fit_flags(&probe->grid, run, input, model))
			return NULL;
	}
	if (!probe->input[input].otherwise)
		return "the keys that are seen do not follow the flags read";
	probe->input[input].bytes = bytes;
	probe_no_flags(&probe->input[input]);
	return NULL;
}

static bool agrees(const struct probe *probe, const struct observation *run,
		   const struct model *model, double step, double *rms)
{
	double most;

	fit_check(&probe->grid, run, model, step, rms, &most);
	return *rms < IDENTIFY_RMS && most < IDENTIFY_MOST;
}

/* A score of about -x after scaling, exact in every type; as far as the type of scores goes. */
static double low_score(const struct probe *probe, const struct model *model, double x, bool *far)
{
	const double most = probe->score_dtype == ATTN_F16 ? 0x1p15 : 0x1p126;
	const double score = -x / model->scale;
	const double unit = power_of_two(exponent_of(score) - 7);

	*far = !(fabs(score) <= most);
	if (*far)
		return score < 0 ? -most : most;
	return nearest(score / unit) * unit;
}

/* Few keys are seen, and some row has but low scores among them. false: none has. */
static bool set_steps(const struct probe *probe, const struct model *model, double low,
		      struct observation *run)
{
	const struct reading *reading = identify_flags_reading(model);
	const int64_t few = (128 * FEW + probe->grid.Sk - 1) / probe->grid.Sk;

	for (unsigned turn = 0; turn < TURNS; turn++) {
		run->scores = (struct content){.kind = CONTENT_STEPS,
					       .dtype = probe->score_dtype,
					       .seed = 61 + 2 * turn,
					       .low = low,
					       .count = UINT64_MAX};
		run->input[reading->input] = identify_flags_content(
			probe, model, reading->input, few < 64 ? (unsigned)few : 64, 62 + 2 * turn);
		if (fit_tells_hidden(&probe->grid, run, model))
			return true;
	}
	return false;
}

/* With low scores on either side of the number, does what is hidden stand out where it should? */
static const char *holds_aside(const struct probe *probe, struct observation *run,
			       const struct model *model, double step, bool *holds)
{
	const double weight = identify_flags_reading(model)->weight;
	bool far = false;

	*holds = true;
	for (int side = -1; side <= 1 && *holds && !far; side += 2) {
		const double low = low_score(probe, model, -weight * (1 + side * ASIDE), &far);
		double rms;

		if (!set_steps(probe, model, low, run))
			return "too few rows to tell what a mask hides";
		if (!probe_run(probe, run))
			return refused;
		*holds = agrees(probe, run, model, step, &rms);
	}
	return NULL;
}

static const char not_known[] = "what a mask hides becomes a number that is not known";

/* Does the model explain rows that see nothing, with scores near together and far apart? A few rows
 * first: most numbers are none of it. */
static bool explains(const struct probe *probe, struct observation *const run[3],
		     const struct model *model, double step, double *rms)
{
	struct fit_grid few = probe->grid;
	double most, far;

	few.rows = few.rows < SOME_ROWS ? few.rows : SOME_ROWS;
	fit_check(&few, run[0], model, step, rms, &most);
	if (!(*rms < IDENTIFY_RMS) || !agrees(probe, run[0], model, step, rms) ||
	    !agrees(probe, run[1], model, step, &far))
		return false;
	*rms += far;
	return true;
}

/* The scores are gone there, so that only low ones tell by which number. */
static const char *find_replaced(const struct probe *probe, struct observation *run, double step,
				 struct model *model, struct reading *flags)
{
	double fill[FILLS];
	const int fills = identify_fills(probe->chain, fill, FILLS);
	const char *why = NULL;
	bool holds = false;

	for (int n = 0; n < fills && !holds && !why; n++) {
		flags->weight = fill[n];
		why = holds_aside(probe, run, model, step, &holds);
	}
	return why ? why : holds ? NULL : not_known;
}

/* By how they are rounded, too: the number that explains them best. */
static const char *find_added(const struct probe *probe, struct observation *const run[3],
			      double step, struct model *model, struct reading *flags)
{
	static const int roundings[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
	struct model best = *model;
	double fill[FILLS], least = INFINITY, rms;
	const int fills = identify_fills(probe->chain, fill, FILLS);

	for (int n = 0; n < 3 * fills; n++) {
		const char *why;
		bool holds;

		flags->weight = fill[n / 3];
		model->round_x = roundings[n % 3];
		if (!explains(probe, run, model, step, &rms) || rms >= least)
			continue;
		why = holds_aside(probe, run[2], model, step, &holds);
		if (why)
			return why;
		if (holds) {
			least = rms;
			best = *model;
		}
	}
	*model = best;
	return least < INFINITY ? NULL : not_known;
}

/* model->beyond is settled. */
static const char *find_number_within(const struct probe *probe, struct observation *const run[3],
				      double step, struct model *model, struct reading *flags)
{
	const char *why = not_known;
	double rms;

	flags->replaces = true;
	identify_fills(probe->chain, &flags->weight, 1);
	model->round_x = ATTN_F32;
	if (explains(probe, run, model, step, &rms))
		why = find_replaced(probe, run[2], step, model, flags);
	if (why != not_known)
		return why;
	/* A number that swallows scores is not their replacement where they are as large. */
	flags->replaces = false;
	return find_added(probe, run, step, model, flags);
}

/* A compiler puts a triangle and a mask into one condition, and then the same number hides what
 * either does. */
static const char *find_number(const struct probe *probe, struct observation *const run[3],
			       double step, struct model *model)
{
	const struct reading *reading = identify_flags_reading(model);
	struct reading *flags = &model->reading[reading - model->reading];
	const char *why = find_number_within(probe, run, step, model, flags);

	if (why != not_known || !model->causal || model->readings > 1)
		return why;
	model->beyond = true;
	return find_number_within(probe, run, step, model, flags);
}

/* A kernel that makes rows without a key 0 may do so knowing the number that hides one: Megatron's
 * has -10000, which would show beside scores that are lower still. Of smaller ones it must not. */
static const char *hides_all(const struct probe *probe, struct observation *run,
			     const struct model *model, double step)
{
	bool far;
	double rms;
	const double low = low_score(probe, model, LOWEST, &far);

	if (!set_steps(probe, model, low, run))
		return "too few rows to tell what a mask hides";
	if (!probe_run(probe, run))
		return refused;
	return agrees(probe, run, model, step, &rms) ? NULL : not_known;
}

const char *identify_fill(struct probe *probe, struct observation *const run[3], double step,
			  struct model *model, int *empty)
{
	const struct reading *reading = identify_flags_reading(model);
	const int most = probe->score_dtype == ATTN_F16 ? 15 : 64;

	if (!reading)
		return NULL;
	for (int n = 0; n < 2; n++) {
		const int exponent = exponent_of(REACH / fabs(model->scale)) + (n ? FAR : 0);

		run[n]->scores = (struct content){.kind = CONTENT_CENTERED,
						  .dtype = probe->score_dtype,
						  .exponent = exponent < most ? exponent : most,
						  .seed = 51,
						  .count = UINT64_MAX};
		run[n]->input[reading->input] =
			identify_flags_content(probe, model, reading->input, 0, 0);
		if (!probe_run(probe, run[n]))
			return refused;
	}
	*empty = fit_empty_row(&probe->grid, run[0]);
	if ((*empty == ATTN_EMPTY_NAN || *empty == ATTN_EMPTY_ZERO) &&
	    fit_empty_row(&probe->grid, run[1]) != *empty)
		return "rows without a key come out differently";
	if (*empty == ATTN_EMPTY_ZERO)
		return hides_all(probe, run[2], model, step);
	if (*empty == ATTN_EMPTY_NAN)
		return NULL;
	*empty = ATTN_EMPTY_NAN;
	return find_number(probe, run, step, model);
}
