/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shim costs the program, by purpose: host time, and GPU time where events measured it. A
 * thread pays for one purpose at a time; one begun inside another pauses it, so that no moment is
 * counted twice.
 *
 *     const struct cost outer = cost_begin(PURPOSE_ASKING); … cost_end(outer);
 *     COST(PURPOSE_ASKING);                                 … to the end of the block
 *
 * Any thread, no locks, nothing fails.
 */
#ifndef FASHIM_COST_H
#define FASHIM_COST_H

#include <stdint.h>

enum purpose {
#define PURPOSE(id, name, what) PURPOSE_##id,
#include "shim/base/purposes.def"
#undef PURPOSE
	PURPOSE_COUNT
};

/* What a thread paid for before, to go on with. */
struct cost {
	uint32_t purpose; /* PURPOSE_COUNT: the program */
	uint32_t weight;  /* times that the time counts; 0: the clock is not asked */
};

/* From now on the thread pays for `purpose`, to the nanosecond. */
struct cost cost_begin(enum purpose purpose);

/* The same where it happens too often for a look at the clock each time: of many, the caller times
 * one in `weight` by lot, and gives 0 for the others. More than a millisecond counts once. */
struct cost cost_begin_weighted(enum purpose purpose, unsigned weight);

/* As often timed as what it happens in. */
struct cost cost_begin_shared(enum purpose purpose);

/* The program's own time, inside of ours: what it would have spent without us, only later. */
struct cost cost_pause(void);

/* Goes on with what was before. */
void cost_end(struct cost outer);

static inline void cost_end_block(const struct cost *outer)
{
	cost_end(*outer);
}
#define COST_NAME_(line) cost_outer_##line
#define COST_NAME(line)	 COST_NAME_(line)
#define COST(purpose)                                                                              \
	const struct cost COST_NAME(__LINE__) __attribute__((cleanup(cost_end_block), unused)) =   \
		cost_begin(purpose)
#define COST_SHARED(purpose)                                                                       \
	const struct cost COST_NAME(__LINE__) __attribute__((cleanup(cost_end_block), unused)) =   \
		cost_begin_shared(purpose)

/* Time that was measured otherwise: of the host, of the GPU. */
void cost_add(enum purpose purpose, uint64_t ns);
void cost_add_gpu(enum purpose purpose, uint64_t ns);

/* So far, what is being paid for not included. */
uint64_t cost_ns(enum purpose purpose);
uint64_t cost_gpu_ns(enum purpose purpose);

/* Now, as the clock said when the thread began to pay for what it pays for, where it was asked
 * then: for whoever comes a moment later. */
uint64_t cost_moment_ns(void);

/* Host time so far for all purposes, and of this thread's up to now. */
uint64_t cost_host_ns(void);

/* In a forked child: nothing was spent yet. */
void cost_forget(void);

#endif
