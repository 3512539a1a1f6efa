/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the threads that have parted, those that are furthest behind go on first, and so they meet
 * again. Where it is not known whether threads branch, ahead, they go on as if they did not, and
 * for what lies between it counts as possible alone: what they compute there is not known behind
 * it, what they store may not be stored.
 */
#include "shim/code/threads_warp.h"

#include <errno.h>
#include <string.h>

#include "shim/base/clock.h"
#include "shim/code/kernel_code_parts.h"
#include "shim/code/threads_parts.h"

#define LOOK 4096 /* instructions from one look at the clock to the next */

/* Who branches, in the field that says so: BRA.DIV, BRA.CONV. */
#define BRANCH_PARTED	2
#define BRANCH_TOGETHER 3

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
	threads->less_known |= threads->quotients.held != 0;
	threads->quotients.held = 0;
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

/* An instruction that is no such shift. Does it read one of the halves? */
static bool forget_quotients(struct threads *threads, const struct thread_op *op, uint32_t mask,
			     uint32_t unsure)
{
	if (quotient_is_read(&threads->quotients, op))
		return true;
	threads->less_known |= !quotient_drop(&threads->quotients, op, mask & ~unsure);
	return false;
}

/* The upper half of a product is shifted right. */
static int divide(struct threads *threads, const struct thread_op *op,
		  const struct quotient *quotient, uint32_t mask, uint32_t unsure)
{
	const uint32_t fits = quotient_fits(quotient, threads->warp, op, mask, threads->blocks);

	if (fits < threads->blocks)
		threads->fits = fits;
	if (unsure || fits < threads->blocks)
		return -EAGAIN;
	quotient_show(quotient, threads->warp);
	compute_all(threads, op, mask, unsure);
	quotient_hide(quotient, threads->warp, op_writes(op, quotient->reg) ? ~mask : ALL);
	threads->less_known |= !quotient_drop(&threads->quotients, op, mask);
	return stretch_holds(threads->warp, op, mask, STRETCH_EVEN, threads->blocks) ? 0 : -EAGAIN;
}

static int compute(struct threads *threads, const struct thread_op *op, uint32_t mask,
		   uint32_t unsure)
{
	struct quotient *quotient = NULL;
	enum stretch foreseen;

	if (threads->witnesses == 1 || !mask) {
		threads_compute(threads->warp, op, mask, unsure);
		return 0;
	}
	if (threads->quotients.held) {
		quotient = quotient_shifted(&threads->quotients, op, mask);
		if (quotient)
			return divide(threads, op, quotient, mask, unsure);
		if (forget_quotients(threads, op, mask, unsure))
			return -EAGAIN;
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
	if (foreseen == STRETCH_TORN)
		quotient = quotient_begin(&threads->quotients, threads->warp, op, mask,
					  threads->blocks);
	if ((foreseen == STRETCH_TORN && !quotient) ||
	    ((foreseen == STRETCH_SIGNED || quotient) && (unsure || threads->warp[0].maybe)))
		return -EAGAIN;
	compute_all(threads, op, mask, unsure);
	if (quotient)
		quotient_note(quotient, threads->warp, op, mask);
	if (foreseen == STRETCH_SIGNED) {
		stretch_note_signs(&threads->signs, threads->warp, op, mask);
		threads->less_known = true;
	}
	return stretch_holds(threads->warp, op, mask, foreseen, threads->blocks) ? 0 : -EAGAIN;
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
	/* What is written anew has more than a sign. */
	if (threads->signs.lanes && op_writes(op, threads->signs.reg))
		threads->signs.lanes = 0;
	who_does(warp, op, ends || leads, mask, &does, &unsure);
	if (threads->quotients.held && !op->computes && does &&
	    forget_quotients(threads, op, does, unsure))
		return -EAGAIN;
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

/* Is the time over that the launch may take? */
static bool is_late(struct threads *threads)
{
	if (!threads->launch->until || threads->left >= threads->look)
		return false;
	threads->look = threads->left > LOOK ? threads->left - LOOK : 0;
	return clock_ns(CLOCK_MONOTONIC) > threads->launch->until;
}

int threads_run_warp(struct threads *threads)
{
	struct warp *warp = &threads->warp[0];
	int error = 0;

	while (warp->live && !error) {
		int64_t at;
		const uint32_t mask = furthest_behind(threads, &at);

		if (at >= threads->program.count)
			return -EINVAL;
		if (threads->left < threads->witnesses || is_late(threads))
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
