/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock that the shim calls the flow lock, and the clock that runs while it is held.
 */
#include "shim/flow/turn.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "shim/gpu/late.h"
#include "shim/log/log.h"
#include "shim/real/driver.h"
#include "shim/gpu/scratch.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int owner; /* pid; 0: no turn was taken yet */
atomic_bool turn_ended;	 /* in a forked child, or when the process is ending */

static void in_forked_child(void)
{
	/* CUDA does not survive a fork; neither do we. The lock may be held by a thread that is
	 * gone. In a namespace of its own the child may have our pid. */
	turn_end();
	owner = -1;
}

/* ---- the clock ------------------------------------------------------------------------------ */

static uint64_t taken_ns;
static unsigned taken_for; /* turns that the time stands for; 0: the clock was not asked */

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void start_clock(bool sampled)
{
	static uint32_t lot;

	lot = lot * 1664525 + 1013904223;
	taken_for = !sampled ? 1 : lot >> 16 & (TURN_SAMPLE - 1) ? 0 : TURN_SAMPLE;
	if (taken_for)
		taken_ns = now_ns();
}

static void stop_clock(void)
{
	if (taken_for)
		log_live()->overhead_ns += (now_ns() - taken_ns) * taken_for;
}

/* ---- the turn ------------------------------------------------------------------------------- */

bool turn_ours(void)
{
	return getpid() == owner;
}

void turn_take(bool sampled)
{
	pthread_mutex_lock(&lock);
	hook_depth++;
	start_clock(sampled);
	if (!owner) {
		owner = getpid();
		pthread_atfork(NULL, NULL, in_forked_child);
	}
}

int turn_give(void)
{
	struct scratch_leaving leaving;
	struct late_waits waits;
	int error;

	late_take_waits(&waits);
	scratch_take_leaving(&leaving);
	stop_clock();
	pthread_mutex_unlock(&lock);
	error = late_await(&waits);
	scratch_free(&leaving);
	hook_depth--;
	return error;
}

void turn_end(void)
{
	atomic_store(&turn_ended, true);
}
