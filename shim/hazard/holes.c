/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of what was looked at, each with a number in pinned memory for what is found.
 */
#include "shim/hazard/holes.h"

#include "shim/gpu/fused.h"
#include "shim/gpu/scratch.h"
#include "shim/op/memory.h"
#include "shim/real/driver.h"

#define PATIENCE 65536 /* ops */
#define HOLES	 64    /* as many layers as a model has that is called so, and some more */

static struct kept {
	uint64_t begin, end; /* of P; 0: free, or only waited for */
	uint64_t left;	     /* the launch that leaves holes there, as one number */
	uint64_t used;	     /* the larger, the later */
	CUcontext context;   /* of the look */
	CUevent under_way;   /* its end; NULL: it has ended, */
	enum holes found;    /* … with this */
} kept[HOLES];
static int kept_count;	    /* of those that are not free */
static uint64_t *counts;    /* pinned, one for each */
static CUcontext counts_of; /* the context that takes it along when it goes */
static unsigned since;	    /* ops since anybody asked */

/* ---- what was found ---------------------------------------------------------------------------
 */

static void forget(struct kept *k)
{
	kept_count -= k->end != 0;
	k->begin = k->end = 0;
}

void holes_forget(void)
{
	for (int i = 0; i < HOLES && kept_count; i++)
		forget(&kept[i]);
}

void holes_forget_context(CUcontext context)
{
	const bool all = !context || context == counts_of;

	for (int i = 0; i < HOLES; i++)
		if (all || kept[i].context == context) {
			forget(&kept[i]);
			kept[i] = (struct kept){0};
		}
	if (all)
		counts = NULL;
}

/* Has its look ended? */
static bool poll(struct kept *k)
{
	struct driver_context here;
	CUresult result;

	if (!k->under_way)
		return true;
	if (!driver_enter(&here, k->context))
		return false;
	result = driver.cuEventQuery(k->under_way);
	if (result != CUDA_ERROR_NOT_READY) {
		driver.cuEventDestroy_v2(k->under_way);
		k->under_way = NULL;
		k->found = result != CUDA_SUCCESS  ? HOLES_UNKNOWN
			   : counts[k - kept] == 0 ? HOLES_ZERO
						   : HOLES_FILLED;
		if (result != CUDA_SUCCESS)
			forget(k);
	}
	driver_leave(&here);
	return !k->under_way;
}

static struct kept *find(const struct value *value)
{
	for (int i = 0; i < HOLES && kept_count; i++)
		if (kept[i].end && kept[i].begin == value->begin && kept[i].end == value->end &&
		    kept[i].left == value->left)
			return &kept[i];
	return NULL;
}

bool holes_watch(void)
{
	return kept_count > 0;
}

enum holes holes_of(const struct chain *chain)
{
	const struct value *p = &chain->values[chain->p_value];
	struct kept *k = p->left ? find(p) : NULL;

	since = 0;
	if (!k || !poll(k))
		return HOLES_UNKNOWN;
	return k->end ? k->found : HOLES_UNKNOWN;
}

/* ---- launches that leave some -----------------------------------------------------------------
 */

/* Equal for the same kernel on the same grid that is told the same but for where things lie. */
static uint64_t launch_number(const struct function *function, const unsigned grid[3],
			      const unsigned block[3], unsigned shared_bytes,
			      const unsigned char *params)
{
	uint64_t number = hash_mix(0x686f6c6573, function->id), word, begin, end;
	unsigned at;

	number = hash_bytes(number, grid, 3 * sizeof(*grid));
	number = hash_bytes(number, block, 3 * sizeof(*block));
	number = hash_mix(number, shared_bytes);
	for (unsigned i = 0; i < function->param_count; i++) {
		unsigned from = function->param_offset[i];
		const unsigned beyond = from + function->param_size[i];

		for_each_pointer_word(function, i, at) {
			memcpy(&word, params + at, 8);
			if (!memory_reach(word, &begin, &end))
				continue;
			number = hash_bytes(hash_mix(number, at), params + from, at - from);
			from = at + 8;
		}
		number = hash_bytes(number, params + from, beyond - from);
	}
	return number | 1;
}

static bool is_known(uint64_t pointer)
{
	for (int i = 0; i < HOLES; i++)
		if (kept[i].end && kept[i].begin == pointer)
			return true;
	return false;
}

void holes_tell(const struct sight *sight)
{
	const struct op_launch *launch = &sight->op->launch;

	if (!kept_count || sight->op->kind != OP_LAUNCH || !sight->params || sight->function->rule)
		return;
	for (int i = 0; i < sight->list->count; i++) {
		struct access *access = &sight->list->item[i];

		if (access->mode != ACCESS_WRITE || access->sure_end == access->end ||
		    access->pointer != access->begin || !access->bounded ||
		    !is_known(access->pointer))
			continue;
		access->left = launch_number(sight->function, launch->grid, launch->block,
					     launch->shared_bytes, sight->params);
	}
}

/* ---- looking ----------------------------------------------------------------------------------
 */

/* NULL: all are under way, or there is no memory. */
static struct kept *place_for(CUcontext context)
{
	struct kept *oldest = NULL;

	if (!counts) {
		void *memory = NULL;

		if (driver.cuMemAllocHost_v2(&memory, HOLES * sizeof(*counts)) != CUDA_SUCCESS)
			return NULL;
		counts = memory;
		counts_of = context;
	}
	for (int i = 0; i < HOLES; i++)
		if (poll(&kept[i]) && (!oldest || !kept[i].end || kept[i].used < oldest->used)) {
			oldest = &kept[i];
			if (!kept[i].end)
				break;
		}
	if (oldest)
		forget(oldest);
	return oldest;
}

/* 0 or -1. The context is current. */
static int enqueue(const struct chain *chain, struct triangle_args *args, uint64_t *count)
{
	int error = -1;

	args->result = scratch_get(chain->context, chain->stream, sizeof(*count), false);
	if (args->result &&
	    driver.cuMemsetD8Async((CUdeviceptr)args->result, 0, sizeof(*count), chain->stream) ==
		    CUDA_SUCCESS &&
	    !fused_count_triangle(chain->context, chain->stream, args) &&
	    driver.cuMemcpyDtoHAsync_v2(count, (CUdeviceptr)args->result, sizeof(*count),
					chain->stream) == CUDA_SUCCESS)
		error = 0;
	scratch_put(args->result, chain->stream);
	return error;
}

static int p_step(const struct chain *chain)
{
	for (int s = 1; s < chain->step_count; s++)
		for (int i = 0; i < chain->steps[s].ref_count; i++)
			if (chain->steps[s].refs[i].kind == REF_VALUE &&
			    chain->steps[s].refs[i].index == chain->p_value)
				return s;
	return 0;
}

void holes_look(struct chain *chain)
{
	const struct step *step = &chain->steps[p_step(chain)];
	struct value *p = &chain->values[chain->p_value];
	struct driver_context here;
	struct triangle_args args;
	struct kept *k;

	p->left = launch_number(step->function, step->grid, step->block, step->shared_bytes,
				step->params);
	if (find(p) || !chain_triangle(chain, &args) || !driver_enter(&here, chain->context))
		return;
	since = 0;
	k = place_for(chain->context);
	if (k && !enqueue(chain, &args, &counts[k - kept])) {
		static uint64_t uses;

		*k = (struct kept){.begin = p->begin,
				   .end = p->end,
				   .left = p->left,
				   .used = ++uses,
				   .context = chain->context,
				   .under_way = driver_mark(chain_queue(chain), NULL)};
		if (!k->under_way)
			*k = (struct kept){0};
		kept_count += k->end != 0;
	}
	driver_leave(&here);
}

/* ---- forgetting -------------------------------------------------------------------------------
 */

static void guard(uint64_t begin, uint64_t end, uint64_t left)
{
	for (int i = 0; i < HOLES && kept_count; i++)
		if (kept[i].end && range_overlap(begin, end, kept[i].begin, kept[i].end) &&
		    !(left && left == kept[i].left && begin == kept[i].begin))
			forget(&kept[i]);
}

void holes_guard_write(uint64_t begin, uint64_t end)
{
	guard(begin, end, 0);
}

void holes_guard(const struct access_list *list)
{
	if (list->opaque || list->far || (kept_count && ++since > PATIENCE))
		holes_forget();
	for (int i = 0; i < list->count && kept_count; i++)
		if (list->item[i].mode & ACCESS_WRITE)
			guard(list->item[i].begin, list->item[i].end, list->item[i].left);
}

void holes_guard_graph(const struct graph_ranges *ranges)
{
	for (int i = 0; i < ranges->count && kept_count; i++)
		if (ranges->item[i].written)
			guard(ranges->item[i].begin, ranges->item[i].end, 0);
}
