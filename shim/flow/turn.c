/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock that the shim calls the flow lock, and the clock that runs while it is held.
 */
#include "shim/flow/turn.h"

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "shim/act/graph_making.h"
#include "shim/base/cost.h"
#include "shim/gpu/ahead.h"
#include "shim/gpu/late.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool mine __attribute__((tls_model("initial-exec")));
static atomic_int owner; /* pid; 0: no turn was taken yet */
atomic_bool turn_ended;	 /* in a forked child, or when the process is ending */

static void in_forked_child(void)
{
	/* CUDA does not survive a fork; neither do we. The lock may be held by a thread that is
	 * gone. In a namespace of its own the child may have our pid. */
	turn_end();
	owner = -1;
	mine = false;
}

/* ---- the clock ------------------------------------------------------------------------------ */

static struct cost outer; /* what the thread paid for before its turn */

/* What is done once in a process is done early, and no lot may multiply it. */
#define ALL_TIMED 1024

static void start_clock(bool sampled)
{
	static uint32_t lot, turns;
	unsigned weight = 1;

	lot = lot * 1664525 + 1013904223;
	if (turns < ALL_TIMED)
		turns++;
	else if (sampled)
		weight = lot >> 16 & (TURN_SAMPLE - 1) ? 0 : TURN_SAMPLE;
	outer = cost_begin_weighted(PURPOSE_HOOKS, weight);
}

/* ---- the turn ------------------------------------------------------------------------------- */

bool turn_ours(void)
{
	return getpid() == owner;
}

/* A thread that is cancelled during its turn would stop all others: calls of ours, too, may be
 * where that happens. It is, when the program's own call comes to such a place. */
static int cancel_state; /* of who has the turn */

bool turn_mine(void)
{
	return mine;
}

static void hold(void)
{
	pthread_mutex_lock(&lock);
	mine = true;
}

static void let_go(void)
{
	mine = false;
	pthread_mutex_unlock(&lock);
}

void turn_take(bool sampled)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	hold();
	cancel_state = before;
	hook_depth++;
	start_clock(sampled);
	if (!owner) {
		owner = getpid();
		pthread_atfork(NULL, NULL, in_forked_child);
	}
}

/* Gives the lock back, and then does what was left for that. 0 or -EIO. */
static int let_go_and_do(void)
{
	struct scratch_leaving leaving;
	struct graph_making *making;
	struct ahead_wants wants;
	struct late_waits waits;
	int error;

	late_take_waits(&waits);
	scratch_take_leaving(&leaving);
	ahead_take(&wants);
	making = graph_making_next();
	let_go();
	error = late_await(&waits);
	scratch_free(&leaving);
	if (wants.count)
		ahead_make(&wants);
	if (making)
		graph_making_make(making);
	if (wants.count || making) {
		hold();
		if (making)
			graph_making_keep(making);
		if (wants.count)
			ahead_keep(&wants);
		let_go();
	}
	return error;
}

int turn_give(void)
{
	const int cancel_before = cancel_state;
	const struct cost before = outer;
	int error = 0;

	if (late_owes() || scratch_leaves() || ahead_wanted() || graph_making_wanted())
		error = let_go_and_do();
	else
		let_go();
	cost_end(before);
	hook_depth--;
	pthread_setcancelstate(cancel_before, NULL);
	return error;
}

void turn_end(void)
{
	atomic_store(&turn_ended, true);
}
