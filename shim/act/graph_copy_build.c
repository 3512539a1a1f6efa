/* SPDX-License-Identifier: Apache-2.0
 *
 * Only graphs are copied whose nodes stand in one row, each behind the one before.
 */
#include "shim/act/graph_copy_parts.h"

#include <stdlib.h>

#include "shim/act/graph_proof.h"
#include "shim/act/graph_row.h"
#include "shim/act/replace.h"
#include "shim/base/config.h"
#include "shim/gpu/blas.h"
#include "shim/gpu/scratch.h"
#include "shim/hazard/held.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define CONTEXTS 16

/* Where our own nodes are captured. Streams outlive copies: saved inputs are ordered by them. */
static struct queue workshops[CONTEXTS];

CUstream graph_workshop(CUcontext context)
{
	int at = 0;

	while (at < CONTEXTS && workshops[at].stream && workshops[at].context != context)
		at++;
	if (at == CONTEXTS)
		return NULL;
	if (!workshops[at].stream &&
	    driver.cuStreamCreate(&workshops[at].stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
		workshops[at].stream = NULL;
	workshops[at].context = context;
	return workshops[at].stream;
}

void graph_workshop_forget(CUcontext context)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (!context || workshops[i].context == context)
			workshops[i] = (struct queue){0};
}

/* Scratch for each input that the proof wants saved, and the chain as it then reads it. */
static bool place_inputs(struct graph_copy *copy, struct chain *chain,
			 const struct graph_proof *proof, CUstream stream)
{
	const int most = (int)(sizeof(copy->saved) / sizeof(copy->saved[0]));

	for (int i = 0; i < chain->input_count; i++) {
		struct input *input = &chain->inputs[i];

		input->lost = false;
		if (!proof->saved[i])
			continue;
		if (copy->saved_count == most)
			return false;
		input->snapshot =
			scratch_get(chain->context, stream, input->end - input->begin, false);
		if (!input->snapshot)
			return false;
		input->lent = true;
		input->unsaved.count = 0;
		input->taken = 0; /* nobody shares it */
		copy->saved[copy->saved_count++] = input->snapshot;
	}
	return true;
}

static int save_inputs(const struct recorded_chain *record, const struct chain *chain,
		       const struct graph_proof *proof, int op, CUstream stream)
{
	int error = 0;

	for (int i = 0; i < chain->input_count; i++)
		if (proof->saved[i] && record->reader[i] == op)
			error |= driver.cuMemcpyDtoDAsync_v2((CUdeviceptr)chain->inputs[i].snapshot,
							     (CUdeviceptr)chain->inputs[i].begin,
							     chain->inputs[i].end -
								     chain->inputs[i].begin,
							     stream) != CUDA_SUCCESS;
	return error;
}

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
	bool any = op == record->close;
	int error;

	*child = NULL;
	for (int i = 0; i < chain->input_count; i++)
		any = any || (proof->saved[i] && record->reader[i] == op);
	if (!any)
		return 0;
	if (driver.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
		return -1;
	error = save_inputs(record, chain, proof, op, stream);
	if (!error && op == record->close)
		error = replace_in_graph(chain, record->site);
	if (!error && op == record->close && config()->poison)
		error = poison(chain, proof, stream);
	if (driver.cuStreamEndCapture(stream, child) != CUDA_SUCCESS)
		*child = NULL;
	if (error && *child) {
		driver.cuGraphDestroy(*child);
		*child = NULL;
	}
	return error || !*child ? -1 : 0;
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
			    const struct recorded_graph *graph, const struct recorded_chain *record,
			    CUstream stream)
{
	static struct graph_proof proof; /* flow lock */
	static struct chain working;
	struct chain *chain = &working;
	struct part *part = &copy->part[copy->part_count];
	const char *why;
	CUgraph fused;

	if (record->site->number != record->number || record->site->state != SITE_VERIFIED)
		return "site";
	why = graph_prove(&proof, graph, record);
	if (why)
		return why;
	*chain = *record->chain;
	*part = (struct part){.site = record->site, .number = record->number};
	if (proof.outlives && blas_prepare(chain->steps[0].gemm.library, chain->context))
		return "cublas";
	if (!place_inputs(copy, chain, &proof, stream))
		return "scratch";
	chain->stream = stream;
	if (capture_child(&fused, record, chain, &proof, record->close))
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

static void note_part(const struct recorded_graph *graph, const struct recorded_chain *record,
		      bool held, const char *why)
{
	struct json *json = log_record("graph");

	json_int(json, "site", record->number);
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

struct graph_copy *graph_copy_build(const struct recorded_graph *graph, CUgraphExec exec,
				    unsigned long long flags)
{
	static struct { /* of each chain; flow lock */
		const char *why;
		bool held;
	} outcome[RECORDED_CHAINS];
	struct graph_copy *copy = calloc(1, sizeof(*copy));
	const CUstream stream = graph_workshop(graph->context);
	struct graph_row row;
	const char *why = copy && stream ? graph_row_open(&row, graph) : "memory";
	bool whole = !why;

	if (why) {
		log_decline(REASON_CAPTURE, why);
		free(copy);
		return NULL;
	}
	copy->program = exec;
	copy->latest = (struct queue){graph->context, stream};
	for (int i = 0; i < graph->chain_count && whole; i++) {
		const int at = copy->part_count;

		outcome[i].why = add_part(copy, &row, graph, graph->chain[i], stream);
		outcome[i].held = copy->part[at].chain != NULL;
		whole = outcome[i].why != half_made;
	}
	if (whole && copy->part_count)
		copy->exec = graph_row_instantiate(&row, flags);
	graph_row_close(&row);
	for (int i = 0; i < graph->chain_count && whole; i++)
		note_part(graph, graph->chain[i], outcome[i].held,
			  outcome[i].why || copy->exec ? outcome[i].why : "cuGraphInstantiate");
	if (!whole)
		log_decline(REASON_CAPTURE, half_made);
	if (copy->exec)
		return copy;
	graph_copy_free(copy);
	return NULL;
}
