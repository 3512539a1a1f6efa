/* SPDX-License-Identifier: Apache-2.0
 *
 * A few copies, in a table; and what is known of their kinds, by relayout.key.
 */
#include "shim/hazard/copies.h"

#include <string.h>

#include "shim/real/bypass.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/real/driver_context.h"
#include "shim/gpu/fused.h"
#include "shim/op/graph.h"
#include "shim/hazard/held.h"
#include "shim/gpu/late.h"
#include "shim/gpu/ledger.h"
#include "shim/log/log.h"
#include "shim/op/memory.h"
#include "shim/gpu/step_launch.h"
#include "shim/real/driver.h"
#include "shim/site/site.h"

#define COPIES	    64 /* bits of `used` */
#define KINDS	    256
#define PATIENCE    512	 /* ops after which nobody will come for a copy */
#define LOGGED	    16	 /* copies made after all that the log tells of */
#define LEAST_BYTES 1024 /* a smaller one may be a number that some kernel takes */

/* Each op is held against all of them: what that takes lies in one line of the cache. */
static struct held_copy {
	_Alignas(64) uint64_t out_begin;
	uint64_t out_end, in_begin, in_end;
	uint64_t since; /* number of the op before it */
	bool stands;	/* nobody overwrote the copy; or would have, had it been made */
	bool held;	/* not made yet */
	bool output; /* of a fused kernel that wrote the copy's input: made by a kernel of ours */
	uint64_t number; /* chain_moment() when it was made */
	uint64_t cast;	 /* number of the cast that made what this is made of; 0: none */
	CUcontext context;
	CUstream stream;
} copies[COPIES];
/* What is read off an op is written where no copy has its own, and stays there if it is kept. */
static struct relayout room[COPIES + 1], *spare = &room[COPIES];
static struct relayout *relayouts[COPIES]; /* NULL: the place of the same number */

static uint64_t used;  /* a bit for each copy: what it is made of is as it was */
static uint64_t asked; /* … it stands, and the op at hand, a product, reads it */
static uint64_t added; /* of these: the product writes its sum there */
static uint64_t ops;   /* that were guarded against */

static struct kind {
	uint64_t key;
	uint32_t fed;		 /* became an operand */
	uint32_t compared;	 /* with the original read in its place … */
	const struct site *site; /* … by an occurrence of this one, latest */
	uint64_t site_key;
	uint32_t held;	 /* back … */
	uint32_t missed; /* … and made after all */
	bool never;
} kinds[KINDS];
static bool any_fed;

/* The body may forget the copy at hand. */
#define for_each_copy(c)                                                                           \
	for (uint64_t c##_left = used; c##_left; c##_left &= c##_left - 1)                         \
		for (struct held_copy *c = &copies[__builtin_ctzll(c##_left)]; c; c = NULL)

static struct kind *kind_of(uint64_t key)
{
	struct kind *free = NULL;

	for (unsigned i = 0; i < 8; i++) {
		struct kind *kind = &kinds[(key + i) % KINDS];

		if (kind->key == key)
			return kind;
		if (!free || kind->fed < free->fed)
			free = kind;
	}
	*free = (struct kind){.key = key};
	return free;
}

static uint64_t bit_of(const struct held_copy *c)
{
	return 1ull << (c - copies);
}

static struct relayout *relayout_of(const struct held_copy *c)
{
	struct relayout *own = relayouts[c - copies];

	return own ? own : &room[c - copies];
}

static void forget(struct held_copy *c)
{
	c->stands = c->held = false;
	used &= ~bit_of(c);
}

/* ---- making them ---------------------------------------------------------------------------- */

static struct queue queue_of(const struct held_copy *c)
{
	return (struct queue){c->context, c->stream};
}

static int run(const struct held_copy *c)
{
	const uint64_t place[2] = {c->out_begin, c->in_begin};

	return c->output ? fused_lay_out(c->context, c->stream, relayout_of(c))
			 : step_launch(c->stream, &relayout_of(c)->step, place);
}

static void note_made(const struct held_copy *c, const char *who)
{
	struct json *json;

	if (log_live()->copies_made++ >= LOGGED)
		return;
	json = log_record("copy");
	json_string(json, "by", who);
	json_uint(json, "bytes", c->out_end - c->out_begin);
	log_commit(json);
}

/* `opened` reads what is made here, not what it is written over. Whoever wants it is ordered behind
 * that by late.h. */
static void make(struct held_copy *c, const struct chain *opened, const char *who)
{
	struct driver_context here;
	int error = -1;

	if (!c->held || !c->stands)
		return;
	COST(PURPOSE_HAZARDS);
	c->held = false;
	kind_of(relayout_of(c)->key)->missed++;
	note_made(c, who);
	held_guard_write(c->out_begin, c->out_end, queue_of(c), opened);
	for (int attempt = 0; attempt < 2 && error; attempt++) {
		if (!driver_enter(&here, c->context))
			continue;
		error = run(c);
		driver_leave(&here);
	}
	late_reads(queue_of(c), c->in_begin, c->in_end);
	late_writes(queue_of(c), c->out_begin, c->out_end);
	if (error && driver_context_lives(c->context)) {
		log_violation("a copy that was held back could not be made for %s", who);
		late_lose();
	}
}

void copies_realise_all(const char *who)
{
	for_each_copy(c)
	{
		make(c, NULL, who);
		forget(c);
	}
}

/* ---- guarding them -------------------------------------------------------------------------- */

/* What one access does to a copy. */
struct touch {
	bool needs;	 /* it must have been made before */
	bool ends;	 /* what it is made of changes */
	bool overwrites; /* the copy is no more, or not whole */
	bool asks;	 /* a product reads it */
	bool adds;	 /* a product adds to it, all of it */
};

static void touch(struct touch *t, const struct held_copy *c, const struct access *a, bool product)
{
	const bool writes = a->mode & ACCESS_WRITE;

	if (writes && range_overlap(a->begin, a->end, c->in_begin, c->in_end))
		t->needs = t->ends = true;
	if (!c->stands || !range_overlap(a->begin, a->end, c->out_begin, c->out_end))
		return;
	if (product && a->mode == ACCESS_UNKNOWN && a->begin == c->out_begin &&
	    a->end == c->out_end) {
		t->adds = true;
		return;
	}
	t->overwrites |= writes;
	if (product && a->mode == ACCESS_READ)
		t->asks = true;
	else if (a->mode != ACCESS_WRITE || a->begin > c->out_begin || a->sure_end < c->out_end)
		t->needs = true;
}

/* May an access in [low, high) touch the copy or what it is made of? */
static bool near(const struct held_copy *c, uint64_t low, uint64_t high)
{
	return range_overlap(low, high, c->in_begin, c->in_end) ||
	       range_overlap(low, high, c->out_begin, c->out_end);
}

bool copies_near(uint64_t begin, uint64_t end)
{
	for_each_copy(c) if (near(c, begin, end)) return true;
	return false;
}

void copies_guard(const struct sight *sight)
{
	const struct access_list *list = sight->list;
	struct range touched = {0}, written = {0};

	if (list->opaque || list->far) {
		copies_realise_all(sight->who);
		return;
	}
	for (int i = 0; i < list->count; i++) {
		const struct access *a = &list->item[i];

		range_widen(&touched, a->begin, a->end);
		if (a->mode & ACCESS_WRITE)
			range_widen(&written, a->begin, a->end);
	}
	ops++;
	asked = 0;
	for_each_copy(c)
	{
		/* one that was made, and what it was made of, anybody may read */
		const struct range *met = c->held ? &touched : &written;
		const bool old = ops - c->since > PATIENCE;
		struct touch t = {.needs = old, .ends = old};

		if (!old && !near(c, met->begin, met->end))
			continue;
		for (int i = 0; i < list->count; i++)
			touch(&t, c, &list->item[i], sight->op->kind == OP_GEMM);
		if (t.asks || t.adds)
			asked |= bit_of(c);
		if (t.adds)
			added |= bit_of(c);
		if (t.needs || (t.asks && (t.overwrites || t.adds)))
			make(c, NULL, sight->who);
		if (t.overwrites)
			c->stands = c->held = false;
		if (t.ends)
			forget(c);
	}
}

void copies_guard_graph(const struct op *op, const struct graph_ranges *ranges)
{
	for_each_copy(c)
	{
		bool met = false, written = false;

		for (int i = 0; i < ranges->count; i++) {
			const uint64_t begin = ranges->item[i].begin, end = ranges->item[i].end;
			const bool in = range_overlap(begin, end, c->in_begin, c->in_end);
			const bool out = range_overlap(begin, end, c->out_begin, c->out_end);

			met |= (out && c->stands) || (in && ranges->item[i].written);
			written |= (in || out) && ranges->item[i].written;
		}
		if (met)
			make(c, NULL, op->name);
		if (written)
			forget(c);
	}
}

void copies_needed(const struct chain *opened, const char *who)
{
	if (!asked)
		return;
	for_each_copy(c) if (c->held && (asked & bit_of(c))) make(c, opened, who);
}

void copies_added_to(const char *who)
{
	if (!added)
		return;
	copies_needed(NULL, who);
	for_each_copy(c) if (added & bit_of(c)) c->stands = c->held = false;
	added = 0;
}

/* ---- keeping them --------------------------------------------------------------------------- */

/* Where no site can be replaced nobody will read an original in a copy's place. What is held back
 * still must be kept. */
bool copies_watch(void)
{
	if (!any_fed || site_hopeful())
		return any_fed;
	for_each_copy(c) if (c->held) return true;
	for_each_copy(c) forget(c);
	return false;
}

/* The oldest goes, of those that are held back only where all are. */
static struct held_copy *slot(void)
{
	struct held_copy *oldest = &copies[0];

	if (~used)
		return &copies[__builtin_ctzll(~used)];
	for (struct held_copy *c = copies; c < copies + COPIES; c++)
		if (c->held != oldest->held ? oldest->held : c->number < oldest->number)
			oldest = c;
	make(oldest, NULL, "table");
	forget(oldest);
	return oldest;
}

/* Holding back must pay: of the first few, and of any number, most are never made. One that does
 * not pay is given up for good. */
#define TRIALS 4
static bool pays(const struct kind *kind)
{
	return kind->missed < TRIALS || 2 * kind->missed < kind->held;
}

bool copies_pay(uint64_t key)
{
	return pays(kind_of(key));
}

/* Only for a chain that is replaced: what a comparison has read while a site is learned is held
 * back from then on, as long as the site stays one. */
static bool may_hold(const struct kind *kind, const struct relayout *copy)
{
	const char *why;

	return config()->mode == MODE_REPLACE && kind->compared && !kind->never && pays(kind) &&
	       ledger_affords(LEDGER_HOLD) && kind->site->key == kind->site_key &&
	       kind->site->state == SITE_VERIFIED && !bypassed(&why) &&
	       memory_watchable_range(copy->in_begin, copy->in_end) &&
	       memory_watchable_range(copy->out_begin, copy->out_end);
}

/* FASHIM_POISON: who reads a copy that was never made shall read NaN. */
static void poison(const struct held_copy *c)
{
	struct driver_context here;

	held_guard_write(c->out_begin, c->out_end, queue_of(c), NULL);
	if (!driver_enter(&here, c->context))
		return;
	driver.cuMemsetD32Async((CUdeviceptr)c->out_begin, POISON_WORD,
				(c->out_end - c->out_begin) / 4, c->stream);
	late_writes(queue_of(c), c->out_begin, c->out_end);
	driver_leave(&here);
}

/* Number of the cast that wrote what a copy reads; 0: none. */
static uint64_t cast_before(const struct relayout *copy, CUcontext context, CUstream stream)
{
	for_each_copy(c) if (c->stands && !c->output && c->context == context &&
			     c->stream == stream && relayout_casts(relayout_of(c)) &&
			     copy->in_begin >= c->out_begin &&
			     copy->in_end <= c->out_end) return c->number;
	return 0;
}

/* Without its relayout. */
static struct held_copy *enter(const struct relayout *copy, CUcontext context, CUstream stream)
{
	const uint64_t cast = cast_before(copy, context, stream);
	struct held_copy *c = slot();

	used |= bit_of(c);
	asked &= ~bit_of(c);
	added &= ~bit_of(c);
	*c = (struct held_copy){.stands = true,
				.since = ops,
				.number = chain_moment(),
				.cast = cast,
				.context = context,
				.stream = stream,
				.out_begin = copy->out_begin,
				.out_end = copy->out_end,
				.in_begin = copy->in_begin,
				.in_end = copy->in_end};
	return c;
}

static struct held_copy *keep(const struct relayout *copy, CUcontext context, CUstream stream)
{
	struct held_copy *c = enter(copy, context, stream);

	relayout_copy(relayout_of(c), copy);
	return c;
}

/* Of the spare one, which another becomes. */
static struct held_copy *keep_spare(CUcontext context, CUstream stream)
{
	struct held_copy *c = enter(spare, context, stream);
	struct relayout *free = relayout_of(c);

	relayouts[c - copies] = spare;
	spare = free;
	return c;
}

static void hold(struct held_copy *c)
{
	c->held = true;
	kind_of(relayout_of(c)->key)->held++;
	log_live()->copies_held++;
	if (config()->poison)
		poison(c);
}

static struct held_copy *take(const struct sight *sight)
{
	if (!relayout_read(spare, sight) || spare->out_end - spare->out_begin < LEAST_BYTES)
		return NULL;
	return keep_spare(sight->op->context, sight->op->stream);
}

bool copies_take(const struct sight *sight)
{
	struct held_copy *c = take(sight);

	if (!c)
		return false;
	/* On the default stream of each thread nobody else could make it in its order. */
	if (sight->op->stream != CU_STREAM_PER_THREAD &&
	    may_hold(kind_of(relayout_of(c)->key), relayout_of(c)))
		hold(c);
	return c->held;
}

void copies_note(const struct sight *sight)
{
	take(sight);
}

void copies_hold_output(const struct relayout *inverse, CUcontext context, CUstream stream)
{
	struct held_copy *c = keep(inverse, context, stream);

	any_fed = true;
	c->output = true;
	kind_of(inverse->key)->fed++;
	hold(c);
}

static struct held_copy *made_here(const struct chain *chain, uint64_t begin, uint64_t end)
{
	for_each_copy(c) if (c->stands && !c->output && c->out_begin == begin &&
			     c->out_end == end && c->context == chain->context &&
			     c->stream == chain->stream) return c;
	return NULL;
}

uint64_t copies_origin(const struct chain *chain, uint64_t begin, uint64_t end)
{
	const struct held_copy *c = made_here(chain, begin, end);

	if (!c)
		return 0;
	any_fed = true;
	kind_of(relayout_of(c)->key)->fed++;
	return c->number;
}

static const struct held_copy *numbered(uint64_t number)
{
	for_each_copy(c) if (number && c->number == number) return c;
	return NULL;
}

const struct relayout *copies_intact(uint64_t number)
{
	const struct held_copy *c = numbered(number);

	return c ? relayout_of(c) : NULL;
}

uint64_t copies_cast(uint64_t number, struct relayout *cast)
{
	const struct held_copy *c = numbered(number);
	const struct relayout *before;

	if (c && relayout_casts(relayout_of(c))) {
		relayout_copy(cast, relayout_of(c));
		return number;
	}
	before = c ? copies_intact(c->cast) : NULL;
	return before && relayout_join(cast, before, relayout_of(c)) ? c->cast : 0;
}

void copies_compared(uint64_t number, const struct site *site, bool possible)
{
	const struct relayout *copy = copies_intact(number);
	struct kind *kind = copy ? kind_of(copy->key) : NULL;

	if (!kind)
		return;
	kind->compared += possible;
	kind->site = site;
	kind->site_key = site->key;
	log_live()->copies_unfit += !possible && !kind->never;
	kind->never |= !possible;
}

bool copies_absorb(struct chain *chain, int n, uint64_t begin, uint64_t end)
{
	struct held_copy *c = made_here(chain, begin, end);

	if (!c || !c->held || relayout_casts(relayout_of(c)) ||
	    !chain_relay(chain, n, relayout_of(c)))
		return false;
	kind_of(relayout_of(c)->key)->fed++;
	asked &= ~bit_of(c);
	if (added & bit_of(c)) /* the sum stands there, held back as well */
		c->stands = c->held = false;
	return true;
}

void copies_trace_back(struct chain *chain, int n)
{
	const struct input *input = &chain->inputs[n];
	const uint64_t bytes = input->end - input->begin;
	const struct held_copy *c;

	if (chain->relayed[n] >= 0 || input->snapshot || input->lost)
		return;
	c = made_here(chain, input->begin, input->end);
	/* One that came later, into memory that the operand left: it is held back, and the operand
	 * still lies there. */
	if (c && c->number < input->since && 2 * (c->in_end - c->in_begin) <= bytes &&
	    !relayout_casts(relayout_of(c)) && memory_watchable_range(c->in_begin, c->in_end))
		chain_relay(chain, n, relayout_of(c));
}
