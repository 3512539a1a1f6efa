/* SPDX-License-Identifier: Apache-2.0
 *
 * Which nodes an op became is seen from where the stream stands in the graph before and after it.
 */
#include "shim/act/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/act/graph_copy.h"
#include "shim/base/config.h"
#include "shim/hazard/held.h"
#include "shim/log/decline.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define GRAPHS	    128 /* of which something is known at a time */
#define MOST_OPS    65536
#define MOST_CHAINS 256 /* of all graphs */

/* Without a chain, a graph may yet become a part of one that has some: so many ops of it. The
 * oldest of these makes room where there are too many. */
#define MOST_PART_OPS 64
#define MOST_PARTS    (GRAPHS / 2)

/* Graphs in a row of which nothing was made, until no further one is followed: a program may
 * capture one for each step, to update another by it. */
#define MOST_IDLE 8

static struct recorded_graph *graphs[GRAPHS];
static int chains; /* kept of them all */
static int idle;   /* graphs in a row of which nothing was made */
static uint64_t serials;

/* The capture that is followed. */
static struct {
	struct recorded_graph *graph; /* NULL: none */
	CUstream stream;
	CUgraph handle;
	CUgraphNode tail;
	bool built; /* there is no capture, but a graph that is read */
	bool onto;  /* it goes into a graph, behind these nodes: */
	struct recorded_behind behind;
	bool ending;  /* it should have ended by now */
	struct open { /* chains that are open: what will be their records */
		uint64_t serial;
		struct recorded_chain record;
	} open[CHAIN_COUNT];
} following;

static void release(struct recorded_graph *graph)
{
	if (--graph->users > 0)
		return;
	for (int i = 0; i < graph->chain_count; i++) {
		free(graph->chain[i]->chain);
		free(graph->chain[i]);
	}
	chains -= graph->chain_count;
	for (int i = 0; i < graph->op_count; i++)
		free(graph->op[i].gemm);
	graph_order_drop(&graph->order);
	free(graph->op);
	free(graph);
}

static void drop(struct recorded_graph *graph)
{
	if (graph->graph && graph->chain_count)
		idle = graph->instantiated ? 0 : idle + 1;
	release(graph);
}

static void drop_open_chains(void)
{
	for_each_chain(chain) if (chain->recorded) held_drop(chain);
}

void recording_fail(const char *why)
{
	if (!following.graph)
		return;
	log_decline(REASON_CAPTURE, why);
	drop(following.graph);
	following.graph = NULL;
	drop_open_chains();
}

/* ---- where a stream stands ------------------------------------------------------------------ */

struct place {
	CUstreamCaptureStatus status;
	CUgraph graph;
	CUgraphNode tail;	       /* NULL: nothing was captured yet */
	bool plain;		       /* what comes next begins when that node is done, … */
	bool single;		       /* … and needs no other one */
	struct recorded_behind behind; /* that one, and the others; -1: too many */
	bool known;		       /* each is the last one of an op that is followed */
};

static bool is_plain(const CUgraphEdgeData *edge)
{
	return !edge || (!edge->from_port && !edge->to_port && !edge->type);
}

/* Mostly it is the latest op's. */
static bool is_known(CUgraphNode node)
{
	const struct recorded_graph *graph = following.graph;

	if (node == following.tail)
		return true;
	for (int i = 0; i < following.behind.count; i++)
		if (following.behind.node[i] == node)
			return true;
	for (int i = graph ? graph->op_count - 1 : -1; i >= 0; i--)
		if (graph->op[i].last == node)
			return true;
	return false;
}

static bool place_of(struct place *place, CUcontext context, CUstream stream)
{
	const CUgraphNode *nodes = NULL;
	const CUgraphEdgeData *edges = NULL;
	struct driver_context here;
	cuuint64_t id;
	size_t count = 0;
	CUresult result;

	memset(place, 0, sizeof(*place));
	if (!driver.cuStreamGetCaptureInfo_v3 || !driver_enter(&here, context))
		return false;
	result = driver.cuStreamGetCaptureInfo_v3(stream, &place->status, &id, &place->graph,
						  &nodes, &edges, &count);
	if (result == CUDA_SUCCESS && place->status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		place->plain = place->known = true;
		for (size_t i = 0; i < count; i++) {
			place->plain &= !edges || is_plain(&edges[i]);
			place->known = place->known && is_known(nodes[i]);
			if (i < RECORDED_BEHIND)
				place->behind.node[i] = nodes[i];
		}
		place->behind.count = count <= RECORDED_BEHIND ? (int)count : -1;
		place->single = count <= 1;
		place->tail = count ? nodes[0] : NULL;
	}
	driver_leave(&here);
	return result == CUDA_SUCCESS;
}

/* ---- following ------------------------------------------------------------------------------ */

static bool worthwhile(void)
{
	return config()->graphs == GRAPHS_PROVE && config()->mode == MODE_REPLACE;
}

static bool follow(CUgraph graph, CUcontext context, CUstream stream)
{
	memset(&following, 0, sizeof(following));
	following.graph = calloc(1, sizeof(*following.graph));
	if (!following.graph)
		return false;
	following.graph->users = 1;
	following.graph->context = context;
	following.graph->serial = ++serials;
	following.stream = stream;
	following.handle = graph;
	return true;
}

CUgraph recording_place(const struct op *op)
{
	struct place place;

	return op->context && place_of(&place, op->context, op->stream) &&
			       place.status == CU_STREAM_CAPTURE_STATUS_ACTIVE
		       ? place.graph
		       : NULL;
}

void recording_begin(const struct op *op, bool onto)
{
	struct place place;

	if (following.graph && !following.ending) {
		recording_fail("more than one capture");
		return;
	}
	if (following.graph)
		drop(following.graph);
	following.graph = NULL;
	if (!worthwhile() || !op->context)
		return;
	if (idle >= MOST_IDLE || !graph_copies_wanted()) {
		log_decline(REASON_CAPTURE, idle >= MOST_IDLE
						    ? "graphs of which nothing is made"
						    : "graphs that change before they are known");
		return;
	}
	if (!place_of(&place, op->context, op->stream) ||
	    place.status != CU_STREAM_CAPTURE_STATUS_ACTIVE || (place.tail && !onto) ||
	    !place.plain || place.behind.count < 0 || !follow(place.graph, op->context, op->stream))
		return;
	following.onto = onto;
	following.behind = place.behind;
	following.tail = place.tail;
}

bool recording_begin_built(CUgraph graph, CUcontext context, CUstream stream, bool branched)
{
	if (following.graph || !worthwhile() || !graph_copies_wanted() ||
	    !follow(graph, context, stream))
		return false;
	following.built = following.graph->built = true;
	following.graph->branched = branched;
	return true;
}

static struct recorded_op *append(struct recorded_graph *graph)
{
	const int room = graph->op_room ? 2 * graph->op_room : 128;
	struct recorded_op *grown;

	if (graph->op_count == graph->op_room) {
		grown = room > MOST_OPS ? NULL
					: realloc(graph->op, (size_t)room * sizeof(*graph->op));
		if (!grown)
			return NULL;
		graph->op = grown;
		graph->op_room = room;
	}
	memset(&graph->op[graph->op_count], 0, sizeof(*graph->op));
	return &graph->op[graph->op_count++];
}

/* Why an op ends the following, by where its stream stands; NULL: it does not. A node that came
 * unseen before it is found when nodes are counted (graph_row.c), but ahead of an op that may
 * become several. */
static const char *misplaced(const struct op *op)
{
	const bool joined = op->stream != following.stream;
	struct place place;

	if (!place_of(&place, op->context, op->stream) || place.graph != following.handle ||
	    !place.plain)
		return joined ? "more than one stream" : "work beside the capture";
	if (!place.known)
		return "nodes that came unseen";
	if (joined && following.onto)
		return "more than one stream";
	following.graph->branched |= joined || !place.single;
	return NULL;
}

static const char *unaccountable(const struct sight *sight)
{
	const struct op *op = sight->op;
	const bool joined = op->stream != following.stream;
	const char *why = NULL;

	if (op->context != following.graph->context || (joined && following.built))
		return "more than one stream";
	if (!following.built && (joined || op->kind == OP_GEMM || op->kind == OP_LIBRARY))
		why = misplaced(op);
	if (why)
		return why;
	if (op->kind == OP_FREE || op->kind == OP_OPAQUE || op->kind == OP_GRAPH_LAUNCH ||
	    sight->list->opaque)
		return sight->who;
	return NULL;
}

static bool keep(struct recorded_op *record, const struct sight *sight)
{
	record->kind = sight->op->kind;
	snprintf(record->name, sizeof(record->name), "%s", sight->who);
	if (record->kind != OP_GEMM)
		return true;
	record->gemm = malloc(sizeof(*record->gemm));
	if (record->gemm)
		*record->gemm = sight->op->gemm;
	return record->gemm != NULL;
}

void recording_note(const struct sight *sight)
{
	struct recorded_graph *graph = following.graph;
	struct recorded_op *record;
	const char *why;

	if (!graph)
		return;
	why = unaccountable(sight);
	if (!why) {
		record = append(graph);
		if (record && keep(record, sight) &&
		    graph_order_add(&graph->order, graph->op_count - 1, sight->list)) {
			sight->op->recorded = graph->op_count;
			return;
		}
		why = "too many nodes";
	}
	recording_fail(why);
}

/* What it was that did not lead to one node behind the other. */
static void fail_row(const struct recorded_op *record, const struct place *place)
{
	char why[96];

	snprintf(why, sizeof(why), "not a row of nodes: %s%s", record->name,
		 place->graph != following.handle ? ", in another graph" : "");
	recording_fail(why);
}

void recording_ran(const struct op *op)
{
	struct recorded_graph *graph = following.graph;
	struct place place;

	if (!graph || following.built || op->recorded < 1 || op->recorded > graph->op_count)
		return;
	/* Behind more than one node it became none. */
	if (!place_of(&place, op->context, op->stream) || place.graph != following.handle ||
	    !place.plain || (!place.single && !place.known)) {
		fail_row(&graph->op[op->recorded - 1], &place);
		return;
	}
	graph->op[op->recorded - 1].captured = true;
	if (!place.single) {
		graph->branched = true;
		return;
	}
	graph->op[op->recorded - 1].last = following.tail = place.tail;
}

void recording_found(const struct op *op, CUgraphNode last, int nodes)
{
	struct recorded_graph *graph = following.graph;
	struct recorded_op *record;

	if (!graph || op->recorded < 1 || op->recorded > graph->op_count)
		return;
	record = &graph->op[op->recorded - 1];
	record->captured = true;
	record->nodes = nodes;
	record->last = following.tail = nodes ? last : following.tail;
}

/* ---- chains --------------------------------------------------------------------------------- */

static struct open *open_of(const struct chain *chain)
{
	struct open *unused = NULL;

	for (int i = 0; i < CHAIN_COUNT; i++) {
		struct open *open = &following.open[i];
		bool lives = false;

		if (open->serial == chain->serial)
			return open;
		for_each_chain(other) lives = lives || other->serial == open->serial;
		if (!lives)
			unused = open;
	}
	if (unused)
		unused->serial = chain->serial;
	return unused;
}

void recording_step(const struct chain *chain, const struct op *op, int inputs)
{
	struct open *open = following.graph ? open_of(chain) : NULL;

	if (!open)
		return;
	open->record.step[chain->step_count - 1] = op->recorded - 1;
	for (int i = inputs; i < chain->input_count; i++)
		open->record.reader[i] = op->recorded - 1;
}

void recording_close(const struct chain *chain, struct site *site, const struct op *op,
		     int kept_inputs)
{
	struct recorded_graph *graph = following.graph;
	struct open *open = graph ? open_of(chain) : NULL;
	struct recorded_chain *record;

	if (!open || graph->chain_count == RECORDED_CHAINS || chains == MOST_CHAINS)
		return;
	record = malloc(sizeof(*record));
	if (!record)
		return;
	*record = open->record;
	record->chain = malloc(sizeof(*chain));
	if (!record->chain) {
		free(record);
		return;
	}
	*record->chain = *chain;
	record->site = site;
	record->number = site->number;
	record->close = op->recorded - 1;
	record->kept_inputs = kept_inputs;
	for (int i = kept_inputs; i < chain->input_count; i++)
		record->reader[i] = record->close;
	graph->chain[graph->chain_count++] = record;
	chains++;
}

/* ---- the end -------------------------------------------------------------------------------- */

void recording_ends(const struct op *op)
{
	struct place place;

	if (!following.graph || op->stream != following.stream)
		return;
	following.ending = true;
	if (!place_of(&place, following.graph->context, op->stream) ||
	    place.graph != following.handle || !place.plain || !place.known ||
	    (following.onto && place.tail != following.tail))
		recording_fail("nodes that came unseen");
}

/* Where the next one goes. NULL: there is no room. */
static struct recorded_graph **place_for(const struct recorded_graph *graph)
{
	struct recorded_graph **free = NULL, **oldest = NULL;
	int parts = 0;

	for (int i = 0; i < GRAPHS; i++)
		if (!graphs[i]) {
			free = &graphs[i];
		} else if (!graphs[i]->chain_count) {
			parts++;
			if (!oldest || graphs[i]->serial < (*oldest)->serial)
				oldest = &graphs[i];
		}
	if (!oldest || (free && (graph->chain_count || parts < MOST_PARTS)))
		return free;
	drop(*oldest);
	*oldest = NULL;
	return oldest;
}

struct recorded_graph *recording_taken(CUgraph handle, struct recorded_behind *behind)
{
	struct recorded_graph *graph = following.graph;

	if (!graph || !following.onto)
		return NULL;
	recording_forget(handle);
	following.graph = NULL;
	graph->graph = handle;
	*behind = following.behind;
	if (handle == following.handle)
		return graph;
	release(graph);
	return NULL;
}

void recording_ended(CUgraph handle)
{
	struct recorded_graph *graph = following.graph, **place;

	recording_forget(handle);
	following.graph = NULL;
	if (!graph)
		return;
	if (handle != following.handle ||
	    (!graph->chain_count && graph->op_count > MOST_PART_OPS)) {
		drop(graph);
		return;
	}
	place = place_for(graph);
	if (!place) {
		drop(graph);
		return;
	}
	graph->graph = handle;
	*place = graph;
}

struct recorded_graph *recording_of(CUgraph graph)
{
	for (int i = 0; i < GRAPHS; i++)
		if (graphs[i] && graphs[i]->graph == graph) {
			graphs[i]->instantiated = true;
			return graphs[i];
		}
	return NULL;
}

void recording_keep(struct recorded_graph *graph)
{
	graph->users++;
}

void recording_release(struct recorded_graph *graph)
{
	release(graph);
}

void recording_forget(const void *graph)
{
	for (int i = 0; i < GRAPHS; i++)
		if (graphs[i] && (!graph || graphs[i]->graph == graph)) {
			if (!graph)
				log_decline(REASON_CAPTURE, "changed by hand");
			drop(graphs[i]);
			graphs[i] = NULL;
		}
}
