/* SPDX-License-Identifier: Apache-2.0
 *
 * Only graphs are copied whose nodes stand in one row, each behind the one before.
 */
#include "shim/act/graph_copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/act/graph_proof.h"
#include "shim/act/graph_row.h"
#include "shim/act/replace.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/gpu/blas.h"
#include "shim/gpu/ledger.h"
#include "shim/gpu/scratch.h"
#include "shim/hazard/held.h"
#include "shim/hazard/snapshot.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define COPIES	 64
#define CONTEXTS 16

/* A chain that is replaced in the copy. */
struct part {
	struct site *site;
	int number;	     /* the site's */
	struct chain *chain; /* as it is held after a launch; NULL: nothing is */
	struct chain *held;  /* that is it, as long as it has this serial */
	uint64_t serial;
};

struct graph_copy {
	CUgraphExec program, exec; /* exec NULL: it is no more, but the program's has yet to wait */
	struct queue latest;	   /* where either was launched last */
	struct graph_order order;
	int part_count;
	struct part part[RECORDED_CHAINS];
	int saved_count;
	uint64_t saved[RECORDED_CHAINS * 4]; /* scratch for inputs */
};

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

/* … nor what it stood for. */
static void drop(struct graph_copy *copy)
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
			drop(copies[i]);
}

void graph_copies_end(void)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i])
			end(copies[i]);
}

/* ---- building ------------------------------------------------------------------------------- */

/* Where our own nodes are captured. Streams outlive copies: saved inputs are ordered by them. */
static struct queue workshops[CONTEXTS];

static CUstream workshop(CUcontext context)
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

/* Whoever comes later waits for the stream's work at our own. */
void graph_copy_forget_stream(CUstream stream)
{
	for (int i = 0; i < COPIES; i++) {
		struct queue ours;

		if (!copies[i] || copies[i]->latest.stream != stream)
			continue;
		ours = (struct queue){copies[i]->latest.context,
				      workshop(copies[i]->latest.context)};
		if (ours.stream && !driver_order(copies[i]->latest, ours))
			copies[i]->latest = ours;
		else
			drop(copies[i]);
	}
}

void graph_copy_forget_context(CUcontext context)
{
	for (int i = 0; i < COPIES; i++)
		if (copies[i] && (!context || copies[i]->latest.context == context))
			drop(copies[i]);
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
	chain->captured = chain->recorded = false;
	chain->deferred = chain->closed = true;
	chain->candidates = NULL;
	chain->timing = NULL;
	chain->graph = copy;
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

static struct graph_copy *build(const struct recorded_graph *graph, CUgraphExec exec,
				unsigned long long flags)
{
	static struct { /* of each chain; flow lock */
		const char *why;
		bool held;
	} outcome[RECORDED_CHAINS];
	struct graph_copy *copy = calloc(1, sizeof(*copy));
	const CUstream stream = workshop(graph->context);
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
	drop(copy);
	return NULL;
}

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
	copy = build(graph, exec, flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
	driver_leave(&here);
	if (copy && !copy_order(&copy->order, &graph->order)) {
		drop(copy);
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
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	struct driver_context here;
	CUresult result;

	if (!driver_enter(&here, op->context))
		return true;
	result = driver.cuStreamIsCapturing(op->stream, &status);
	driver_leave(&here);
	return result != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
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
		drop(copy);
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
		held_count++;
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
		drop(copy);
		return false;
	}
	for (int i = 0; i < copy->part_count; i++) {
		count(copy->part[i].site);
		hold(copy, &copy->part[i]);
	}
	return true;
}
