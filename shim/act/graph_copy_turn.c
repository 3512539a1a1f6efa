/* SPDX-License-Identifier: Apache-2.0
 *
 * What a launch of a graph is to be: the program's own, a comparison, replaced.
 */
#include "shim/act/graph_copy_parts.h"

#include <errno.h>

#include "shim/act/compare.h"
#include "shim/act/graph_proof.h"
#include "shim/act/learning.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/hazard/held.h"
#include "shim/hazard/snapshot.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

/* Which launch of a graph is the first that something is done for. */
#define FIRST_LAUNCH 2

/* Launches for which kernels of ours are awaited. */
#define MOST_UNKNOWN 64

/* Samples that agree make the next one come later, up to this many times FASHIM_SAMPLE. */
#define MOST_RARE 128

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
		more += copy->part[i].chain && !graph_part_held(&copy->part[i]);
	return more <= CHAIN_COUNT - chain_live;
}

/* What was enqueued for it on a stream of ours comes before the launch. */
static bool behind_workshop(const struct graph_copy *copy)
{
	const struct queue ours = {copy->latest.context, graph_workshop(copy->latest.context)};

	return !driver_order(ours, copy->latest);
}

static void build_beside(struct graph_copy *copy)
{
	const struct ledger_entry entry = ledger_begin(LEDGER_GRAPH);
	struct driver_context here;

	if (driver_enter(&here, copy->latest.context)) {
		copy->beside = beside_build(copy->recorded, &copy->row, copy->flags);
		driver_leave(&here);
	}
	ledger_end(entry);
	if (copy->beside && behind_workshop(copy))
		return;
	log_decline(REASON_CAPTURE, "no comparison");
	graph_copy_over(copy);
}

static void build(struct graph_copy *copy)
{
	const struct ledger_entry entry = ledger_begin(LEDGER_GRAPH);
	struct driver_context here;
	bool built = false;

	if (driver_enter(&here, copy->latest.context)) {
		built = graph_copy_build(copy);
		driver_leave(&here);
	}
	ledger_end(entry);
	if (!built || !behind_workshop(copy))
		graph_copy_over(copy);
}

/* Is there a kernel for each site that graphs alone have shown? false: nobody knows yet. *waits:
 * since it cannot be afforded to ask. */
static bool sites_known(const struct graph_copy *copy, bool *waits)
{
	const struct recorded_graph *graph = copy->recorded;
	struct driver_context here;
	bool known = true;

	if (!driver_enter(&here, graph->context))
		return false;
	for (int i = 0; i < graph->chain_count; i++) {
		const struct recorded_chain *record = graph->chain[i];
		int error;

		if (!beside_takes(record))
			continue;
		error = learning_in_graph(record->site, record->chain, copy->latest.stream,
					  copy->launches && graph_keeps_inputs(graph, record));
		known &= !error;
		*waits |= error == -EBUSY;
	}
	driver_leave(&here);
	return known;
}

static void leave_alone(struct graph_copy *copy, const char *why)
{
	graph_copy_note_all(copy, why);
	graph_copy_over(copy);
}

/* What was built, as soon as it was made. */
static void take_built(struct graph_copy *copy)
{
	const char *why;
	const int error = graph_making_take(copy->making, &copy->exec, &why);

	if (error == -EAGAIN)
		return;
	copy->making = NULL;
	if (error) {
		leave_alone(copy, why);
		return;
	}
	graph_copies_pay();
	graph_copy_note_all(copy, NULL);
	graph_copy_release_plans(copy);
	if (!config()->sample) {
		beside_free(copy->beside, copy->latest.stream);
		copy->beside = NULL;
	}
}

/* Not compared enough yet. Launches are the program's while the numbers of one are to come, and
 * while an executable graph of ours is made. */
static enum graph_turn learn(struct graph_copy *copy)
{
	bool waits = false;
	const bool known = copy->beside || sites_known(copy, &waits);

	if (waits)
		return TURN_PROGRAM;
	if (++copy->launches < FIRST_LAUNCH || (!known && copy->launches < MOST_UNKNOWN))
		return TURN_PROGRAM;
	if (copy->making) {
		take_built(copy);
		return TURN_PROGRAM;
	}
	compare_poll();
	if (copy->beside)
		beside_take_in(copy->beside);
	if (copy->beside && beside_failed(copy->beside)) {
		leave_alone(copy, beside_failed(copy->beside));
		return TURN_PROGRAM;
	}
	if (copy->beside && beside_outdated(copy->beside)) {
		beside_free(copy->beside, copy->latest.stream);
		copy->beside = NULL;
	}
	if (!copy->beside && ledger_affords(LEDGER_GRAPH))
		build_beside(copy);
	if (!copy->beside)
		return TURN_PROGRAM;
	if (beside_may_launch(copy->beside) && !beside_settled(copy->beside))
		return TURN_BESIDE;
	if (beside_settled(copy->beside) && ledger_affords(LEDGER_GRAPH))
		build(copy);
	return TURN_PROGRAM;
}

/* Is a sample due, and can it be had? */
static bool sample(struct graph_copy *copy)
{
	if (!copy->beside || ++copy->since < copy->interval || !beside_may_launch(copy->beside))
		return false;
	copy->since = 0;
	if (copy->interval < MOST_RARE * config()->sample)
		copy->interval *= 2;
	return true;
}

enum graph_turn graph_copy_turn(struct graph_copy *copy)
{
	COST_SHARED(PURPOSE_REPLACING);
	if (!copy->exec) {
		const enum graph_turn turn = learn(copy);

		if (!copy->exec)
			return turn;
	} else {
		if (copy->beside)
			beside_take_in(copy->beside);
		if (sample(copy))
			return TURN_BESIDE;
	}
	if (!sites_stand(copy)) {
		graph_copy_over(copy);
		return TURN_PROGRAM;
	}
	return room_for_held(copy) ? TURN_REPLACED : TURN_PROGRAM;
}

/* The values of a replay are those of this one: what was held of the replay before is overwritten.
 */
static void hold(struct graph_copy *copy, struct part *part)
{
	const struct chain *from = part->chain;
	struct chain *chain = part->held;

	if (!from)
		return;
	if (!graph_part_held(part)) {
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

static bool launch(const struct graph_copy *copy)
{
	struct driver_context here;
	CUresult result;

	if (!driver_enter(&here, copy->latest.context))
		return false;
	result = driver.cuGraphLaunch(copy->exec, copy->latest.stream);
	driver_leave(&here);
	return result == CUDA_SUCCESS;
}

bool graph_copy_launch(struct graph_copy *copy, enum graph_turn turn)
{
	COST_SHARED(PURPOSE_REPLACING);
	if (turn == TURN_BESIDE ? !beside_launch(copy->beside, copy->latest) : !launch(copy)) {
		log_decline(REASON_CAPTURE, "the driver refuses its copy");
		graph_copy_over(copy);
		return false;
	}
	copy->under_way = false;
	if (turn == TURN_BESIDE)
		return true;
	for (int i = 0; i < copy->part_count; i++) {
		count(copy->part[i].site);
		hold(copy, &copy->part[i]);
	}
	return true;
}
