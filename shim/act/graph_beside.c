/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes of a row run one after the other, so that the comparisons of one graph have their
 * scratch together; only their numbers lie apart. These are copied to the host behind a launch.
 */
#include "shim/act/graph_beside.h"

#include <stdlib.h>
#include <string.h>

#include "shim/act/comparison.h"
#include "shim/act/graph_child.h"
#include "shim/act/graph_proof.h"
#include "shim/act/replace.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/gpu/ledger.h"
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
	CUgraphExec exec;
	int count;
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
	return site->number == number && site->state == SITE_VERIFIED;
}

/* The chain as it is worked on, and what is called beside it. NULL: nothing is. */
static const struct attn_variant *open_chain(const struct recorded_graph *graph,
					     const struct recorded_chain *record,
					     struct chain *chain, struct graph_proof *proof,
					     struct graph_saved *saved, struct attn_args *args,
					     CUstream stream)
{
	if (!is_its_site(record->site, record->number) || graph_prove(proof, graph, record))
		return NULL;
	*chain = *record->chain;
	chain->stream = stream;
	if (saved && !graph_saved_place(saved, chain, proof->beside, stream))
		return NULL;
	return replace_call(args, chain, record->site);
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
		bytes = comparison_bytes(&args);
		most.output = larger(most.output, bytes.output);
		most.reference = larger(most.reference, bytes.reference);
		most.scores = larger(most.scores, bytes.scores);
		most.result += bytes.result;
	}
	return most.result &&
	       comparison_buffers_get(&beside->buffers, &most, graph->context, stream);
}

/* Copies of inputs that this op is the first to read; none: NULL. */
static int capture_saving(CUgraph *child, const struct recorded_chain *record,
			  const struct chain *chain, const struct graph_proof *proof, int op)
{
	*child = NULL;
	if (!graph_saved_at(record, proof->beside, op))
		return 0;
	if (graph_child_begin(chain->stream))
		return -1;
	*child = graph_child_end(chain->stream, graph_saved_copy(record, chain, proof->beside, op));
	return *child ? 0 : -1;
}

static int capture_comparison(CUgraph *child, const struct comparison *comparison,
			      const struct chain *chain, const struct attn_args *args,
			      const struct attn_variant *variant,
			      const struct comparison_buffers *buffers)
{
	const struct attn_tensor packed = {0};
	int error;

	if (graph_child_begin(chain->stream))
		return -1;
	error = comparison_enqueue(comparison, chain, args, &packed, variant, buffers, NULL);
	if (!error)
		error = comparison_mark(comparison->last, chain);
	*child = graph_child_end(chain->stream, error);
	return *child ? 0 : -1;
}

static int surround(struct graph_row *row, const struct recorded_chain *record,
		    const struct chain *chain, const struct graph_proof *proof, CUgraph behind)
{
	CUgraph ahead;
	int error = capture_saving(&ahead, record, chain, proof, record->close);

	error |= graph_row_surround(row, record->close, ahead, behind);
	for (int i = 0; i < chain->step_count && !error; i++) {
		error = capture_saving(&ahead, record, chain, proof, record->step[i]);
		if (!error && ahead)
			error = graph_row_surround(row, record->step[i], ahead, NULL);
	}
	return error;
}

/* -1: the row is of no use any more. */
static int add_part(struct graph_beside *beside, struct graph_row *row,
		    const struct recorded_graph *graph, int index, CUstream stream)
{
	static struct graph_proof proof; /* flow lock */
	static struct chain chain;
	const struct recorded_chain *record = graph->chain[index];
	struct compared *part = &beside->part[beside->count];
	struct comparison_buffers buffers = beside->buffers;
	const struct attn_variant *variant;
	struct attn_args args;
	CUgraph behind;

	variant = open_chain(graph, record, &chain, &proof, &beside->saved, &args, stream);
	if (!variant || !comparison_events(&part->comparison))
		return 0;
	part->index = index;
	part->number = record->number;
	comparison_of(&part->comparison, record->site, &chain, &args, variant);
	buffers.result += (uint64_t)beside->count * sizeof(struct comparison_result);
	if (capture_comparison(&behind, &part->comparison, &chain, &args, variant, &buffers))
		return 0;
	beside->count++;
	return surround(row, record, &chain, &proof, behind);
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
	beside->part = calloc((size_t)graph->chain_count, sizeof(*beside->part));
	if (beside->part && get_buffers(beside, graph, stream) && graph_row_copy(&row, from)) {
		for (int i = 0; i < graph->chain_count && !error; i++)
			error = add_part(beside, &row, graph, i, stream);
		if (!error && beside->count)
			beside->exec = graph_row_instantiate(&row, flags);
		graph_row_close(&row);
	}
	if (beside->exec)
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

bool beside_may_launch(struct graph_beside *beside)
{
	struct driver_context here;
	bool may = false;

	if (!driver_enter(&here, beside->context))
		return false;
	if (beside->place && arrived(beside->place))
		take_in(beside);
	if (!beside->place && !beside->broken &&
	    ledger_affords_many(LEDGER_COMPARE, (unsigned)beside->count))
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

/* ---- the end -------------------------------------------------------------------------------- */

static void destroy_events(const struct comparison *comparison)
{
	const CUevent events[] = {comparison->first, comparison->begin, comparison->end,
				  comparison->last};

	for (int i = 0; i < 4; i++)
		if (events[i])
			driver.cuEventDestroy_v2(events[i]);
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
	if (entered) {
		if (beside->exec)
			driver.cuGraphExecDestroy(beside->exec);
		for (int i = 0; i < beside->count; i++)
			destroy_events(&beside->part[i].comparison);
		driver_leave(&here);
	}
	comparison_buffers_put(&beside->buffers, stream);
	graph_saved_put(&beside->saved, stream);
	free(beside->part);
	free(beside);
}
