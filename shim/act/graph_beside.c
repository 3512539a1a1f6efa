/* SPDX-License-Identifier: Apache-2.0
 *
 * Where chains run beside each other, theirs are put one behind the other, so that the comparisons
 * of one graph have their scratch together; only their numbers lie apart. These are copied to the
 * host behind a launch.
 */
#include "shim/act/graph_beside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/act/comparison.h"
#include "shim/act/graph_child.h"
#include "shim/act/graph_proof.h"
#include "shim/act/replace.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
#include "shim/gpu/made_bias.h"
#include "shim/gpu/scratch.h"
#include "shim/gpu/timing.h"
#include "shim/real/driver.h"

/* Launches beyond those that are needed, until a chain is given up of which they say nothing. */
#define MORE_LAUNCHES 6

/* Pinned memory for the numbers of one launch. It is kept. */
#define PLACES 8

static struct place {
	CUcontext context; /* NULL: there is none yet */
	struct comparison_result *memory;
	CUevent done;
	bool busy; /* something may still be copied there */
	struct graph_beside *user;
} places[PLACES];

struct compared {
	int index;  /* of the recorded graph's chains */
	int number; /* the site's */
	unsigned passed;
	uint64_t promised; /* to the ledger */
	struct comparison comparison;
};

struct graph_beside {
	CUcontext context;
	struct graph_making *making; /* NULL: it is made, … */
	CUgraphExec exec;
	const char *failed; /* … or this is why not */
	int count, room;
	struct compared *part;
	struct comparison_buffers buffers; /* … .result: of the first part */
	struct graph_saved saved;
	unsigned launches;
	bool broken;	     /* nothing comes back */
	struct place *place; /* under way; NULL: nothing is */
};

/* ---- where results go ----------------------------------------------------------------------- */

static bool arrived(const struct place *place)
{
	return driver.cuEventQuery(place->done) != CUDA_ERROR_NOT_READY;
}

static struct place *place_for(CUcontext context)
{
	for (int i = 0; i < PLACES; i++) {
		struct place *place = &places[i];
		void *memory = NULL;

		if (place->context && place->context != context)
			continue;
		if (place->busy && !place->user && arrived(place))
			place->busy = false;
		if (place->busy)
			continue;
		if (!place->memory &&
		    driver.cuMemAllocHost_v2(&memory, RECORDED_CHAINS * sizeof(*place->memory)) !=
			    CUDA_SUCCESS)
			return NULL;
		if (memory)
			place->memory = memory;
		place->context = context;
		if (!place->done &&
		    driver.cuEventCreate(&place->done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
			return NULL;
		return place;
	}
	return NULL;
}

void beside_forget(CUcontext context)
{
	for (int i = 0; i < PLACES; i++)
		if (!context || places[i].context == context)
			places[i] = (struct place){0};
}

/* ---- building ------------------------------------------------------------------------------- */

static bool is_its_site(const struct site *site, int number)
{
	return site->number == number && site->state != SITE_DECLINED;
}

bool beside_takes(const struct recorded_chain *record)
{
	return is_its_site(record->site, record->number);
}

/* It is worked on no more. `saved` NULL: nothing of it is used. */
static bool close_chain(struct chain *chain, struct graph_saved *saved)
{
	if (saved)
		return graph_saved_made(saved, chain);
	chain->made_stays = false;
	made_bias_put(chain);
	return true;
}

/* The chain as it is worked on, and what is called beside it. NULL: nothing is. */
static const struct attn_variant *open_chain(const struct recorded_graph *graph,
					     const struct recorded_chain *record,
					     struct chain *chain, struct graph_proof *proof,
					     struct graph_saved *saved, struct attn_args *args,
					     CUstream stream)
{
	const struct attn_variant *variant;

	if (!beside_takes(record) || graph_prove(proof, graph, record))
		return NULL;
	*chain = *record->chain;
	chain->stream = stream;
	if (saved && !graph_saved_place(saved, chain, proof->beside, stream))
		return NULL;
	chain->made_stays = true;
	variant = replace_call(args, chain, record->site);
	if (!variant)
		close_chain(chain, saved);
	return variant;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool get_buffers(struct graph_beside *beside, const struct recorded_graph *graph,
			CUstream stream)
{
	static struct graph_proof proof; /* flow lock */
	static struct chain chain;
	struct comparison_buffers most = {0};
	struct attn_args args;

	for (int i = 0; i < graph->chain_count; i++) {
		struct comparison_buffers bytes;

		if (!open_chain(graph, graph->chain[i], &chain, &proof, NULL, &args, stream))
			continue;
		close_chain(&chain, NULL);
		bytes = comparison_bytes(&args);
		most.output = larger(most.output, bytes.output);
		most.reference = larger(most.reference, bytes.reference);
		most.scores = larger(most.scores, bytes.scores);
		most.result += bytes.result;
	}
	return most.result &&
	       comparison_buffers_get(&beside->buffers, &most, graph->context, stream);
}

/* What is around the program's ops: copies of inputs and the clock's start ahead of them; behind
 * them its stop and, behind the last one, the comparison. */
struct around {
	const struct recorded_chain *record;
	const struct chain *chain;
	const struct graph_proof *proof;
	const struct attn_args *args;
	const struct attn_variant *variant;
	const struct comparison *comparison;
	struct comparison_buffers buffers;
};

/* *child is NULL where there is nothing. */
static int capture_ahead(CUgraph *child, const struct around *a, int op, enum timing_part part)
{
	const CUstream stream = a->chain->stream;
	int error;

	*child = NULL;
	if (!a->comparison->timing && !graph_saved_at(a->record, a->proof->beside, op))
		return 0;
	if (graph_child_begin(stream))
		return -1;
	error = graph_saved_copy(a->record, a->chain, a->proof->beside, op);
	timing_start(a->comparison->timing, part);
	*child = graph_child_end(stream, error);
	return *child ? 0 : -1;
}

static int capture_behind(CUgraph *child, const struct around *a, bool last)
{
	const struct attn_tensor packed = {0};
	const CUstream stream = a->chain->stream;
	int error = 0;

	*child = NULL;
	if (!a->comparison->timing && !last)
		return 0;
	if (graph_child_begin(stream))
		return -1;
	timing_stop(a->comparison->timing);
	if (last)
		error = comparison_enqueue(a->comparison, a->chain, a->args, &packed, a->variant,
					   &a->buffers, NULL);
	if (last && !error)
		error = comparison_mark(a->comparison->last, a->chain);
	*child = graph_child_end(stream, error);
	return *child ? 0 : -1;
}

static enum timing_part part_of(const struct chain *chain, int step)
{
	if (step == 0)
		return TIMING_GEMM1;
	if (step == chain->step_count)
		return TIMING_GEMM2;
	return chain->steps[step].meaning.role == ROLE_SOFTMAX ? TIMING_SOFTMAX : TIMING_MIDDLE;
}

static int surround(struct graph_row *row, const struct around *a)
{
	const int steps = a->chain->step_count;
	int error = 0;

	for (int i = 0; i <= steps && !error; i++) {
		const int op = i < steps ? a->record->step[i] : a->record->close;
		CUgraph ahead, behind;

		error = capture_ahead(&ahead, a, op, part_of(a->chain, i));
		error |= capture_behind(&behind, a, i == steps);
		if (ahead || behind)
			error |= graph_row_surround(row, op, ahead, behind);
	}
	return error;
}

/* Of a site that is still to be learned one occurrence is timed. false: none can be. */
static bool settle_timing(struct graph_beside *beside, struct compared *part, CUstream stream)
{
	const struct site *site = part->comparison.site;

	if (site->state != SITE_LEARNING)
		return true;
	for (int i = 0; i < beside->count; i++)
		if (beside->part[i].comparison.site == site)
			return true;
	part->comparison.timing = timing_of_graph(beside->context, stream);
	return part->comparison.timing != NULL;
}

/* -1: the row is of no use any more. */
static int compare_beside(struct graph_beside *beside, struct graph_row *row,
			  const struct recorded_graph *graph, int index, struct around *a)
{
	struct compared *part = &beside->part[beside->count];
	struct comparison *comparison = &part->comparison;

	if (!comparison_events(comparison))
		return 0;
	part->index = index;
	part->number = a->record->number;
	comparison_of(comparison, a->record->site, a->chain, a->args, a->variant);
	comparison->in_graph = true;
	a->comparison = comparison;
	a->buffers.result += (uint64_t)beside->count * sizeof(struct comparison_result);
	if (!settle_timing(beside, part, a->chain->stream))
		return 0;
	if (beside->count)
		graph_row_one_by_one(row, graph->chain[part[-1].index]->close, a->record->close);
	beside->count++;
	return surround(row, a);
}

static int add_part(struct graph_beside *beside, struct graph_row *row,
		    const struct recorded_graph *graph, int index, CUstream stream)
{
	static struct graph_proof proof; /* flow lock */
	static struct chain chain;
	struct attn_args args;
	struct around a = {.record = graph->chain[index],
			   .chain = &chain,
			   .proof = &proof,
			   .args = &args,
			   .buffers = beside->buffers};
	int error;

	a.variant = open_chain(graph, a.record, &chain, &proof, &beside->saved, &args, stream);
	if (!a.variant)
		return 0;
	graph_room_open(&chain, a.variant, &args);
	error = compare_beside(beside, row, graph, index, &a);
	return close_chain(&chain, &beside->saved) ? error : -1;
}

struct graph_beside *beside_build(const struct recorded_graph *graph, const struct graph_row *from,
				  unsigned long long flags)
{
	struct graph_beside *beside = calloc(1, sizeof(*beside));
	const CUstream stream = graph_workshop(graph->context);
	struct graph_row row;
	int error = 0;

	if (!beside || !stream || !driver.cuEventRecordWithFlags) {
		free(beside);
		return NULL;
	}
	COST(PURPOSE_LEARNING);
	beside->context = graph->context;
	beside->room = graph->chain_count;
	beside->part = calloc((size_t)beside->room, sizeof(*beside->part));
	if (beside->part && get_buffers(beside, graph, stream) && graph_row_copy(&row, from)) {
		for (int i = 0; i < graph->chain_count && !error; i++)
			error = add_part(beside, &row, graph, i, stream);
		if (!error && beside->count)
			beside->making = graph_row_make(&row, graph->context, flags);
		graph_row_close(&row);
	}
	if (beside->making)
		return beside;
	beside_free(beside, stream);
	return NULL;
}

/* ---- launches ------------------------------------------------------------------------------- */

static void part_over(struct compared *part, double took_us)
{
	ledger_settle(LEDGER_COMPARE, part->promised, took_us);
	part->comparison.site->pending--;
}

static void take_in(struct graph_beside *beside)
{
	const bool good = driver.cuEventQuery(beside->place->done) == CUDA_SUCCESS;

	COST(PURPOSE_LEARNING);
	for (int i = 0; i < beside->count; i++) {
		struct compared *part = &beside->part[i];
		const struct comparison *comparison = &part->comparison;

		part_over(part, good ? timing_between(comparison->first, comparison->last) : 0);
		if (good && part->number == comparison->site->number)
			part->passed += comparison_judge(comparison);
	}
	beside->broken |= !good;
	beside->place->busy = false;
	beside->place->user = NULL;
	beside->place = NULL;
}

void beside_take_in(struct graph_beside *beside)
{
	struct driver_context here;

	if (beside->making &&
	    graph_making_take(beside->making, &beside->exec, &beside->failed) != -EAGAIN)
		beside->making = NULL;
	if (!beside->place || !driver_enter(&here, beside->context))
		return;
	if (arrived(beside->place))
		take_in(beside);
	driver_leave(&here);
}

const char *beside_failed(const struct graph_beside *beside)
{
	return beside->making || beside->exec ? NULL : beside->failed;
}

bool beside_may_launch(const struct graph_beside *beside)
{
	struct driver_context here;
	bool may;

	if (!beside->exec || beside->place || beside->broken ||
	    !ledger_affords_many(LEDGER_COMPARE, (unsigned)beside->count) ||
	    !driver_enter(&here, beside->context))
		return false;
	may = place_for(beside->context) != NULL;
	driver_leave(&here);
	return may;
}

static bool fetch(const struct graph_beside *beside, struct place *place, CUstream stream)
{
	return driver.cuMemcpyDtoHAsync_v2(place->memory, (CUdeviceptr)beside->buffers.result,
					   (size_t)beside->count * sizeof(*place->memory),
					   stream) == CUDA_SUCCESS &&
	       driver.cuEventRecord(place->done, stream) == CUDA_SUCCESS;
}

bool beside_launch(struct graph_beside *beside, struct queue queue)
{
	struct driver_context here;
	struct place *place;
	bool launched, fetched = false;

	if (!driver_enter(&here, queue.context))
		return false;
	place = place_for(beside->context);
	launched = place && driver.cuGraphLaunch(beside->exec, queue.stream) == CUDA_SUCCESS;
	if (launched)
		fetched = fetch(beside, place, queue.stream);
	driver_leave(&here);
	beside->launches += launched;
	beside->broken |= launched && !fetched;
	if (!fetched)
		return launched;
	place->busy = true;
	place->user = beside;
	beside->place = place;
	for (int i = 0; i < beside->count; i++) {
		struct compared *part = &beside->part[i];
		struct site *site = part->comparison.site;

		part->comparison.result = &place->memory[i];
		part->comparison.occurrence = ++site->live->seen;
		part->promised = ledger_promise(LEDGER_COMPARE);
		timing_again(part->comparison.timing);
		site->live->compared++;
		site->pending++;
	}
	return true;
}

/* ---- what they say -------------------------------------------------------------------------- */

static bool agrees(const struct compared *part)
{
	return part->passed >= config()->learn && is_its_site(part->comparison.site, part->number);
}

bool beside_settled(const struct graph_beside *beside)
{
	if (beside->broken || beside->launches >= config()->learn + MORE_LAUNCHES)
		return !beside->place;
	for (int i = 0; i < beside->count; i++)
		if (!agrees(&beside->part[i]) &&
		    is_its_site(beside->part[i].comparison.site, beside->part[i].number))
			return false;
	return true;
}

bool beside_agrees(const struct graph_beside *beside, int index)
{
	for (int i = 0; i < beside->count; i++)
		if (beside->part[i].index == index)
			return agrees(&beside->part[i]);
	return false;
}

bool beside_outdated(const struct graph_beside *beside)
{
	for (int i = 0; i < beside->count; i++) {
		const struct comparison *comparison = &beside->part[i].comparison;

		if (is_its_site(comparison->site, beside->part[i].number) &&
		    comparison->round_s != comparison->site->round_s)
			return true;
	}
	return false;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void destroy_events(const struct comparison *comparison)
{
	const CUevent events[] = {comparison->first, comparison->begin, comparison->end,
				  comparison->last};

	for (int i = 0; i < 4; i++)
		if (events[i])
			driver.cuEventDestroy_v2(events[i]);
	timing_free(comparison->timing);
}

/* Its numbers may yet come: their place is free once they did. */
void beside_free(struct graph_beside *beside, CUstream stream)
{
	struct driver_context here;
	const bool entered = driver_enter(&here, beside->context);

	if (beside->place) {
		for (int i = 0; i < beside->count; i++)
			part_over(&beside->part[i], 0);
		beside->place->user = NULL;
	}
	if (entered && beside->part) {
		if (beside->exec)
			driver.cuGraphExecDestroy(beside->exec);
		for (int i = 0; i < beside->room; i++)
			destroy_events(&beside->part[i].comparison);
		driver_leave(&here);
	}
	graph_making_drop(beside->making);
	comparison_buffers_put(&beside->buffers, stream);
	graph_saved_put(&beside->saved, stream);
	free(beside->part);
	free(beside);
}
