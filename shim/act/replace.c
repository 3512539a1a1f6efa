/* SPDX-License-Identifier: Apache-2.0
 *
 * Launching a fused kernel for a chain, at once or late. At most one launch waits.
 */
#include "shim/act/replace.h"

#include "shim/gpu/blas.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/hazard/copies.h"
#include "shim/act/delivery.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/hazard/held.h"
#include "shim/gpu/late.h"
#include "shim/gpu/ledger.h"
#include "shim/log/log.h"
#include "shim/op/memory.h"
#include "shim/gpu/nvtx.h"
#include "shim/act/originals.h"
#include "shim/act/roundings.h"
#include "shim/log/decline.h"
#include "shim/site/site.h"
#include "shim/gpu/made_bias.h"
#include "shim/hazard/snapshot.h"
#include "shim/spec/spec.h"
#include "shim/base/tracepoint.h"

static struct waiting {
	struct chain *chain; /* NULL: none waits */
	struct site *site;
	struct op op; /* the closing GEMM … */
	struct access_list list;
	int kept_inputs;
	uint64_t begin, end;		/* … and what it would have written */
	const struct relayout *inverse; /* of the copy that it waited for */
} waiting;

/* ---- the launch ----------------------------------------------------------------------------- */

/* What O lies over is copied first. */
static bool save_inputs(struct chain *chain, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			for (int k = 0; k < chain->input_count; k++)
				if (range_overlap(list->item[i].begin, list->item[i].end,
						  chain->inputs[k].begin, chain->inputs[k].end) &&
				    !snapshot_take(chain, k))
					return false;
	return true;
}

/* The call for the chain, which has its biases made (made_bias.h). `copy`: inverse of the copy of O
 * that is written in O's place, at `out`; NULL: O is written. */
static bool call_of_chain(struct attn_args *args, struct chain *chain, struct site *site,
			  const struct relayout *copy, uint64_t out)
{
	char detail[96];
	bool by_data;

	if (spec_of_chain(args, chain, site->by_data ? &site->identity : NULL, &by_data, detail) !=
	    REASON_NONE) {
		log_decline(REASON_CHAIN_BROKEN, detail);
		return false;
	}
	args->spec.round_s &= site->round_s;
	if (!originals_narrow(args, chain, site->wide)) {
		log_decline(REASON_CHAIN_BROKEN, "operands cast from what is gone");
		site->broken++;
		return false;
	}
	if (!made_bias_place(chain, args, site->by_data ? &site->identity : NULL)) {
		log_decline(chain->captured ? REASON_CAPTURE : REASON_SCRATCH, "bias");
		return false;
	}
	if (originals_read(args, chain, copy, out))
		return true;
	log_decline(REASON_CHAIN_BROKEN, "operands copied in another way");
	made_bias_put(chain);
	return false;
}

static int launch_fused(struct chain *chain, struct site *site, const struct relayout *copy,
			uint64_t out)
{
	const struct attn_variant *variant;
	struct driver_context here;
	struct attn_args args;
	int error = -1;

	if (!call_of_chain(&args, chain, site, copy, out))
		return -1;
	if (driver_enter(&here, chain->context)) {
		variant = fused_select(chain->context, &args);
		/* Loading a kernel may allocate, which a capture does not survive. */
		if (variant && (!chain->captured || fused_loaded(chain->context, variant))) {
			const bool ranged = nvtx_push("fused", variant, &args);

			error = made_bias_write(chain);
			if (!error)
				error = fused_attention(chain->context, chain->stream, variant,
							&args);
			nvtx_pop(ranged);
		}
		driver_leave(&here);
	}
	made_bias_put(chain);
	return error;
}

/* Where the program rounds, as far as there is a kernel that repeats it. */
static void note_rounding(struct attn_args *args, struct chain *chain, struct site *site)
{
	const int32_t asked = site->round_s;
	bool known;

	site->round_s = ~0;
	known = call_of_chain(args, chain, site, NULL, 0);
	site->round_s = asked;
	if (known)
		roundings_note(site, chain->context, args);
}

const struct attn_variant *replace_call(struct attn_args *args, struct chain *chain,
					struct site *site)
{
	const struct attn_variant *variant;

	if (site->state == SITE_LEARNING)
		note_rounding(args, chain, site);
	if (!call_of_chain(args, chain, site, NULL, 0))
		return NULL;
	variant = fused_select(chain->context, args);
	return variant && !fused_load(chain->context, variant) ? variant : NULL;
}

bool replace_possible(struct chain *chain, struct site *site)
{
	struct attn_args args;
	bool possible;

	chain->made_stays = true; /* not only until it is captured */
	possible = replace_call(&args, chain, site) != NULL;
	chain->made_stays = false;
	made_bias_put(chain);
	return possible;
}

/* The same, behind late work (late.h) on what the closing GEMM reads and writes: V may have been
 * made for it a moment ago, on another stream. */
static int launch_behind(struct chain *chain, struct site *site, const struct access_list *list,
			 const struct relayout *copy, uint64_t out)
{
	late_guard(chain_queue(chain), list);
	return launch_fused(chain, site, copy, out);
}

int replace_in_graph(struct chain *chain, struct site *site)
{
	return launch_fused(chain, site, NULL, 0) ? -1 : 0;
}

/* The kernel is on its way: from here on the chain is what might still be asked for. */
static void launched(struct chain *chain, struct site *site, int kept_inputs)
{
	chain_end(chain, site);
	/* The program's first product and its middle kernels read these earlier. */
	for (int i = 0; i < kept_inputs && !chain->captured; i++)
		late_reads(chain_queue(chain), chain->inputs[i].begin, chain->inputs[i].end);
	while (chain->input_count > kept_inputs) /* O is written: V is no longer needed */
		snapshot_drop(chain, --chain->input_count);
	chain->relayed[2] = chain->narrow[0] = chain->narrow[1] = -1;
	for (int n = 0; n < 2; n++)
		copies_trace_back(chain, n);
	site->live->seen++;
	site->live->replaced++;
	TRACEPOINT2(replaced, site->number, site->live->seen);
	if (chain->captured) { /* the user's word: nobody looks at the scores */
		held_drop(chain);
		return;
	}
	site->since_sample++;
	if (site->app_us > site->fused_us) {
		const uint64_t ns = (uint64_t)((site->app_us - site->fused_us) * 1000);

		site->live->saved_ns += ns;
		ledger_saved(ns);
	}
	if (config()->poison)
		held_poison(chain);
	if (!held_virtual(chain))
		held_drop(chain);
}

/* ---- late ----------------------------------------------------------------------------------- */

static const struct access *output_of(const struct access_list *list)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			return &list->item[i];
	return NULL;
}

static bool may_run_later(const struct op *op)
{
	struct driver_context here;
	bool ready;

	if (!driver_enter(&here, op->context))
		return false;
	ready = !blas_prepare(&op->gemm, op->context);
	driver_leave(&here);
	return ready;
}

static bool may_wait(const struct chain *chain, const struct site *site, const struct sight *sight)
{
	const struct access *output = output_of(sight->list);
	const struct op *op = sight->op;

	return !chain->captured && !op->gemm.by_array && delivery_usual(site) && output &&
	       op->context == chain->context &&
	       memory_watchable_range(output->begin, output->end) && may_run_later(op);
}

static enum flow wait(struct chain *chain, struct site *site, const struct sight *sight,
		      int kept_inputs)
{
	const struct access *output = output_of(sight->list);

	waiting.chain = chain;
	waiting.site = site;
	waiting.op = *sight->op;
	access_copy(&waiting.list, sight->list);
	waiting.kept_inputs = kept_inputs;
	waiting.begin = output->begin;
	waiting.end = output->end;
	waiting.inverse = NULL;
	chain->age = 0;
	chain_cut_output(chain); /* as the program sees it */
	return FLOW_TAKEN;
}

bool replace_waits(void)
{
	return waiting.chain != NULL;
}

/* The kernel could not be launched, and the GEMM was told to have run. */
static void run_instead(void)
{
	const struct op_gemm *gemm = &waiting.op.gemm;
	const int attempts =
		gemm->run > 1 && gemm->beta != 0 ? 1 : 2; /* a half must not run twice */
	struct chain *chain = waiting.chain;
	struct driver_context here;
	int error = -1;

	if (chain->deferred)
		held_realise(chain, chain_queue(chain), "fused_launch", false);
	copies_guard(&(struct sight){.op = &waiting.op,
				     .list = &waiting.list,
				     .who = waiting.op.name}); /* V is wanted after all */
	copies_needed(NULL, waiting.op.name);
	copies_added_to(waiting.op.name);
	for (int attempt = 0; attempt < attempts && error; attempt++) {
		if (!driver_enter(&here, chain->context))
			continue;
		error = blas_run(gemm, chain->context, chain->stream, gemm->a, gemm->b, gemm->c);
		driver_leave(&here);
	}
	if (error && driver_context_lives(chain->context)) {
		log_violation("site %d: a product that was held back could not be computed",
			      waiting.site->number);
		late_lose();
	}
	held_drop(chain);
	waiting.chain = NULL;
}

void replace_settle(void)
{
	struct chain *chain = waiting.chain;

	if (!chain)
		return;
	COST(PURPOSE_REPLACING);
	delivery_missed(waiting.site);
	if (!save_inputs(chain, &waiting.list) ||
	    launch_behind(chain, waiting.site, &waiting.list, NULL, 0)) {
		run_instead();
		return;
	}
	waiting.chain = NULL;
	launched(chain, waiting.site, waiting.kept_inputs);
}

bool replace_awaited(const struct sight *sight)
{
	const struct chain *chain = waiting.chain;
	const struct relayout *inverse;

	if (!chain || sight->op->stream != chain->stream || sight->op->context != chain->context)
		return false;
	inverse = delivery_of_op(waiting.site, sight);
	if (!inverse || inverse->out_begin != waiting.begin || inverse->out_end != waiting.end ||
	    !memory_watchable_range(inverse->in_begin, inverse->in_end))
		return false;
	waiting.inverse = inverse;
	return true;
}

enum flow replace_deliver(void)
{
	const struct relayout *inverse = waiting.inverse;
	struct chain *chain = waiting.chain;

	COST(PURPOSE_REPLACING);
	/* Guarding may have had to make the chain real. */
	if (!chain->deferred ||
	    launch_behind(chain, waiting.site, &waiting.list, inverse, inverse->in_begin)) {
		run_instead();
		return FLOW_PASS;
	}
	waiting.chain = NULL;
	copies_hold_output(inverse, chain->context, chain->stream);
	launched(chain, waiting.site, waiting.kept_inputs);
	return FLOW_TAKEN;
}

/* ---- at once -------------------------------------------------------------------------------- */

enum flow replace_chain(struct chain *chain, struct site *site, const struct sight *sight,
			int kept_inputs)
{
	COST(PURPOSE_REPLACING);
	copies_needed(chain, sight->who);
	if (may_wait(chain, site, sight))
		return wait(chain, site, sight, kept_inputs);
	delivery_expect(site, chain);
	if (!save_inputs(chain, sight->list) || launch_behind(chain, site, sight->list, NULL, 0)) {
		held_realise(chain, chain_queue(chain), "fused_launch", false);
		copies_guard(sight); /* V is wanted after all */
		return FLOW_PASS;
	}
	launched(chain, site, kept_inputs);
	return FLOW_TAKEN;
}
