/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of products in parts, op by op (chain/parts.h).
 */
#include "shim/flow/in_parts.h"

#include "shim/act/occurrence.h"
#include "shim/chain/parts.h"
#include "shim/flow/touch.h"
#include "shim/gpu/timing.h"
#include "shim/hazard/copies.h"
#include "shim/hazard/held.h"
#include "shim/log/decline.h"
#include "shim/site/site.h"

/* A part of the closing product: the last one stands for all. */
enum flow in_parts_close(struct chain *chain, const struct sight *sight)
{
	static struct op all; /* flow lock */
	struct op *op = sight->op;
	enum flow flow;

	if (chain->deferred && !occurrence_watchable(op)) {
		held_realise(chain, op_queue(op), "memory", false);
		return FLOW_PASS;
	}
	if (!parts_take(chain, op)) {
		copies_needed(NULL, op->name); /* V may be one */
		if (chain->deferred)
			return FLOW_TAKEN;
		held_guard_inputs(chain, op, sight->list);
		timing_start(chain->timing, TIMING_GEMM2);
		chain_watch(op, chain);
		return FLOW_PASS;
	}
	all = *op;
	all.gemm = chain->closer;
	flow = occurrence_close(chain, touch_see(&all));
	op->watcher = all.watcher;
	op->watched = all.watched;
	return flow;
}

/* Whoever comes between the parts of a closing product. */
void in_parts_end(const struct op *op)
{
	for_each_chain(chain)
	{
		if (!chain->closing || parts_fit(chain, op))
			continue;
		if (chain->deferred) {
			log_decline(REASON_CHAIN_BROKEN, op->name);
			site_note_broken(chain->candidates);
			held_realise(chain, chain_queue(chain), op->name, false);
		} else {
			chain_unfit(chain, REASON_CHAIN_BROKEN, op->name);
			parts_end(chain);
		}
	}
}

/* A launch that reads what several products made: they are one. How far it reads is known; or not,
 * then all that lies there in a row is taken for what it reads. */
void in_parts_join(const struct sight *sight)
{
	struct chain *parts[PARTS_MOST], *first;
	uint64_t end = 0;
	int count;

	first = sight->op->kind == OP_LAUNCH ? chain_reader(sight->op, sight->list) : NULL;
	for (int i = 0; first && i < sight->list->count; i++) {
		const struct access *access = &sight->list->item[i];
		const bool known = access->bounded && access->grade <= GRADE_RULED;

		if (access->pointer == first->values[0].begin && (!known || access->end > end))
			end = known ? access->end : UINT64_MAX;
	}
	/* Of dense layers that lie in a row nothing shall be guessed. */
	if (!first || end <= first->values[0].end ||
	    (end == UINT64_MAX && first->steps[0].gemm.batch <= 1))
		return;
	count = parts_find(first, end, parts);
	if (count < 2 || (end != UINT64_MAX && parts[count - 1]->values[0].end != end))
		return;
	parts_join(parts, count);
	for (int n = 1; n < count; n++) {
		if (first->timing && !timing_join(first->timing, parts[n]->timing)) {
			timing_drop(first->timing);
			first->timing = NULL;
		}
		held_drop(parts[n]);
	}
}
