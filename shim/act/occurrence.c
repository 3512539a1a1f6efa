/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, deferring, closing: where a site's state turns into what happens to a call.
 */
#include "shim/act/occurrence.h"

#include <string.h>

#include "shim/act/compare.h"
#include "shim/act/learning.h"
#include "shim/act/originals.h"
#include "shim/act/put_off.h"
#include "shim/act/recording.h"
#include "shim/act/replace.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/chain/parts.h"
#include "shim/gpu/ledger.h"
#include "shim/gpu/timing.h"
#include "shim/hazard/copies.h"
#include "shim/hazard/held.h"
#include "shim/hazard/holes.h"
#include "shim/hazard/snapshot.h"
#include "shim/log/decline.h"
#include "shim/op/memory.h"
#include "shim/real/bypass.h"
#include "shim/site/opener.h"
#include "shim/site/site.h"

static struct site_set candidates[CHAIN_COUNT];

/* ---- opening
 * --------------------------------------------------------------------------------------- */

bool occurrence_watchable(const struct op *op)
{
	struct gemm gemm;
	uint64_t begin, end;

	gemm_from_op(&gemm, &op->gemm);
	matrix_extent(&gemm.c, gemm.batch, &begin, &end);
	return memory_watchable_range(begin, end);
}

/* May what the latest steps write be held back, from this value on? Of one that may be an input it
 * is asked when that is known. */
static bool values_watchable(const struct chain *chain, int from)
{
	for (int i = from; i < chain->value_count; i++) {
		const struct value *value = &chain->values[i];

		if (!value->outside && !value->provisional &&
		    !memory_watchable_range(value->begin, value->end))
			return false;
	}
	return true;
}

/* A verified site is compared again now and then; in mode `compare` always. */
static bool due_for_sample(const struct site_set *set)
{
	bool due = config()->mode == MODE_COMPARE;

	for (int i = 0; i < site_count && !due; i++)
		if (set->bits[i / 64] >> (i % 64) & 1)
			due = config()->sample && sites[i].since_sample >= sites[i].interval;
	return due;
}

static bool selected(struct site_set *set)
{
	bool any = false;

	for (int i = 0; i < site_count; i++) {
		if (!(set->bits[i / 64] >> (i % 64) & 1))
			continue;
		if (config_selects_site(sites[i].number))
			any = true;
		else
			set->bits[i / 64] &= ~(1ull << (i % 64));
	}
	return any;
}

/* The results that would make a site verified may be a moment away. */
static void await_verdicts(const struct op *op)
{
	if (config()->mode != MODE_REPLACE || !site_awaits(&op->gemm, SITE_LEARNING))
		return;
	for (int i = 0; i < site_count; i++)
		if (sites[i].state == SITE_LEARNING && sites[i].pending &&
		    sites[i].passed + sites[i].pending >= config()->learn &&
		    ledger_affords(LEDGER_VERDICT)) {
			const struct ledger_entry entry = ledger_begin(LEDGER_VERDICT);

			compare_wait(&sites[i], ledger_left() / 4);
			ledger_end(entry);
		}
}

static struct chain *open_or_evict(const struct op *op)
{
	struct chain *chain = chain_open(op), *oldest = NULL;

	if (chain)
		return chain;
	for_each_chain(other) if (!oldest || other->serial < oldest->serial) oldest = other;
	if (!oldest)
		return NULL;
	if (oldest->deferred)
		held_realise(oldest, chain_queue(oldest), "table", false);
	if (oldest->used)
		held_drop(oldest);
	return chain_open(op);
}

static enum flow defer_opening(const struct sight *sight, const struct site_set *set, bool captured)
{
	struct op *op = sight->op;
	struct chain *chain;

	COST_SHARED(PURPOSE_REPLACING);
	held_guard(sight, NULL, op->recorded);
	chain = open_or_evict(op);
	if (!chain)
		return FLOW_PASS;
	held_begin(chain);
	chain->captured = captured;
	chain->recorded = op->recorded;
	for (int i = 0; i < CHAIN_COUNT && !chain->candidates; i++) {
		bool taken = false;

		for_each_chain(other) taken = taken || other->candidates == &candidates[i];
		if (!taken)
			chain->candidates = &candidates[i];
	}
	*chain->candidates = *set;
	if (!captured) {
		originals_note(chain);
		for (int n = 0; n < 2; n++)
			copies_absorb(chain, n, chain->inputs[n].begin, chain->inputs[n].end);
		if (chain->preload >= 2)
			copies_absorb(chain, RELAYOUT_BIAS, chain->inputs[chain->preload].begin,
				      chain->inputs[chain->preload].end);
	}
	copies_needed(chain, op->name);
	if (chain->recorded)
		recording_step(chain, op, 0);
	else if (!snapshot_unwatched(chain, 0))
		held_realise(chain, op_queue(op), "memory", false);
	return FLOW_TAKEN;
}

/* Is this the beginning of what verified sites do, and worth it? A graph may be learned of as
 * well, and a context may have come since the sites were verified. */
static bool may_defer(const struct op *op, struct site_set *set)
{
	const char *why;

	if (bypassed(&why))
		return false;
	return config()->mode == MODE_REPLACE &&
	       (op->recorded ? site_candidates_to_learn(set, &op->gemm)
			     : !site_early(&op->gemm) && site_candidates(set, &op->gemm)) &&
	       selected(set) && occurrence_watchable(op) &&
	       (uint64_t)(op->gemm.m * op->gemm.n * op->gemm.batch) >= config()->minimum &&
	       !learning_prepare(op->context, &op->gemm);
}

/* Is it followed although no site is known that it could be one of? Which that is shows when it
 * closes. */
static bool may_explore(const struct op *op)
{
	const char *why;

	return op->recorded && !bypassed(&why) && occurrence_watchable(op) &&
	       (uint64_t)(op->gemm.m * op->gemm.n * op->gemm.batch) >= config()->minimum;
}

/* Nothing can be saved or measured here, so that only a chain is held back that can be run in
 * place at any moment, and none is kept once it is replaced. On a stream that joined the capture
 * later such a moment might be too late: it may have been joined back already. */
enum flow occurrence_open_captured(const struct sight *sight, bool origin)
{
	const struct op *op = sight->op;
	struct site_set set;

	if (!chain_may_open(op))
		return FLOW_PASS;
	if ((op->recorded || (config()->graphs == GRAPHS_TRUST && origin)) && may_defer(op, &set))
		return defer_opening(sight, &set, true);
	if (!opener_promising(&op->gemm))
		return FLOW_PASS;
	if (may_explore(op)) {
		memset(&set, 0, sizeof(set));
		return defer_opening(sight, &set, true);
	}
	log_decline(REASON_CAPTURE, op->name);
	return FLOW_PASS;
}

/* Its sites pause. */
static enum flow pass_on(const struct sight *sight)
{
	copies_needed(NULL, sight->op->name);
	held_guard(sight, NULL, true);
	log_decline(REASON_BUDGET, sight->op->name);
	return FLOW_PASS;
}

enum flow occurrence_open(const struct sight *sight)
{
	const enum config_mode mode = config()->mode;
	const struct chain *before;
	struct site_set set;
	struct op *op = sight->op;
	struct chain *chain;
	bool affordable, watch;

	if (!chain_may_open(op)) {
		held_guard(sight, NULL, true);
		if (op->gemm.by_array)
			log_decline(REASON_LAYOUT, "operands by address array");
		else if (op->gemm.batch > 1 && dtype_of_cuda(op->gemm.atype) < 0)
			log_decline(REASON_DTYPE, op->gemm.entry);
		return FLOW_PASS;
	}
	/* The handle says another stream in another thread, where work could not be ordered behind
	 * it. */
	if (op->stream == CU_STREAM_PER_THREAD) {
		held_guard(sight, NULL, true);
		if (opener_promising(&op->gemm))
			log_decline(REASON_STREAM, op->name);
		return FLOW_PASS;
	}
	compare_poll();
	await_verdicts(op);
	/* Of what this may be another part of, all or none is deferred. */
	before = parts_before(op);
	if (mode == MODE_REPLACE && !before && site_pauses(&op->gemm))
		return pass_on(sight);
	affordable = ledger_affords(LEDGER_WATCH);
	watch = before ? !before->deferred : affordable && site_wants_watch(&op->gemm);
	if (mode == MODE_REPLACE && !watch && may_defer(op, &set) &&
	    (before || !(due_for_sample(&set) && ledger_affords(LEDGER_COMPARE))))
		return defer_opening(sight, &set, false);
	copies_needed(NULL, op->name); /* before the operands are an input of a chain */
	held_guard(sight, NULL, true);
	if (!opener_promising(&op->gemm) && !site_awaits(&op->gemm, SITE_LEARNING))
		return FLOW_PASS;
	if (!affordable)
		return put_off_opener(op);
	if (!occurrence_watchable(op)) {
		log_decline(REASON_MEMORY, op->name);
		return FLOW_PASS;
	}
	chain = open_or_evict(op);
	if (!chain)
		return FLOW_PASS;
	chain->timed =
		mode >= MODE_COMPARE &&
		(site_awaits(&op->gemm, SITE_LEARNING) || site_awaits(&op->gemm, SITE_VERIFIED)) &&
		ledger_affords(LEDGER_COMPARE);
	if (chain->timed)
		chain->timing = timing_begin(op->context, op->stream);
	originals_note(chain);
	if (chain->preload >= 0) /* about to be added to */
		held_guard_inputs(chain, op, sight->list);
	timing_start(chain->timing, TIMING_GEMM1);
	chain_watch(op, chain);
	return FLOW_PASS;
}

bool occurrence_extend(struct chain *chain, const struct sight *sight)
{
	const int values = chain->value_count;

	if (!chain_extend(chain, sight))
		return false;
	if (!values_watchable(chain, values))
		chain_unfit(chain, REASON_MEMORY, chain->steps[chain->step_count - 1].name);
	return true;
}

/* ---- deferring
 * ------------------------------------------------------------------------------------- */

/* A launch that says more than a step of a chain can keep, an event to be triggered, say: it is
 * watched from here on, and runs as it is. */
static enum flow watch_instead(struct chain *chain, const struct sight *sight)
{
	held_realise(chain, op_queue(sight->op), "chain_broken", false);
	if (chain->used)
		occurrence_extend(chain, sight);
	return FLOW_PASS;
}

enum flow occurrence_defer(struct chain *chain, const struct sight *sight)
{
	const struct op *op = sight->op;
	const int inputs = chain->input_count, values = chain->value_count;
	int step;

	COST_SHARED(PURPOSE_REPLACING);
	if (op->kind == OP_LAUNCH && !chain->recorded &&
	    (op->launch.cooperative || op->launch.peculiar))
		return watch_instead(chain, sight);
	if (!chain_extend(chain, sight)) {
		held_realise(chain, op_queue(op), "chain_broken", false);
		return FLOW_PASS;
	}
	step = chain->step_count - 1;
	if (chain->recorded)
		recording_step(chain, op, inputs);
	if (chain->unfit == REASON_NONE && !chain->gaps) {
		const bool any = site_filter(chain->candidates, step, chain->steps[step].signature);

		if (chain->recorded ||
		    (any && values_watchable(chain, values) && snapshot_unwatched(chain, inputs)))
			return FLOW_TAKEN;
	}
	/* Not what any verified site does next: everything so far is run now, this op included. */
	if (!chain->recorded)
		log_decline(REASON_CHAIN_BROKEN, chain->steps[step].name);
	else
		opener_result(&chain->steps[0].gemm, false);
	held_realise(chain, op_queue(op), "chain_broken", false);
	return FLOW_TAKEN;
}

/* ---- closing
 * --------------------------------------------------------------------------------------- */

/* V counts as an input while O is being written: O may lie over it. */
static void add_v(struct chain *chain, const struct op *op)
{

	const bool p_is_a = op->gemm.a == chain->values[chain->p_value].begin;
	struct gemm gemm;
	uint64_t begin, end;

	gemm_from_op(&gemm, &op->gemm);
	matrix_extent(p_is_a ? &gemm.b : &gemm.a, gemm.batch, &begin, &end);
	if (chain->deferred && !chain->captured && op->gemm.parts <= 1 &&
	    copies_absorb(chain, 2, begin, end))
		return;
	chain_add_input(chain, begin, end);
	if (!chain->deferred && op->gemm.parts <= 1)
		chain->made_by[2] = copies_origin(chain, begin, end);
}

/* Is what its kernels leave alone of P as a fused kernel takes it to be? In a graph nobody looks.
 */
static enum holes holes_for(const struct site *site, const struct chain *chain)
{
	if (!site->triangle)
		return HOLES_ZERO;
	return chain->captured ? HOLES_UNKNOWN : holes_of(chain);
}

/* It is the program's own product that reads P, and what is left alone of it is looked at for the
 * next time. A program that has P elsewhere each time, or filled, gains nothing. */
static enum flow pass_blind(struct chain *chain, struct site *site, const struct sight *sight,
			    enum holes holes)
{
	const char *why = holes == HOLES_FILLED ? "parts of P that are left alone are not zero"
						: "parts of P that are left alone are not known";

	log_decline(REASON_LAYOUT, why);
	site->blind += !chain->captured;
	if (holes == HOLES_FILLED || site->blind > 64 + 2 * site->live->replaced)
		site_decline(site, REASON_LAYOUT, why);
	held_realise(chain, op_queue(sight->op), "holes", false);
	copies_guard(sight); /* V is wanted after all */
	if (!chain->used)
		return FLOW_PASS;
	if (holes == HOLES_UNKNOWN)
		holes_look(chain);
	site->live->seen++;
	held_drop(chain);
	return FLOW_PASS;
}

enum flow occurrence_close(struct chain *chain, const struct sight *sight)
{
	struct op *op = sight->op;
	const int inputs = chain->input_count;

	if (!chain->deferred && !chain->softmax)
		return learning_pass_over(chain, "");
	if (!chain->deferred)
		copies_needed(NULL, op->name); /* before V is an input of the chain */
	add_v(chain, op);
	originals_settle(chain);
	if (chain->deferred) {
		struct site *site = site_match_close(chain->candidates, chain);

		if (!site && chain->recorded)
			site = learning_recorded(chain);
		const enum holes holes = site ? holes_for(site, chain) : HOLES_ZERO;

		if (holes != HOLES_ZERO)
			return pass_blind(chain, site, sight, holes);
		if (site && chain->recorded) {
			recording_close(chain, site, op, inputs);
			held_drop(chain);
			return FLOW_PASS;
		}
		if (site)
			return replace_chain(chain, site, sight, inputs);
		log_decline(REASON_CHAIN_BROKEN, op->name);
		if (!chain->recorded)
			site_note_broken(chain->candidates);
		held_realise(chain, op_queue(op), "chain_broken", false);
		copies_guard(sight); /* V is wanted after all */
		if (!chain->used)
			return FLOW_PASS;
	}
	return learning_close(chain, sight);
}

void occurrence_ran(struct chain *chain, const struct op *op)
{
	if (!chain->used || chain->serial != op->watched)
		return;
	timing_stop(chain->timing);
	if (op->kind == OP_GEMM && chain->p_value >= 0 && !chain->closed)
		learning_closed(chain);
}
