/* SPDX-License-Identifier: Apache-2.0
 *
 * Hazards: the rules of held.h, applied op by op.
 */
#include "shim/hazard/held.h"

#include <inttypes.h>
#include <stdio.h>

#include "shim/base/cost.h"
#include "shim/chain/parts.h"
#include "shim/real/driver_context.h"
#include "shim/op/graph.h"
#include "shim/hazard/comb.h"
#include "shim/hazard/holes.h"
#include "shim/hazard/in_order.h"
#include "shim/hazard/outline.h"
#include "shim/gpu/late.h"
#include "shim/log/decline.h"
#include "shim/log/log.h"
#include "shim/chain/digest.h"
#include "shim/gpu/looks.h"
#include "shim/hazard/rerun.h"
#include "shim/real/driver.h"
#include "shim/site/opener.h"
#include "shim/site/site.h"
#include "shim/hazard/snapshot.h"
#include "shim/gpu/timing.h"
#include "shim/base/message.h"
#include "shim/base/tracepoint.h"

int held_count;

static bool ending;  /* nobody asked for what is made real */
static bool excused; /* who asks could show, once it is afforded, that it does not need it */

bool held_virtual(const struct chain *chain)
{
	if (!chain->deferred)
		return false;
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].live.count)
			return true;
	return false;
}

static bool any_live(const struct chain *chain)
{
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].live.count)
			return true;
	return false;
}

void held_drop(struct chain *chain)
{
	if (!chain->used)
		return;
	for (int i = 0; i < chain->input_count; i++)
		snapshot_drop(chain, i);
	if (chain->deferred)
		held_count--;
	timing_drop(chain->timing);
	chain->timing = NULL;
	chain_free(chain);
}

void held_begin(struct chain *chain)
{
	chain->deferred = true;
	held_count++;
}

static void held_over(struct chain *chain)
{
	chain->deferred = false;
	chain->candidates = NULL;
	held_count--;
}

/* ---- making values real --------------------------------------------------------------------- */

static void note_realised(struct chain *chain, const char *who, bool certain)
{
	struct site *site = chain->site;
	uint64_t bytes = 0, made, tried;

	if (!site || ending)
		return;
	for (int i = 0; i < chain->value_count; i++)
		bytes += range_set_bytes(&chain->values[i].live);
	site->live->materialised++;
	TRACEPOINT2(made_after_all, site->number, bytes);
	if (site->live->materialised <= 16) {
		struct json *json = log_record("materialise");

		json_int(json, "site", site->number);
		json_string(json, "by", who);
		json_uint(json, "bytes", bytes);
		log_commit(json);
		message_debug("site %d: %" PRIu64 " bytes of scores made after all, for %s",
			      site->number, bytes, who);
	}
	if (excused && !certain) {
		site_pause(site);
		return;
	}
	/* A reader that comes back makes fusing pointless. One stray op at the end of a forward
	 * does not: a kernel without a rule that reuses the memory, a graph launch that might look
	 * at anything. Nor does one in so many occurrences that were replaced or compared. */
	made = site->live->materialised - site->excused;
	tried = site->live->replaced + site->live->compared;
	if (chain->closed && made >= (certain ? 2 : 8) && made * (certain ? 3 : 2) > tried)
		site_decline(site, REASON_SCORES_READ_BY, who);
}

/* The same of parts of its closing product. */
static void note_late_parts(const struct chain *chain)
{
	struct op_gemm op;
	struct gemm gemm;
	uint64_t begin, end;

	parts_taken(chain, &op);
	gemm_from_op(&gemm, &op);
	matrix_extent(op.a == chain->values[chain->closing_value].begin ? &gemm.b : &gemm.a,
		      gemm.batch, &begin, &end);
	late_reads(chain_queue(chain), begin, end);
	matrix_extent(&gemm.c, gemm.batch, &begin, &end);
	late_writes(chain_queue(chain), begin, end);
}

/* What was made touches the program's memory later than the program believes. */
static void note_late(const struct chain *chain)
{
	for (int i = 0; i < chain->input_count; i++)
		if (!snapshot_whole(&chain->inputs[i]))
			late_reads(chain_queue(chain), chain->inputs[i].begin,
				   chain->inputs[i].end);
	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &chain->values[i].live)
			late_writes(chain_queue(chain), r->begin, r->end);
	if (chain->closing)
		note_late_parts(chain);
}

void held_give_up(struct chain *chain)
{
	const bool unfit = chain->unfit != REASON_NONE;

	opener_result(&chain->steps[0].gemm, false);
	if (chain->steps[0].gemm.batch > 1 && chain_has_softmax(chain))
		log_decline(unfit ? chain->unfit : REASON_LAYOUT,
			    unfit ? chain->detail : "no product takes what softmax made");
	held_drop(chain);
}

/* 0, or the data are lost: whoever wants them gets the driver's error from their own call. */
static int make_real(struct chain *chain, struct queue reader)
{
	struct driver_context here;
	int error = -1;

	for (int attempt = 0; attempt < 2 && error; attempt++) {
		if (!driver_enter(&here, chain->context))
			continue;
		error = rerun_chain(chain);
		if (!error && chain->closing)
			error = rerun_parts(chain);
		driver_leave(&here);
	}
	if (!chain->captured)
		note_late(chain);
	else if (driver_captures(reader))
		error |= driver_order(chain_queue(chain), reader);
	return error;
}

void held_realise(struct chain *chain, struct queue reader, const char *who, bool certain)
{
	if (chain->recorded) { /* what it holds is real in each replay */
		if (site_set_any(chain->candidates))
			log_decline(REASON_CAPTURE, who);
		held_drop(chain);
		return;
	}
	if (!held_virtual(chain)) {
		if (chain->closed)
			held_drop(chain);
		return;
	}
	COST(PURPOSE_HAZARDS);
	note_realised(chain, who, certain);
	/* At the end of the process the context may be gone already, and with it whoever could
	 * look; and of a capture that failed nothing is left. */
	if (make_real(chain, reader) && driver_context_lives(chain->context) &&
	    (!chain->captured || driver_captures(chain_queue(chain)))) {
		log_violation("site %d: held-back scores could not be computed for %s",
			      chain->site ? chain->site->number : 0, who);
		late_lose();
	}
	parts_end(chain);
	held_over(chain);
	/* What was read in a copy's place is no operand of the program's product. */
	for (int n = 0; n < RELAYOUT_OPERANDS; n++)
		chain->inputs[0].lost |= chain->relayed[n] >= 0;
	if (chain->closed || chain->captured)
		held_drop(chain);
}

void held_realise_all(const char *who)
{
	/* Oldest first: a later chain's inputs may be an earlier chain's values. */
	while (held_count > 0) {
		struct chain *oldest = NULL;

		for_each_chain(chain) if (chain->deferred &&
					  (!oldest || chain->serial < oldest->serial)) oldest =
			chain;
		if (!oldest)
			break;
		held_realise(oldest, chain_queue(oldest), who, false);
		if (oldest->used && oldest->deferred) /* nothing virtual in it, yet open */
			held_over(oldest);
	}
}

void held_end(void)
{
	ending = true;
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* Inputs of the chain that [begin, end) may overwrite: save them, or give the chain up. */
static void guard_inputs(struct chain *chain, uint64_t begin, uint64_t end, struct queue writer)
{
	for (int i = 0; i < chain->input_count && chain->used; i++) {
		struct input *input = &chain->inputs[i];

		if (snapshot_whole(input) || input->lost ||
		    !range_overlap(input->begin, input->end, begin, end))
			continue;
		if (chain->recorded) {
			input->lost = true; /* the replay can save it */
		} else if (chain->deferred) {
			if (!snapshot_part(chain, i, begin, end))
				held_realise(chain, writer, "scratch", false);
		} else if (chain->closed || !chain->timed || !snapshot_part(chain, i, begin, end)) {
			input->lost = true;
		}
	}
}

void held_guard_inputs(struct chain *chain, const struct op *op, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			guard_inputs(chain, list->item[i].begin, list->item[i].end, op_queue(op));
}

/* ---- values --------------------------------------------------------------------------------- */

void held_poison(struct chain *chain)
{
	struct driver_context here;

	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &chain->values[i].live)
			guard_inputs(chain, r->begin, r->end, chain_queue(chain));
	if (!held_virtual(chain) || !driver_enter(&here, chain->context))
		return;
	for (int i = 0; i < chain->value_count; i++)
		for_each_range(r, &chain->values[i].live) {
			if (chain->values[i].left) /* zeros of the program's lie between */
				continue;
			held_guard_write(r->begin, r->end, chain_queue(chain), chain);
			late_writes(chain_queue(chain), r->begin, r->end);
			driver.cuMemsetD32Async((CUdeviceptr)((r->begin + 3) & ~3ull), POISON_WORD,
						(r->end - ((r->begin + 3) & ~3ull)) / 4,
						chain->stream);
		}
	driver_leave(&here);
}

/* Somebody outside the chain read real scores. Of how many occurrences that is done says whether
 * holding back is worth it, as in note_realised(): a model that returns its last layer's P has
 * other layers. `certain`: the op's accesses are known; otherwise an unknown kernel was handed the
 * value's own address, which may also mean that the memory was reused for its output, so that it
 * takes more than one sighting. */
static void note_reader(struct chain *chain, bool certain, const char *who)
{
	struct site *site = chain->site;

	if (!chain->closed) {
		chain_unfit(chain, REASON_SCORES_READ_BY, who);
		return;
	}
	if (!site || site->state == SITE_DECLINED || chain->read ||
	    (!certain && (chain->suspected || excused)))
		return;
	chain->suspected = true;
	chain->read = certain;
	if (certain)
		site->reads++;
	else
		site->readers++;
	if (site->readers >= 3 || site->reads * 3 > site->live->seen)
		site_decline(site, REASON_SCORES_READ_BY, who);
}

/* An op that may read the scores, or overwrite a part of them: had they been held back, they would
 * have been made real before it. A site where that happens each time gains nothing. `unsettled`:
 * more may be known of the op the next time. */
static void note_met(struct chain *chain, bool unsettled, const char *who)
{
	struct site *site = chain->site;

	if (!chain->closed || chain->met || !site || (unsettled && chain->perhaps_met))
		return;
	if (unsettled) {
		chain->perhaps_met = true;
		site->perhaps_met++;
		return;
	}
	site->perhaps_met -= chain->perhaps_met;
	chain->met = true;
	site->met++;
	snprintf(site->met_by, sizeof(site->met_by), "%s", who);
}

/* One access against one value. False: the value's chain must be made real first. */
static bool meet(struct chain *chain, struct value *value, const struct access *access,
		 const char *who)
{
	const bool inside = range_set_touches(&value->live, access->pointer, access->pointer + 1);

	if (!range_set_touches(&value->live, access->begin, access->end))
		return true;
	if (access->mode == ACCESS_WRITE && access->sure_end > access->begin) {
		if (range_set_cut(&value->live, access->begin, access->sure_end) < 0)
			return false;
		if (!range_set_touches(&value->live, access->begin, access->end))
			return true;
	}
	/* The same bytes once more: what lies between was never held back. */
	if (access->mode == ACCESS_WRITE && access->left && access->left == value->left &&
	    access->begin == value->begin) {
		value->live.count = 0;
		return true;
	}
	if (chain->deferred)
		return false;
	if (value->provisional || value->outside)
		; /* may well be an input, which anybody may read */
	else if (access->mode == ACCESS_READ && (inside || access->bounded))
		note_reader(chain, true, who);
	else if (access->mode == ACCESS_UNKNOWN && access->pointer == value->begin && inside)
		note_reader(chain, false, who);
	/* What may be anywhere in an allocation perhaps came near. */
	if (access->grade != GRADE_UNKNOWN || chain->suspected)
		note_met(chain, access->mode == ACCESS_READ && !access->bounded, who);
	/* From here on these bytes may be somebody else's: do not take their readers for ours. */
	if (access->mode != ACCESS_READ && (inside || access->bounded))
		range_set_cut(&value->live, access->pointer, access->end);
	return true;
}

static uint64_t saved_bytes(const struct chain *chain)
{
	uint64_t bytes = 0;

	for (int i = 0; i < chain->input_count; i++) {
		const struct input *input = &chain->inputs[i];

		if (input->snapshot)
			bytes += input->end - input->begin - range_set_bytes(&input->unsaved);
	}
	return bytes;
}

/* A copy from the host that the program waits for is as good as done when it returns, also for
 * streams that do not wait for the default one. It must not queue behind a copy of ours. */
static void wait_as_program_does(const struct chain *chain, const struct op *op)
{
	if (!op->copy.later)
		late_host_waits(chain_queue(chain));
}

/* May the op see or change anything of the chain? */
static bool meets(const struct chain *chain, const struct access_list *list)
{
	for (int i = 0; i < list->count; i++) {
		const struct access *access = &list->item[i];

		for (int k = 0; k < chain->value_count; k++)
			if (range_overlap(access->begin, access->end, chain->values[k].begin,
					  chain->values[k].end))
				return true;
		for (int k = 0; k < chain->input_count; k++)
			if ((access->mode & ACCESS_WRITE) &&
			    range_overlap(access->begin, access->end, chain->inputs[k].begin,
					  chain->inputs[k].end))
				return true;
	}
	return false;
}

/* One access against all values: as meet(). */
static bool meet_values(struct chain *chain, const struct access *access, const char *who)
{
	for (int k = 0; k < chain->value_count; k++) {
		struct value *value = &chain->values[k];

		if (range_overlap(access->begin, access->end, value->begin, value->end) &&
		    !meet(chain, value, access, who))
			return false;
	}
	return true;
}

/* ---- ops --------------------------------------------------------------------------------------
 */

/* Were the chain held back, so would be what reads it here. */
static bool digests(const struct chain *chain, const struct sight *sight)
{
	return !chain->deferred && digest_is(chain, sight);
}

static void guard_chain(struct chain *chain, const struct sight *sight,
			const struct access_list *list, bool executed)
{
	const struct op *op = sight->op;
	const char *who = sight->who;
	bool whole = true, certain = false, thrown;
	uint64_t saved;

	if (!outline_meets(chain, list))
		return;
	thrown = digests(chain, sight);
	saved = op->kind == OP_COPY ? saved_bytes(chain) : 0;
	if (chain->captured && !chain->recorded) {
		if (meets(chain, list))
			held_realise(chain, op_queue(op), who, false);
		return;
	}
	whole = comb_meet(chain, list);
	for (int i = 0; i < list->count && whole && !thrown; i++)
		if ((list->item[i].mode & ACCESS_READ) || !list->item[i].bounded) {
			whole = meet_values(chain, &list->item[i], who);
			/* one that may go on to the end of the allocation only comes near */
			certain = list->item[i].mode == ACCESS_READ && list->item[i].bounded;
		}
	for (int i = 0; i < list->count && whole; i++)
		if (list->item[i].mode == ACCESS_WRITE && list->item[i].bounded &&
		    !comb_begins(chain, &list->item[i]))
			whole = meet_values(chain, &list->item[i], who);
	if (!whole) {
		/* Of who only may have read them more may be known the next time. */
		if (!certain && !chain->closed && !chain->recorded && chain->candidates) {
			site_note_broken(chain->candidates);
			log_decline(REASON_SCORES_READ_BY, who);
		}
		held_realise(chain, op_queue(op), who, certain);
		if (chain->used && certain)
			chain_unfit(chain, REASON_SCORES_READ_BY, who);
	}
	if (!chain->used)
		return;
	if (!any_live(chain)) {
		if (!chain->closed && !chain->deferred)
			held_give_up(chain);
		else
			held_drop(chain);
		return;
	}
	if (executed)
		held_guard_inputs(chain, op, list);
	if (op->kind == OP_COPY && chain->used && saved_bytes(chain) > saved)
		wait_as_program_does(chain, op);
	if (chain->used)
		outline_draw(chain);
}

void held_guard(const struct sight *sight, const struct chain *except, bool executed)
{
	held_guard_step(sight, sight->list, except, executed);
}

/* An op that may read it from anywhere. What continues a chain will be known by the time that one
 * is held back (site_model). */
static void meet_far(struct chain *chain, const struct sight *sight, bool continues)
{
	if (chain->deferred)
		held_realise(chain, op_queue(sight->op), sight->who, false);
	else if (any_live(chain) && !continues)
		note_met(chain, sight->list->unsettled || sight->list->dear, sight->who);
}

void held_guard_step(const struct sight *sight, const struct access_list *likely,
		     const struct chain *except, bool executed)
{
	const struct access_list *list = sight->list;

	if (list->opaque) {
		held_realise_all(sight->who);
		return;
	}
	excused = list->dear;
	if (list->far)
		for_each_chain(chain) if (chain != except) meet_far(chain, sight, except != NULL);
	if (list->count)
		for_each_chain(chain) if (chain != except)
			guard_chain(chain, sight, chain->deferred ? list : likely, executed);
	excused = false;
}

static bool graph_touches(const struct chain *chain, const struct graph_ranges *ranges)
{
	for (int i = 0; i < ranges->count; i++)
		for (int k = 0; k < chain->value_count; k++)
			if (range_set_touches(&chain->values[k].live, ranges->item[i].begin,
					      ranges->item[i].end))
				return true;
	return false;
}

/* Does the graph look at the chain's values, or overwrite them nobody knows how far? Else they are
 * what it leaves of them. */
static bool graph_meets(struct chain *chain, const struct graph_order *order)
{
	struct range_set left[CHAIN_VALUES];

	for (int k = 0; k < chain->value_count; k++) {
		left[k] = chain->values[k].live;
		if (!order_overwrites(order, 0, &left[k], NULL))
			return true;
	}
	for (int k = 0; k < chain->value_count; k++)
		chain->values[k].live = left[k];
	return false;
}

/* Without its order, a value that a graph touches is made real. */
static void guard_chain_from_graph(struct chain *chain, const struct op *op,
				   const struct graph_ranges *ranges,
				   const struct graph_order *order)
{
	if (order ? graph_meets(chain, order) : graph_touches(chain, ranges)) {
		held_realise(chain, op_queue(op), op->name, false);
		if (chain->used)
			chain_unfit(chain, REASON_SCORES_READ_BY, op->name);
	}
	if (order && chain->used && !any_live(chain))
		held_drop(chain);
	for (int i = 0; i < ranges->count && chain->used; i++)
		if (ranges->item[i].written)
			guard_inputs(chain, ranges->item[i].begin, ranges->item[i].end,
				     op_queue(op));
}

void held_guard_graph(const struct op *op, const struct graph_ranges *ranges,
		      const struct graph_order *order, const void *own)
{
	for_each_chain(chain) if (!own || chain->graph != own)
		guard_chain_from_graph(chain, op, ranges, chain->deferred ? order : NULL);
}

bool held_near(uint64_t begin, uint64_t end)
{
	for_each_chain(chain) if (range_overlap(begin, end, chain->low, chain->high)) return true;
	return false;
}

void held_guard_write(uint64_t begin, uint64_t end, struct queue writer, const struct chain *except)
{
	const struct access_list list = {
		.count = 1, .item[0] = {.begin = begin, .end = end, .mode = ACCESS_WRITE}};

	looks_guard_write(begin, end);
	holes_guard_write(begin, end);
	for_each_chain(chain) if (chain != except &&
				  (chain->deferred || (!chain->closed && chain->timed)))
		guard_inputs(chain, begin, end, writer);
	late_guard(writer, &list);
}
