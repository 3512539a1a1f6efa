/* SPDX-License-Identifier: Apache-2.0
 *
 * Does a kernel go where memory says? Through its code is followed which registers may hold a word
 * that was loaded, as it was or in a sum, or something that was computed of one
 * (kernel_code_made.h). If the upper half of an address may be of the former, the kernel follows
 * addresses that it finds; if no address is of either, it reaches what its parameters lead to and
 * nothing else. Between the two lie kernels that take indices from memory: addresses are no
 * multiples of anything, but that is no proof.
 *
 * Where the path is not certain, all that may be are taken: every branch both ways, every return to
 * behind every call. What a kernel decides by what it loaded does not count, for it decides among
 * addresses that are looked at here one by one.
 */
#include "shim/code/kernel_code_made.h"
#include "shim/code/kernel_code_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EFFORT	32 /* looks at an instruction, on average, until it is given up */
#define NOWHERE UINT32_MAX
#define WORDS	(sizeof(struct made_state) / sizeof(uint64_t))

union registers {
	struct made_state state;
	uint64_t bits[WORDS];
};

/* Functions that a kernel calls, together with those that share code. */
#define CALLED 16 /* those beyond are taken together with the last */
struct called {
	union registers written; /* by any of them, or by what they call */
	union registers left;	 /* by those that returned, of that */
	bool returned;
};

struct block {
	uint32_t begin, end; /* instructions */
	bool reached, waits;
	int called; /* which; -1: it is the kernel's own */
	union registers at_begin;
};

struct walk {
	const unsigned char *code;
	uint32_t count;
	unsigned sm;
	struct block *blocks;
	uint32_t block_count;
	uint32_t *block_at; /* by instruction: 1 + the block that begins there; 0: none */
	struct called called[CALLED];
	enum made local; /* what may lie in local memory */
	int64_t effort;	 /* left: looks at instructions, or blocks */
	bool unsure, suspect, follows;
};

/* ---- the path -----------------------------------------------------------------------------------
 */

static struct made_instruction at(const struct walk *walk, uint32_t i)
{
	return made_instruction(walk->code, i);
}

/* Those who wait for one another do so right before where they go on, and calls say where they
 * lead. */
static uint32_t target_of(const struct walk *walk, uint32_t i, const struct made_instruction *in)
{
	const int64_t distance = made_distance(in, walk->sm);
	const int64_t target = distance + i + 1;

	if (distance == INT64_MIN || target < 0 || target >= walk->count ||
	    (in->how == HOW_CALL && in->shape != 4) ||
	    (in->how == HOW_MEET && (!target || at(walk, (uint32_t)target - 1).how != HOW_AWAIT)))
		return NOWHERE;
	return (uint32_t)target;
}

static int find_blocks(struct walk *walk)
{
	uint32_t count = 0;

	walk->block_at = calloc(walk->count + 1, sizeof(*walk->block_at));
	if (!walk->block_at)
		return -ENOMEM;
	walk->block_at[0] = 1;
	for (uint32_t i = 0; i < walk->count; i++) {
		const struct made_instruction in = at(walk, i);
		const uint32_t target = made_leads(&in) ? target_of(walk, i, &in) : NOWHERE;

		if (target != NOWHERE)
			walk->block_at[target] = 1;
		if (made_leads(&in) || in.how == HOW_RETURN || in.how == HOW_EXIT)
			walk->block_at[i + 1] = 1;
	}
	for (uint32_t i = 0; i < walk->count; i++)
		count += walk->block_at[i];
	walk->blocks = calloc(count, sizeof(*walk->blocks));
	if (!walk->blocks)
		return -ENOMEM;
	for (uint32_t i = 0; i < walk->count; i++) {
		if (walk->block_at[i]) {
			walk->blocks[walk->block_count].begin = i;
			walk->block_at[i] = ++walk->block_count;
		}
		walk->blocks[walk->block_count - 1].end = i + 1;
	}
	return 0;
}

static struct block *block_at(const struct walk *walk, uint32_t i)
{
	return i < walk->count && walk->block_at[i] ? &walk->blocks[walk->block_at[i] - 1] : NULL;
}

static void rename_called(struct walk *walk, int from, int to)
{
	for (uint32_t i = 0; i < walk->block_count; i++)
		if (walk->blocks[i].called == from)
			walk->blocks[i].called = to;
}

/* From a function's first block on, up to its return; and what it calls is a part of it. */
static void mark_function(struct walk *walk, struct block *first, int which)
{
	bool any = true;

	if (first->called >= 0)
		return;
	first->called = which;
	first->waits = true;
	for (; any && walk->effort > 0; walk->effort -= walk->block_count) {
		any = false;
		for (uint32_t i = 0; i < walk->block_count; i++) {
			struct block *block = &walk->blocks[i], *next[2] = {NULL, NULL};
			const struct made_instruction in = at(walk, block->end - 1);

			if (!block->waits)
				continue;
			block->waits = false;
			if (made_leads(&in))
				next[0] = block_at(walk, target_of(walk, block->end - 1, &in));
			if (!made_stops(&in))
				next[1] = block_at(walk, block->end);
			for (int k = 0; k < 2; k++) {
				if (!next[k] || next[k]->called == which)
					continue;
				if (next[k]->called >= 0) {
					rename_called(walk, next[k]->called, which);
					continue;
				}
				any = next[k]->waits = true;
				next[k]->called = which;
			}
		}
	}
}

static void find_called(struct walk *walk)
{
	int count = 0;

	for (uint32_t i = 0; i < walk->block_count; i++)
		walk->blocks[i].called = -1;
	for (uint32_t i = 0; i < walk->count; i++) {
		const struct made_instruction in = at(walk, i);
		struct block *block =
			in.how == HOW_CALL ? block_at(walk, target_of(walk, i, &in)) : NULL;

		if (!block)
			continue;
		mark_function(walk, block, count);
		count += count < CALLED - 1;
	}
	for (uint32_t i = 0; i < walk->block_count; i++)
		for (uint32_t k = walk->blocks[i].begin;
		     walk->blocks[i].called >= 0 && k < walk->blocks[i].end; k++) {
			const struct made_instruction in = at(walk, k);

			made_written(&in, &walk->called[walk->blocks[i].called].written.state);
		}
}

/* ---- what arrives -------------------------------------------------------------------------------
 */

static void arrive(struct walk *walk, uint32_t i, const union registers *with)
{
	struct block *block = block_at(walk, i);

	walk->unsure |= !block;
	if (!block)
		return;
	if (!block->reached)
		block->at_begin = *with;
	else
		block->waits |= made_join(&block->at_begin.state, &with->state);
	block->waits |= !block->reached;
	block->reached = true;
}

/* What the instruction calls; NULL: it calls nothing that is known. */
static struct called *called_by(struct walk *walk, uint32_t i, const struct made_instruction *in)
{
	const struct block *block =
		in->how == HOW_CALL ? block_at(walk, target_of(walk, i, in)) : NULL;

	return block ? &walk->called[block->called] : NULL;
}

/* Behind calls of it, what it may write is what some return left of it. */
static void go_on_behind_calls(struct walk *walk, struct called *called,
			       const union registers *with)
{
	union registers left = *with;
	const bool first = !called->returned;

	for (size_t i = 0; i < WORDS; i++)
		left.bits[i] &= called->written.bits[i];
	called->returned = true;
	if (first)
		called->left = left;
	else if (!made_join(&called->left.state, &left.state))
		return;
	walk->effort -= walk->block_count;
	for (uint32_t i = 0; i < walk->block_count; i++) {
		const uint32_t last = walk->blocks[i].end - 1;
		const struct made_instruction in = at(walk, last);

		if (called_by(walk, last, &in) == called)
			arrive(walk, last + 1, &called->left);
	}
}

/* From the last instruction of a block; behind a call, what is not written there is as it was. */
static void leave(struct walk *walk, const struct block *block, const union registers *with)
{
	const uint32_t last = block->end - 1;
	const struct made_instruction in = at(walk, last);
	const struct called *called = called_by(walk, last, &in);
	union registers kept = *with;

	if (made_leads(&in))
		arrive(walk, target_of(walk, last, &in), with);
	if (in.how == HOW_RETURN && block->called >= 0)
		go_on_behind_calls(walk, &walk->called[block->called], with);
	else if (in.how == HOW_RETURN) /* nobody called: a jump to anywhere */
		walk->unsure = true;
	for (size_t i = 0; called && in.guard == MADE_ALWAYS && i < WORDS; i++)
		kept.bits[i] &= ~called->written.bits[i];
	if (!made_stops(&in))
		arrive(walk, last + 1, &kept);
}

/* ---- instructions -------------------------------------------------------------------------------
 */

static void note_spilled(struct walk *walk, enum made what)
{
	if (what <= walk->local)
		return;
	walk->local = what;
	for (uint32_t i = 0; i < walk->block_count; i++)
		walk->blocks[i].waits = walk->blocks[i].reached;
}

static void look(struct walk *walk, uint32_t i, const struct made_instruction *in,
		 const struct made_state *state)
{
	enum made upper;

	switch (in->how) {
	case HOW_UNSURE:
		walk->unsure = true;
		break;
	case HOW_MEET:
		walk->unsure |= target_of(walk, i, in) == NOWHERE;
		break;
	case HOW_LOAD:
	case HOW_ATOMIC:
	case HOW_GLOBAL:
	case HOW_FETCH:
	case HOW_BULK:
	case HOW_STORE:
		walk->unsure |= made_address(in, state, &upper) != MADE_FRESH;
		walk->follows |= upper == MADE_SURE;
		walk->suspect |= upper == MADE_SURE;
		break;
	default:
		break;
	}
	if (in->how == HOW_STORE || in->how == HOW_SPILL)
		note_spilled(walk, made_spilled(in, state));
}

static void run_block(struct walk *walk, struct block *block)
{
	union registers now = block->at_begin;
	struct made_guards guards;

	guards.active = 0;
	block->waits = false;
	for (uint32_t i = block->begin; i < block->end; i++) {
		const struct made_instruction in = at(walk, i);

		const struct made_state found = made_found(&in, &now.state, &guards);

		look(walk, i, &in, &found);
		made_run(&in, walk->local, &found, &now.state, &guards);
	}
	leave(walk, block, &now);
}

/* Until nothing new arrives anywhere. false: that took too long. */
static bool settle(struct walk *walk)
{
	bool any = true;

	walk->blocks[0].reached = walk->blocks[0].waits = true;
	for (; any && walk->effort > 0; walk->effort -= walk->block_count) {
		any = false;
		for (uint32_t i = 0; i < walk->block_count; i++) {
			if (!walk->blocks[i].waits)
				continue;
			any = true;
			walk->effort -= walk->blocks[i].end - walk->blocks[i].begin;
			run_block(walk, &walk->blocks[i]);
		}
	}
	return !any;
}

enum code_reach code_reach_of(const unsigned char *code, size_t bytes, unsigned sm)
{
	struct walk walk = {.code = code,
			    .count = (uint32_t)(bytes / MADE_INSTRUCTION),
			    .sm = sm,
			    .effort = EFFORT * (int64_t)(bytes / MADE_INSTRUCTION)};
	const bool known = walk.count && sm <= MADE_LATEST && bytes / MADE_INSTRUCTION < NOWHERE &&
			   !find_blocks(&walk);
	bool settled;

	if (known)
		find_called(&walk);
	settled = known && settle(&walk);
	/* What is sure is known last, and less is than seemed to be. */
	walk.follows = false;
	for (uint32_t i = 0; settled && walk.suspect && i < walk.block_count; i++)
		if (walk.blocks[i].reached)
			run_block(&walk, &walk.blocks[i]);
	free(walk.blocks);
	free(walk.block_at);
	if (!settled)
		return CODE_BY_VALUE;
	return walk.follows ? CODE_FOLLOWS : walk.unsure ? CODE_BY_VALUE : CODE_NEAR;
}
