/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of copies: made, launched, ended.
 */
#include "shim/act/graph_copy_parts.h"

#include <stdlib.h>
#include <string.h>

#include "shim/act/graph_row.h"
#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/gpu/scratch.h"
#include "shim/hazard/held.h"
#include "shim/hazard/snapshot.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define COPIES 64

static struct graph_copy *copies[COPIES];

bool graph_copies(void)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i])
			return true;
	return false;
}

const struct graph_order *graph_copy_order(const struct graph_copy *copy)
{
	return &copy->order;
}

/* ---- the end -------------------------------------------------------------------------------- */

static bool is_held(const struct part *part)
{
	return part->held && part->held->used && part->held->serial == part->serial;
}

/* What is held outlives the copy, and keeps what was saved of its inputs. */
static void hand_over(struct graph_copy *copy, struct part *part)
{
	struct chain *chain = part->held;

	chain->graph = NULL;
	for (int i = 0; i < chain->input_count; i++) {
		struct input *input = &chain->inputs[i];

		if (!input->lent)
			continue;
		input->lent = false;
		for (int k = 0; k < copy->saved_count; k++)
			if (copy->saved[k] == input->snapshot)
				copy->saved[k] = 0;
	}
}

/* The copy is no more. */
static void end(struct graph_copy *copy)
{
	struct driver_context here;

	for (int i = 0; i < copy->part_count; i++) {
		if (is_held(&copy->part[i]))
			hand_over(copy, &copy->part[i]);
		free(copy->part[i].chain);
	}
	if (copy->exec && driver_enter(&here, copy->latest.context)) {
		driver.cuGraphExecDestroy(copy->exec);
		driver_leave(&here);
	}
	copy->exec = NULL;
	for (int i = 0; i < copy->saved_count; i++)
		scratch_put(copy->saved[i], copy->latest.stream);
	graph_order_drop(&copy->order);
	copy->part_count = copy->saved_count = 0;
}

void graph_copy_free(struct graph_copy *copy)
{
	end(copy);
	for (int i = 0; i < COPIES; i++)
		if (copies[i] == copy)
			copies[i] = NULL;
	free(copy);
}

void graph_copy_forget(const void *exec)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			graph_copy_free(copies[i]);
}

void graph_copies_end(void)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i])
			end(copies[i]);
}

/* Whoever comes later waits for the stream's work at our own. */
void graph_copy_forget_stream(CUstream stream)
{
	for (int i = 0; i < COPIES; i++) {
		struct queue ours;

		if (!copies[i] || copies[i]->latest.stream != stream)
			continue;
		ours = (struct queue){copies[i]->latest.context,
				      graph_workshop(copies[i]->latest.context)};
		if (ours.stream && !driver_order(copies[i]->latest, ours))
			copies[i]->latest = ours;
		else
			graph_copy_free(copies[i]);
	}
}

void graph_copy_forget_context(CUcontext context)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && (!context || copies[i]->latest.context == context))
			graph_copy_free(copies[i]);
	graph_workshop_forget(context);
}

/* ---- making --------------------------------------------------------------------------------- */

/* Launched by a kernel it would not be seen; the others change nothing of what it does. */
static bool flags_are_known(unsigned long long flags)
{
	return !(flags & ~(unsigned long long)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					       CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
					       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
}

static bool copy_order(struct graph_order *to, const struct graph_order *from)
{
	*to = *from;
	to->room = from->count;
	to->item = malloc((size_t)from->count * sizeof(*from->item) + 1);
	if (to->item && from->count)
		memcpy(to->item, from->item, (size_t)from->count * sizeof(*from->item));
	return to->item != NULL;
}

void graph_copy_make(const struct recorded_graph *graph, CUgraphExec exec, unsigned long long flags)
{
	struct driver_context here;
	struct graph_copy *copy;
	int at = 0;

	graph_copy_forget(exec);
	while (at < COPIES && copies[at])
		at++;
	if (at == COPIES)
		log_decline(REASON_CAPTURE, "too many graphs");
	if (at == COPIES || !flags_are_known(flags) || !graph_rows_possible() ||
	    !driver_enter(&here, graph->context))
		return;
	COST(PURPOSE_REPLACING);
	copy = graph_copy_build(graph, exec, flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
	driver_leave(&here);
	if (copy && !copy_order(&copy->order, &graph->order)) {
		graph_copy_free(copy);
		copy = NULL;
	}
	copies[at] = copy;
}

/* ---- launching ------------------------------------------------------------------------------ */

static bool sites_stand(const struct graph_copy *copy)
{
	for (int i = 0; i < copy->part_count; i++)
		if (copy->part[i].site->number != copy->part[i].number ||
		    copy->part[i].site->state != SITE_VERIFIED)
			return false;
	return true;
}

static bool room_for_held(const struct graph_copy *copy)
{
	int more = 0;

	for (int i = 0; i < copy->part_count; i++)
		more += copy->part[i].chain && !is_held(&copy->part[i]);
	return more <= CHAIN_COUNT - chain_live;
}

static bool is_captured(const struct op *op)
{
	struct driver_context here;
	bool captured;

	if (!driver_enter(&here, op->context))
		return true;
	captured = driver_may_capture(op->stream);
	driver_leave(&here);
	return captured;
}

struct graph_copy *graph_copy_for(CUgraphExec exec, const struct op *op)
{
	struct graph_copy *copy = NULL;

	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			copy = copies[i];
	if (!copy || is_captured(op))
		return NULL;
	if (copy->exec && (!sites_stand(copy) || op->context != copy->latest.context))
		end(copy);
	/* Launches of one executable graph wait for each other, whatever their streams, and two
	 * stand for this one. */
	if (driver_order(copy->latest, op_queue(op))) {
		log_violation("a graph could not be ordered behind its own launch");
		end(copy);
	}
	copy->latest = op_queue(op);
	if (!copy->exec) {
		graph_copy_free(copy);
		return NULL;
	}
	return room_for_held(copy) ? copy : NULL;
}

/* The values of a replay are those of this one: what was held of the replay before is overwritten.
 */
static void hold(struct graph_copy *copy, struct part *part)
{
	const struct chain *from = part->chain;
	struct chain *chain = part->held;

	if (!from)
		return;
	if (!is_held(part)) {
		chain = part->held = chain_again(from);
		if (!chain)
			return; /* room_for_held() */
		part->serial = chain->serial;
		held_begin(chain);
	}
	for (int i = 0; i < chain->input_count; i++) {
		if (!chain->inputs[i].lent)
			snapshot_drop(chain, i);
		chain->inputs[i] = from->inputs[i];
		chain->inputs[i].since = chain_moment();
	}
	for (int i = 0; i < chain->value_count; i++)
		chain->values[i] = from->values[i];
	chain->stream = copy->latest.stream;
}

static void count(const struct site *site)
{
	site->live->seen++;
	site->live->replaced++;
	log_live()->replays[site - sites]++;
	if (site->app_us > site->fused_us) {
		const uint64_t ns = (uint64_t)((site->app_us - site->fused_us) * 1000);

		site->live->saved_ns += ns;
		ledger_saved(ns);
	}
}

bool graph_copy_launch(struct graph_copy *copy, const struct op *op)
{
	struct driver_context here;
	CUresult result;

	COST_SHARED(PURPOSE_REPLACING);
	if (!driver_enter(&here, op->context))
		return false;
	result = driver.cuGraphLaunch(copy->exec, op->stream);
	driver_leave(&here);
	if (result != CUDA_SUCCESS) {
		graph_copy_free(copy);
		return false;
	}
	for (int i = 0; i < copy->part_count; i++) {
		count(copy->part[i].site);
		hold(copy, &copy->part[i]);
	}
	return true;
}
