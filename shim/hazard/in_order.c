/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the touches of a graph's ops (in_order.h).
 */
#include "shim/hazard/in_order.h"

bool order_overwrites(const struct graph_order *order, int first, struct range_set *live, int *by)
{
	for (int i = 0; i < order->count && live->count; i++) {
		const struct graph_touch *touch = &order->item[i];

		if (touch->op < first || !range_set_touches(live, touch->begin, touch->end))
			continue;
		if (by)
			*by = touch->op;
		if (touch->read || range_set_cut(live, touch->begin, touch->sure_end) < 0 ||
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
