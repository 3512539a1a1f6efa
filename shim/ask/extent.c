/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of answers. A launch that takes longer to run through than can be afforded is tried
 * again when twice as much can be; but a kernel that became a step of a chain unknown stays one for
 * as long as little can be afforded, since a site is told apart by what its steps touch, and would
 * be learned anew.
 */
#include "shim/ask/extent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/clock.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/base/hash.h"
#include "shim/base/message.h"
#include "shim/chain/chain.h"
#include "shim/code/kernel_code_parts.h"
#include "shim/code/threads.h"
#include "shim/gpu/ledger.h"
#include "shim/op/memory.h"

#define ANSWERS	    512	       /* of launches that differ, in twice as many places, … */
#define TEXTS	    256	       /* … and of kernels whose code is at hand */
#define INSTRUCTION 120	       /* ns, of a warp's: it took 50 to 100, and more on a busy host */
#define MOST	    (1u << 24) /* instructions of warps, of one launch, … */
#define LEAST	    (1u << 14) /* … and enough for most */
#define MUCH	    100000000  /* ns: more than it takes to learn of a site twice */

static struct answer {
	uint64_t key; /* 0: free */
	int error;
	uint64_t most; /* instructions that were not enough */
	bool departs;
	struct threads_extent *extent; /* of pointers in the order of the parameters */
} answers[2 * ANSWERS];
static int answer_count;

static uint32_t unknown_steps[TEXTS]; /* functions, by their number */
static int unknown_step_count;

static struct kept_text {
	uint32_t function;
	uint64_t hash; /* of the code; 0: there is none */
	struct code_text text;
} texts[TEXTS];
static int text_count;

static uint64_t word_at(const unsigned char *params, unsigned at)
{
	uint64_t word;

	memcpy(&word, params + at, 8);
	return word;
}

/* Which words of the parameters are pointers; how far apart they are does not matter. false: too
 * many. */
static bool find_pointers(const struct function *function, struct threads_launch *launch)
{
	uint64_t begin, end;
	unsigned at;

	for (unsigned i = 0; i < function->param_count; i++)
		for_each_pointer_word(function, i, at) {
			if (!memory_reach(word_at(launch->params, at), &begin, &end))
				continue;
			if (launch->pointers == THREADS_POINTERS)
				return false;
			launch->pointer[launch->pointers++] = (uint16_t)at;
		}
	return true;
}

/* Of code, not of a function: a program may load the same several times. */
static uint64_t key_of(const struct kept_text *kept, const struct threads_launch *launch)
{
	uint64_t key = hash_mix(kept->hash, launch->pointers);
	unsigned k = 0, at = 0;

	key = hash_bytes(key, launch->grid, sizeof(launch->grid));
	key = hash_bytes(key, launch->block, sizeof(launch->block));
	while (at < launch->param_bytes) {
		const unsigned next =
			k < launch->pointers ? launch->pointer[k] : launch->param_bytes;

		key = hash_bytes(hash_mix(key, at), launch->params + at, next - at);
		if (k < launch->pointers) /* a kernel may ask how it is aligned */
			key = hash_mix(key, launch->params[next] & 15);
		at = k < launch->pointers ? next + 8 : next;
		k++;
	}
	return key;
}

/* NULL: too many are kept; *later: or reading it cannot be afforded yet. */
static const struct kept_text *text_of(const struct function *function, bool *later)
{
	struct ledger_entry entry;
	struct kept_text *kept;

	for (int i = 0; i < text_count; i++)
		if (texts[i].function == function->id)
			return &texts[i];
	*later = text_count < TEXTS && !ledger_affords(LEDGER_CODE);
	if (text_count == TEXTS || *later)
		return NULL;
	kept = &texts[text_count++];
	*kept = (struct kept_text){.function = function->id};
	entry = ledger_begin(LEDGER_CODE);
	if (!kernel_code_text(function->handle, function->name, &kept->text))
		kept->hash = hash_bytes(hash_mix(hash_mix(kept->text.sm, kept->text.asserts),
						 kept->text.turns),
					kept->text.code, kept->text.bytes) |
			     1;
	else
		message_debug("%s: its code is not at hand", function->name);
	ledger_end(entry);
	return kept;
}

/* How many instructions can be afforded, and until when, whatever they take on this host now. */
static void set_limits(struct threads_launch *launch)
{
	const uint64_t left = ledger_left(), instructions = left / INSTRUCTION;

	launch->most = instructions < MOST ? instructions : MOST;
	launch->until = left == UINT64_MAX ? 0 : clock_ns(CLOCK_MONOTONIC) + left;
}

static void find_out(struct answer *answer, const struct code_text *text,
		     struct threads_launch *launch)
{
	struct threads_extent extent[THREADS_POINTERS];
	const size_t bytes = launch->pointers * sizeof(*extent);

	launch->code = text->code;
	launch->bytes = text->bytes;
	launch->sm = text->sm;
	launch->asserts = text->asserts;
	launch->turns = text->turns;
	launch->departs = &answer->departs;
	answer->error = threads_run(launch, extent);
	answer->most = launch->most;
	if (answer->error)
		return;
	answer->extent = malloc(bytes);
	if (answer->extent)
		memcpy(answer->extent, extent, bytes);
	else
		answer->error = -ENOMEM;
}

static void tell(const struct answer *answer, const char *name, const struct threads_launch *launch)
{
	if (answer->error)
		message_debug("%s: its code does not tell what it touches (%s)", name,
			      strerror(-answer->error));
	for (unsigned k = 0; !answer->error && k < launch->pointers; k++)
		message_debug("%s: from byte %u of its parameters it reads %" PRId64 "–%" PRId64
			      ", writes %" PRId64 "–%" PRId64 "%s%s%s",
			      name, launch->pointer[k], answer->extent[k].read.first,
			      answer->extent[k].read.beyond, answer->extent[k].written.first,
			      answer->extent[k].written.beyond,
			      answer->extent[k].whole ? ", all of it" : "",
			      answer->extent[k].strays_reading ? "; reads anywhere" : "",
			      answer->extent[k].strays_writing ? "; writes anywhere" : "");
}

/* Where that key is, or would be. */
static struct answer *place_of(uint64_t key)
{
	uint64_t at = key;

	while (answers[at % (2 * ANSWERS)].key && answers[at % (2 * ANSWERS)].key != key)
		at++;
	return &answers[at % (2 * ANSWERS)];
}

/* NULL: none; *later: perhaps when more can be afforded. */
static const struct answer *ask(const struct function *function, struct threads_launch *launch,
				bool *later)
{
	const struct kept_text *kept;
	struct ledger_entry entry;
	struct answer *answer;
	uint64_t key;

	*later = false;
	kept = text_of(function, later);
	if (!kept || !kept->hash)
		return NULL;
	key = key_of(kept, launch) | 1;
	answer = place_of(key);
	if (answer->key && answer->error != -E2BIG)
		return answer->error ? NULL : answer;
	set_limits(launch);
	if (answer->key ? answer->most == MOST : answer_count == ANSWERS)
		return NULL;
	*later = launch->most < (answer->key ? 2 * answer->most : LEAST);
	if (*later)
		return NULL;
	answer_count += !answer->key;
	*answer = (struct answer){.key = key};
	COST(PURPOSE_ASKING);
	entry = ledger_begin(LEDGER_EXTENT);
	find_out(answer, &kept->text, launch);
	ledger_end(entry);
	tell(answer, function->name, launch);
	*later = answer->error == -E2BIG && answer->most < MOST;
	return answer->error ? NULL : answer;
}

/* Its number among those that became steps unknown; -1: none. */
static int unknown_step(const struct function *function)
{
	for (int i = 0; i < unknown_step_count; i++)
		if (unknown_steps[i] == function->id)
			return i;
	return -1;
}

bool extent_step_unknown(const struct function *function)
{
	return unknown_step(function) >= 0;
}

static bool stays_unknown(const struct function *function)
{
	return (unknown_step(function) >= 0 || unknown_step_count == TEXTS) && ledger_left() < MUCH;
}

/* Is it known now, or not? */
static void note_step(const struct function *function, bool unknown)
{
	const int at = unknown_step(function);

	if (unknown && at < 0 && unknown_step_count < TEXTS)
		unknown_steps[unknown_step_count++] = function->id;
	else if (!unknown && at >= 0)
		unknown_steps[at] = unknown_steps[--unknown_step_count];
}

static bool strays(const struct threads_extent *extent)
{
	return extent->strays_reading || extent->strays_writing;
}

/* What begins at that pointer, in place of `access`; it stays where nothing does. Who strays from
 * it may touch all that it could before, but reads alone if that is what it does. */
static void settle(struct access *access, const struct threads_extent *extent)
{
	const bool reads = extent->read.first < extent->read.beyond;
	const bool writes = extent->written.first < extent->written.beyond;
	int64_t first = reads ? extent->read.first : writes ? extent->written.first : 0;
	int64_t beyond = reads ? extent->read.beyond : writes ? extent->written.beyond : 0;

	if (writes && extent->written.first < first)
		first = extent->written.first;
	if (writes && extent->written.beyond > beyond)
		beyond = extent->written.beyond;
	if (strays(extent)) {
		/* `access` spans all that the pointer may lead into. */
		access->mode = writes || extent->strays_writing ? ACCESS_UNKNOWN : ACCESS_READ;
		access->sure_end = access->begin;
		access->bounded = false;
		access->grade = GRADE_RULED;
		return;
	}
	access->begin = access->pointer + (uint64_t)first;
	access->end = access->pointer + (uint64_t)beyond;
	access->mode = !writes ? ACCESS_READ : reads ? ACCESS_UNKNOWN : ACCESS_WRITE;
	access->sure_end = writes && !reads && extent->whole ? access->end : access->begin;
	access->bounded = true;
	access->grade = GRADE_RULED;
}

/* What is written in runs, as rows of a larger tensor are, becomes an access for each: the bytes
 * between are left alone. */
static void tell_runs(struct access_list *list, const struct threads_extent *extent, int count)
{
	for (int i = 0; i < count; i++) {
		const struct access whole = list->item[i];

		if (whole.mode != ACCESS_WRITE || extent[i].runs < 2 ||
		    list->count + (int)extent[i].runs > ACCESS_MAX)
			continue;
		for (unsigned n = 0; n < extent[i].runs; n++) {
			struct access run = whole;

			run.begin = whole.pointer + (uint64_t)extent[i].run[n].first;
			run.end = run.sure_end = whole.pointer + (uint64_t)extent[i].run[n].beyond;
			if (n)
				run.pointer = run.begin;
			list->item[n ? list->count++ : i] = run;
		}
	}
}

/* Does it read what an open chain made, and stray besides? Of such a step it stays to be measured
 * what it makes of its pointers. */
static bool strays_as_step(const struct access_list *list, const struct threads_extent *extent)
{
	bool any = false, reads = false;

	for (int i = 0; i < list->count; i++) {
		any |= strays(&extent[i]);
		if (extent[i].read.first >= extent[i].read.beyond && !strays(&extent[i]))
			continue;
		for_each_chain(chain) reads |=
			!chain->closed && chain_value_at(chain, list->item[i].pointer) >= 0;
	}
	return any && reads;
}

/* Is it the allocation that its pointer leads into, and not one that a number among the parameters
 * leads to from there? */
static bool strays_within(const struct access *access, const struct threads_extent *extent)
{
	const int64_t below = (int64_t)(access->begin - access->pointer);
	const int64_t above = (int64_t)(access->end - access->pointer);

	return !strays(extent) || (extent->origin.first >= below && extent->origin.beyond <= above);
}

static bool may_ask(const struct sight *sight)
{
	const struct op_launch *launch = &sight->op->launch;

	return sight->params && !sight->function->rule && !sight->list->opaque &&
	       config()->mode >= MODE_COMPARE && !launch->peculiar;
}

static struct threads_launch launch_of(const struct function *function, const unsigned grid[3],
				       const unsigned block[3], const unsigned char *params)
{
	struct threads_launch launch = {.params = params, .param_bytes = function->bytes};

	memcpy(launch.grid, grid, sizeof(launch.grid));
	memcpy(launch.block, block, sizeof(launch.block));
	return launch;
}

bool extent_refine(const struct sight *sight, bool is_step, bool in_runs)
{
	struct access_list *list = sight->list;
	struct threads_launch launch = launch_of(sight->function, sight->op->launch.grid,
						 sight->op->launch.block, sight->params);
	const struct answer *answer = NULL;
	bool later = false;

	if (!may_ask(sight) || (is_step && stays_unknown(sight->function)))
		return false;
	if (find_pointers(sight->function, &launch) && (int)launch.pointers == list->count)
		answer = ask(sight->function, &launch, &later);
	list->dear = later;
	if (is_step && (later || answer))
		note_step(sight->function, !answer);
	if (!answer)
		return false;
	for (int i = 0; i < list->count; i++)
		if (list->item[i].where != launch.pointer[i] ||
		    !strays_within(&list->item[i], &answer->extent[i]))
			return false;
	if (is_step && strays_as_step(list, answer->extent))
		return false;
	for (int i = 0; i < list->count; i++)
		settle(&list->item[i], &answer->extent[i]);
	if (in_runs)
		tell_runs(list, answer->extent, list->count);
	list->far = list->unsettled = list->dear = false;
	return true;
}

bool extent_contained(const struct function *function, const unsigned grid[3],
		      const unsigned block[3], const unsigned char *params)
{
	struct threads_launch launch = launch_of(function, grid, block, params);
	const struct answer *answer = NULL;
	bool later;

	if (find_pointers(function, &launch))
		answer = ask(function, &launch, &later);
	if (!answer || answer->departs)
		return false;
	for (unsigned k = 0; k < launch.pointers; k++)
		if (strays(&answer->extent[k]))
			return false;
	return true;
}

void extent_forget(void)
{
	for (int i = 0; i < text_count; i++)
		free(texts[i].text.code);
	text_count = 0;
}
