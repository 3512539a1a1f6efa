/* SPDX-License-Identifier: Apache-2.0
 *
 * Warps, one after the other, each by itself (threads_warp.h): what threads tell each other they
 * would have loaded, and that is not known anyway.
 *
 * Blocks that go the same way are run together, as three of them (threads_stretch.h): most kernels
 * take a block or two then, whatever their grid.
 */
#include "shim/code/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/base/clock.h"
#include "shim/code/threads_warp.h"

#define SEEK	     24 /* stretches that are torn until another step is looked for */
#define LONGEST_STEP (1u << 16)
#define JUDGE	     64 /* warps that tell how long the others will take */

/* Nothing is known of what registers hold before they are written; most never are. */
static void forget_registers(struct warp *warp)
{
	for (unsigned word = 0; word < KEPT / 64 + 1; word++) {
		for (uint64_t left = warp->held[word]; left; left &= left - 1) {
			const unsigned i = word * 64 + (unsigned)__builtin_ctzll(left);

			if (i >= KEPT)
				break;
			warp->reg[i].unknown = i == NO_VALUE || i == REGISTERS - 1 ? 0 : ALL;
			warp->reg[i].based = warp->reg[i].data = 0;
		}
		warp->held[word] = 0;
	}
}

static void begin_warp(struct warp *warp, const unsigned block[3], unsigned first)
{
	const unsigned count = block[0] * block[1] * block[2];

	forget_registers(warp);
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
	threads->quotients.held = 0;
	threads->fits = 0;
	threads->less_known = false;
	threads->apart = false;
	threads->here = 0;
	stored_next_warp(&threads->stored);
	return threads_run_warp(threads);
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
	const uint64_t used = threads->launch->most - threads->left, until = threads->launch->until;
	const double times = (double)each / warps * grid[0] * grid[1] * grid[2];

	return (double)used * times <= (double)threads->launch->most &&
	       (!until || (double)(clock_ns(CLOCK_MONOTONIC) - threads->began) * times <=
				  (double)until - (double)threads->began);
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
			if (threads->fits)
				trial = (struct trial){FEWER, threads->fits};
			else
				try_fewer(&trial, at == 0);
			if (threads->sought || threads->torn < SEEK || threads->torn < *done / 8)
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
	threads->left = threads->look = threads->launch->most;
	threads->began = clock_ns(CLOCK_MONOTONIC);
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
	for (unsigned w = 0; w < WITNESSES; w++) {
		threads->warp[w].launch = launch;
		memset(threads->warp[w].held, 0xff, sizeof(threads->warp[w].held));
	}
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
