/* SPDX-License-Identifier: Apache-2.0
 *
 * A handful of results, each in scratch of its own. A look is the same if all that it is told is
 * (struct attn_look), to the last byte. It is used on the stream alone on which it was made: nobody
 * waits for it.
 */
#include "shim/gpu/looks.h"

#include <string.h>

#include "shim/op/memory.h"
#include "shim/base/range.h"
#include "shim/gpu/scratch.h"

#define LOOKS 8 /* masks that a model uses in turn, for each tile size */

static struct kept {
	struct attn_look look;
	CUcontext context;
	CUstream stream;
	uint64_t result; /* 0: free */
	uint64_t used;	 /* the larger, the later */
} kept[LOOKS];
static int kept_count;
static struct range around; /* what they were looks at, and perhaps more */

static void forget(struct kept *k)
{
	scratch_put(k->result, k->stream);
	k->result = 0;
	if (!--kept_count)
		around = (struct range){0};
}

void looks_forget(void)
{
	for (int i = 0; i < LOOKS && kept_count; i++)
		if (kept[i].result)
			forget(&kept[i]);
}

/* ---- keeping -------------------------------------------------------------------------------- */

/* Is every write to the mask seen? */
static bool may_keep(const struct attn_look *look)
{
	const uint64_t begin = look->ranges.bias.base;
	const struct allocation *allocation = memory_find(begin);

	return memory_watchable(allocation) &&
	       look->read_bytes <= allocation->base + allocation->bytes - begin;
}

/* The one that was used longest ago goes. */
static struct kept *slot(void)
{
	struct kept *oldest = &kept[0];

	for (int i = 0; i < LOOKS; i++) {
		if (!kept[i].result)
			return &kept[i];
		if (kept[i].used < oldest->used)
			oldest = &kept[i];
	}
	forget(oldest);
	return oldest;
}

static struct kept *find(CUcontext context, CUstream stream, const struct attn_look *look)
{
	for (int i = 0; i < LOOKS && kept_count; i++)
		if (kept[i].result && kept[i].stream == stream && kept[i].context == context &&
		    memcmp(&kept[i].look, look, sizeof(*look)) == 0)
			return &kept[i];
	return NULL;
}

uint64_t looks_get(CUcontext context, CUstream stream, const struct attn_look *look, bool *made)
{
	static uint64_t uses;
	struct kept *k;

	*made = false;
	if (!may_keep(look))
		return 0;
	k = find(context, stream, look);
	*made = k != NULL;
	if (!k) {
		k = slot();
		k->result = scratch_get(context, stream, look->bytes, false);
		if (!k->result)
			return 0;
		k->look = *look;
		k->context = context;
		k->stream = stream;
		kept_count++;
		range_widen(&around, look->ranges.bias.base,
			    look->ranges.bias.base + look->read_bytes);
	}
	k->used = ++uses;
	return k->result;
}

/* ---- forgetting ----------------------------------------------------------------------------- */

void looks_guard_write(uint64_t begin, uint64_t end)
{
	if (!range_overlap(begin, end, around.begin, around.end))
		return;
	for (int i = 0; i < LOOKS && kept_count; i++) {
		const uint64_t read = kept[i].look.ranges.bias.base;

		if (kept[i].result &&
		    range_overlap(begin, end, read, read + kept[i].look.read_bytes))
			forget(&kept[i]);
	}
}

bool looks_near(uint64_t address)
{
	return kept_count && address >= around.begin && address < around.end;
}

void looks_guard(const struct access_list *list)
{
	if (list->opaque || list->far)
		looks_forget();
	for (int i = 0; i < list->count && kept_count; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			looks_guard_write(list->item[i].begin, list->item[i].end);
}

void looks_guard_graph(const struct graph_ranges *ranges)
{
	for (int i = 0; i < ranges->count && kept_count; i++)
		if (ranges->item[i].written)
			looks_guard_write(ranges->item[i].begin, ranges->item[i].end);
}
