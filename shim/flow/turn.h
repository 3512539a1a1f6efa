/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose turn it is. Ops pass the flow one at a time, in program order: a thread takes the turn, and
 * gives it back before the program's own call runs. What it costs the program is measured here, and
 * what the host has to wait for is waited for here, after the turn was given back.
 */
#ifndef FASHIM_TURN_H
#define FASHIM_TURN_H

#include <stdatomic.h>
#include <stdbool.h>

/* One in this many is timed, by lot, where asking the clock would take as long as the work. */
#define TURN_SAMPLE 16

extern atomic_bool turn_ended;

/* Does nobody get a turn any more? Any thread, without a turn. One relaxed atomic load. */
static inline bool turn_over(void)
{
	return atomic_load_explicit(&turn_ended, memory_order_relaxed);
}

/* Is this the process that took the first turn? A child that came without fork() inherits what is
 * not its own. */
bool turn_ours(void);

/* Has this thread the turn? Whoever begins anew, as an exit handler does, and finds it so, was
 * called out of the midst of it, or it was left by a jump. */
bool turn_mine(void);

/* Waits for the turn. sampled: there are so many of these that only some are timed. Whoever has it
 * looks once more whether turns are over: that may be so by then. */
void turn_take(bool sampled);

/* Gives it back, and then waits for what the host has to wait for (late.h), frees what is to be
 * freed (scratch.h) and makes what was asked for (ahead.h), which wait, too: others may have to
 * have their turn before that can be done. 0, or -EIO: data of the program's could not be made. */
int turn_give(void);

/* The process is ending: nobody gets another. */
void turn_end(void);

#endif
