/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain that was watched has closed: which site it is of, what it computes, and, once the
 * program's O is there, how a fused kernel's compares with it (learning.h).
 */
#include "shim/act/learning.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "shim/gpu/blas.h"
#include "shim/act/compare.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/act/delivery.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/hazard/held.h"
#include "shim/hazard/holes.h"
#include "shim/ask/identify.h"
#include "shim/ask/measure.h"
#include "shim/act/originals.h"
#include "shim/gpu/ledger.h"
#include "shim/act/put_off.h"
#include "shim/act/replace.h"
#include "shim/act/roundings.h"
#include "shim/log/decline.h"
#include "shim/site/opener.h"
#include "shim/site/site.h"
#include "shim/gpu/made_bias.h"
#include "shim/hazard/snapshot.h"
#include "shim/spec/spec.h"
#include "shim/gpu/timing.h"

/* A comparison costs as much as some dozen small fused launches: samples that agree make the next
 * one come later, up to this many times FASHIM_SAMPLE. */
#define MOST_RARE 128

/* Occurrences of QK^T and PV in different types, with nothing known of the casts before them, until
 * Q and K are taken for what they are, and V is cast for them. */
#define MOST_UNCAST 8

/* Those that others spoilt before they closed. */
#define MOST_ACCIDENTS 2

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

int learning_prepare(CUcontext context, const struct op_gemm *first)
{
	const int kernels = fused_prepare(context);
	const int products = config()->mode == MODE_REPLACE ? blas_prepare(first, context) : 0;

	return kernels ? kernels : products;
}

/* Are there kernels of ours at all? What was asked of them, or with them, says nothing if not.
 * variant: one that does not load, or NULL. */
static enum reason missing(const struct chain *chain, const struct attn_variant *variant,
			   char detail[96])
{
	const int error = fused_missing(chain->context, variant, detail, 96);

	return error == -ENODATA ? REASON_NOT_PREPARED : error ? REASON_NO_IMAGE : REASON_NONE;
}

static int prepare(const struct chain *chain)
{
	struct driver_context here;
	int error;

	if (!driver_enter(&here, chain->context))
		return -EIO;
	error = learning_prepare(chain->context, &chain->steps[0].gemm);
	driver_leave(&here);
	return error;
}

void learning_foresee(const struct chain *chain)
{
	if (config()->mode >= MODE_COMPARE && chain->softmax && !chain->deferred &&
	    affordable_to_prepare(chain))
		prepare(chain);
}

/* The variant's kernel, at once where its image is loaded. */
static int load(const struct chain *chain, const struct attn_variant *variant)
{
	struct driver_context here;
	int error;

	if (!driver_enter(&here, chain->context))
		return -EIO;
	error = fused_load(chain->context, variant);
	driver_leave(&here);
	return error;
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
enum flow learning_pass_over(struct chain *chain, const char *detail)
{
	log_decline(REASON_NOT_SOFTMAX, detail);
	opener_result(&chain->steps[0].gemm, false);
	held_drop(chain);
	return FLOW_PASS;
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

/* The kernel for a site that is being learned. */
static enum reason choose(const struct attn_variant **variant, struct site *site,
			  const struct chain *chain, struct attn_args *args, char detail[96])
{
	enum reason reason = REASON_NONE;

	roundings_note(site, chain->context, args);
	*variant = prepare(chain) ? NULL : fused_select(chain->context, args);
	if (!*variant || load(chain, *variant) == -EIO)
		reason = missing(chain, *variant, detail);
	if (*variant || reason)
		return reason;
	snprintf(detail, 96, "D=%d", (int)args->D);
	return REASON_NO_KERNEL;
}

/* May kernels that no rule knows be asked once the graph has run? What they touch must be known. */
static bool may_be_asked(const struct chain *chain)
{
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].live.count &&
		    (chain->values[i].outside || chain->values[i].provisional))
			return false;
	return chain->softmax && config()->ask != ASK_OFF;
}

struct site *learning_recorded(const struct chain *chain)
{
	struct attn_args args;
	struct site *site;
	char detail[96];
	bool by_data = false;
	const enum reason reason = spec_of_chain(&args, chain, NULL, &by_data, detail);

	opener_result(&chain->steps[0].gemm, chain->softmax);
	if (reason != REASON_NONE || (by_data && !may_be_asked(chain))) {
		log_decline(reason != REASON_NONE ? reason : REASON_UNKNOWN_KERNEL, detail);
		return NULL;
	}
	site = site_of_chain(chain);
	if (!site || site->state == SITE_DECLINED || !config_selects_site(site->number))
		return NULL;
	announce(site, chain, &args, "");
	return site;
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

/* 0; -EAGAIN: there is no answer, and perhaps never will be. */
static int ask_in_graph(struct site *site, const struct chain *recorded, CUstream stream,
			struct attn_args *args)
{
	static struct chain chain; /* flow lock */

	chain = *recorded;
	chain.stream = stream;
	identify(site, &chain, args);
	if (!site->identified)
		doubt(site, &chain);
	return site->identified ? 0 : -EAGAIN;
}

int learning_in_graph(struct site *site, struct chain *chain, CUstream stream, bool may_ask)
{
	const struct attn_variant *variant = NULL;
	const bool asks = site->by_data && !site->identified;
	struct attn_args args;
	char detail[96];
	bool by_data = false;
	enum reason reason;
	int error;

	if (site->state != SITE_LEARNING)
		return 0;
	if (asks && !may_ask)
		return -EAGAIN;
	if (asks && !ledger_affords(LEDGER_IDENTIFY))
		return -EBUSY;
	if (prepare(chain) == -EAGAIN)
		return -EAGAIN;
	if (!asks && site->kernel && site->kernel[0])
		return replace_possible(chain, site) ? 0 : -EAGAIN;
	reason = spec_of_chain(&args, chain, site->identified ? &site->identity : NULL, &by_data,
			       detail);
	error = reason == REASON_NONE && asks ? ask_in_graph(site, chain, stream, &args) : 0;
	if (error)
		return error;
	if (reason == REASON_NONE)
		reason = choose(&variant, site, chain, &args, detail);
	if (variant)
		correct_record(site, chain, &args, variant);
	if (reason != REASON_NONE) {
		site_decline(site, reason, detail);
		site->live->reason = site->reason;
	}
	return -EAGAIN;
}

/* Others read a chain's scores, or overwrote a part of them: it may be a matter of once, as where a
 * compiler tries several kernels on them. */
static bool was_accident(struct site *site, const struct chain *chain, enum reason reason)
{
	return reason != REASON_NONE && reason == chain->unfit &&
	       (reason == REASON_SCORES_READ_BY || reason == REASON_CHAIN_BROKEN) &&
	       ++site->accidents < MOST_ACCIDENTS;
}

/* The program's own ops ran this time: learn of the site, arrange for the comparison. */
enum flow learning_close(struct chain *chain, const struct sight *sight)
{
	struct op *op = sight->op;
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
		reason = missing(chain, NULL, detail);
		log_decline(reason ? reason : REASON_UNACCOUNTED_POINTER,
			    reason ? detail : unmeasured);
		opener_result(&chain->steps[0].gemm, false);
		held_drop(chain);
		return FLOW_PASS;
	}
	chain_settle_outside(chain);
	if (chain->triangle && config()->mode == MODE_REPLACE)
		holes_look(chain);
	reason = spec_of_chain(&args, chain, NULL, &by_data, detail);

	if (reason == REASON_NONE && chain->gaps) {
		reason = REASON_LAYOUT;
		snprintf(detail, sizeof(detail), "scores written with gaps");
	}

	if (reason == REASON_NOT_SOFTMAX && strcmp(detail, "log_softmax") != 0)
		return learning_pass_over(chain, detail);
	opener_result(&chain->steps[0].gemm, true);
	fresh = !site_known(chain);
	if (!affordable_to_learn(chain, fresh, by_data))
		return put_off(chain, NULL);
	entry = ledger_begin(LEDGER_SITE);
	site = site_of_chain(chain);
	if (!site) {
		held_drop(chain);
		return FLOW_PASS;
	}
	mixed = reason == REASON_NONE && !originals_narrow(&args, chain, site->wide);
	if (!fresh && too_dear(site, chain))
		return put_off(chain, site);
	/* What was cast before any chain was in view is not known: it may be the next time. */
	if (mixed && ++site->uncast >= MOST_UNCAST && !site->passed) {
		site->wide = true;
		mixed = false;
	}
	if (reason == REASON_NONE && !mixed && config()->mode >= MODE_COMPARE &&
	    site->state == SITE_LEARNING && prepare(chain) == -EAGAIN)
		return put_off(chain, site);
	site->live->seen++;
	site->since_sample = 0;
	if (site->state == SITE_VERIFIED && site->interval < MOST_RARE * config()->sample)
		site->interval *= 2;
	chain->site = site;
	if (reason == REASON_NONE && !mixed && site->state == SITE_LEARNING &&
	    config()->mode >= MODE_COMPARE)
		reason = choose(&variant, site, chain, &args, detail);
	if (variant && by_data)
		identify(site, chain, &args);
	announce(site, chain, &args, variant ? variant->name : "");
	if (fresh)
		ledger_end(entry);
	if (was_accident(site, chain, reason)) {
		site->live->reason = reason;
		held_drop(chain);
		return FLOW_PASS;
	}
	if (reason != REASON_NONE)
		site_decline(site, reason, detail);
	else if (!config_selects_site(site->number))
		site_decline(site, REASON_SKIPPED, "");
	if (site->state == SITE_DECLINED) {
		site->live->reason = site->reason;
		held_drop(chain);
		return FLOW_PASS;
	}
	held_guard_inputs(chain, op, sight->list);
	timing_start(chain->timing, TIMING_GEMM2);
	chain_watch(op, chain);
	return FLOW_PASS;
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

	if (config()->graphs && variant)
		load(chain, variant);
}

/* Comparisons whose results are still to come may be all that are needed. */
static bool enough_under_way(const struct site *site)
{
	const uint64_t needed = config()->learn < 2 ? 2 : config()->learn; /* speed takes two */

	return config()->mode == MODE_REPLACE && site->state == SITE_LEARNING && site->pending &&
	       site->passed + site->pending >= needed;
}

/* Is all that a triangle leaves alone masked? */
static bool leaves_no_key(const struct attn_args *args)
{
	const struct attn_spec *spec = &args->spec;

	return args->Sq == args->Sk && spec->window_right == 0 && spec->window_shift == 0 &&
	       spec->window_value == -INFINITY;
}

/* The closing GEMM ran: O is the program's own. */
void learning_closed(struct chain *chain)
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

	chain_end(chain, site);
	chain->timing = NULL;
	delivery_expect(site, chain);
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].outside)
			chain->values[i].live.count = 0;
	/* An unknown chain is compared at its first sighting; one that follows rules when timed. */
	if ((!chain->timed && !site->by_data) || lost || config()->mode < MODE_COMPARE ||
	    enough_under_way(site) ||
	    spec_of_chain(&args, chain, site->identified ? &site->identity : NULL, &by_data,
			  detail) != REASON_NONE ||
	    !originals_narrow(&args, chain, site->wide)) {
		timing_drop(timing);
		return;
	}
	if (by_data && !site->identified) {
		doubt(site, chain);
		timing_drop(timing);
		return;
	}
	if (chain->triangle && !leaves_no_key(&args)) {
		site_decline(site, REASON_LAYOUT, "parts of P are left alone");
		timing_drop(timing);
		return;
	}
	if (!made_bias_place(chain, &args, site->identified ? &site->identity : NULL)) {
		timing_drop(timing);
		return;
	}
	roundings_note(site, chain->context, &args);
	load_for_capture(chain, &args);
	originals_compare(&args, &order, chain);
	variant = select_in_order(chain->context, &args, &order);
	if (!variant) {
		site_decline(site, REASON_NO_KERNEL, "");
		made_bias_put(chain);
		timing_drop(timing);
		return;
	}
	if (load(chain, variant) == -EAGAIN) { /* the next occurrence will find it */
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
