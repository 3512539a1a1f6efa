/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions that are asked about an op, one after the other: first what is held back elsewhere
 * is protected from it (held.h), then it may open, extend or close a chain (chain.h), and what is
 * known of the site (site.h) decides whether it runs, waits, or is replaced.
 */
#include "shim/flow/through.h"

#include <string.h>

#include "shim/act/built.h"
#include "shim/act/delivery.h"
#include "shim/act/graph_copy.h"
#include "shim/act/learning.h"
#include "shim/act/occurrence.h"
#include "shim/act/recording.h"
#include "shim/act/replace.h"
#include "shim/ask/addresses.h"
#include "shim/ask/first_look.h"
#include "shim/ask/reach.h"
#include "shim/base/config.h"
#include "shim/chain/digest.h"
#include "shim/chain/parts.h"
#include "shim/flow/capture.h"
#include "shim/flow/in_parts.h"
#include "shim/flow/known.h"
#include "shim/flow/onto.h"
#include "shim/flow/record.h"
#include "shim/flow/rest.h"
#include "shim/flow/settle.h"
#include "shim/flow/touch.h"
#include "shim/gpu/late.h"
#include "shim/gpu/looks.h"
#include "shim/gpu/timing.h"
#include "shim/hazard/copies.h"
#include "shim/hazard/held.h"
#include "shim/hazard/holes.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/op/graph.h"
#include "shim/op/memory.h"
#include "shim/real/bypass.h"
#include "shim/rules/shadow.h"
#include "shim/site/site.h"

bool through_keeps(void)
{
	return chain_live || holes_watch() || capture_under_way() ||
	       (!rest_now() && (shadow_wanted() || copies_watch())) || late_pending();
}

/* ---- chains --------------------------------------------------------------------------------- */

static enum timing_part part_of(const struct step *step)
{
	return step->meaning.role == ROLE_SOFTMAX ? TIMING_SOFTMAX : TIMING_MIDDLE;
}

/* A product over scores that is none of those that could close a chain. */
static void decline_product(const struct op_gemm *gemm)
{
	if (gemm->besides)
		log_decline(REASON_EPILOGUE, gemm->besides);
	else if (dtype_of_cuda(gemm->ctype) < 0)
		log_decline(REASON_DTYPE, gemm->entry);
	else
		log_decline(REASON_LAYOUT, gemm->entry);
}

/* An op that reads an open chain. Returns whether it is taken. */
static enum flow continue_chain(struct chain *chain, const struct sight *sight)
{
	static struct access_list own; /* as far as the chain is concerned; flow lock */
	const struct access_list *list = sight->list;
	struct sight narrowed = *sight;
	struct op *op = sight->op;

	if (!chain_takes_whole(chain, list)) {
		/* Partly overwritten scores are no scores: what is made of them can't be told. */
		chain_unfit(chain, REASON_CHAIN_BROKEN, sight->who);
		if (chain->deferred) {
			held_guard(sight, NULL, true);
			return FLOW_PASS;
		}
	}
	/* A closing GEMM's output is written even where the chain was deferred. */
	access_copy(&own, list);
	site_narrow(NULL, chain, &own);
	narrowed.list = &own;
	held_guard_step(sight, &own, chain,
			!chain->deferred || chain->recorded || op->kind == OP_GEMM ||
				access_any_unknown(list));
	if (op->kind == OP_GEMM) {
		if (parts_fit(chain, op))
			return in_parts_close(chain, sight);
		if (chain_close(chain, op))
			return occurrence_close(chain, sight);
		if (!op->gemm.plain && op->gemm.batch > 1)
			decline_product(&op->gemm);
		held_guard(sight, NULL, true); /* a GEMM that reads scores otherwise: a reader */
		return FLOW_PASS;
	}
	if (chain->deferred && access_any_unknown(list)) {
		/* Not what any verified site does next. */
		log_decline(REASON_CHAIN_BROKEN, sight->who);
		held_realise(chain, op_queue(op), "chain_broken", false);
		if (!chain->used)
			return FLOW_PASS;
	}
	if (chain->recorded)
		held_guard_inputs(chain, op, &own);
	if (chain->deferred)
		return occurrence_defer(chain, sight);
	copies_note(sight);
	held_guard_inputs(chain, op, &own); /* was one overwritten, the comparison fails */
	if (occurrence_extend(chain, &narrowed)) {
		timing_start(chain->timing, part_of(&chain->steps[chain->step_count - 1]));
		learning_foresee(chain);
		chain_watch(op, chain);
	}
	return FLOW_PASS;
}

/* Chains that wait for a closing GEMM do not wait for ever. */
static void age_chains(void)
{
	if (!chain_open_count)
		return;
	for_each_chain(chain)
	{
		if (chain->closed || ++chain->age < CHAIN_PATIENCE)
			continue;
		if (chain->deferred) {
			held_realise(chain, chain_queue(chain), "patience", false);
		} else {
			held_give_up(chain);
		}
	}
}

static void resolve_arrays(struct op *op)
{
	shadow_resolve_arrays(&op->gemm);
	if (op->gemm.by_array && !capture_takes(op) &&
	    (addresses_identify(op) || (!capture_under_way() && first_look(op))))
		shadow_resolve_arrays(&op->gemm);
}

/* A kernel on the device may give the node other parameters. */
static bool device_edits(const struct op *op)
{
	for (unsigned i = 0; op->kind == OP_LAUNCH && i < op->launch.attribute_count; i++)
		if (op->launch.attributes[i].id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
			return true;
	return false;
}

/* An op that is captured. Without FASHIM_GRAPHS no chain is open. */
static enum flow chains_captured(const struct sight *sight)
{
	const struct op *op = sight->op;
	const bool origin = capture_began_on(op->stream);
	struct chain *reader;

	age_chains();
	reader = chain_reader(op, sight->list);
	if (reader) {
		const bool closes = reader->recorded && chain_closeness(reader, op);
		enum flow flow = continue_chain(reader, sight);

		if (flow == FLOW_TAKEN || op->kind != OP_GEMM || closes)
			return flow;
	} else {
		held_guard(sight, NULL, true);
	}
	return op->kind == OP_GEMM ? occurrence_open_captured(sight, origin) : FLOW_PASS;
}

/* What is followed runs as the program wants it. */
static enum flow through_captured(const struct sight *sight)
{
	struct op *op = sight->op;
	enum flow flow;

	sight->list->opaque |= device_edits(op);
	graph_note(sight->list);
	recording_note(sight);
	if (op->kind == OP_GRAPH_LAUNCH) /* beside the capture, perhaps */
		graph_copy_for(op->handle, op);
	flow = chains_captured(sight);
	looks_guard(sight->list);
	holes_guard(sight->list);
	return op->recorded ? FLOW_PASS : flow;
}

/* A graph that was captured before our eyes: it, or what stands for it. */
static enum flow through_launch(struct op *op)
{
	const struct graph_ranges *ranges = graph_known(op->handle);
	struct graph_copy *copy = graph_copy_for(op->handle, op);
	const enum graph_turn turn = copy ? graph_copy_turn(copy) : TURN_PROGRAM;

	shadow_clear();
	copies_guard_graph(op, ranges);
	held_guard_graph(op, ranges, copy ? graph_copy_order(copy) : NULL,
			 turn == TURN_REPLACED ? copy : NULL);
	looks_guard_graph(ranges);
	holes_guard_graph(ranges);
	late_guard_graph(op_queue(op), ranges);
	if (turn == TURN_PROGRAM)
		return FLOW_PASS;
	if (graph_copy_launch(copy, turn))
		return FLOW_TAKEN;
	held_guard_graph(op, ranges, NULL, NULL);
	late_guard_graph(op_queue(op), ranges);
	return FLOW_PASS;
}

/* The chain that is held back, and what the launch makes of P with it; NULL: none. */
static struct chain *digested(const struct sight *sight)
{
	for_each_chain(chain) if (chain->deferred && digest_is(chain, sight)) return chain;
	return NULL;
}

static enum flow digest(struct chain *chain, const struct sight *sight)
{
	held_guard(sight, chain, false);
	if (!chain->used || !chain->deferred || !digest_append(chain, sight)) {
		held_guard(sight, NULL, true);
		return FLOW_PASS;
	}
	if (chain->unfit != REASON_NONE || chain->gaps)
		held_realise(chain, op_queue(sight->op), sight->who, true);
	else if (config()->poison)
		held_poison(chain);
	return FLOW_TAKEN;
}

static enum flow through_chains(const struct sight *sight)
{
	const struct op *op = sight->op;
	struct chain *reader = chain_reader(op, sight->list), *held;
	bool taken = false;

	if (reader) {
		enum flow flow = continue_chain(reader, sight);

		if (flow == FLOW_TAKEN || op->kind != OP_GEMM || op->watcher)
			return flow;
	} else if (rest_begun()) {
		held_guard(sight, NULL, true);
		return FLOW_PASS;
	} else if ((held = digested(sight))) {
		return digest(held, sight);
	} else if (op->kind != OP_GEMM) {
		taken = copies_take(sight);
		held_guard(sight, NULL, !taken);
	}
	if (op->kind == OP_GEMM)
		return occurrence_open(sight);
	return taken ? FLOW_TAKEN : FLOW_PASS;
}

/* As soon as something calls the driver past us nothing stays virtual for it to miss. */
static void look_for_bypass(void)
{
	static bool known;
	const char *why;

	if (known || !bypassed(&why))
		return;
	known = true;
	log_decline(REASON_BYPASSED, why);
	settle_and_forget(why);
}

/* The op after a closing GEMM tells where O goes; may a fused launch have waited for it? */
static bool comes_after_output(const struct sight *sight)
{
	delivery_note(sight);
	if (!replace_waits())
		return false;
	if (!capture_under_way() && replace_awaited(sight))
		return true;
	replace_settle();
	return false;
}

/* Need nobody see a product? What is captured, or may look at a replaced graph, must be seen. */
static bool may_rest(const struct op *op)
{
	if (capture_under_way() || graph_copies())
		return false;
	switch (rest_turn(op, !chain_live && !late_pending())) {
	case REST_BEGINS:
		if (capture_takes(op))
			rest_break();
		else
			settle_to_rest(op->name);
		return false;
	case REST_ON:
		return true;
	default:
		return false;
	}
}

static enum flow ask_all(struct op *op)
{
	const struct sight *sight;
	bool delivers;
	enum flow flow;

	if (!op->context) { /* none is current, or the driver did not say which one */
		settle_and_forget(op->name);
		if (op->kind == OP_GRAPH_LAUNCH)
			graph_copy_for(op->handle, op);
		return FLOW_PASS;
	}
	if (op->kind == OP_GEMM) {
		look_for_bypass();
		if (may_rest(op))
			return FLOW_PASS;
	} else if (!through_keeps() && !(op->kind == OP_GRAPH_LAUNCH && graph_copies())) {
		return FLOW_PASS;
	}
	if (op->kind == OP_LAUNCH)
		log_live()->launches++;
	else if (op->kind == OP_GEMM)
		resolve_arrays(op);
	sight = touch_see(op);
	known_settle(sight);
	delivers = op->kind == OP_LAUNCH && comes_after_output(sight);
	if (capture_takes(op))
		return through_captured(sight);
	if (op->kind == OP_GRAPH_LAUNCH && graph_known(op->handle))
		return through_launch(op);
	if (op->kind == OP_GRAPH_LAUNCH)
		graph_copy_for(op->handle, op); /* its copy may still be running */
	shadow_note(sight);
	addresses_note(sight);
	reach_note(op);
	age_chains();
	copies_guard(sight);
	if (delivers) {
		held_guard(sight, NULL, true);
		late_guard(op_queue(op), sight->list);
		flow = replace_deliver();
	} else {
		flow = through_chains(sight);
	}
	if (flow == FLOW_PASS && op->kind == OP_GEMM)
		copies_needed(NULL, sight->who);
	copies_added_to(sight->who);
	looks_guard(sight->list);
	holes_guard(sight->list);
	late_guard(op_queue(op), sight->list);
	if (op->kind == OP_FREE && op->alloc.at_once)
		late_guard_host(sight->list);
	return flow;
}

/* ---- captures ------------------------------------------------------------------------------- */

static void begin_recorded(const struct op *op, bool onto)
{
	capture_add(op->stream);
	rest_break();
	shadow_clear(); /* what holds now may not hold when the graph is launched */
	graph_begin(op->stream, onto);
}

static void capture_begun(const struct op *op)
{
	const bool onto = strstr(op->name, "ToGraph");

	begin_recorded(op, onto);
	if (onto)
		onto_begun(op);
	else
		recording_begin(op, false);
}

static void drop_recorded(const struct op *op)
{
	for_each_chain(chain) if (chain->captured && chain->stream == op->stream)
		held_realise(chain, chain_queue(chain), op->name, false);
}

static void capture_end(const struct op *op)
{
	drop_recorded(op);
	recording_ends(op);
}

static void capture_ended(const struct op *op)
{
	const CUgraph graph = op->handle ? *(CUgraph *)op->handle : NULL;

	capture_remove(op->stream);
	if (!graph)
		return;
	graph_end(op->stream, graph);
	if (!onto_ended(graph))
		recording_ended(graph);
}

/* Its end was refused. As a rule it is over and its graph gone, and the program's it went into
 * (another thread's, what was broken); or it goes on, where another stream is to end it. */
static void capture_refused(const struct op *op)
{
	struct driver_context here;
	bool ended = true;

	if (driver_enter(&here, op->context)) {
		ended = !driver_may_capture(op->stream);
		driver_leave(&here);
	}
	if (ended) {
		capture_remove(op->stream);
		built_forget(NULL);
	}
	graph_note(&(struct access_list){.opaque = true});
	recording_fail(op->name);
}

void through_capture_asked(CUstream stream, const char *who)
{
	for_each_chain(chain) if (chain->captured && !chain->recorded && !chain->closed &&
				  chain->stream == stream)
		held_realise(chain, chain_queue(chain), who, false);
}

void through_assembly_begins(const struct op *begin)
{
	settle_before_capture(begin);
	begin_recorded(begin, false);
}

void through_assembled(struct op *op)
{
	const struct sight *sight = touch_see(op);

	known_settle(sight);
	through_captured(sight);
}

void through_assembly_ends(const struct op *begin, CUgraph graph, bool whole)
{
	drop_recorded(begin);
	capture_remove(begin->stream);
	if (!whole) {
		graph_note(&(struct access_list){.opaque = true});
		recording_fail("nodes that came unseen");
	}
	graph_end(begin->stream, graph);
	recording_ended(graph);
}

/* ---- all of it ------------------------------------------------------------------------------ */

enum flow through_before(struct op *op)
{
	enum flow flow = FLOW_PASS;

	if (parts_wait())
		in_parts_end(op);
	if (record_wanted() && op->kind != OP_ALLOC)
		record_op(op);
	if (op->kind != OP_LAUNCH && op->kind != OP_ALLOC)
		comes_after_output(&(struct sight){.op = op});
	switch (op->kind) {
	case OP_ALLOC:
	case OP_SYNC:
	case OP_KIND_COUNT:
		break;
	case OP_TEARDOWN:
		settle_teardown(op);
		break;
	case OP_CAPTURE_BEGIN:
		settle_before_capture(op);
		break;
	case OP_CAPTURE_END:
		capture_end(op);
		break;
	default:
		flow = ask_all(op);
		break;
	}
	if (op->kind == OP_FREE && touch_frees(op))
		memory_remove(op->alloc.range.base, op->alloc.range.bytes);
	return flow;
}

void through_after(struct op *op)
{
	if (op->kind == OP_CAPTURE_BEGIN) {
		capture_begun(op);
	} else if (op->kind == OP_CAPTURE_END) {
		capture_ended(op);
	} else if (op->kind == OP_ALLOC) {
		memory_add(op->alloc.range.base, op->alloc.range.bytes, op->alloc.kind,
			   op->context);
		if (op->alloc.kind == MEMORY_SHARED)
			graph_copies_end_in(op->alloc.range.base,
					    op->alloc.range.base + op->alloc.range.bytes);
		if (record_wanted())
			record_op(op);
	} else if (op->recorded) {
		recording_ran(op);
	} else if (op->kind == OP_FREE && !touch_frees(op)) {
		memory_remove(op->alloc.range.base, op->alloc.range.bytes);
	} else if (op->kind == OP_GRAPH_LAUNCH) {
		graph_copy_passed(op, capture_under_way());
	} else {
		occurrence_ran(op->watcher, op);
	}
}

void through_refused(const struct op *op)
{
	if (op->kind == OP_CAPTURE_END)
		capture_refused(op);
	else
		graph_copy_passed(op, capture_under_way());
}
