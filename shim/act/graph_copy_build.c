/* SPDX-License-Identifier: Apache-2.0
 *
 * Only graphs are copied whose nodes are all accounted for, and in a known order.
 */
#include "shim/act/graph_copy_parts.h"

#include <stdlib.h>
#include <string.h>

#include "shim/act/graph_proof.h"
#include "shim/act/replace.h"
#include "shim/base/config.h"
#include "shim/gpu/blas.h"
#include "shim/hazard/held.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

/* ---- what is to be built ----------------------------------------------------------------------
 */

const char *graph_copy_order_ops(struct recorded_graph *graph)
{
	struct driver_context here;
	const char *why = "context";

	if (driver_enter(&here, graph->context)) {
		why = graph_row_order(graph);
		driver_leave(&here);
	}
	return why;
}

/* Tells the log what became of one of the graph's chains; `why` NULL: it is replaced. */
static void note_chain(const struct recorded_graph *graph, int index, bool held, const char *why)
{
	struct json *json = log_record("graph");

	json_int(json, "site", graph->chain[index]->number);
	json_int(json, "ops", graph->op_count);
	json_string(json, "state", why ? "left" : "replaced");
	if (why)
		json_string(json, "detail", why);
	else
		json_string(json, "scores", held ? "held" : "overwritten");
	log_commit(json);
	if (why)
		log_decline(REASON_CAPTURE, why);
}

bool graph_copy_any_proven(const struct recorded_graph *graph)
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
		note_chain(graph, i, false, why[i]);
	return any;
}

struct graph_copy *graph_copy_new(struct recorded_graph *graph, const char **why)
{
	struct graph_copy *copy = calloc(1, sizeof(*copy));
	struct driver_context here;
	CUstream workshop = NULL;

	*why = "memory";
	if (copy && graph_order_copy(&copy->order, &graph->order) &&
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

void graph_copy_release_plans(struct graph_copy *copy)
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

/* ---- building -------------------------------------------------------------------------------- */

static int poison(const struct chain *chain, const struct graph_proof *proof, CUstream stream)
{
	int error = 0;

	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &proof->first[i]) {
			const uint64_t begin = (r->begin + 3) & ~3ull;

			if (r->end >= begin + 4)
				error |= driver.cuMemsetD32Async((CUdeviceptr)begin, POISON_WORD,
								 (r->end - begin) / 4,
								 stream) != CUDA_SUCCESS;
		}
	return error;
}

/* The child graph that stands in the place of one of the chain's ops. 0: *child may be NULL, there
 * is nothing to do. */
static int capture_child(CUgraph *child, const struct recorded_chain *record, struct chain *chain,
			 const struct graph_proof *proof, int op)
{
	const CUstream stream = chain->stream;
	int error;

	*child = NULL;
	if (op != record->close && !graph_saved_at(record, proof->saved, op))
		return 0;
	if (graph_child_begin(stream))
		return -1;
	error = graph_saved_copy(record, chain, proof->saved, op);
	if (!error && op == record->close)
		error = replace_in_graph(chain, record->site);
	if (!error && op == record->close && config()->poison)
		error = poison(chain, proof, stream);
	*child = graph_child_end(stream, error);
	return *child ? 0 : -1;
}

/* The chain's ops: out of the row, with what stands for them in their place. */
static int replace_part(struct graph_row *row, const struct recorded_chain *record,
			struct chain *chain, const struct graph_proof *proof, CUgraph fused)
{
	int error = graph_row_replace(row, record->close, fused);

	for (int i = 0; i < chain->step_count && !error; i++) {
		CUgraph child;

		error = capture_child(&child, record, chain, proof, record->step[i]);
		if (!error)
			error = graph_row_replace(row, record->step[i], child);
	}
	return error;
}

/* What of the chain is held after a launch. */
static struct chain *held_form(const struct graph_copy *copy, const struct chain *from,
			       const struct recorded_chain *record, const struct graph_proof *proof)
{
	struct chain *chain = malloc(sizeof(*chain));

	if (!chain)
		return NULL;
	*chain = *from;
	chain->captured = chain->recorded = chain->deferred = false;
	chain->candidates = NULL;
	chain->timing = NULL;
	chain->graph = copy;
	chain->closed = true; /* without an output of its own */
	chain->site = record->site;
	chain->input_count = record->kept_inputs;
	chain->relayed[2] = chain->narrow[0] = chain->narrow[1] = -1;
	for (int i = 0; i < chain->value_count; i++)
		chain->values[i].live = proof->left[i];
	return chain;
}

static const char half_made[] = "memory"; /* a chain is out of the row, and not replaced */

static const char *add_part(struct graph_copy *copy, struct graph_row *row,
			    const struct recorded_graph *graph, int index, CUstream stream)
{
	static struct graph_proof proof; /* flow lock */
	static struct chain working;
	const struct recorded_chain *record = graph->chain[index];
	struct chain *chain = &working;
	struct part *part = &copy->part[copy->part_count];
	const struct attn_variant *variant;
	struct attn_args args;
	const char *why;
	CUgraph fused;
	int error;

	if (record->site->number != record->number || record->site->state != SITE_VERIFIED)
		return "site";
	why = graph_prove(&proof, graph, record);
	if (why) /* what is not proven was never compared */
		return why;
	if (!beside_agrees(copy->beside, index))
		return "comparison";
	*chain = *record->chain;
	*part = (struct part){.site = record->site, .number = record->number};
	if (proof.outlives && blas_prepare(&chain->steps[0].gemm, chain->context))
		return "cublas";
	if (!graph_saved_place(&copy->saved, chain, proof.saved, stream))
		return "scratch";
	chain->stream = stream;
	chain->made_stays = true;
	variant = replace_call(&args, chain, record->site);
	if (variant)
		graph_room_open(chain, variant, &args);
	error = !variant || capture_child(&fused, record, chain, &proof, record->close);
	if (!graph_saved_made(&copy->saved, chain) || error)
		return "fused_launch";
	if (replace_part(row, record, chain, &proof, fused))
		return half_made;
	if (proof.outlives) {
		part->chain = held_form(copy, chain, record, &proof);
		if (!part->chain)
			return half_made;
	}
	copy->part_count++;
	return NULL;
}

void graph_copy_note_all(const struct graph_copy *copy, const char *why)
{
	for (int i = 0; i < copy->recorded->chain_count; i++)
		note_chain(copy->recorded, i, copy->outcome[i].held,
			   copy->outcome[i].why ? copy->outcome[i].why : why);
}

bool graph_copy_build(struct graph_copy *copy)
{
	const struct recorded_graph *graph = copy->recorded;
	const CUstream stream = graph_workshop(graph->context);
	struct graph_row row;
	bool whole = stream && graph_row_copy(&row, &copy->row);

	if (!whole) {
		log_decline(REASON_CAPTURE, half_made);
		return false;
	}
	for (int i = 0; i < graph->chain_count && whole; i++) {
		const int at = copy->part_count;

		copy->outcome[i].why = add_part(copy, &row, graph, i, stream);
		copy->outcome[i].held = copy->part[at].chain != NULL;
		whole = copy->outcome[i].why != half_made;
	}
	if (whole && copy->part_count)
		copy->making = graph_row_make(&row, graph->context, copy->flags);
	graph_row_close(&row);
	if (!whole)
		log_decline(REASON_CAPTURE, half_made);
	else if (!copy->making)
		graph_copy_note_all(copy, half_made);
	return copy->making != NULL;
}
