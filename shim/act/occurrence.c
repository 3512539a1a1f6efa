/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, deferring, closing: where a site's state turns into what happens to a call.
 */
#include "shim/act/occurrence.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shim/gpu/blas.h"
#include "shim/real/bypass.h"
#include "shim/act/compare.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/hazard/copies.h"
#include "shim/act/delivery.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/hazard/held.h"
#include "shim/ask/identify.h"
#include "shim/log/log.h"
#include "shim/ask/measure.h"
#include "shim/op/memory.h"
#include "shim/act/originals.h"
#include "shim/gpu/ledger.h"
#include "shim/act/put_off.h"
#include "shim/act/replace.h"
#include "shim/real/driver.h"
#include "shim/log/decline.h"
#include "shim/site/site.h"
#include "shim/gpu/made_bias.h"
#include "shim/hazard/snapshot.h"
#include "shim/spec/spec.h"
#include "shim/gpu/timing.h"

/* A comparison costs as much as some dozen small fused launches: samples that agree make the next
 * one come later, up to this many times FASHIM_SAMPLE. */
#define MOST_RARE 128

/* Occurrences of QK^T and PV in different types, with nothing known of the casts before them, until
 * the site is declined for it. */
#define MOST_UNCAST 8

static struct site_set candidates[CHAIN_COUNT];

/* ---- opening
 * --------------------------------------------------------------------------------------- */

static bool is_scores_memory(const struct op *op)
{
	return memory_watchable(memory_lookup(op->gemm.c));
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

static enum flow defer_opening(struct op *op, const struct access_list *list,
			       const struct site_set *set, bool captured)
{
	struct chain *chain;

	COST_SHARED(PURPOSE_REPLACING);
	held_guard(op, list, NULL, false, op->name);
	chain = open_or_evict(op);
	if (!chain)
		return FLOW_PASS;
	chain->deferred = true;
	chain->captured = captured;
	held_count++;
	for (int i = 0; i < CHAIN_COUNT && !chain->candidates; i++) {
		bool taken = false;

		for_each_chain(other) taken = taken || other->candidates == &candidates[i];
		if (!taken)
			chain->candidates = &candidates[i];
	}
	*chain->candidates = *set;
	for (int n = 0; n < 2 && !captured; n++)
		chain->made_by[n] =
			copies_origin(chain, chain->inputs[n].begin, chain->inputs[n].end);
	if (!captured)
		for (int n = 0; n < 2; n++)
			copies_absorb(chain, n, chain->inputs[n].begin, chain->inputs[n].end);
	copies_needed(chain, op->name);
	if (!snapshot_unwatched(chain, 0))
		held_realise(chain, op_queue(op), "memory", false);
	return FLOW_TAKEN;
}

/* Is this the beginning of what verified sites do, and worth it? */
static bool may_defer(const struct op *op, struct site_set *set)
{
	const char *why;

	if (bypassed(&why))
		return false;
	return config()->mode == MODE_REPLACE && site_candidates(set, &op->gemm) && selected(set) &&
	       is_scores_memory(op) &&
	       (uint64_t)(op->gemm.m * op->gemm.n * op->gemm.batch) >= config()->minimum;
}

/* Nothing can be saved or measured here, so that only a chain is held back that can be run in
 * place at any moment, and none is kept once it is replaced. On a stream that joined the capture
 * later such a moment might be too late: it may have been joined back already. */
enum flow occurrence_open_captured(struct op *op, const struct access_list *list, bool origin)
{
	struct site_set set;

	if (!chain_may_open(op))
		return FLOW_PASS;
	if (config()->graphs && origin && may_defer(op, &set))
		return defer_opening(op, list, &set, true);
	if (opener_promising(&op->gemm))
		log_decline(REASON_CAPTURE, op->name);
	return FLOW_PASS;
}

enum flow occurrence_open(struct op *op, const struct access_list *list)
{
	const enum config_mode mode = config()->mode;
	struct site_set set;
	struct chain *chain;
	bool affordable;

	if (!chain_may_open(op)) {
		held_guard(op, list, NULL, true, op->name);
		if (op->gemm.by_array)
			log_decline(REASON_LAYOUT, "operands by address array");
		else if (op->gemm.batch > 1 && dtype_of_cuda(op->gemm.atype) < 0)
			log_decline(REASON_DTYPE, op->gemm.entry);
		return FLOW_PASS;
	}
	/* The handle says another stream in another thread, where work could not be ordered behind
	 * it. */
	if (op->stream == CU_STREAM_PER_THREAD) {
		held_guard(op, list, NULL, true, op->name);
		if (opener_promising(&op->gemm))
			log_decline(REASON_STREAM, op->name);
		return FLOW_PASS;
	}
	compare_poll();
	await_verdicts(op);
	affordable = ledger_affords(LEDGER_WATCH);
	if (mode == MODE_REPLACE && !(affordable && site_wants_watch(&op->gemm)) &&
	    may_defer(op, &set) && !(due_for_sample(&set) && ledger_affords(LEDGER_COMPARE)))
		return defer_opening(op, list, &set, false);
	copies_needed(NULL, op->name); /* before the operands are an input of a chain */
	held_guard(op, list, NULL, true, op->name);
	if (!opener_promising(&op->gemm) && !site_awaits(&op->gemm, SITE_LEARNING))
		return FLOW_PASS;
	if (!affordable)
		return put_off_opener(op);
	if (!is_scores_memory(op)) {
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
	for (int n = 0; n < 2; n++)
		chain->made_by[n] =
			copies_origin(chain, chain->inputs[n].begin, chain->inputs[n].end);
	if (chain->preload >= 0) /* about to be added to */
		held_guard_inputs(chain, op, list);
	timing_start(chain->timing, TIMING_GEMM1);
	op->watcher = chain;
	return FLOW_PASS;
}

/* ---- deferring
 * ------------------------------------------------------------------------------------- */

enum flow occurrence_defer(struct chain *chain, struct op *op, const struct access_list *list,
			   const struct function *function, const unsigned char *params)
{
	const int inputs = chain->input_count;
	int step;

	COST_SHARED(PURPOSE_REPLACING);
	if (!chain_extend(chain, op, list, function, params)) {
		held_realise(chain, op_queue(op), "chain_broken", false);
		return FLOW_PASS;
	}
	step = chain->step_count - 1;
	if (chain->unfit == REASON_NONE && !chain->gaps &&
	    site_filter(chain->candidates, step, chain->steps[step].signature) &&
	    snapshot_unwatched(chain, inputs))
		return FLOW_TAKEN;
	/* Not what any verified site does next: everything so far is run now, this op included. */
	log_decline(REASON_CHAIN_BROKEN, chain_step_name(&chain->steps[step]));
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
	if (chain->deferred && !chain->captured && copies_absorb(chain, 2, begin, end))
		return;
	chain_add_input(chain, begin, end);
	if (!chain->deferred)
		chain->made_by[2] = copies_origin(chain, begin, end);
}

static bool inputs_lost(const struct chain *chain)
{
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].outside && chain->values[i].provisional &&
		    !chain->values[i].live.count)
			return true;
	for (int i = 0; i < chain->input_count; i++)
		if (chain->inputs[i].lost)
			return true;
	return false;
}

/* Kernels, and the means to run deferred steps again, are made ready while nothing depends on them.
 */
static bool prepare(const struct chain *chain)
{
	const bool first = !fused_prepared(chain->context);
	struct driver_context here;
	struct ledger_entry entry;
	bool ready;

	if (config()->mode < MODE_COMPARE)
		return true;
	entry = ledger_begin(LEDGER_KERNELS);
	if (!driver_enter(&here, chain->context))
		return false;
	ready = fused_prepare(chain->context) == 0 &&
		(config()->mode < MODE_REPLACE ||
		 blas_prepare(chain->steps[0].gemm.library, chain->context) == 0);
	driver_leave(&here);
	if (first)
		ledger_end(entry);
	return ready;
}

static void announce(struct site *site, const struct chain *chain, const struct attn_args *args,
		     const char *kernel)
{
	site->B = args->B;
	site->H = args->H;
	site->Sq = args->Sq;
	site->Sk = args->Sk;
	site->D = args->D;
	site->Dv = args->Dv;
	site->dtype = args->q.dtype;
	if (site->announced)
		return;
	site->announced = true;
	site->kernel = kernel;
	site_announce(site, chain, args, kernel);
}

/* Once inputs were identified their lengths are known; deferred occurrences protect that much of
 * them. */
static void settle_extents(struct site *site, const struct chain *chain,
			   const struct attn_args *args)
{
	int number = 0;

	for (int i = 0; i < site->value_count; i++) {
		uint64_t bytes = 0;
		int64_t keys;

		if (site->values[i].outside)
			bytes = identity_extent(&site->identity, args, chain, ++number, &keys);
		if (!bytes)
			continue;
		site->values[i].bytes = bytes;
		site->values[i].keys = keys;
	}
}

/* Kernels without a rule are asked what they compute, at the first sightings. */
static void identify(struct site *site, const struct chain *chain, struct attn_args *args)
{
	char detail[96];
	struct ledger_entry entry;
	const char *why;
	bool by_data;

	if (!asks_again(site))
		return;
	site->questions++;
	entry = ledger_begin(LEDGER_IDENTIFY);
	why = identify_chain(&site->identity, args, chain, detail, sizeof(detail));
	if (!why && spec_of_chain(args, chain, &site->identity, &by_data, detail) != REASON_NONE)
		why = detail;
	site->identified = !why;
	snprintf(site->unanswered, sizeof(site->unanswered), "%s", why ? why : "");
	if (!why)
		settle_extents(site, chain, args);
	site_record_identity(site, args);
	ledger_end(entry);
}

/* GEMM, something element-wise, GEMM: a multi-layer perceptron, linear attention. No site. */
static enum flow pass_over(struct chain *chain, const char *detail)
{
	log_decline(REASON_NOT_SOFTMAX, detail);
	opener_result(&chain->steps[0].gemm, false);
	held_drop(chain);
	return FLOW_PASS;
}

/* The program's own ops ran this time: learn of the site, arrange for the comparison. */
static enum flow learn(struct chain *chain, struct op *op, const struct access_list *list)
{
	COST(PURPOSE_LEARNING);
	struct attn_args args;
	char detail[96];
	bool by_data = false;
	const struct attn_variant *variant = NULL;
	bool fresh, waits = false;
	const char *unmeasured =
		config()->mode >= MODE_COMPARE ? measure_chain(chain, &waits) : NULL;
	struct ledger_entry entry;
	enum reason reason;
	struct site *site;
	bool mixed;

	if (waits)
		return put_off(chain, NULL);
	if (unmeasured) {
		log_decline(REASON_UNACCOUNTED_POINTER, unmeasured);
		opener_result(&chain->steps[0].gemm, false);
		held_drop(chain);
		return FLOW_PASS;
	}
	chain_settle_outside(chain);
	reason = spec_of_chain(&args, chain, NULL, &by_data, detail);

	if (reason == REASON_NONE && chain->gaps) {
		reason = REASON_LAYOUT;
		snprintf(detail, sizeof(detail), "scores written with gaps");
	}

	if (reason == REASON_NOT_SOFTMAX && strcmp(detail, "log_softmax") != 0)
		return pass_over(chain, detail);
	opener_result(&chain->steps[0].gemm, true);
	mixed = reason == REASON_NONE && !originals_narrow(&args, chain);
	fresh = !site_known(chain);
	if (!affordable_to_learn(chain, fresh, by_data))
		return put_off(chain, NULL);
	entry = ledger_begin(LEDGER_SITE);
	site = site_of_chain(chain);
	if (!site) {
		held_drop(chain);
		return FLOW_PASS;
	}
	if (!fresh && too_dear(site, chain))
		return put_off(chain, site);
	site->live->seen++;
	site->since_sample = 0;
	if (site->state == SITE_VERIFIED && site->interval < MOST_RARE * config()->sample)
		site->interval *= 2;
	chain->site = site;
	/* What was cast before any chain was in view is not known: it may be the next time. */
	if (mixed && ++site->uncast >= MOST_UNCAST && !site->passed) {
		reason = REASON_DTYPE;
		snprintf(detail, sizeof(detail), "QK^T and PV in different types");
	}
	if (reason == REASON_NONE && !mixed && site->state == SITE_LEARNING &&
	    config()->mode >= MODE_COMPARE) {
		variant = prepare(chain) ? fused_select(chain->context, &args) : NULL;
		if (!variant) {
			reason = REASON_NO_KERNEL;
			snprintf(detail, sizeof(detail), "D=%d", (int)args.D);
		}
	}
	if (variant && by_data)
		identify(site, chain, &args);
	announce(site, chain, &args, variant ? variant->name : "");
	if (fresh)
		ledger_end(entry);
	if (reason != REASON_NONE)
		site_decline(site, reason, detail);
	else if (!config_selects_site(site->number))
		site_decline(site, REASON_SKIPPED, "");
	if (site->state == SITE_DECLINED) {
		site->live->reason = site->reason;
		held_drop(chain);
		return FLOW_PASS;
	}
	held_guard_inputs(chain, op, list);
	timing_start(chain->timing, TIMING_GEMM2);
	op->watcher = chain;
	return FLOW_PASS;
}

enum flow occurrence_close(struct chain *chain, struct op *op, const struct access_list *list)
{
	const int inputs = chain->input_count;

	if (!chain->deferred && !chain->softmax)
		return pass_over(chain, "");
	if (!chain->deferred)
		copies_needed(NULL, op->name); /* before V is an input of the chain */
	add_v(chain, op);
	originals_settle(chain);
	if (chain->deferred) {
		struct site *site = site_match_close(chain->candidates, chain);

		if (site)
			return replace_chain(chain, site, op, list, inputs);
		log_decline(REASON_CHAIN_BROKEN, op->name);
		site_note_broken(chain->candidates);
		held_realise(chain, op_queue(op), "chain_broken", false);
		copies_guard(op, list, op->name); /* V is wanted after all */
		if (!chain->used)
			return FLOW_PASS;
	}
	return learn(chain, op, list);
}

/* The kernel for a call that writes O in this order. */
static const struct attn_variant *select_in_order(CUcontext context, const struct attn_args *args,
						  const struct attn_tensor *order)
{
	struct attn_args fused = *args;

	if (order->stride[3])
		fused.o = *order;
	return fused_select(context, &fused);
}

/* A captured chain reads the copies of its operands where the comparison read what they were made
 * of, perhaps with another kernel. */
static void load_for_capture(const struct chain *chain, const struct attn_args *args)
{
	const struct attn_variant *variant = fused_select(chain->context, args);
	struct driver_context here;

	if (!config()->graphs || !variant || !driver_enter(&here, chain->context))
		return;
	fused_load(chain->context, variant);
	driver_leave(&here);
}

/* The record was made of the program's own call: a comparison that reads what its operands are
 * copies of may be for another kernel. */
static void correct_record(struct site *site, const struct chain *chain,
			   const struct attn_args *args, const struct attn_variant *variant)
{
	if (site->state != SITE_LEARNING || site->kernel == variant->name)
		return;
	site->kernel = variant->name;
	site_announce(site, chain, args, variant->name);
}

/* Comparisons whose results are still to come may be all that are needed. */
static bool enough_under_way(const struct site *site)
{
	const uint64_t needed = config()->learn < 2 ? 2 : config()->learn; /* speed takes two */

	return config()->mode == MODE_REPLACE && site->state == SITE_LEARNING && site->pending &&
	       site->passed + site->pending >= needed;
}

/* What kernels without a rule compute, their own O would not tell: what it agrees with on the
 * inputs of the day may be something else on others. They are asked again only where other inputs
 * could give another answer. */
static void doubt(struct site *site, const struct chain *chain)
{
	int pointers;
	uint64_t room;
	enum reason reason;

	identity_pointer(chain, &pointers, &room);
	reason = pointers > 1		? REASON_UNACCOUNTED_POINTER
		 : site->identity.blank ? REASON_MASK_NOT_DISCRIMINATED
					: REASON_NOT_EXPLAINED;
	if (site->questions >= (reason == REASON_NOT_EXPLAINED ? 2 : QUESTIONS))
		site_decline(site, reason, site->unanswered);
}

/* The closing GEMM ran: O is the program's own. */
static void closed(struct chain *chain)
{
	COST(PURPOSE_LEARNING);
	struct site *site = chain->site;
	const struct attn_variant *variant;
	struct attn_args args;
	struct attn_tensor order = {0}; /* of the comparison's O; zero: packed */
	struct timing *timing = chain->timing;
	char detail[96];
	bool by_data;

	const bool lost = inputs_lost(chain);

	chain->closed = true;
	chain->timing = NULL;
	chain_cut_output(chain);
	delivery_expect(site, chain);
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].outside)
			chain->values[i].live.count = 0;
	/* An unknown chain is compared at its first sighting; one that follows rules when timed. */
	if ((!chain->timed && !site->by_data) || lost || config()->mode < MODE_COMPARE ||
	    enough_under_way(site) ||
	    spec_of_chain(&args, chain, site->identified ? &site->identity : NULL, &by_data,
			  detail) != REASON_NONE ||
	    !originals_narrow(&args, chain)) {
		timing_drop(timing);
		return;
	}
	if (by_data && !site->identified) {
		doubt(site, chain);
		timing_drop(timing);
		return;
	}
	if (!made_bias_place(chain, &args, site->identified ? &site->identity : NULL)) {
		timing_drop(timing);
		return;
	}
	load_for_capture(chain, &args);
	originals_compare(&args, &order, chain);
	variant = select_in_order(chain->context, &args, &order);
	if (!variant) {
		site_decline(site, REASON_NO_KERNEL, "");
		made_bias_put(chain);
		timing_drop(timing);
		return;
	}
	correct_record(site, chain, &args, variant);
	if (by_data)
		settle_extents(site, chain, &args);
	site->live->compared++;
	site_waits(site, false);
	compare_start(site, chain, &args, &order, variant, timing);
	made_bias_put(chain);
	for (int i = 0; i < chain->input_count;
	     i++) { /* the comparison is enqueued: inputs may go */
		snapshot_drop(chain, i);
		chain->inputs[i].lost = true;
	}
}

void occurrence_ran(struct chain *chain, const struct op *op)
{
	if (!chain->used || chain->stream != op->stream)
		return;
	timing_stop(chain->timing);
	if (op->kind == OP_GEMM && chain->p_value >= 0 && !chain->closed)
		closed(chain);
}
