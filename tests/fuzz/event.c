/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens between two steps of an occurrence, or between two occurrences: one of the kinds of
 * the tables, at a part of one of its tensors.
 */
#include "fuzz.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const char *only_kind;

bool left_out(const char *list, int number)
{
	for (char *end; list && *list; list = *end ? end + 1 : end)
		if (strtol(list, &end, 10) == number)
			return true;
	return false;
}

static bool pick(struct happening *h, enum asks asks)
{
	static const enum tensor wanted[][16] = {
		[SCORES_PART] = {P, P, P, P, P, P, W, S, S, S, X, X, M, M, O, MERGED},
		[INPUT_PART] = {Q, Q, Q, K, K, K, V, V, V, RAW_Q, RAW_K, RAW_V, RAW_K, RAW_S, V2,
				O},
		[ANY_PART] = {P, P, P, W, S, S, X, M, Q, K, V, RAW_K, RAW_V, O, O, MERGED},
	};
	const struct chain *c = h->chain;

	for (int attempt = 0; attempt < 60; attempt++) {
		const enum tensor t = wanted[asks][below(&h->rng, 16)];

		if (!is_ours(c->t[t], c->bytes[t]) || c->bytes[t] < 4 * width)
			continue;
		h->tensor = t;
		part(&h->rng, c->t[t], c->bytes[t], &h->at, &h->bytes);
		return true;
	}
	return false;
}

static const struct event_kind *choose(const struct site *z, struct rng *r)
{
	const struct event_kind *tables[] = {reads,    writes,	orders, addresses,
					     refusals, factors, mapped};
	const int count = sizeof(tables) / sizeof(*tables);
	const char *only = only_kind;
	unsigned all = 0, at;

	if (z->large && chance(r, 60))
		only = chance(r, 50) ? "write both ends" : "write inputs by and by";
	if (!only && graph_kept() && chance(r, 30))
		only = "kept graph";
	if (!only && z->mapping && chance(r, 40))
		only = "by a second address";
	for (int i = 0; i < count; i++)
		for (const struct event_kind *k = tables[i]; k->name; k++) {
			if (only && strcmp(k->name, only) == 0)
				return k;
			all += (unsigned)k->weight;
		}
	at = below(r, all);
	for (int i = 0; i < count; i++)
		for (const struct event_kind *k = tables[i]; k->name; k++) {
			if (at < (unsigned)k->weight)
				return k;
			at -= (unsigned)k->weight;
		}
	return reads;
}

struct visit {
	struct happening *h;
	const struct event_kind *kind;
	struct lane *lane;
};

static void *visit(void *argument)
{
	struct visit *v = argument;

	here = v->lane;
	OK(cuCtxSetCurrent(here->context));
	v->kind->happen(v->h);
	return NULL;
}

void event_happen(struct chain *c, int number)
{
	struct happening h = {.chain = c, .rng = rng_of((uint64_t)number, 2), .stream = c->stream};
	const struct event_kind *kind = choose(c->site, &h.rng);
	pthread_t thread;

	if (left_out(without_events, number))
		return;
	if (kind->asks && !pick(&h, kind->asks))
		return;
	trace(">> event %d: %s%s%s", number, kind->name, kind->asks ? " of " : "",
	      kind->asks ? tensor_name[h.tensor] : "");
	if (kind->asks)
		trace("   at %llx bytes=%zu", h.at, h.bytes);
	if (chance(&h.rng, 8)) {
		struct visit v = {&h, kind, here};

		trace("   by another thread");
		if (pthread_create(&thread, NULL, visit, &v))
			die("pthread_create", 1, __LINE__);
		pthread_join(thread, NULL);
		return;
	}
	kind->happen(&h);
}

/* Between occurrences: the code goes and comes, everything is looked at, handles are made anew. */
void event_between(struct lane *l, int number)
{
	struct rng r = rng_of((uint64_t)number, 5);
	const unsigned kind = below(&r, 100);

	if (left_out(without_events, number))
		return;
	l->occurrence = number / 10;
	l->step = STEPS;
	trace(">> event %d between occurrences: kind %u", number, kind);
	if (kind < 14) {
		/* loaded first: no handle of the new one is one of the old */
		const CUmodule fresh = load_module();

		graph_forget();
		OK(cuModuleUnload(l->module));
		l->module = fresh;
		if (kind < 7)
			observe_everything();
	} else if (kind < 18) {
		OK(cuStreamSynchronize(l->stream));
		OK(cublasDestroy(l->blas));
		OK(cublasCreate(&l->blas));
	} else if (kind < 28) {
		observe_everything();
	} else if (kind < 34) {
		OK(cuCtxSynchronize());
	} else if (kind < 52) {
		graph_again(l->stream);
	} else if (kind < 56) {
		CUmodule second = load_module();

		fill_numbers(l->stream, l->spare, 0.5f, 64);
		OK(cuStreamSynchronize(l->stream));
		OK(cuModuleUnload(second));
	}
}
