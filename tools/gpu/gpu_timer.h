/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel time: many calls are captured into one CUDA graph and its replays are timed by events, so
 * that neither the host's launches nor the gap between two of them is measured. Contestants take
 * turns, round by round, so that a clock that changes meanwhile changes for all of them.
 */
#ifndef FASHIM_GPU_TIMER_H
#define FASHIM_GPU_TIMER_H

#include "tools/gpu/gpu.h"
#include "tools/gpu/gpu_operands.h"

/* Something that can be launched: enqueues one call on the n-th set of operands. 0 or -errno, then
 * with one line on stderr. */
struct gpu_work {
	int (*enqueue)(void *subject, int n, CUstream stream);
	void *subject;
	int sets; /* n is below */
};

/* Work made ready to be timed. */
struct gpu_timer {
	const struct gpu *gpu;
	struct gpu_work work;
	CUgraph captured;
	CUgraphExec graph;
	CUevent begin, end;
	int calls;   /* in the graph */
	int replays; /* in a round: about a millisecond */
};

/* Runs the work a few times to warm up, then captures it: every set once and at least 20 calls,
 * fewer where a call takes long. 0 or -errno with one line on stderr; for gpu_timer_free() in any
 * case. */
int gpu_timer_make(struct gpu_timer *timer, const struct gpu *gpu, const struct gpu_work *work);
void gpu_timer_free(struct gpu_timer *timer);

/* One round: a replay that is not timed, which gives the host time to enqueue the timed ones
 * behind it; *us gets the time of a call. struct gpu_timer * as void *, for `struct racer`. */
int gpu_timer_round(void *timer, double *us);

/* Names of the kernels that one call launches, in order, as the driver has them, joined by '\n';
 * malloc'ed. NULL where the driver cannot tell. */
char *gpu_timer_kernels(const struct gpu_timer *timer);

/* One who takes part: `round` measures once, in µs; 0 or -errno. */
struct racer {
	int (*round)(void *subject, double *us);
	void *subject;
};

/* `rounds` rounds A B C, C B A, …: us[r * rounds + n] is what racer r took in round n. what: what
 * its progress is called; NULL: it says nothing. 0 or the first error. */
int race(const struct racer *racers, int count, int rounds, double *us, const char *what);

/* All in one, for pieces of work in this process: as race(), behind making and freeing the timers.
 */
int gpu_measure(const struct gpu *gpu, const struct gpu_work *works, int count, int rounds,
		double *us);

/* ---- attention kernels as work ---- */

/* A variant of libfashim_kernels.so made ready for several sets of operands. */
struct gpu_variant {
	const struct gpu *gpu;
	int index; /* fashim_kernels_name() has its name */
	int sets;
	struct fashim_call **calls;
};

/* 0 or -errno with one line on stderr; for gpu_variant_free() in any case. The operands must last
 * as long as the variant. */
int gpu_variant_make(struct gpu_variant *variant, const struct gpu *gpu, int index,
		     const struct gpu_operands *operands, int sets);
void gpu_variant_free(struct gpu_variant *variant);

/* What gpu_timer_make() takes. */
struct gpu_work gpu_variant_work(struct gpu_variant *variant);

#endif
