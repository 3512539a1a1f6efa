/* SPDX-License-Identifier: Apache-2.0
 *
 * Occurrences that are not run once and then are over: captured into a graph, which is launched
 * again after its inputs have changed and later, where other things lie in its memory by then; and
 * many at once, open together, their scores kept.
 */
#include "fuzz.h"

static struct kept {
	CUgraphExec exec;
	struct chain chain;
	CUdeviceptr copy; /* of P, made in the graph; or 0 */
} kept[2];

static bool overlap(CUdeviceptr a, size_t a_bytes, CUdeviceptr b, size_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

static void promise(struct chain *c, bool promised)
{
	for (int t = S; t <= P; t++)
		if (c->t[t])
			mark_promised(c->t[t], scores_of(c) * width, promised);
}

/* The marks that a launch of the graph leaves. */
static void marks_only(struct chain *c)
{
	const int occurrence = here->occurrence, step = here->step;

	promise(c, false);
	here->dry = true;
	chain_between(c);
	here->dry = false;
	promise(c, true);
	here->occurrence = occurrence;
	here->step = step;
}

static bool can_run_again(const struct chain *c)
{
	for (int t = Q; t <= V; t++)
		if (!is_ours(c->t[t], c->bytes[t]))
			return false;
	return is_ours(c->t[O], c->bytes[O]) &&
	       (c->site->masked != LOWER || (depth_of(c->t[P], c->bytes[P]) & ~DUMP_PROMISED) == 0);
}

/* The graph's inputs lie where they lay; whatever came to lie there since is overwritten. */
static void fresh_inputs(struct chain *c, CUstream s)
{
	for (int t = Q; t <= V; t++)
		if (depth_of(c->t[t], c->bytes[t]) || chance(&c->rng, 30))
			random_numbers(s, c->t[t], next(&c->rng), c->bytes[t] / width);
}

bool graph_kept(void)
{
	return kept[here->number].exec != NULL;
}

void graph_again(CUstream s)
{
	struct kept *k = &kept[here->number];

	if (!k->exec || !can_run_again(&k->chain))
		return;
	trace("the kept graph of occurrence %d", k->chain.number);
	fresh_inputs(&k->chain, s);
	OK(cuGraphLaunch(k->exec, s));
	marks_only(&k->chain);
	if (k->copy)
		mark_copy(k->copy, k->chain.t[P], scores_of(&k->chain) * width);
	if (chance(&k->chain.rng, 60))
		observe(s, "O of a graph", k->chain.t[O], k->chain.bytes[O]);
}

void graph_forget(void)
{
	if (kept[here->number].exec)
		OK(cuGraphExecDestroy(kept[here->number].exec));
	kept[here->number].exec = NULL;
}

/* Some inputs, in one of the ways of chain_input or over a part of what the products read. */
static void change_inputs(struct chain *c)
{
	static const enum tensor inputs[] = {Q, K, V};

	for (int i = 0; i < 3; i++) {
		const enum tensor t = inputs[i];

		if (chance(&c->rng, 40))
			continue;
		if (c->site->layout == INTERLEAVED || chance(&c->rng, 40))
			random_numbers(c->stream, c->t[t], next(&c->rng), c->bytes[t] / width / 2);
		else
			chain_input(c, t);
	}
}

static bool capturable(const struct chain *c)
{
	const struct site *z = c->site;

	return (z->placing == IN_ARENA || z->placing == APART) && z->form != ARRAYS &&
	       !c->device_scalars && c->beta == 0 && !c->second_v;
}

static CUgraphExec capture(struct chain *c, CUdeviceptr copy)
{
	CUgraph graph;
	CUgraphExec exec;

	trace("capture begins");
	OK(cuStreamSynchronize(c->stream));
	OK(cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	chain_between(c);
	if (copy)
		copy_numbers(c->stream, copy, c->t[P], scores_of(c));
	OK(cuStreamEndCapture(c->stream, &graph));
	trace("capture ends");
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph));
	return exec;
}

void chain_captured(struct chain *c)
{
	const CUstream ordinary = c->stream;
	CUdeviceptr copy = 0;
	CUgraphExec exec;
	int launches;

	c->o_over_q = false;
	c->disturbances = 0;
	if (!capturable(c)) {
		c->manner = ORDINARY;
		while (chain_step(c))
			;
		return;
	}
	if (!c->stream) { /* the legacy stream cannot be captured */
		c->stream = here->other;
		order(ordinary, c->stream, 0);
	}
	chain_step(c);
	if (c->site->late_v)
		chain_input(c, V);
	if (c->site->placing == IN_ARENA && chance(&c->rng, 50))
		copy = arena_take(&c->rng, scores_of(c) * width, c->number);
	exec = capture(c, copy);
	launches = 1 + (int)below(&c->rng, 4);
	for (int i = 0; i < launches; i++) {
		if (i)
			change_inputs(c);
		trace("graph launch %d of %d", i + 1, launches);
		OK(cuGraphLaunch(exec, c->stream));
		marks_only(c);
		if (copy)
			mark_copy(copy, c->t[P], scores_of(c) * width);
		c->at = LOOK;
		if (chance(&c->rng, 60))
			event_happen(c, c->number * 10 + i);
		if (chance(&c->rng, 50))
			observe(c->stream, "O", c->t[O], queries_of(c) * width);
		if (chance(&c->rng, 40))
			observe(c->stream, "P", c->t[P], scores_of(c) * width);
		if (copy && chance(&c->rng, 50))
			observe(c->stream, "copy of P", copy, scores_of(c) * width);
	}
	c->at = LOOK;
	while (chain_step(c))
		;
	if (ordinary != c->stream)
		order(c->stream, ordinary, 0);
	if (overlap(c->t[O], c->bytes[O], c->t[Q], c->bytes[Q]) || chance(&c->rng, 40)) {
		OK(cuStreamSynchronize(c->stream));
		OK(cuGraphExecDestroy(exec));
		return;
	}
	graph_forget();
	kept[here->number] = (struct kept){exec, *c, copy};
}

/* ---- many ------------------------------------------------------------------------------------ */

enum { MOST = 56 };

void chain_many(struct chain *c)
{
	static __thread struct chain all[MOST];
	const size_t score = (scores_of(c) * width + 511) & ~(size_t)511,
		     query = (queries_of(c) * width + 511) & ~(size_t)511, each = 4 * score + query;
	const int count = 44 + (int)below(&c->rng, MOST - 44);
	const bool abandoned = chance(&c->rng, 40);
	CUdeviceptr block;

	c->disturbances = 0;
	c->o_over_q = c->second_v = false;
	if (scores_of(c) > 2500 || c->site->placing == FRESH || c->site->placing == POOLED) {
		c->manner = ORDINARY;
		while (chain_step(c))
			;
		return;
	}
	chain_step(c);
	if (c->site->late_v)
		chain_input(c, V);
	block = allocate(each * (size_t)count);
	set_bytes(c->stream, block, 0, each * (size_t)count);
	trace("%d at once", count);
	for (int i = 0; i < count; i++) {
		all[i] = *c;
		for (int t = 0; t < 4; t++) {
			all[i].t[S + t] = block + each * (size_t)i + score * (size_t)t;
			all[i].bytes[S + t] = scores_of(c) * width;
		}
		all[i].t[O] = block + each * (size_t)i + 4 * score;
		all[i].bytes[O] = queries_of(c) * width;
		chain_do(&all[i], SCORES);
	}
	for (int i = 0; i < count && !abandoned; i++)
		for (int step = SCALE; step <= CONTEXT; step++)
			if (step != LATE_V)
				chain_do(&all[i], (enum step)step);
	if (chance(&c->rng, 60))
		random_numbers(c->stream, c->t[Q], next(&c->rng), 1 + c->bytes[Q] / width / 3);
	if (chance(&c->rng, 60))
		random_numbers(c->stream, c->t[K], next(&c->rng), 1 + c->bytes[K] / width / 3);
	if (chance(&c->rng, 80))
		observe(c->stream, "many", block, each * (size_t)count);
	release(block, c->stream, false);
	chain_do(c, END);
}
