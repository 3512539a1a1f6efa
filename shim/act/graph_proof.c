/* SPDX-License-Identifier: Apache-2.0
 *
 * Reasoning over recorded ops alone: nothing here calls the driver.
 */
#include "shim/act/graph_proof.h"

#include <string.h>

#include "shim/hazard/in_order.h"
#include "shim/op/memory.h"

/* What the closing GEMM writes is no score any more. false: nobody knows how much that is. */
static bool cut_output(const struct graph_order *order, int close, struct range_set *live)
{
	for (int i = 0; i < order->count; i++) {
		const struct graph_touch *touch = &order->item[i];

		if (touch->op != close || touch->read)
			continue;
		if (range_set_cut(live, touch->begin, touch->sure_end) < 0 ||
		    range_set_touches(live, touch->begin, touch->end))
			return false;
	}
	return true;
}

/* Must a copy of the input be read, since it is overwritten before the fused kernel has read it, or
 * before the next launch where the chain may have to run again? */
static bool must_save(const struct recorded_graph *graph, const struct recorded_chain *record,
		      int index, bool outlives)
{
	const struct input *input = &record->chain->inputs[index];
	const int first =
		outlives && index < record->kept_inputs ? record->reader[index] : record->close;

	if (input->lost || !memory_watchable_range(input->begin, input->end))
		return true;
	if (first == record->close) {
		for (int i = 0; i < graph->order.count; i++) {
			const struct graph_touch *touch = &graph->order.item[i];

			if (touch->op == record->close && !touch->read &&
			    range_overlap(touch->begin, touch->end, input->begin, input->end))
				return true;
		}
		return false;
	}
	return order_writes(&graph->order, first, graph->op_count, input->begin, input->end);
}

/* The same for a comparison, which reads it behind the closing GEMM. */
static bool must_save_beside(const struct recorded_graph *graph,
			     const struct recorded_chain *record, int index)
{
	const struct input *input = &record->chain->inputs[index];
	const int first = index < record->kept_inputs ? record->reader[index] : record->close;

	return input->lost || !memory_watchable_range(input->begin, input->end) ||
	       order_writes(&graph->order, first, record->close, input->begin, input->end);
}

static const char *unfit(const struct chain *chain)
{
	if (chain->unfit != REASON_NONE || chain->gaps)
		return "chain";
	if (chain->preload >= 0)
		return "scores are added to";
	for (int n = 0; n < RELAYOUT_OPERANDS; n++)
		if (chain->relayed[n] >= 0)
			return "copies of operands";
	for (int i = 0; i < chain->value_count; i++)
		if (chain->values[i].live.count &&
		    (chain->values[i].outside || chain->values[i].provisional ||
		     !memory_watchable_range(chain->values[i].begin, chain->values[i].end)))
			return "memory of scores";
	return NULL;
}

/* ---- what runs beside it -------------------------------------------------------------------- */

/* Bytes that the chain's ops touch, and which of them does so. */
#define MOST_OWN    256
#define WHOLE_CHAIN (-1) /* its values, until nobody asks for them any more */

struct own {
	int count;
	struct graph_touch item[MOST_OWN];
};

static bool is_step(const struct recorded_chain *record, int op)
{
	for (int i = 0; i < record->chain->step_count; i++)
		if (record->step[i] == op)
			return true;
	return op == record->close;
}

static bool own_add(struct own *own, struct graph_touch touch)
{
	if (own->count == MOST_OWN)
		return false;
	own->item[own->count++] = touch;
	return true;
}

/* By its ops' own words, and by those of the chain. */
static bool own_touches(struct own *own, const struct graph_order *order,
			const struct recorded_chain *record)
{
	const struct chain *chain = record->chain;
	bool whole = true;

	own->count = 0;
	for (int i = 0; i < order->count && whole; i++)
		if (is_step(record, order->item[i].op))
			whole = own_add(own, order->item[i]);
	for (int i = 0; i < chain->value_count && whole; i++)
		whole = own_add(own, (struct graph_touch){.begin = chain->values[i].begin,
							  .end = chain->values[i].end,
							  .op = WHOLE_CHAIN});
	for (int i = 0; i < chain->input_count && whole; i++)
		whole = own_add(own, (struct graph_touch){.begin = chain->inputs[i].begin,
							  .end = chain->inputs[i].end,
							  .op = record->reader[i],
							  .read = true});
	return whole;
}

static bool in_row(const struct graph_order *order, const struct recorded_chain *record)
{
	const int steps = record->chain->step_count;

	for (int i = 0; i < steps; i++)
		if (!graph_order_before(order, record->step[i],
					i + 1 < steps ? record->step[i + 1] : record->close))
			return false;
	return true;
}

static bool apart(const struct graph_order *order, int a, int b)
{
	return graph_order_before(order, a, b) || graph_order_before(order, b, a);
}

/* Is an op before or behind the one of the chain's that touches the same bytes, and before or
 * behind its last one, where inputs are read instead? Of a value each of its ops counts. */
static bool keeps_apart(const struct graph_order *order, const struct recorded_chain *record,
			int op, int own)
{
	if (own != WHOLE_CHAIN)
		return apart(order, op, own) && apart(order, op, record->close);
	for (int i = 0; i < record->chain->step_count; i++)
		if (!apart(order, op, record->step[i]))
			return false;
	return apart(order, op, record->close);
}

static bool touch_keeps_apart(const struct graph_order *order, const struct recorded_chain *record,
			      const struct own *own, const struct graph_touch *touch)
{
	for (int i = 0; i < own->count; i++)
		if (!(touch->read && own->item[i].read) &&
		    range_overlap(touch->begin, touch->end, own->item[i].begin, own->item[i].end) &&
		    !keeps_apart(order, record, touch->op, own->item[i].op))
			return false;
	return true;
}

/* Of the orders in which ops may run the proof looks at one. It says the same of all where the
 * chain's ops are in a row, and none that touches what they touch, and does not only read what they
 * read, runs beside them. */
static const char *beside_it(const struct graph_order *order, const struct recorded_chain *record)
{
	static struct own own; /* flow lock */

	if (!order->path)
		return NULL;
	if (!in_row(order, record))
		return "steps beside each other";
	if (!own_touches(&own, order, record))
		return "too many operands";
	for (int i = 0; i < order->count; i++)
		if (!is_step(record, order->item[i].op) &&
		    !touch_keeps_apart(order, record, &own, &order->item[i]))
			return "its memory is used beside it";
	return NULL;
}

const char *graph_prove(struct graph_proof *proof, const struct recorded_graph *graph,
			const struct recorded_chain *record)
{
	const struct chain *chain = record->chain;
	const char *why = unfit(chain);
	int by = 0;

	memset(proof, 0, sizeof(*proof));
	if (!why)
		why = beside_it(&graph->order, record);
	if (why)
		return why;
	for (int i = 0; i < chain->value_count; i++) {
		struct range_set later;

		proof->first[i] = chain->values[i].live;
		if (!cut_output(&graph->order, record->close, &proof->first[i]))
			return "output over scores";
		proof->left[i] = proof->first[i];
		if (!order_overwrites(&graph->order, record->close + 1, &proof->left[i], &by))
			return graph->op[by].name;
		/* The next replay finds what this one leaves. */
		later = proof->left[i];
		if (!order_overwrites(&graph->order, 0, &later, &by))
			return graph->op[by].name;
		if (later.count)
			return "scores of the replay before";
		proof->outlives |= proof->left[i].count > 0;
	}
	for (int i = 0; i < chain->input_count; i++) {
		proof->saved[i] = must_save(graph, record, i, proof->outlives);
		proof->beside[i] = must_save_beside(graph, record, i);
	}
	return NULL;
}

bool graph_keeps_inputs(const struct recorded_graph *graph, const struct recorded_chain *record)
{
	const struct chain *chain = record->chain;

	for (int i = 0; i < chain->input_count; i++) {
		const struct input *input = &chain->inputs[i];
		const int reader = record->reader[i];

		if (reader == record->step[0] || reader == record->close)
			continue;
		if (input->lost ||
		    order_writes(&graph->order, reader, graph->op_count, input->begin, input->end))
			return false;
	}
	return true;
}
