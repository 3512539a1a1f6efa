/* SPDX-License-Identifier: Apache-2.0
 *
 * The sentences of chain.h and held.h that can be computed (chain_valid.h). Asked after each op
 * that the core's tests send, and of all recorded programs.
 */
#include "tests/unit/chain_valid.h"

#include "shim/hazard/held.h"
#include "shim/site/site.h"

/* Pieces of [begin, end), in order and apart. */
static bool inside(const struct range_set *set, uint64_t begin, uint64_t end)
{
	for_each_range(r, set) {
		if (r->begin < begin || r->begin >= r->end || r->end > end)
			return false;
		begin = r->end;
	}
	return true;
}

static const char *wrong_values(const struct chain *chain)
{
	for (int i = 0; i < chain->value_count; i++) {
		const struct value *value = &chain->values[i];

		if (value->begin >= value->end || value->begin < chain->low ||
		    value->end > chain->high)
			return "a value lies outside of the chain";
		if (!inside(&value->live, value->begin, value->end))
			return "what is left of a value lies outside of it";
	}
	return NULL;
}

static const char *wrong_inputs(const struct chain *chain)
{
	for (int i = 0; i < chain->input_count; i++) {
		const struct input *input = &chain->inputs[i];

		if (input->begin >= input->end || input->begin < chain->low ||
		    input->end > chain->high)
			return "an input lies outside of the chain";
		if (input->snapshot && !inside(&input->unsaved, input->begin, input->end))
			return "what was not saved of an input lies outside of it";
		if (input->snapshot && chain->captured)
			return "an input was saved while a graph is recorded";
	}
	return NULL;
}

static const char *wrong_steps(const struct chain *chain)
{
	for (int s = 0; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++) {
			const struct ref *ref = &chain->steps[s].refs[i];

			if (ref->index < 0 ||
			    ref->index >= (ref->kind == REF_VALUE ? chain->value_count
								  : chain->input_count))
				return "a step refers to what is not there";
		}
	return NULL;
}

static const char *wrong_state(const struct chain *chain)
{
	if (!chain->used)
		return "a chain that is not in use stands in the list";
	if (chain->step_count < 1 || chain->value_count < 1 || chain->input_count < 2)
		return "a chain has no opening product";
	if (chain->closed && (chain->p_value < 0 || chain->p_value >= chain->value_count))
		return "a closed chain has no P";
	if (chain->closed && !chain->site)
		return "a closed chain is of no site";
	if (chain->deferred && (chain->timed || chain->timing))
		return "a chain is timed and held back";
	if (chain->captured && !chain->deferred)
		return "a captured chain is not held back";
	if (chain->candidates && !chain->deferred)
		return "a chain that is not held back has candidates";
	return NULL;
}

/* ---- from one op to the next ---------------------------------------------------------------- */

enum life { WATCHED, HELD, WATCHED_ON, HELD_ON, LIVES };

/* Which of its lives a chain may be in an op later. What is held may be made real and closed by one
 * op; a closed chain that is made real is no more. */
static const bool may_become[LIVES][LIVES] = {
	[WATCHED] = {[WATCHED] = true, [WATCHED_ON] = true},
	[HELD] = {[HELD] = true, [WATCHED] = true, [WATCHED_ON] = true, [HELD_ON] = true},
	[WATCHED_ON] = {[WATCHED_ON] = true},
	[HELD_ON] = {[HELD_ON] = true},
};

/* The same of sites: what was declined is never learned again. */
static const bool may_turn[SITE_DECLINED + 1][SITE_DECLINED + 1] = {
	[SITE_LEARNING] = {true, true, true},
	[SITE_VERIFIED] = {true, true, true},
	[SITE_DECLINED] = {[SITE_DECLINED] = true},
};

static struct {
	uint64_t serial;
	enum life life;
} lives[CHAIN_COUNT];
static int life_count;

static struct {
	int number;
	enum site_state state;
} turns[SITES];

static enum life life_of(const struct chain *chain)
{
	if (chain->closed)
		return chain->deferred ? HELD_ON : WATCHED_ON;
	return chain->deferred ? HELD : WATCHED;
}

static const char *wrong_turn(const struct chain *chain)
{
	for (int i = 0; i < life_count; i++)
		if (lives[i].serial == chain->serial && !may_become[lives[i].life][life_of(chain)])
			return "a chain has gone back to an earlier life";
	return NULL;
}

static const char *wrong_site_turn(void)
{
	for (int i = 0; i < site_count; i++)
		if (turns[i].number == sites[i].number && sites[i].number &&
		    !may_turn[turns[i].state][sites[i].state])
			return "a site that was declined is learned again";
	return NULL;
}

static void keep_lives(void)
{
	life_count = 0;
	for (int i = 0; i < chain_live; i++) {
		lives[life_count].serial = chain_list[i]->serial;
		lives[life_count++].life = life_of(chain_list[i]);
	}
	for (int i = 0; i < site_count; i++) {
		turns[i].number = sites[i].number;
		turns[i].state = sites[i].state;
	}
	for (int i = site_count; i < SITES; i++)
		turns[i].number = 0;
}

const char *chains_wrong(void)
{
	const char *wrong = wrong_site_turn();
	int deferred = 0, open = 0;

	for (int i = 0; i < chain_live && !wrong; i++) {
		const struct chain *chain = chain_list[i];

		wrong = wrong_turn(chain);
		if (!wrong)
			wrong = wrong_state(chain);
		if (!wrong)
			wrong = wrong_values(chain);
		if (!wrong)
			wrong = wrong_inputs(chain);
		if (!wrong)
			wrong = wrong_steps(chain);
		deferred += chain->deferred;
		open += !chain->closed;
	}
	keep_lives();
	if (wrong)
		return wrong;
	if (open != chain_open_count)
		return "chains that are not closed are miscounted";
	return deferred == held_count ? NULL : "chains that are held back are miscounted";
}
