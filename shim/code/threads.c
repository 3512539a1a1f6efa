/* SPDX-License-Identifier: Apache-2.0
 *
 * Warps, one after the other, each by itself: what threads tell each other they would have loaded,
 * and that is not known anyway. Of the threads that have parted, those that are furthest behind go
 * on first, and so they meet again.
 *
 * Where it is not known whether threads branch, ahead, they go on as if they did not, and for what
 * lies between it counts as possible alone: what they compute there is not known behind it, what
 * they store may not be stored.
 *
 * Blocks that go the same way are run together, as three of them (threads_stretch.h): most kernels
 * take a block or two then, whatever their grid.
 */
#include "shim/code/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/code/kernel_code_parts.h"
#include "shim/code/threads_parts.h"
#include "shim/code/threads_stretch.h"
#include "shim/code/threads_touch.h"

#define SEEK	     24 /* stretches that are torn until another step is looked for */
#define LONGEST_STEP (1u << 16)
#define JUDGE	     64 /* warps that tell how long the others will take */

/* Who branches, in the field that says so: BRA.DIV, BRA.CONV. */
#define BRANCH_PARTED	2
#define BRANCH_TOGETHER 3

/* ---- warps --------------------------------------------------------------------------------------
 */

/* Of those that have come least far. */
static uint32_t furthest_behind(struct threads *threads, int64_t *at)
{
	const uint32_t live = threads->warp[0].live;
	uint32_t mask = 0;

	*at = threads->here;
	if (!threads->apart)
		return live;
	*at = INT64_MAX;
	for (int l = 0; l < LANES; l++) {
		if (!(live >> l & 1) || threads->at[l] > *at)
			continue;
		mask = threads->at[l] < *at ? 1u << l : mask | 1u << l;
		*at = threads->at[l];
	}
	threads->apart = mask != live;
	return mask;
}

static void go_on(struct threads *threads, uint32_t mask, int64_t to)
{
	const bool all = mask == threads->warp[0].live;

	if (!mask)
		return;
	if (!threads->apart && !all)
		for (int l = 0; l < LANES; l++)
			threads->at[l] = threads->here;
	threads->apart = !all;
	if (all)
		threads->here = to;
	for (int l = 0; l < LANES && !all; l++)
		if (mask >> l & 1)
			threads->at[l] = to;
}

/* Who does as the instruction says, and who perhaps does: its own predicate, and for branches and
 * ends a second one. */
static void who_does(const struct warp *warp, const struct thread_op *op, bool twice, uint32_t mask,
		     uint32_t *does, uint32_t *unsure)
{
	const bool uniform = op_is_uniform(op);
	const struct truth *guard = &warp->truth[(op->in.guard & 7) + (uniform ? 8 : 0)];
	const struct truth *other = &warp->truth[op_bits(op, 87, 3)];
	uint32_t value = op->in.guard & 8 ? ~guard->value : guard->value;
	uint32_t unknown = guard->twin ? ALL : guard->based | guard->unknown;

	if (twice) {
		const uint32_t and = op_bits(op, 90, 1) ? ~other->value : other->value;
		const uint32_t open = other->twin ? ALL : other->based | other->unknown;

		/* Where either is surely false nothing happens. */
		unknown = (unknown | open) & (unknown | value) & (open | and);
		value &= and;
	}
	*does = mask & (value | unknown);
	*unsure = mask & unknown;
}

static void await(struct warp *warp, int64_t target)
{
	for (unsigned i = 0; i < warp->awaited_count && i < AWAITED; i++)
		if (warp->awaited[i] == target)
			return;
	if (warp->awaited_count < AWAITED)
		warp->awaited[warp->awaited_count] = target;
	warp->awaited_count += warp->awaited_count <= AWAITED;
}

/* May those who perhaps are elsewhere come there? */
static bool is_awaited(const struct warp *warp, const struct thread_op *op, int64_t at)
{
	if (warp->awaited_count > AWAITED)
		return op->led_to;
	for (unsigned i = 0; i < warp->awaited_count; i++)
		if (warp->awaited[i] == at)
			return true;
	return false;
}

/* The others are in doubt where the first is. */
static void follow(struct threads *threads)
{
	for (unsigned w = 1; w < threads->witnesses; w++) {
		threads->warp[w].live = threads->warp[0].live;
		threads->warp[w].maybe = threads->warp[0].maybe;
	}
}

static void meet(struct threads *threads)
{
	follow(threads);
	threads->signs.lanes = 0;
	for (unsigned w = 0; w < threads->witnesses; w++)
		threads_meet(&threads->warp[w]);
}

static void forget(struct threads *threads, const struct thread_op *op, uint32_t mask)
{
	for (unsigned w = 0; w < threads->witnesses; w++)
		threads_forget(&threads->warp[w], op, mask);
}

static void compute_all(struct threads *threads, const struct thread_op *op, uint32_t mask,
			uint32_t unsure)
{
	for (unsigned w = 0; w < threads->witnesses; w++)
		threads_compute(&threads->warp[w], op, mask, unsure);
}

/* The sign is known of a register that is not. */
static void compare_signs(struct threads *threads, const struct thread_op *op, uint32_t mask,
			  uint32_t unsure)
{
	for (unsigned w = 0; w < threads->witnesses; w++)
		threads->warp[w].reg[op->a].unknown &= ~threads->signs.lanes;
	compute_all(threads, op, mask, unsure);
	for (unsigned w = 0; w < threads->witnesses; w++)
		threads->warp[w].reg[op->a].unknown |= threads->signs.lanes;
}

static int compute(struct threads *threads, const struct thread_op *op, uint32_t mask,
		   uint32_t unsure)
{
	enum stretch foreseen;

	if (threads->witnesses == 1 || !mask) {
		threads_compute(threads->warp, op, mask, unsure);
		return 0;
	}
	if (stretch_tests_signs(&threads->signs, op, mask)) {
		compare_signs(threads, op, mask, unsure);
		return stretch_holds(threads->warp, op, mask, STRETCH_SAME, threads->blocks)
			       ? 0
			       : -EAGAIN;
	}
	if (stretch_is_still(threads->warp, op)) {
		threads_compute_alike(threads->warp, threads->witnesses, op, mask, unsure);
		if (mask == threads->warp[0].live)
			stretch_note(threads->warp, op->to, false);
		return 0;
	}
	foreseen = stretch_foresee(threads->warp, op, mask, threads->blocks);
	if (foreseen == STRETCH_TORN ||
	    (foreseen == STRETCH_SIGNED && (unsure || threads->warp[0].maybe)))
		return -EAGAIN;
	compute_all(threads, op, mask, unsure);
	if (foreseen == STRETCH_SIGNED) {
		stretch_note_signs(&threads->signs, threads->warp, op, mask);
		threads->less_known = true;
	}
	return stretch_holds(threads->warp, op, mask, foreseen, threads->blocks) ? 0 : -EAGAIN;
}

/* What is written anew has more than a sign. */
static bool writes(const struct thread_op *op, unsigned reg)
{
	const struct made_file *file = reg < UNIFORM ? &op->written.thread : &op->written.warp;

	return file->value[reg % UNIFORM >> 6] >> (reg & 63) & 1;
}

/* Registers to local memory, or from there: the same words in all blocks. */
static int move_local(struct threads *threads, const struct thread_op *op, uint32_t mask,
		      uint32_t unsure)
{
	for (unsigned w = 0; w < threads->witnesses; w++) {
		struct warp *warp = &threads->warp[w];

		for (int l = 0; l < LANES; l++)
			if (warp->reg[op->a].value[l] != threads->warp[0].reg[op->a].value[l])
				return -EAGAIN;
		if (op->in.how == HOW_SPILL)
			threads_spill(warp, op, mask, unsure);
		else
			threads_refill(warp, op, mask, unsure);
	}
	for (unsigned i = 0; op->in.how == HOW_LOCAL && i < 4 && op->to + i < NO_VALUE; i++)
		stretch_note(threads->warp, op->to + i, true);
	return 0;
}

static int branch(struct threads *threads, const struct thread_op *op, int64_t at, uint32_t does,
		  uint32_t unsure)
{
	struct warp *warp = &threads->warp[0];
	const uint32_t perhaps = unsure | (does & warp->maybe);

	/* How a warp shuffles depends on whether its threads have parted: both ways come to the
	 * same, and that of those who have not is the shorter one. */
	if (op_bits(op, 32, 2) == BRANCH_PARTED)
		return 0;
	if (op_bits(op, 32, 2) == BRANCH_TOGETHER && op->target > at && !unsure) {
		go_on(threads, does, op->target);
		return 0;
	}
	/* By a register, or only if all do. */
	if (op->in.shape != 4 || op_bits(op, 32, 2) || op_bits(op, 85, 2) || op_bits(op, 91, 1))
		return -EINVAL;
	if (op->target <= at) { /* if they are here they do */
		go_on(threads, does, op->target);
		return unsure ? -EINVAL : 0;
	}
	if (perhaps) {
		meet(threads);
		await(warp, op->target);
		warp->maybe |= perhaps;
		if (op->target > warp->until)
			warp->until = op->target;
	}
	go_on(threads, does & ~perhaps, op->target);
	return 0;
}

static int step(struct threads *threads, const struct thread_op *op, int64_t at, uint32_t mask)
{
	struct warp *warp = &threads->warp[0];
	const bool ends = op->in.how == HOW_EXIT, leads = op->in.how == HOW_BRANCH;
	uint32_t does, unsure;
	int error;

	follow(threads);
	if (threads->signs.lanes && writes(op, threads->signs.reg))
		threads->signs.lanes = 0;
	who_does(warp, op, ends || leads, mask, &does, &unsure);
	if (unsure && threads->less_known)
		return -EAGAIN;
	switch (op->in.how) {
	case HOW_EXIT:
		unsure |= does & warp->maybe;
		warp->uncertain |= unsure;
		warp->live &= ~(does & ~unsure);
		return 0;
	case HOW_BRANCH:
		return branch(threads, op, at, does, unsure);
	case HOW_CALL:
		threads->departs |= does && threads->program.functions_stop;
		forget(threads, op, does);
		for (unsigned w = 0; w < threads->witnesses; w++)
			threads_forget_local(&threads->warp[w], does);
		return 0;
	case HOW_SPILL:
	case HOW_LOCAL:
		return move_local(threads, op, does, unsure);
	case HOW_LOAD:
		if (op->opcode != LDG)
			return -EINVAL;
		error = threads_touch(threads, op, does, unsure);
		for (unsigned w = 0; w < threads->witnesses; w++)
			threads_load(&threads->warp[w], op, does, unsure);
		return error;
	case HOW_GLOBAL:
		if (op->opcode == CCTL)
			return 0;
		return op->opcode == STG ? threads_touch(threads, op, does,
							 unsure | warp->maybe | warp->uncertain)
					 : -EINVAL;
	case HOW_UNSURE:
		threads->departs |= does != 0;
		return op_calls_register(op) && threads_assert_fails(warp, op, does) ? 0 : -EINVAL;
	case HOW_ATOMIC:
	case HOW_FETCH:
	case HOW_BULK:
	case HOW_STORE:
	case HOW_RETURN:
		return -EINVAL;
	case HOW_COLLECT:
		if (made_leads(&op->in))
			return -EINVAL;
		return 0;
	case HOW_NOTHING:
		threads->departs |= does && op->opcode == BPT;
		break;
	default:
		break;
	}
	if (op->computes)
		return compute(threads, op, does, unsure);
	forget(threads, op, does);
	return 0;
}

static int run_warp(struct threads *threads)
{
	struct warp *warp = &threads->warp[0];
	int error = 0;

	while (warp->live && !error) {
		int64_t at;
		const uint32_t mask = furthest_behind(threads, &at);

		if (at >= threads->program.count)
			return -EINVAL;
		if (threads->left < threads->witnesses)
			return -E2BIG;
		threads->left -= threads->witnesses;
		if (warp->maybe && is_awaited(warp, &threads->program.op[at], at))
			meet(threads);
		if (at >= warp->until)
			warp->maybe = warp->awaited_count = 0;
		go_on(threads, mask, threads->program.op[at].next);
		if (!threads->program.op[at].skipped)
			error = step(threads, &threads->program.op[at], at, mask);
	}
	return error;
}

/* Nothing is known of what registers hold before they are written. */
static void begin_warp(struct warp *warp, const unsigned block[3], unsigned first)
{
	const unsigned count = block[0] * block[1] * block[2];

	for (unsigned i = 0; i < KEPT; i++) {
		warp->reg[i].unknown = i == NO_VALUE || i == REGISTERS - 1 ? 0 : ALL;
		warp->reg[i].based = warp->reg[i].data = 0;
	}
	for (unsigned i = 0; i < PREDICATE; i++)
		warp->truth[i] = (struct truth){.value = i % 8 == ALWAYS ? ALL : 0,
						.unknown = i % 8 == ALWAYS ? 0 : ALL};
	warp->live = count - first < LANES ? (1u << (count - first)) - 1 : ALL;
	warp->maybe = warp->uncertain = 0;
	warp->awaited_count = 0;
	warp->until = 0;
	memset(warp->doubtful, 0, sizeof(warp->doubtful));
	memset(warp->moving, 0, sizeof(warp->moving));
	warp->doubtful_truths = 0;
	for (unsigned l = 0; l < LANES; l++) {
		const unsigned thread = first + l;

		warp->number[0][l] = thread % block[0];
		warp->number[1][l] = thread / block[0] % block[1];
		warp->number[2][l] = thread / block[0] / block[1];
	}
}

/* A warp of so many blocks from that one on. 0, -EAGAIN: of fewer. */
static int run_stretch(struct threads *threads, const unsigned block[3], unsigned first,
		       uint32_t blocks)
{
	const uint32_t later[WITNESSES] = {0, threads->step, threads->step * (blocks - 1)};

	threads->blocks = blocks;
	threads->witnesses = blocks > 1 ? WITNESSES : 1;
	for (unsigned w = 0; w < threads->witnesses; w++) {
		struct warp *warp = &threads->warp[w];

		begin_warp(warp, threads->launch->block, first);
		memcpy(warp->block, block, sizeof(warp->block));
		warp->block[threads->along] += later[w];
	}
	threads->signs.lanes = 0;
	threads->less_known = false;
	threads->apart = false;
	threads->here = 0;
	stored_next_warp(&threads->stored);
	return run_warp(threads);
}

/* Trying what is torn again and again takes longer than going from block to block. */
static uint32_t longest(const struct threads *threads, uint32_t done)
{
	return threads->alone || (threads->torn >= 32 && threads->torn > done / 8) ? 1 : UINT32_MAX;
}

/* If other warps take what these ones did, so many, is there enough? */
static bool suffices(const struct threads *threads, uint32_t warps)
{
	const unsigned *grid = threads->launch->grid, *size = threads->launch->block;
	const unsigned each = (size[0] * size[1] * size[2] + LANES - 1) / LANES;
	const uint64_t used = threads->launch->most - threads->left;

	return (double)used / warps * each * grid[0] * grid[1] * grid[2] <=
	       (double)threads->launch->most;
}

/* 0, -EAGAIN: of fewer blocks. */
static int try_stretch(struct threads *threads, const unsigned block[3], unsigned first,
		       uint32_t blocks)
{
	const int error = run_stretch(threads, block, first, blocks);

	return error == -EINVAL && threads->less_known ? -EAGAIN : error;
}

/* Where neighbours differ, those may be alike that are further apart: rows of a matrix that is
 * masked, heads that are computed by so many blocks each. It is tried with what is no edge of any.
 */
static int seek_step(struct threads *threads, unsigned block[3], unsigned first)
{
	const uint32_t row = threads->launch->grid[threads->along];
	int error = -EAGAIN;

	threads->sought = true;
	for (uint32_t step = 2;
	     step <= row / 10 && step <= LONGEST_STEP && error == -EAGAIN && !threads->alone;
	     step++) {
		if (row % step)
			continue;
		threads->step = step;
		block[threads->along] = step + step / 2;
		error = try_stretch(threads, block, first, row / step - 2);
	}
	if (error == -EAGAIN)
		threads->step = 1;
	else
		threads->torn = 0;
	return error == -EAGAIN && !threads->alone ? 0 : error;
}

/* How many blocks are tried next, of those that are left: all; all but the last, where a tensor
 * ends, or the first, where it begins; then ever fewer. */
struct trial {
	enum { ALL_LEFT, BUT_LAST, BUT_FIRST, FEWER } what;
	uint32_t blocks;
};

static void try_fewer(struct trial *trial, bool at_begin)
{
	if (trial->what == ALL_LEFT) {
		trial->what = BUT_LAST;
		trial->blocks--;
	} else if (trial->what == BUT_LAST && at_begin) {
		trial->what = BUT_FIRST;
		trial->blocks = 1;
	} else {
		trial->what = FEWER;
		trial->blocks /= 2;
	}
}

/* That warp of so many blocks, from `start` on. *done: how many warps ran. 1: again, in other
 * steps; -EAGAIN: all over again, block by block. */
static int run_row(struct threads *threads, unsigned block[3], unsigned first, uint32_t start,
		   uint32_t count, uint32_t *done)
{
	struct trial trial = {ALL_LEFT, count};

	for (uint32_t at = 0; at < count;) {
		const uint32_t most = longest(threads, *done);
		int error;

		if (trial.blocks > count - at)
			trial.blocks = count - at;
		if (trial.blocks > most)
			trial.blocks = most;
		block[threads->along] = start + at * threads->step;
		error = try_stretch(threads, block, first, trial.blocks);
		if (error == -EAGAIN && trial.blocks > 1 && !threads->alone) {
			threads->torn++;
			try_fewer(&trial, at == 0);
			if (threads->sought || threads->torn < SEEK || threads->torn < *done)
				continue;
			error = seek_step(threads, block, first);
			if (error || threads->step > 1)
				return error ? error : 1;
			continue;
		}
		if (error)
			return error;
		*done += trial.blocks;
		at += trial.blocks;
		trial.blocks = trial.what == BUT_FIRST ? count : trial.blocks * 2;
		if (!threads->judged && *done >= JUDGE) {
			threads->judged = true;
			if (!suffices(threads, *done))
				return -E2BIG;
		}
	}
	return 0;
}

/* That warp of all blocks in a row. */
static int run_rows(struct threads *threads, unsigned block[3], unsigned first, uint32_t *done)
{
	const uint32_t row = threads->launch->grid[threads->along];
	int error;

	do {
		error = 0;
		for (uint32_t r = 0; r < threads->step && !error; r++)
			error = run_row(threads, block, first, r, row / threads->step, done);
	} while (error > 0);
	return error;
}

/* Rows are as long as can be. */
static int run_blocks(struct threads *threads)
{
	const unsigned *grid = threads->launch->grid, *size = threads->launch->block;
	const unsigned count = size[0] * size[1] * size[2];
	uint32_t done = 0;
	unsigned along = 0, rows[3] = {grid[0], grid[1], grid[2]}, block[3];
	int error = 0;

	for (unsigned d = 1; d < 3; d++)
		if (grid[d] > grid[along])
			along = d;
	threads->along = along;
	rows[along] = 1;
	for (block[2] = 0; block[2] < rows[2]; block[2]++)
		for (block[1] = 0; block[1] < rows[1]; block[1]++)
			for (block[0] = 0; block[0] < rows[0]; block[0]++)
				for (unsigned first = 0; first < count && !error; first += LANES) {
					unsigned from[3] = {block[0], block[1], block[2]};

					error = run_rows(threads, from, first, &done);
					if (error)
						return error;
				}
	return 0;
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

static void begin(struct threads *threads)
{
	struct threads_extent *extent = threads->extent;

	for (unsigned k = 0; k < threads->launch->pointers; k++) {
		extent[k].read.first = extent[k].written.first = INT64_MAX;
		extent[k].read.beyond = extent[k].written.beyond = INT64_MIN;
		extent[k].origin.first = INT64_MAX;
		extent[k].origin.beyond = INT64_MIN;
		extent[k].whole = extent[k].strays_reading = extent[k].strays_writing = false;
		extent[k].runs = 0;
	}
	stored_free(&threads->stored);
	memset(&threads->stored, 0, sizeof(threads->stored));
	threads->left = threads->launch->most;
	threads->step = 1;
	threads->departs = false;
}

int threads_run(const struct threads_launch *launch, struct threads_extent *extent)
{
	struct threads *threads;
	int error;

	if (launch->sm > MADE_LATEST || launch->pointers > THREADS_POINTERS)
		return -EINVAL;
	threads = calloc(1, sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	threads->launch = launch;
	threads->extent = extent;
	threads->alone = launch->alone;
	for (unsigned w = 0; w < WITNESSES; w++)
		threads->warp[w].launch = launch;
	error = threads_read(&threads->program, launch);
	do {
		begin(threads);
		if (!error || error == -EAGAIN)
			error = run_blocks(threads);
	} while (error == -EAGAIN);
	for (unsigned k = 0; k < launch->pointers && !error; k++)
		stored_tell(&threads->stored, k, &extent[k]);
	stored_free(&threads->stored);
	if (launch->departs)
		*launch->departs = threads->departs;
	threads_unread(&threads->program);
	free(threads);
	return error;
}
