/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the touches of a graph's ops, in one of the orders that they may run in
 * (in_order.h). Where that is not the only one, who finds a byte overwritten must be behind whoever
 * did it.
 */
#include "shim/hazard/in_order.h"

/* Do all other ops from `first` on that write there, up to this touch, come before it in any order?
 */
static bool behind_writers(const struct graph_order *order, int first, const struct graph_touch *by)
{
	for (int i = 0; order->path && &order->item[i] < by; i++) {
		const struct graph_touch *touch = &order->item[i];

		if (touch->op >= first && touch->op != by->op && !touch->read &&
		    range_overlap(touch->begin, touch->end, by->begin, by->end) &&
		    !graph_order_before(order, touch->op, by->op))
			return false;
	}
	return true;
}

bool order_overwrites(const struct graph_order *order, int first, struct range_set *live, int *by)
{
	const struct range_set all = *live;

	for (int i = 0; i < order->count && (live->count || order->path); i++) {
		const struct graph_touch *touch = &order->item[i];

		if (touch->op < first || !range_set_touches(&all, touch->begin, touch->end))
			continue;
		if (by)
			*by = touch->op;
		if (touch->read && (range_set_touches(live, touch->begin, touch->end) ||
				    !behind_writers(order, first, touch)))
			return false;
		if (touch->read || !range_set_touches(live, touch->begin, touch->end))
			continue;
		if (range_set_cut(live, touch->begin, touch->sure_end) < 0 ||
		    range_set_touches(live, touch->begin, touch->end))
			return false;
	}
	return true;
}

bool order_writes(const struct graph_order *order, int first, int last, uint64_t begin,
		  uint64_t end)
{
	for (int i = 0; i < order->count; i++) {
		const struct graph_touch *touch = &order->item[i];

		if (touch->op >= first && touch->op <= last && !touch->read &&
		    range_overlap(touch->begin, touch->end, begin, end))
			return true;
	}
	return false;
}
