/* SPDX-License-Identifier: Apache-2.0
 *
 * Whoever counts something asks for the counters first, so that is when they are written, with what
 * was counted before. A file of that name is replaced only where it is one of these: the log beside
 * it was just created, so its own is gone.
 */
#include "shim/log/log_live.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/base/cost.h"
#include "shim/log/log.h"
#include "shim/base/message.h"
#include "shim/base/names.h"
#include "shim/base/own_file.h"

static struct live_file counters;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct own_file file = OWN_FILE_NONE; /* under the lock */
static _Atomic uint64_t due_ms = UINT64_MAX; /* of the next write; never without a file */
static atomic_int owner;		     /* pid */

_Static_assert(PURPOSE_COUNT <= LIVE_PURPOSES, "live_file.cost_ns is too small");

void log_live_costs(void)
{
	counters.overhead_ns = cost_host_ns();
	for (int i = 0; i < PURPOSE_COUNT; i++) {
		counters.cost_ns[i] = cost_ns(i);
		counters.cost_gpu_ns[i] = cost_gpu_ns(i);
	}
}

/* A write takes at most this part of the time until the next: on a slow file they are rarer. */
#define SHARE 200

/* With the lock. */
static void write_locked(void)
{
	const uint64_t began = clock_ns(CLOCK_MONOTONIC);
	uint64_t took, wait;

	COST(PURPOSE_LOG);
	log_live_costs();
	counters.last_ns = clock_ns(CLOCK_REALTIME);
	own_file_overwrite(&file, &counters, sizeof(counters));
	took = clock_ns(CLOCK_MONOTONIC) - began;
	wait = took * SHARE / 1000000;
	wait = wait < LIVE_INTERVAL_MS	? LIVE_INTERVAL_MS
	       : wait > LIVE_LONGEST_MS ? LIVE_LONGEST_MS
					: wait;
	atomic_store(&due_ms, clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000 + wait);
}

/* Whether `name` is counters of a log that is gone. */
static bool is_left_over(const char *name)
{
	const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
	char magic[sizeof(counters.magic)];
	struct stat status;
	bool is_ours;

	if (fd < 0)
		return false;
	is_ours = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
		  status.st_uid == geteuid() && status.st_size <= (off_t)sizeof(counters) &&
		  read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
		  memcmp(magic, LIVE_MAGIC, sizeof(magic)) == 0;
	close(fd);
	return is_ours;
}

int log_live_open(const char *name)
{
	int error, cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&lock);
	if (is_left_over(name))
		unlink(name);
	error = own_file_create_exactly(&file, name, false, 0600);
	if (error == 0) {
		error = message_allocate(file.fd, sizeof(counters));
		if (error) {
			own_file_close(&file);
			own_file_remove(&file);
		}
	}
	if (error == 0) {
		memcpy(counters.magic, LIVE_MAGIC, sizeof(counters.magic));
		counters.version = LIVE_VERSION;
		counters.start_ns = counters.last_ns = names_start_ns();
		atomic_store(&owner, (int)getpid());
		write_locked();
	}
	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(cancel_state, NULL);
	return error;
}

/* Leaves it to the next time where another thread is at it. */
static void write_if_free(void)
{
	const int saved_errno = errno;
	int cancel_state;

	if (atomic_load(&owner) != (int)getpid()) { /* a child that no handler has told of it */
		atomic_store(&due_ms, UINT64_MAX);
		return;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	if (pthread_mutex_trylock(&lock) == 0) {
		if (atomic_load(&due_ms) != UINT64_MAX)
			write_locked();
		pthread_mutex_unlock(&lock);
	}
	pthread_setcancelstate(cancel_state, NULL);
	errno = saved_errno;
}

void log_live_write(void)
{
	if (atomic_load_explicit(&due_ms, memory_order_relaxed) != UINT64_MAX)
		write_if_free();
}

struct live_file *log_live(void)
{
	const uint64_t due = atomic_load_explicit(&due_ms, memory_order_relaxed);

	if (due != UINT64_MAX && clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000 >= due)
		write_if_free();
	return &counters;
}

void log_live_remove(void)
{
	pthread_mutex_lock(&lock);
	if (atomic_exchange(&due_ms, UINT64_MAX) != UINT64_MAX) {
		own_file_close(&file);
		own_file_remove(&file);
	}
	pthread_mutex_unlock(&lock);
}

void log_live_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&due_ms, UINT64_MAX);
	own_file_close(&file);
	memset(&counters, 0, sizeof(counters));
	cost_forget();
}
