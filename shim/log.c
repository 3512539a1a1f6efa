/* SPDX-License-Identifier: Apache-2.0
 *
 * One lock, one static buffer, one file. The host knows nothing of our descriptor: it may close all
 * it has, and the number may become its own socket. So the descriptor lives high, out of the way of
 * 0, 1 and 2, and before every line we make sure it still is our file. LOG.live is allocated on the
 * disk before it is mapped: a sparse page on a full disk would kill the host with SIGBUS.
 */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "log_header.h"
#include "message.h"
#include "names.h"

#define RECORD_SIZE	131072 /* the summary of LIVE_SITES sites takes half */
#define LOWEST_FD	100
#define VIOLATION_LIMIT 32
#define TRIES		100000

enum state {
	LOG_NEW, /* nobody asked yet */
	LOG_OPEN,
	LOG_NONE, /* not wanted, or impossible */
	LOG_DONE
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state; /* of the lock's holder */
static atomic_int state = LOG_NEW;
static __thread int holding
	__attribute__((tls_model("initial-exec"))); /* records this thread has begun */
static __thread struct json nested __attribute__((tls_model("initial-exec")));

/* Under the lock. */
static int log_fd = -1;
static struct stat identity;
static off_t end; /* of the last whole line */
static bool has_header;
static char path[PATH_MAX];
static char live_path[PATH_MAX + 8];
static struct log_device device;
static struct json line;
static const char *line_type;
static char buffer[RECORD_SIZE];

static struct live_file unlogged; /* the counters while there is no LOG.live */
static struct live_file *_Atomic live = &unlogged;
static atomic_uint violations;

/* A thread that is cancelled while it holds the lock would stop all others. */
static void acquire(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&lock);
	cancel_state = before;
}

static void release(void)
{
	const int before = cancel_state;

	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(before, NULL);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Our descriptor still is our file, not one that the host has opened since under the same number.
 */
static bool still_ours(void)
{
	struct stat status;

	return log_fd >= 0 && fstat(log_fd, &status) == 0 && status.st_dev == identity.st_dev &&
	       status.st_ino == identity.st_ino;
}

static void close_ours(void)
{
	if (still_ours())
		close(log_fd);
	log_fd = -1;
}

/* In a forked child: what we have is the parent's. Only this thread exists, and whatever another
 * one was doing with the lock held is void. */
static void forget(void)
{
	struct live_file *mapped = atomic_load(&live);

	pthread_mutex_init(&lock, NULL);
	close_ours();
	end = 0;
	has_header = false;
	path[0] = live_path[0] = '\0';
	holding = 0;
	if (mapped != &unlogged)
		munmap(mapped, sizeof(*mapped));
	memset(&unlogged, 0, sizeof(unlogged));
	atomic_store(&live, &unlogged);
	atomic_store(&violations, 0);
	atomic_store(&state, LOG_NEW);
}

/* Folders of `name`, as far as they are missing; failures show when the file is created. */
static void make_folders(char *name)
{
	for (char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(name, 0777);
		*slash = '/';
	}
}

/* Into `path`: the expanded pattern, absolute, with the default file name where it is a folder. */
static int expand_path(void)
{
	char name[PATH_MAX], pattern[PATH_MAX];
	const char *out = config()->out;
	struct stat status;
	int used = 0, n;

	if (names_expand(out, name, sizeof(name)) < 0)
		return -ENAMETOOLONG;
	n = (int)strlen(name);
	if ((n && name[n - 1] == '/') || (stat(name, &status) == 0 && S_ISDIR(status.st_mode))) {
		n = snprintf(pattern, sizeof(pattern), "%s/fashim.%%e.%%p.jsonl", out);
		if (n >= (int)sizeof(pattern) || names_expand(pattern, name, sizeof(name)) < 0)
			return -ENAMETOOLONG;
	}
	if (name[0] != '/') {
		if (!getcwd(path, sizeof(path) - 1))
			return -errno;
		used = (int)strlen(path);
		path[used++] = '/';
	}
	n = snprintf(path + used, sizeof(path) - (size_t)used, "%s", name);
	return n < (int)sizeof(path) - used ? 0 : -ENAMETOOLONG;
}

/* Our descriptor away from the low numbers, which hosts expect to get when they ask for one. */
static int move_up(int fd)
{
	const int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);

	if (high < 0 && fd > STDERR_FILENO)
		return fd;
	close(fd);
	return high < 0 ? -EMFILE : high;
}

/* Creates `path`, or the first "path.N" that is free. A device (/dev/null) is used as it is. */
static int create(void)
{
	char name[PATH_MAX], number[16];
	struct stat status;
	int fd;

	make_folders(path);
	if (stat(path, &status) == 0 && S_ISCHR(status.st_mode)) {
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		return fd < 0 ? -errno : move_up(fd);
	}
	strcpy(name, path);
	for (int i = 1; i < TRIES; i++) {
		fd = open(name, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0) {
			strcpy(path, name);
			return move_up(fd);
		}
		if (errno != EEXIST)
			return -errno;
		snprintf(number, sizeof(number), "%d", i);
		if (names_insert(path, number, name, sizeof(name)) < 0)
			return -ENAMETOOLONG;
	}
	return -EEXIST;
}

/* LOG.live with what was counted so far; without it the counters stay in memory. */
static void map_live(void)
{
	struct live_file *mapped = MAP_FAILED;
	uint64_t magic;
	int fd;

	snprintf(live_path, sizeof(live_path), "%s.live", path);
	unlink(live_path); /* of a log that is gone */
	fd = open(live_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd >= 0) {
		if (message_allocate(fd, sizeof(*mapped)) == 0)
			mapped = mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				      0);
		close(fd);
	}
	if (mapped == MAP_FAILED) {
		message_warn("cannot create %s: a killed run will have no counters", live_path);
		if (fd >= 0)
			unlink(live_path);
		live_path[0] = '\0';
		return;
	}
	memcpy(mapped, &unlogged, sizeof(*mapped));
	mapped->version = LIVE_VERSION;
	mapped->start_ns = mapped->last_ns = names_start_ns();
	memcpy(&magic, LIVE_MAGIC, sizeof(magic));
	__atomic_store_n((uint64_t *)(void *)mapped->magic, magic, __ATOMIC_RELEASE); /* last */
	atomic_store(&live, mapped);
}

static void open_locked(void)
{
	static bool fork_handled;
	int error;

	if (strcmp(config()->out, "none") == 0) {
		atomic_store(&state, LOG_NONE);
		return;
	}
	if (!fork_handled)
		fork_handled = pthread_atfork(NULL, NULL, forget) == 0;
	names_start_ns();
	error = fork_handled ? expand_path() : -ENOMEM;
	if (error == 0)
		error = log_fd = create();
	if (error < 0 || fstat(log_fd, &identity) != 0) {
		char text[64];

		message_error("no log: %s: %s", path[0] ? path : config()->out,
			      strerror_r(error < 0 ? -error : errno, text, sizeof(text)));
		if (log_fd >= 0)
			close(log_fd);
		log_fd = -1;
		path[0] = '\0';
		atomic_store(&state, LOG_NONE);
		return;
	}
	end = 0;
	if (S_ISREG(identity.st_mode))
		map_live();
	message_info("log: %s", path);
	atomic_store(&state, LOG_OPEN);
}

bool log_open(void)
{
	int now = atomic_load_explicit(&state, memory_order_acquire);

	if (now == LOG_NEW && !holding) {
		const int saved_errno = errno;

		acquire();
		if (atomic_load(&state) == LOG_NEW)
			open_locked();
		now = atomic_load(&state);
		release();
		errno = saved_errno;
	}
	return now == LOG_OPEN;
}

void log_device(const char *gpu, const char *uuid, int sm, int driver, int cublas)
{
	if (holding)
		return;
	acquire();
	snprintf(device.gpu, sizeof(device.gpu), "%s", gpu ? gpu : "");
	snprintf(device.uuid, sizeof(device.uuid), "%s", uuid ? uuid : "");
	device.sm = sm;
	device.driver = driver;
	device.cublas = cublas;
	release();
}

/* Makes sure of our descriptor; where the host has taken it away the file is opened again. */
static bool hold_file(void)
{
	if (still_ours())
		return true;
	log_fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
	if (log_fd < 0)
		return false;
	log_fd = move_up(log_fd);
	if (still_ours())
		return true;
	if (log_fd >= 0)
		close(log_fd); /* another file of that name */
	log_fd = -1;
	return false;
}

/* The text in `buffer` as a line; a line that does not get out whole is taken back. */
static void write_line(size_t length)
{
	ssize_t written;

	if (atomic_load(&state) != LOG_OPEN || !hold_file())
		return;
	buffer[length++] = '\n';
	written = message_write(log_fd, buffer, length);
	if (written == (ssize_t)length)
		end += written;
	else if (written > 0 && S_ISREG(identity.st_mode) && ftruncate(log_fd, end) != 0)
		end += written;
}

static void begin(const char *type)
{
	line_type = type;
	json_begin(&line, buffer, sizeof(buffer) - 1); /* room for the newline */
	json_open_object(&line, NULL);
	json_string(&line, "type", type);
}

/* Closes the record and writes it, or a violation in its place. */
static void end_record(void)
{
	size_t length;
	char what[96];

	json_close(&line);
	length = json_end(&line);
	if (length == 0) {
		if (atomic_fetch_add(&violations, 1) >= VIOLATION_LIMIT)
			return;
		snprintf(what, sizeof(what), "a record of type %s was too long or no JSON",
			 line_type);
		begin("violation");
		json_string(&line, "what", what);
		json_close(&line);
		length = json_end(&line);
	}
	write_line(length);
}

struct json *log_record(const char *type)
{
	const int saved_errno = errno;

	if (holding++) {
		json_begin(&nested, NULL, 0);
		return &nested;
	}
	acquire();
	if (atomic_load(&state) == LOG_NEW)
		open_locked();
	if (!has_header && atomic_load(&state) == LOG_OPEN) {
		has_header = true;
		begin("header");
		log_header(&line, &device);
		end_record();
	}
	begin(type);
	errno = saved_errno;
	return &line;
}

void log_commit(struct json *record)
{
	const int saved_errno = errno;

	if (holding == 0 || --holding > 0 || record == &nested)
		return;
	end_record();
	release();
	errno = saved_errno;
}

void log_violation(const char *format, ...)
{
	const int saved_errno = errno;
	va_list arguments;
	char what[400];

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	message_error("%s", what);
	if (atomic_fetch_add(&violations, 1) < VIOLATION_LIMIT) {
		struct json *record = log_record("violation");

		json_string(record, "what", what);
		log_commit(record);
	}
	errno = saved_errno;
}

struct live_file *log_live(void)
{
	return atomic_load_explicit(&live, memory_order_acquire);
}

void log_finish(void)
{
	const int saved_errno = errno;
	struct live_file *counters;
	struct json *record;

	if (holding || atomic_load(&state) != LOG_OPEN)
		return;
	record = log_record("summary");
	if (atomic_load(&state) == LOG_OPEN) { /* else another thread finished meanwhile */
		counters = log_live();
		counters->last_ns = now_ns();
		log_summary(record, counters, names_start_ns());
		end_record();
		if (live_path[0])
			unlink(live_path);
		close_ours();
		atomic_store(&state, LOG_DONE);
		message_info("done; see: fashim report %s", path);
	}
	holding--;
	release();
	errno = saved_errno;
}

void log_at_exit(void)
{
	static atomic_flag registered = ATOMIC_FLAG_INIT;
	const int saved_errno = errno;

	if (!atomic_flag_test_and_set(&registered))
		atexit(log_finish);
	errno = saved_errno;
}

const char *log_path(void)
{
	const int now = atomic_load(&state);

	return (now == LOG_OPEN || now == LOG_DONE) && path[0] ? path : NULL;
}
