/* SPDX-License-Identifier: Apache-2.0
 *
 * One question at a time: with scores of zero and inputs without effect, which keys are seen; with
 * random scores, how P follows them; with one input at a time, where and how it enters. Then the
 * whole answer is held against runs with everything at once, and last, what becomes of rows that
 * see nothing, and of infinite scores. An answer that does not reproduce all of P is none.
 */
#include "shim/ask/identify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/base/elementary.h"
#include "shim/ask/identify_parts.h"
#include "shim/ask/probe.h"

/* What the kernels' own arithmetic may cost, in rounding steps of P. */
#define MOST_RMS IDENTIFY_RMS
#define MOST	 IDENTIFY_MOST
#define STRAIGHT 4 /* steps that a straight line may be off, root mean square */
#define REACH	 4 /* differences of scores that P shows well */
#define FARTHER	 4 /* the second run for a softcap: 2^this times as far */
#define SMALLEST (-13)

struct session {
	struct probe probe;
	struct model model;
	const struct attn_args *args;
	const struct chain *chain;
	struct observation zero, run, far; /* p: room for rows */
	double step;			   /* of P's rounding */
	int p_rounding;			   /* the narrowest type that holds all of P */
	int empty;			   /* what becomes of rows that see nothing */
	bool overflows;			   /* infinite scores do what the formula has them do */
	char *detail;
	size_t size;
};

static const char *say(struct session *session, const char *what, double a, double b)
{
	snprintf(session->detail, session->size, "%s %.4g %.4g", what, a, b);
	return session->detail;
}

/* ---- contents -------------------------------------------------------------------------------- */

static struct content scores_of(const struct session *session, enum content_kind kind, int exponent,
				unsigned seed)
{
	return (struct content){.kind = kind,
				.dtype = session->probe.score_dtype,
				.exponent = exponent,
				.seed = seed,
				.count = UINT64_MAX};
}

static struct content numbers(const struct session *session, int input, enum content_kind kind,
			      int dtype, int exponent, unsigned seed)
{
	return (struct content){.kind = kind,
				.dtype = dtype,
				.exponent = exponent,
				.seed = seed,
				.count = probe_elements(&session->probe, input, dtype)};
}

static struct content words(const struct session *session, int input, const int32_t *what)
{
	return (struct content){.kind = CONTENT_WORDS,
				.dtype = ATTN_I32,
				.words = what,
				.count = probe_elements(&session->probe, input, ATTN_I32)};
}

/* Scores of zero, inputs that add nothing (zeros of the smallest type, so that none is left out at
 * an odd end), lengths as the program has them. */
static void set_plain(const struct session *session, struct observation *run)
{
	run->scores = scores_of(session, CONTENT_ZERO, 0, 0);
	for (int i = 0; i < session->probe.inputs; i++)
		run->input[i] = session->probe.input[i].is == PROBE_LENGTHS
					? words(session, i, session->probe.input[i].words)
				: session->probe.input[i].is == PROBE_FLAGS
					? identify_flags_content(&session->probe, &session->model,
								 i, 128, 0)
					: numbers(session, i, CONTENT_ZERO, ATTN_F16, 0, 0);
}

static bool ask(const struct session *session, struct observation *run)
{
	return probe_run(&session->probe, run);
}

static const char two_sided[] = "slopes on both sides of the query: no bias that rows share";
static const char refused[] = "the kernels could not be launched again";

/* ---- P itself -------------------------------------------------------------------------------- */

static void settle_rounding(struct session *session, const struct observation *run)
{
	const int64_t count = session->probe.grid.rows * session->probe.grid.Sk;

	session->p_rounding = identify_rounding(run->p, count, session->probe.p_dtype);
	session->step = session->p_rounding == ATTN_F16	   ? 0x1p-12
			: session->p_rounding == ATTN_BF16 ? 0x1p-9
							   : 0x1p-18;
}

static const char *check_sums(struct session *session)
{
	const struct fit_grid *grid = &session->probe.grid;

	for (int r = 0; r < grid->rows; r++) {
		double sum = 0;

		for (int64_t j = 0; j < grid->Sk; j++)
			sum += (double)session->zero.p[r * grid->Sk + j];
		if (sum != 0 && !isnan(sum) && !(sum > 0.98 && sum < 1.02))
			return say(session, "a row adds up to", sum, 1);
	}
	return NULL;
}

static double meant(const struct session *session, double found)
{
	return identify_meant(session->chain, session->args->D, found);
}

/* ---- scale and softcap ----------------------------------------------------------------------- */

static const int roundings[] = {ATTN_F32, ATTN_F16, ATTN_BF16};

/* To what the program rounds a score before anything else happens to it: as well as that explains
 * the scores that are far apart, root mean square. */
static double find_score_rounding(struct session *session)
{
	double least = INFINITY;
	int best = ATTN_F32;

	for (int n = 0; n < 3; n++) {
		double rms, most;

		session->model.round_s = roundings[n];
		fit_check(&session->probe.grid, &session->far, &session->model, session->step, &rms,
			  &most);
		if (rms < least) {
			least = rms;
			best = roundings[n];
		}
	}
	session->model.round_s = best;
	return least;
}

/* The scores nearer together, too. */
static bool straight(const struct session *session, double misfit)
{
	double rms, most;

	if (session->model.round_s == ATTN_F32)
		return misfit < STRAIGHT * session->step;
	fit_check(&session->probe.grid, &session->run, &session->model, session->step, &rms, &most);
	return rms < MOST_RMS;
}

/* Random scores, as far apart as P shows well. */
static const char *find_scale(struct session *session)
{
	struct model *model = &session->model;
	const struct observation *const both[2] = {&session->run, &session->far};
	const struct fit_grid *grid = &session->probe.grid;
	double misfit = 0, rms;
	int exponent = 0;

	for (int turn = 0; turn < 4; turn++) {
		int wanted;

		set_plain(session, &session->run);
		session->run.scores = scores_of(session, CONTENT_CENTERED, exponent, 1);
		if (!ask(session, &session->run))
			return refused;
		if (!fit_slope(grid, &session->zero, &session->run, &model->scale, &misfit)) {
			exponent -= 4;
			continue;
		}
		if (!(fabs(model->scale) > 1e-6)) {
			exponent += 6;
			if (exponent > 12)
				break;
			continue;
		}
		wanted = exponent_of(REACH / fabs(model->scale));
		if (wanted > 10)
			wanted = 10;
		if (wanted <= exponent + 1 && wanted >= exponent - 1)
			break;
		exponent = wanted;
	}
	if (!(fabs(model->scale) > 1e-6))
		return say(session, "P does not follow the scores; slope", model->scale, misfit);
	settle_rounding(session, &session->run);
	set_plain(session, &session->far);
	session->far.scores = scores_of(session, CONTENT_CENTERED, exponent + FARTHER, 2);
	if (!ask(session, &session->far))
		return refused;
	model->scale = meant(session, model->scale);
	rms = find_score_rounding(session);
	if (rms < MOST_RMS && straight(session, misfit))
		return NULL;
	model->round_s = ATTN_F32;
	if (!fit_softcap(grid, &session->zero, both, &model->scale, &model->cap))
		return say(session, "P is no straight line of the scores; off by", misfit, rms);
	model->scale = meant(session, model->scale);
	model->cap = meant(session, model->cap);
	return NULL;
}

/* ---- slopes ---------------------------------------------------------------------------------- */

/* Slopes that the kernels compute themselves, and then whether all rows of a head have the same. */
static const char *find_slopes(struct session *session)
{
	struct alibi *alibi = &session->model.alibi;
	const char *why;

	settle_rounding(session, &session->zero);
	why = identify_slopes(&session->probe, &session->zero, session->run.p, session->step,
			      alibi);
	if (!why && alibi->heads)
		alibi->weight = meant(session, alibi->weight);
	return why;
}

static const char *check_slopes(struct session *session)
{
	double rms, most;

	fit_check(&session->probe.grid, &session->zero, &session->model, session->step, &rms,
		  &most);
	return !session->model.alibi.heads || rms < MOST_RMS ? NULL : two_sided;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Each one smaller than it was, but not below one. */
static int32_t *lowered(const struct session *session, int input, unsigned seed)
{
	const struct probe_input *from = &session->probe.input[input];
	const uint64_t count = from->bytes / 4;
	int32_t *to = malloc(from->bytes);

	for (uint64_t n = 0; to && n < count; n++) {
		const double part = content_value(
			&(struct content){.kind = CONTENT_HASH, .seed = seed}, n * 7 + 3);
		const int32_t old = from->words[n];

		to[n] = old > 1 ? 1 + (int32_t)((double)(old - 1) * (part + 2) / 2) : old;
	}
	return to;
}

static int length_input(const struct session *session)
{
	for (int i = 0; i < session->probe.inputs; i++)
		if (session->probe.input[i].is == PROBE_LENGTHS)
			return i;
	return -1;
}

static const char *find_edges(struct session *session)
{
	const int input = length_input(session);
	int32_t *less = NULL;
	const char *why = NULL;

	if (input < 0)
		return fit_edges(&session->probe.grid, &session->zero, -1, &session->model) ? NULL
		       : session->model.alibi.heads ? two_sided
						    : "the keys that are seen form no triangle";
	set_plain(session, &session->run);
	less = lowered(session, input, 3);
	session->run.input[input] = words(session, input, less);
	if (!less || !ask(session, &session->run))
		why = refused;
	else if (!fit_edges(&session->probe.grid, &session->run, input, &session->model))
		why = "the keys that are seen do not follow the whole numbers read";
	free(less);
	return why;
}

/* One input of numbers, in each type it may have, strong or weak. */
static const char *find_input(struct session *session, int input)
{
	const int own = session->args->q.dtype;
	const int dtypes[] = {own, ATTN_F32, own == ATTN_F16 ? ATTN_BF16 : ATTN_F16};
	double effect = 0, most = 0;
	struct reading *reading;

	for (int n = 0; n < 3; n++)
		for (int exponent = 0; exponent >= SMALLEST; exponent -= 6) {
			set_plain(session, &session->run);
			session->run.input[input] =
				numbers(session, input, CONTENT_HASH, dtypes[n], exponent, 5);
			if (!ask(session, &session->run))
				return refused;
			if (fit_input(&session->probe.grid, &session->zero, &session->run, input,
				      &session->model, &effect)) {
				reading = &session->model.reading[session->model.readings - 1];
				reading->weight = meant(session, reading->weight);
				return reading->kind == READ_SIDES ? two_sided : NULL;
			}
			if (isfinite(effect) && effect < 1)
				break; /* weaker would show less */
			most = isfinite(effect) ? larger(most, effect) : most;
		}
	snprintf(session->detail, session->size,
		 "pointer %d of %d adds nothing of a known form; ln P moved by %.3g", input + 1,
		 session->probe.inputs, larger(most, isfinite(effect) ? effect : 0));
	return session->detail;
}

static const char *find_inputs(struct session *session)
{
	for (int i = 0; i < session->probe.inputs; i++) {
		const char *why = NULL;

		if (session->probe.input[i].is == PROBE_NUMBERS)
			why = find_input(session, i);
		if (why)
			return why;
	}
	return NULL;
}

/* ---- everything at once ---------------------------------------------------------------------- */

static const struct reading *reading_of(const struct session *session, int input)
{
	for (int k = 0; k < session->model.readings; k++)
		if (session->model.reading[k].input == input)
			return &session->model.reading[k];
	return NULL;
}

/* Exponent at which the input's part of a score is about 2^reach, as far as its type goes. */
static int exponent_for(const struct session *session, const struct reading *reading, int reach)
{
	const double keys = reading->kind == READ_RAMP ? (double)session->probe.grid.Sk / 2 : 1;
	const int exponent = reach - exponent_of(fabs(reading->weight) * keys);

	return reading->dtype == ATTN_F16 && exponent > 15 ? 15 : exponent;
}

/* `kind`: of all inputs of numbers. */
static void set_all(const struct session *session, struct observation *run, enum content_kind kind,
		    int reach, unsigned seed)
{
	set_plain(session, run);
	run->scores = scores_of(session, CONTENT_CENTERED,
				exponent_of(REACH / fabs(session->model.scale)), seed);
	for (int i = 0; i < session->probe.inputs; i++) {
		const struct reading *reading = reading_of(session, i);

		if (session->probe.input[i].is == PROBE_NUMBERS)
			run->input[i] = numbers(session, i, kind, reading->dtype,
						exponent_for(session, reading, reach), seed + 1);
		if (session->probe.input[i].is == PROBE_FLAGS)
			run->input[i] = identify_flags_content(&session->probe, &session->model, i,
							       64, seed + 1);
	}
}

static const char *agrees(struct session *session, const struct observation *run, const char *when)
{
	double rms, most;

	fit_check(&session->probe.grid, run, &session->model, session->step, &rms, &most);
	return rms < MOST_RMS && most < MOST ? NULL : say(session, when, rms, most);
}

/* To what a score is rounded after a bias was added, and whether it is scaled before or behind,
 * decides what becomes of it under a large one. Kernels scale before. */
static const char *find_rounding(struct session *session, double weight)
{
	struct model *model = &session->model;
	double least = INFINITY;
	struct model best = *model;

	set_all(session, &session->run, CONTENT_CONSTANT, 9, 11);
	if (!ask(session, &session->run))
		return refused;
	for (int n = 0; n < 6; n++) {
		double rms, most;

		model->round_x = roundings[n % 3];
		model->later = n < 3 ? 0 : weight;
		fit_check(&session->probe.grid, &session->run, model, session->step, &rms, &most);
		if (rms < least) {
			least = rms;
			best = *model;
		}
	}
	*model = best;
	if (model->later != 0 && least < MOST_RMS)
		return say(session, "biases are rounded before they are scaled:", model->later,
			   least);
	return agrees(session, &session->run, "large biases: P is off by");
}

/* `less`: lengths, NULL where there are none. */
static const char *check_hashes(struct session *session, const int32_t *less)
{
	const int input = length_input(session);
	const char *why = NULL;

	for (int n = 0; n < 2 && !why; n++) {
		set_all(session, &session->run, CONTENT_HASH, 0, 21 + 4 * (unsigned)n);
		if (n)
			session->run.scores.exponent += FARTHER;
		if (less)
			session->run.input[input] = words(session, input, less);
		why = ask(session, &session->run)
			      ? agrees(session, &session->run,
				       n ? "far apart: P is off by" : "P is off by")
			      : refused;
	}
	return why;
}

static const char *check_all(struct session *session)
{
	const int input = length_input(session);
	int32_t *less = input >= 0 ? lowered(session, input, 17) : NULL;
	double weight = 0; /* of a bias */
	const char *why = NULL;

	for (int k = 0; k < session->model.readings; k++)
		if (session->model.reading[k].kind == READ_BIAS)
			weight = session->model.reading[k].weight;
	if (weight != 0)
		why = find_rounding(session, weight);
	if (!why)
		why = check_hashes(session, less);
	if (why && session->p_rounding == ATTN_F32 && !identify_flags_reading(&session->model) &&
	    identify_lacking(session->chain, &session->model))
		why = check_hashes(session, less);
	free(less);
	return why;
}

/* What becomes of keys that flags hide. `zero` is of no use any more. */
static const char *find_fill(struct session *session)
{
	session->empty = ATTN_EMPTY_NAN;
	set_plain(session, &session->run);
	set_plain(session, &session->far);
	set_plain(session, &session->zero);
	return identify_fill(&session->probe,
			     (struct observation *[]){&session->run, &session->far, &session->zero},
			     session->step, &session->model, &session->empty);
}

/* Rows that see nothing: of length zero, or under biases of minus infinity. */
static const char *find_empty(struct session *session)
{
	const struct reading *flags = identify_flags_reading(&session->model);
	const int input = length_input(session), hidden = session->empty;
	int32_t *none = NULL;
	const char *why = NULL;

	if (session->model.readings == (flags ? 1 : 0))
		return NULL;
	if (flags && !isinf(flags->weight))
		return "a number for what a mask hides, and more beside it";
	set_all(session, &session->run, CONTENT_EMPTY, 0, 31);
	if (input >= 0) {
		none = calloc(1, session->probe.input[input].bytes);
		session->run.input[input] = words(session, input, none);
	}
	if ((input >= 0 && !none) || !ask(session, &session->run))
		why = refused;
	else
		session->empty = fit_empty_row(&session->probe.grid, &session->run);
	free(none);
	return why ? why
	       : session->empty < 0 || (flags && session->empty != hidden)
		       ? "rows without a key come out differently"
		       : NULL;
}

/* Scores in fp16 that overflowed: do they make a row NaN and, below, one that sees nothing? */
static const char *find_overflow(struct session *session)
{
	session->overflows = session->probe.score_dtype == ATTN_F16;
	for (int n = 0; n < 2 && session->overflows; n++) {
		set_plain(session, &session->run);
		session->run.scores = scores_of(session, n ? CONTENT_EMPTY : CONTENT_BEYOND, 0, 0);
		if (!ask(session, &session->run))
			return refused;
		session->overflows = fit_empty_row(&session->probe.grid, &session->run) ==
				     (n ? session->empty : ATTN_EMPTY_NAN);
	}
	return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static const char *check_inputs(struct session *session, bool *blank)
{
	int lengths = 0, flags = 0;

	*blank = false;
	for (int i = 0; i < session->probe.inputs; i++) {
		const enum probe_class is = session->probe.input[i].is;

		lengths += is == PROBE_LENGTHS;
		flags += is == PROBE_FLAGS;
		*blank = *blank || is == PROBE_BLANK;
		if (is == PROBE_BLANK || is == PROBE_UNKNOWN || lengths > 1 || flags > 1) {
			snprintf(session->detail, session->size, "pointer %d of %d: %s", i + 1,
				 session->probe.inputs,
				 is == PROBE_BLANK     ? "nothing but zeros lies there"
				 : is == PROBE_UNKNOWN ? "neither numbers nor lengths lie there"
				 : flags > 1	       ? "flags, a second time"
						       : "lengths, a second time");
			return session->detail;
		}
	}
	return NULL;
}

static const char *find_all(struct session *session, struct identity *identity)
{
	static const char *(*const questions[])(struct session *) = {
		check_sums,  find_slopes, find_edges, check_slopes, find_scale,
		find_inputs, find_fill,	  check_all,  find_empty,   find_overflow};
	const char *why = check_inputs(session, &identity->blank);

	session->model.round_s = session->model.round_x = ATTN_F32;
	session->model.left = -1;
	set_plain(session, &session->run);
	why = why ? why : identify_flags(&session->probe, &session->run, &session->model);
	why = why ? why : check_inputs(session, &identity->blank);
	set_plain(session, &session->zero);
	if (!why && !ask(session, &session->zero))
		why = refused;
	for (unsigned n = 0; n < sizeof(questions) / sizeof(*questions) && !why; n++)
		why = questions[n](session);
	return why ? why
		   : identify_answer(identity, &session->model,
				     &(struct asked){.chain = session->chain,
						     .args = session->args,
						     .inputs = session->probe.inputs,
						     .p_rounding = session->p_rounding,
						     .empty = session->empty,
						     .overflows = session->overflows});
}

const char *identify_chain(struct identity *identity, const struct attn_args *args,
			   const struct chain *chain, char *detail, size_t size)
{
	static struct session session; /* flow lock */
	struct driver_context here;
	const char *why;

	COST(PURPOSE_ASKING);
	memset(&session, 0, sizeof(session));
	session.args = args;
	session.chain = chain;
	session.detail = detail;
	session.size = size;
	if (!driver_enter(&here, chain->context))
		return "the context is gone";
	why = probe_open(&session.probe, chain);
	if (!why) {
		session.zero.p = probe_rows(&session.probe);
		session.run.p = probe_rows(&session.probe);
		session.far.p = probe_rows(&session.probe);
		why = session.zero.p && session.run.p && session.far.p
			      ? find_all(&session, identity)
			      : "no memory";
		free(session.zero.p);
		free(session.run.p);
		free(session.far.p);
	}
	probe_close(&session.probe);
	driver_leave(&here);
	return why;
}
