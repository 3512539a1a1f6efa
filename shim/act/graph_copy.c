/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of copies: launches of the program's own, comparisons, replaced, over.
 */
#include "shim/act/graph_copy_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/act/compare.h"
#include "shim/act/graph_proof.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/hazard/held.h"
#include "shim/hazard/snapshot.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define COPIES 64

/* Which launch of a graph is the first that something is done for. */
#define FIRST_LAUNCH 2

/* Samples that agree make the next one come later, up to this many times FASHIM_SAMPLE. */
#define MOST_RARE 128

/* Copies in a row that ended before anything was replaced, until there are no more. */
#define MOST_WASTED 32

static struct graph_copy *copies[COPIES];
static int copy_count; /* of them */
static int wasted;     /* in a row, up to now */

bool graph_copies(void)
{
	return copy_count > 0;
}

const struct graph_order *graph_copy_order(const struct graph_copy *copy)
{
	return copy->over ? NULL : &copy->order;
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
		for (int k = 0; k < copy->saved.count; k++)
			if (copy->saved.block[k] == input->snapshot)
				copy->saved.block[k] = 0;
	}
}

/* Nothing more will be built. */
static void release_plans(struct graph_copy *copy)
{
	struct driver_context here;

	if (!copy->recorded)
		return;
	if (driver_enter(&here, copy->recorded->context)) {
		graph_row_close(&copy->row);
		driver_leave(&here);
	}
	recording_release(copy->recorded);
	copy->recorded = NULL;
}

bool graph_copies_wanted(void)
{
	return wasted < MOST_WASTED;
}

/* The copy is no more. */
static void end(struct graph_copy *copy)
{
	struct driver_context here;

	wasted = copy->exec ? 0 : wasted + !copy->over;
	for (int i = 0; i < copy->part_count; i++) {
		if (is_held(&copy->part[i]))
			hand_over(copy, &copy->part[i]);
		free(copy->part[i].chain);
	}
	if (copy->exec && driver_enter(&here, copy->latest.context)) {
		driver.cuGraphExecDestroy(copy->exec);
		driver_leave(&here);
	}
	graph_making_drop(copy->making);
	if (copy->beside)
		beside_free(copy->beside, copy->latest.stream);
	release_plans(copy);
	graph_saved_put(&copy->saved, copy->latest.stream);
	graph_order_drop(&copy->order);
	copy->making = NULL;
	copy->exec = NULL;
	copy->beside = NULL;
	copy->part_count = 0;
	copy->over = true;
}

static void free_copy(struct graph_copy *copy)
{
	end(copy);
	for (int i = 0; i < COPIES; i++)
		if (copies[i] == copy) {
			copies[i] = NULL;
			copy_count--;
		}
	free(copy);
}

void graph_copy_forget(const void *exec)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			free_copy(copies[i]);
}

void graph_copy_end(const void *exec)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			end(copies[i]);
}

void graph_copies_end(void)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i])
			end(copies[i]);
}

static bool order_touches(const struct graph_order *order, uint64_t begin, uint64_t end)
{
	for (int i = 0; i < order->count; i++)
		if (range_overlap(order->item[i].begin, order->item[i].end, begin, end))
			return true;
	return false;
}

void graph_copies_end_in(uint64_t begin, uint64_t end_address)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && !copies[i]->over &&
		    order_touches(&copies[i]->order, begin, end_address))
			end(copies[i]);
}

static bool is_captured(struct queue queue)
{
	struct driver_context here;
	bool captured;

	if (!driver_enter(&here, queue.context))
		return true;
	captured = driver_may_capture(queue.stream);
	driver_leave(&here);
	return captured;
}

/* What the queue is given from now on waits for the latest launch. Whoever waits for a stream that
 * is captured is captured with it. */
static bool order_behind(const struct graph_copy *copy, struct queue queue)
{
	return queue_same(copy->latest, queue) ||
	       (!is_captured(copy->latest) && !driver_order(copy->latest, queue));
}

/* Whoever comes later waits for the latest launch at our own stream. */
static bool wait_at_ours(struct graph_copy *copy)
{
	const struct queue ours = {copy->latest.context, graph_workshop(copy->latest.context)};

	if (!ours.stream || !order_behind(copy, ours))
		return false;
	copy->latest = ours;
	return true;
}

void graph_copy_forget_stream(CUstream stream)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->latest.stream == stream && !wait_at_ours(copies[i]))
			free_copy(copies[i]);
}

static void set_apart(struct graph_copy *copy)
{
	if (wait_at_ours(copy))
		return;
	log_violation("a graph's stream is captured, and others cannot wait for its launch");
	end(copy);
}

/* Of what is under way that is done once it was enqueued. */
void graph_copies_before_capture(void)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && !copies[i]->under_way)
			set_apart(copies[i]);
}

void graph_copy_forget_context(CUcontext context)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && (!context || copies[i]->latest.context == context))
			free_copy(copies[i]);
	graph_workshop_forget(context);
	beside_forget(context);
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

/* Is there anything to gain? Else the log is told why not. */
static bool any_proven(const struct recorded_graph *graph)
{
	static const char *why[RECORDED_CHAINS]; /* flow lock */
	static struct graph_proof proof;
	bool any = false;

	for (int i = 0; i < graph->chain_count; i++) {
		const struct recorded_chain *record = graph->chain[i];

		why[i] = beside_takes(record) ? graph_prove(&proof, graph, record) : "site";
		any |= !why[i];
	}
	for (int i = 0; i < graph->chain_count && !any; i++)
		graph_copy_note(graph, i, false, why[i]);
	return any;
}

/* Where the copy of this executable graph goes. It may have had another before it was updated: then
 * launches wait for that one's. NULL: there is no place. */
static struct graph_copy **place_for(CUgraphExec exec)
{
	struct graph_copy **place = NULL;

	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			return &copies[i];
		else if (!copies[i] && !place)
			place = &copies[i];
	return place;
}

static struct graph_copy *new_copy(struct recorded_graph *graph, const char **why)
{
	struct graph_copy *copy = calloc(1, sizeof(*copy));
	struct driver_context here;
	CUstream workshop = NULL;

	*why = "memory";
	if (copy && copy_order(&copy->order, &graph->order) &&
	    driver_enter(&here, graph->context)) {
		workshop = graph_workshop(graph->context);
		if (workshop)
			*why = graph_row_open(&copy->row, graph);
		driver_leave(&here);
	}
	if (*why) {
		if (copy)
			graph_order_drop(&copy->order);
		free(copy);
		return NULL;
	}
	recording_keep(graph);
	copy->recorded = graph;
	copy->context = graph->context;
	copy->latest = (struct queue){graph->context, workshop};
	copy->interval = config()->sample;
	return copy;
}

void graph_copy_make(struct recorded_graph *graph, CUgraphExec exec, unsigned long long flags)
{
	struct graph_copy **place = place_for(exec), *copy;
	const char *why = "too many graphs";

	COST(PURPOSE_REPLACING);
	if (place && (!graph_copies_wanted() || !flags_are_known(flags) || !graph_rows_possible() ||
		      !any_proven(graph)))
		return;
	copy = place ? new_copy(graph, &why) : NULL;
	if (!copy) {
		log_decline(REASON_CAPTURE, why);
		return;
	}
	copy->program = exec;
	copy->flags = flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	if (*place) {
		copy->latest = (*place)->latest;
		free_copy(*place);
	}
	*place = copy;
	copy_count++;
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
	end(copy);
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
		end(copy);
}

static void leave_alone(struct graph_copy *copy, const char *why)
{
	graph_copy_note_all(copy, why);
	end(copy);
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
	wasted = 0;
	graph_copy_note_all(copy, NULL);
	release_plans(copy);
	if (!config()->sample) {
		beside_free(copy->beside, copy->latest.stream);
		copy->beside = NULL;
	}
}

/* Not compared enough yet. Launches are the program's while the numbers of one are to come, and
 * while an executable graph of ours is made. */
static enum graph_turn learn(struct graph_copy *copy)
{
	if (++copy->launches < FIRST_LAUNCH)
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

static struct graph_copy *copy_of(const void *exec)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && copies[i]->program == exec)
			return copies[i];
	return NULL;
}

struct graph_copy *graph_copy_for(CUgraphExec exec, struct op *op)
{
	struct graph_copy *copy = copy_of(exec);

	if (!copy || is_captured(op_queue(op)))
		return NULL;
	if (!copy->over && op->context != copy->context)
		end(copy);
	/* The handle says another stream in another thread. */
	if (!copy->over && op->stream == CU_STREAM_PER_THREAD) {
		log_decline(REASON_STREAM, "a graph's");
		end(copy);
	}
	/* The driver lets launches of one executable graph wait for each other, but not those of
	 * two, and nothing can be ordered behind a launch that another thread has yet to make. */
	if (!copy->over && copy->under_way) {
		log_decline(REASON_CAPTURE, "launched by two threads at once");
		end(copy);
	}
	/* Launches of one executable graph wait for each other, whatever their streams, and two
	 * stand for this one. */
	if (!order_behind(copy, op_queue(op))) {
		log_violation("a graph could not be ordered behind its own launch");
		end(copy);
	}
	if (op->stream != CU_STREAM_PER_THREAD)
		copy->latest = op_queue(op);
	copy->under_way = true;
	op->watcher = copy;
	return copy->over ? NULL : copy;
}

/* All later ones are behind this one now. */
void graph_copy_passed(const struct op *op, bool capture)
{
	struct graph_copy *copy = copy_of(op->handle);

	if (!copy)
		return;
	copy->under_way = false;
	if (copy->over)
		free_copy(copy);
	else if (capture)
		set_apart(copy);
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
		end(copy);
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
		end(copy);
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
