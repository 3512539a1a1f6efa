/* SPDX-License-Identifier: Apache-2.0
 *
 * Successive halving. The decision takes rounds of its own: those that picked a candidate favour
 * it.
 */
#include "tools/tune/sweep.h"
#include "tools/base/random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { RANK_ROUNDS = 3, HALVE_ROUNDS = 6 };

/* Who is left, the built-in choice first, and their times of the present step. */
struct field {
	struct sweep *sweep;
	const struct sweep_measure *measure;
	int *left;
	int count;
	double *us; /* [candidate][rounds] */
	uint64_t state;
};

static bool stopped(const struct sweep *sweep)
{
	return sweep->stop && *sweep->stop;
}

/* ---- check ---------------------------------------------------------------------------------- */

static enum sweep_fate judge(const struct sweep_check *found, const struct sweep_check *built_in)
{
	if (!found->finite ||
	    !(found->error <= SWEEP_ERROR_FACTOR * built_in->error + built_in->rounding))
		return SWEEP_WRONG;
	return found->us > SWEEP_HOPELESS * built_in->us ? SWEEP_SLOW : SWEEP_UNTRIED;
}

static int check_one(struct field *field, int index, const struct sweep_check *built_in,
		     struct sweep_check *found)
{
	struct sweep_candidate *candidate = &field->sweep->candidates[index];
	int result;

	candidate->us = candidate->spread = candidate->error = NAN;
	if (stopped(field->sweep))
		return -EINTR;
	result = field->measure->check(field->measure->context, index, found);
	if (result == -EIO)
		candidate->fate = SWEEP_FAILED;
	if (result)
		return result;
	candidate->error = found->error;
	candidate->fate = judge(found, built_in ? built_in : found);
	return 0;
}

/* The built-in choice is what the others are measured by. */
static int check_all(struct field *field)
{
	struct sweep *sweep = field->sweep;
	struct sweep_check built_in, found;
	int result = check_one(field, sweep->built_in, NULL, &built_in);

	if (!result && !built_in.finite)
		result = -EIO;
	if (!result)
		field->left[field->count++] = sweep->built_in;
	for (int i = 0; !result && i < sweep->count; i++) {
		if (i == sweep->built_in)
			continue;
		result = check_one(field, i, &built_in, &found);
		if (result == -EIO)
			result = 0;
		else if (!result && sweep->candidates[i].fate == SWEEP_UNTRIED)
			field->left[field->count++] = i;
	}
	return result;
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* An order of 0 … count - 1 (Fisher and Yates). */
static void shuffle(int *order, int count, uint64_t *state)
{
	for (int i = 0; i < count; i++) {
		const int j = (int)(draw(state) % (uint64_t)(i + 1));

		order[i] = order[j];
		order[j] = i;
	}
}

static int one_round(struct field *field, int round, int rounds, int *order)
{
	int result = 0;

	shuffle(order, field->count, &field->state);
	for (int i = 0; !result && i < field->count; i++) {
		const int index = field->left[order[i]];

		result = stopped(field->sweep)
				 ? -EINTR
				 : field->measure->time(field->measure->context, index,
							&field->us[index * rounds + round]);
	}
	return result;
}

/* Fills in medians; us[index * rounds …] is sorted then. */
static void summarise(struct field *field, int rounds)
{
	for (int i = 0; i < field->count; i++) {
		struct sweep_candidate *candidate = &field->sweep->candidates[field->left[i]];
		double *us = &field->us[field->left[i] * rounds];

		sort_values(us, (size_t)rounds);
		candidate->us = median_of_sorted(us, (size_t)rounds);
		candidate->spread = (us[3 * rounds / 4] - us[rounds / 4]) / 2;
	}
}

static int run_rounds(struct field *field, int rounds)
{
	int *order = calloc((size_t)field->count, sizeof(*order));
	int result = order ? 0 : -ENOMEM;

	free(field->us);
	field->us = calloc((size_t)field->sweep->count * (size_t)rounds, sizeof(*field->us));
	if (!field->us)
		result = -ENOMEM;
	for (int n = 0; !result && n < rounds; n++)
		result = one_round(field, n, rounds, order);
	if (!result)
		summarise(field, rounds);
	free(order);
	return result;
}

/* Keeps the built-in choice and the `most` fastest of the others, which fare so. */
static void keep(struct field *field, int most, enum sweep_fate others)
{
	struct sweep_candidate *candidates = field->sweep->candidates;

	for (int i = 2; i < field->count; i++) /* insertion: they are few */
		for (int k = i;
		     k > 1 && candidates[field->left[k]].us < candidates[field->left[k - 1]].us;
		     k--) {
			const int moved = field->left[k];

			field->left[k] = field->left[k - 1];
			field->left[k - 1] = moved;
		}
	while (field->count > most + 1)
		candidates[field->left[--field->count]].fate = others;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int halve(struct field *field)
{
	int rounds = HALVE_ROUNDS, result = run_rounds(field, RANK_ROUNDS);

	if (result)
		return result;
	keep(field, field->sweep->top, SWEEP_RANKED);
	while (field->count > 2) {
		result = run_rounds(field, rounds);
		if (result)
			return result;
		keep(field, field->count / 2, SWEEP_HALVED);
		rounds *= 2;
	}
	return 0;
}

static int decide(struct field *field)
{
	struct sweep *sweep = field->sweep;
	const int rounds = sweep->rounds, built_in = sweep->built_in;
	int result = run_rounds(field, rounds);

	for (int i = 0; i < field->count; i++)
		sweep->candidates[field->left[i]].fate = SWEEP_DECIDED;
	if (result || field->count < 2)
		return result;
	sweep->rival = field->left[1];
	result = bootstrap_ratio(&field->us[sweep->rival * rounds], (size_t)rounds,
				 &field->us[built_in * rounds], (size_t)rounds, BOOTSTRAP_SEED,
				 &sweep->interval);
	if (!result && sweep->interval.high <= SWEEP_WIN)
		sweep->best = sweep->rival;
	return result;
}

int sweep_run(struct sweep *sweep, const struct sweep_measure *measure)
{
	struct field field = {.sweep = sweep, .measure = measure, .state = sweep->seed};
	int result;

	sweep->best = sweep->built_in;
	sweep->rival = -1;
	sweep->interval = (struct bootstrap_interval){NAN, NAN, NAN};
	field.left = calloc((size_t)sweep->count, sizeof(*field.left));
	if (!field.left)
		return -ENOMEM;
	result = check_all(&field);
	if (!result)
		result = halve(&field);
	if (!result)
		result = decide(&field);
	free(field.left);
	free(field.us);
	return result;
}
