/* SPDX-License-Identifier: Apache-2.0
 *
 * A signal handler may fork in the middle of our business, so each thread notes what it holds, and
 * the fork does not wait for that.
 */
#include "shim/base/locks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define WALK LOCK_COUNT /* bit of the walk */

static pthread_mutex_t locks[LOCK_COUNT] = {[0 ... LOCK_COUNT - 1] = PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t walks = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int owner; /* pid; 0: no lock was taken yet */

static __thread unsigned held __attribute__((tls_model("initial-exec")));
static __thread unsigned taken __attribute__((tls_model("initial-exec"))); /* for a fork */

static void before_fork(void)
{
	taken = ~held & ((1u << (LOCK_COUNT + 1)) - 1);
	for (int i = 0; i < LOCK_COUNT; i++)
		if (taken & 1u << i)
			pthread_mutex_lock(&locks[i]);
	if (taken & 1u << WALK)
		pthread_rwlock_wrlock(&walks);
}

static void after_fork(void)
{
	if (taken & 1u << WALK)
		pthread_rwlock_unlock(&walks);
	for (int i = LOCK_COUNT; i-- > 0;)
		if (taken & 1u << i)
			pthread_mutex_unlock(&locks[i]);
	taken = 0;
}

static void in_child(void)
{
	for (int i = 0; i < LOCK_COUNT; i++)
		pthread_mutex_init(&locks[i], NULL);
	pthread_rwlock_init(&walks, NULL);
	held = taken = 0;
	atomic_store(&owner, (int)getpid());
}

static void prepare(void)
{
	const int pid = (int)getpid();
	int before = atomic_load_explicit(&owner, memory_order_relaxed);

	if (before == pid || !atomic_compare_exchange_strong(&owner, &before, pid))
		return;
	if (before)
		in_child();
	else
		pthread_atfork(before_fork, after_fork, in_child);
}

void lock_take(enum lock lock)
{
	prepare();
	held |= 1u << lock;
	pthread_mutex_lock(&locks[lock]);
}

void lock_give(enum lock lock)
{
	pthread_mutex_unlock(&locks[lock]);
	held &= ~(1u << lock);
}

void locks_walk_begin(void)
{
	prepare();
	held |= 1u << WALK;
	pthread_rwlock_rdlock(&walks);
}

void locks_walk_end(void)
{
	pthread_rwlock_unlock(&walks);
	held &= ~(1u << WALK);
}
