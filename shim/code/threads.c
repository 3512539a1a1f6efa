/* SPDX-License-Identifier: Apache-2.0
 *
 * Warps, one after the other, each by itself: what threads tell each other they would have loaded,
 * and that is not known anyway. Of the threads that have parted, those that are furthest behind go
 * on first, and so they meet again.
 *
 * Where it is not known whether threads branch, ahead, they go on as if they did not, and for what
 * lies between it counts as possible alone: what they compute there is not known behind it, what
 * they store may not be stored.
 */
#include "shim/code/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/code/kernel_code_parts.h"
#include "shim/code/threads_parts.h"
#include "shim/code/threads_stored.h"

#define FURTHEST (1ll << 40) /* from a pointer */

/* Who branches, in the field that says so: BRA.DIV, BRA.CONV. */
#define BRANCH_PARTED	2
#define BRANCH_TOGETHER 3

struct threads {
	const struct threads_launch *launch;
	struct threads_extent *extent;
	struct stored stored;
	struct thread_program program;
	struct warp warp;
	bool apart;	   /* lanes are at different instructions; else all are at */
	int64_t here;	   /* this one */
	int64_t at[LANES]; /* the instruction that a lane is at, where they are apart */
	uint64_t left;
	bool departs;
};

/* ---- memory -------------------------------------------------------------------------------------
 */

/* Whose address these halves are, counted from 1; 0: of none, or not of one. */
static unsigned pointer_in(const struct lanes *low, const struct lanes *high, int lane)
{
	if (!((low->based & high->based) >> lane & 1))
		return 0;
	return low->pointer == high->pointer && low->pointer <= TURNS ? low->pointer : 0;
}

static bool is_number(const struct lanes *low, const struct lanes *high, int lane)
{
	return !((low->based | high->based) >> lane & 1);
}

/* Nothing but what was loaded, and numbers, is added to the pointer there. */
static bool only_strays(const struct lanes *of, int lane)
{
	return (~of->unknown | of->data) >> lane & 1;
}

/* A register pair and a distance, on sm_80 and later with something that describes memory; or with
 * a pair of the warp's own to add, to 32 bits perhaps. *strays: the distance is but what it would
 * be if all were 0 that is loaded. */
static int address_of(const struct threads *threads, const struct thread_op *op, int lane,
		      unsigned *k, int64_t *distance, bool *strays)
{
	const struct lanes *zero = &threads->warp.reg[NO_VALUE];
	const struct lanes *low = &threads->warp.reg[op->a], *high = low + 1;
	const struct lanes *more = zero, *upper = zero;
	const unsigned form = op_bits(op, 90, 2) << 1 | op_bits(op, 76, 1);
	const unsigned at = of_warp(op_bits(op, op->opcode == STG ? 64 : 32, 6));
	uint64_t address;

	if (!op_bits(op, 72, 1) || (form != 0 && form != 4 && form != 6 && form != 7))
		return -EINVAL;
	if (op->a == NO_VALUE || form == 4)
		high = zero;
	if (form == 4 || form == 6) {
		more = &threads->warp.reg[at];
		upper = at == REGISTERS - 1 ? more : more + 1;
	}
	*strays = (low->unknown | high->unknown | more->unknown | upper->unknown) >> lane & 1;
	if (!only_strays(low, lane) || !only_strays(high, lane) || !only_strays(more, lane) ||
	    !only_strays(upper, lane))
		return -EINVAL;
	*k = pointer_in(low, high, lane);
	if (!*k && is_number(low, high, lane))
		*k = pointer_in(more, upper, lane);
	else if (!is_number(more, upper, lane))
		return -EINVAL;
	if (!*k)
		return -EINVAL;
	address = (uint64_t)high->value[lane] << 32 | low->value[lane];
	address += (uint64_t)upper->value[lane] << 32 | more->value[lane];
	address += (uint64_t)((int64_t)(op->in.low & ~0xffffffffffull) >> 40);
	*distance = (int64_t)(address - ((uint64_t)POINTER_UPPER(--*k) << 32));
	return *distance < -FURTHEST || *distance > FURTHEST ? -EINVAL : 0;
}

static int touch(struct threads *threads, const struct thread_op *op, uint32_t mask,
		 uint32_t unsure)
{
	static const uint8_t sizes[8] = {1, 1, 2, 2, 4, 8, 16, 0};
	const unsigned size = sizes[op_bits(op, 73, 3)];
	const bool stores = op->opcode == STG;
	int error = size ? 0 : -EINVAL;

	for (int l = 0; l < LANES && !error; l++) {
		struct threads_extent *extent;
		int64_t begin, *first, *beyond;
		bool strays;
		unsigned k;

		if (!(mask >> l & 1))
			continue;
		error = address_of(threads, op, l, &k, &begin, &strays);
		if (error)
			break;
		if (k == TURNS - 1) { /* nobody's memory */
			if (stores || strays || begin < 0 || begin + size > CODE_TURNS)
				return -EINVAL;
			continue;
		}
		if (!stores && !strays && stored_by_warp(&threads->stored, k, begin, size))
			continue;
		extent = &threads->extent[k];
		first = strays	 ? &extent->origin.first
			: stores ? &extent->written.first
				 : &extent->read.first;
		beyond = strays	  ? &extent->origin.beyond
			 : stores ? &extent->written.beyond
				  : &extent->read.beyond;
		if (begin < *first)
			*first = begin;
		if (begin + size > *beyond)
			*beyond = begin + size;
		if (strays)
			*(stores ? &extent->strays_writing : &extent->strays_reading) = true;
		else if (stores && unsure >> l & 1)
			threads->stored.perhaps[k] = true;
		else if (stores)
			error = stored_note(&threads->stored, k, begin, begin + size);
	}
	return error;
}

/* ---- warps --------------------------------------------------------------------------------------
 */

/* Of those that have come least far. */
static uint32_t furthest_behind(struct threads *threads, int64_t *at)
{
	const uint32_t live = threads->warp.live;
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
	const bool all = mask == threads->warp.live;

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

static int branch(struct threads *threads, const struct thread_op *op, int64_t at, uint32_t does,
		  uint32_t unsure)
{
	struct warp *warp = &threads->warp;
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
		threads_meet(warp);
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
	struct warp *warp = &threads->warp;
	const bool ends = op->in.how == HOW_EXIT, leads = op->in.how == HOW_BRANCH;
	uint32_t does, unsure;
	int error;

	who_does(warp, op, ends || leads, mask, &does, &unsure);
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
		threads_forget(warp, op, does);
		threads_forget_local(warp, does);
		return 0;
	case HOW_SPILL:
		threads_spill(warp, op, does, unsure);
		return 0;
	case HOW_LOCAL:
		threads_refill(warp, op, does, unsure);
		return 0;
	case HOW_LOAD:
		if (op->opcode != LDG)
			return -EINVAL;
		error = touch(threads, op, does, unsure);
		threads_load(warp, op, does, unsure);
		return error;
	case HOW_GLOBAL:
		if (op->opcode == CCTL)
			return 0;
		return op->opcode == STG
			       ? touch(threads, op, does, unsure | warp->maybe | warp->uncertain)
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
		threads_compute(warp, op, does, unsure);
	else
		threads_forget(warp, op, does);
	return 0;
}

static int run_warp(struct threads *threads)
{
	struct warp *warp = &threads->warp;
	int error = 0;

	while (warp->live && !error) {
		int64_t at;
		const uint32_t mask = furthest_behind(threads, &at);

		if (at >= threads->program.count)
			return -EINVAL;
		if (!threads->left--)
			return -E2BIG;
		if (warp->maybe && is_awaited(warp, &threads->program.op[at], at))
			threads_meet(warp);
		if (at >= warp->until)
			warp->maybe = warp->awaited_count = 0;
		go_on(threads, mask, threads->program.op[at].next);
		if (!threads->program.op[at].skipped)
			error = step(threads, &threads->program.op[at], at, mask);
	}
	return error;
}

/* Nothing is known of what registers hold before they are written. */
static void begin_warp(struct threads *threads, unsigned first)
{
	const unsigned *block = threads->launch->block;
	const unsigned count = block[0] * block[1] * block[2];
	struct warp *warp = &threads->warp;

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
	warp->doubtful_truths = 0;
	for (unsigned l = 0; l < LANES; l++) {
		const unsigned thread = first + l;

		warp->number[0][l] = thread % block[0];
		warp->number[1][l] = thread / block[0] % block[1];
		warp->number[2][l] = thread / block[0] / block[1];
	}
	threads->apart = false;
	threads->here = 0;
	stored_next_warp(&threads->stored);
}

/* If other warps take what the first did, is there enough? */
static bool suffices(const struct threads *threads, unsigned warps)
{
	const unsigned *grid = threads->launch->grid;
	const uint64_t used = threads->launch->most - threads->left;

	return (double)used * warps * grid[0] * grid[1] * grid[2] <= (double)threads->launch->most;
}

static int run_blocks(struct threads *threads)
{
	const unsigned *grid = threads->launch->grid, *block = threads->launch->block;
	const unsigned count = block[0] * block[1] * block[2];
	const unsigned warps = (count + LANES - 1) / LANES;
	uint32_t *at = threads->warp.block;
	bool tried = false;
	int error = 0;

	for (at[2] = 0; at[2] < grid[2]; at[2]++)
		for (at[1] = 0; at[1] < grid[1]; at[1]++)
			for (at[0] = 0; at[0] < grid[0]; at[0]++)
				for (unsigned first = 0; first < count && !error; first += LANES) {
					begin_warp(threads, first);
					error = run_warp(threads);
					if (!error && !tried && !suffices(threads, warps))
						error = -E2BIG;
					tried = true;
					if (error)
						return error;
				}
	return 0;
}

/* ---- all of it ----------------------------------------------------------------------------------
 */

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
	threads->left = launch->most;
	for (unsigned k = 0; k < launch->pointers; k++) {
		extent[k].read.first = extent[k].written.first = INT64_MAX;
		extent[k].read.beyond = extent[k].written.beyond = INT64_MIN;
		extent[k].origin.first = INT64_MAX;
		extent[k].origin.beyond = INT64_MIN;
		extent[k].whole = extent[k].strays_reading = extent[k].strays_writing = false;
		extent[k].runs = 0;
	}
	error = threads_read(&threads->program, launch);
	if (!error)
		error = run_blocks(threads);
	for (unsigned k = 0; k < launch->pointers && !error; k++)
		stored_tell(&threads->stored, k, &extent[k]);
	stored_free(&threads->stored);
	if (launch->departs)
		*launch->departs = threads->departs;
	threads_unread(&threads->program);
	free(threads);
	return error;
}
