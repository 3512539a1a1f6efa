/* SPDX-License-Identifier: Apache-2.0
 *
 * One lock, one static buffer, one file (own_file.h). A process may be forked without any handler
 * being called (_Fork, clone): so whoever takes the lock first looks whose it is.
 */
#include "shim/log/log.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/base/config.h"
#include "shim/base/cost.h"
#include "shim/log/log_header.h"
#include "shim/log/log_live.h"
#include "shim/base/message.h"
#include "shim/base/names.h"
#include "shim/base/own_file.h"
#include "shim/base/own_place.h"

#define RECORD_SIZE	131072 /* the summary of LIVE_SITES sites takes half */
#define VIOLATION_LIMIT 32
#define IN_FOLDER	"fashim.%e.%p.jsonl"

enum state {
	LOG_NEW, /* nobody asked yet */
	LOG_OPEN,
	LOG_NONE, /* not wanted, or impossible */
	LOG_DONE
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state;       /* of the lock's holder */
static struct cost outer_cost; /* of who writes a record */
static atomic_int state = LOG_NEW;
static __thread int holding
	__attribute__((tls_model("initial-exec"))); /* records this thread has begun */
static __thread struct json nested __attribute__((tls_model("initial-exec")));

/* Under the lock. */
static struct own_file file = OWN_FILE_NONE;
static uint64_t written; /* bytes */
static bool full;
static bool has_header;
static char path[PATH_MAX];
static struct log_device device;
static struct json line;
static const char *line_type;
static char buffer[RECORD_SIZE];

static atomic_int owner; /* pid; 0: nobody has opened it yet */
static atomic_uint violations;

static void forget(void);

/* A thread that is cancelled while it holds the lock would stop all others. */
static void acquire(void)
{
	int before, opener = atomic_load(&owner);

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (opener && opener != (int)getpid() && atomic_compare_exchange_strong(&owner, &opener, 0))
		forget();
	pthread_mutex_lock(&lock);
	cancel_state = before;
}

static void release(void)
{
	const int before = cancel_state;

	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(before, NULL);
}

/* In a forked child: what we have is the parent's. Only this thread exists, and whatever another
 * one was doing with the lock held is void. */
static void forget(void)
{
	pthread_mutex_init(&lock, NULL);
	own_file_close(&file);
	written = 0;
	full = has_header = false;
	path[0] = '\0';
	holding = 0;
	log_live_forget();
	atomic_store(&violations, 0);
	atomic_store(&owner, 0);
	atomic_store(&state, LOG_NEW);
}

/* LOG.live with what was counted so far; without it the counters stay in memory. */
static void open_live(void)
{
	char name[PATH_MAX + 8], text[64];
	int error;

	snprintf(name, sizeof(name), "%s.live", path);
	error = log_live_open(name);
	if (error)
		message_warn("cannot create %s: a killed run will have no counters (%s)", name,
			     strerror_r(-error, text, sizeof(text)));
}

/* The log in the place that the user named, or in the usual one for such files. 0 or -errno: no
 * log, `path` is where the first would be. */
static int create(void)
{
	const bool named = strcmp(config()->out, IN_FOLDER) != 0;
	char elsewhere[PATH_MAX], text[64];
	int error = own_place(config()->out, IN_FOLDER, path);

	if (!error)
		error = own_file_create(&file, path);
	if (!error || own_place_usual(IN_FOLDER, elsewhere) || own_file_create(&file, elsewhere))
		return error;
	if (named)
		message_error("the log is not at %s (%s) but at %s", path[0] ? path : config()->out,
			      strerror_r(-error, text, sizeof(text)), file.path);
	return 0;
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
	atomic_store(&owner, (int)getpid());
	error = fork_handled ? create() : -ENOMEM;
	if (error) {
		char text[64];

		message_error("no log: %s: %s", path[0] ? path : config()->out,
			      strerror_r(-error, text, sizeof(text)));
		path[0] = '\0';
		atomic_store(&state, LOG_NONE);
		return;
	}
	strcpy(path, file.path);
	if (file.regular)
		open_live();
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

void log_driver_lacks(const char *function)
{
	if (holding)
		return;
	acquire();
	if (device.lack_count < LOG_LACKS)
		device.lacks[device.lack_count++] = function;
	release();
}

/* The text in `buffer` as a line. */
static void write_line(size_t length)
{
	if (atomic_load(&state) != LOG_OPEN)
		return;
	buffer[length++] = '\n';
	if (own_file_append(&file, buffer, length) == 0)
		written += length;
}

static void begin(const char *type)
{
	line_type = type;
	json_begin(&line, buffer, sizeof(buffer) - 1); /* room for the newline */
	json_open_object(&line, NULL);
	json_string(&line, "type", type);
}

/* Puts a violation in the place of the record that was begun; its length. */
__attribute__((format(printf, 1, 2))) static size_t violation_instead(const char *format, ...)
{
	va_list arguments;
	char what[128];

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	begin("violation");
	json_string(&line, "what", what);
	json_close(&line);
	return json_end(&line);
}

/* Would it be, with that? */
static bool is_full(size_t length)
{
	const uint64_t largest = config()->out_mb;

	return largest && largest < UINT64_MAX >> 20 && written + length > largest << 20;
}

/* Closes the record and writes it, or a violation in its place. */
static void end_record(void)
{
	size_t length;

	json_close(&line);
	length = json_end(&line);
	if (length == 0) {
		if (atomic_fetch_add(&violations, 1) >= VIOLATION_LIMIT)
			return;
		length =
			violation_instead("a record of type %s was too long or no JSON", line_type);
	}
	if (is_full(length) && strcmp(line_type, "summary") != 0) {
		if (full)
			return;
		full = true;
		length = violation_instead("the log is full at %lu MiB: only the summary follows",
					   (unsigned long)config()->out_mb);
	}
	write_line(length);
}

struct json *log_record(const char *type)
{
	const int saved_errno = errno;

	if (holding) {
		holding++;
		json_begin(&nested, NULL, 0);
		return &nested;
	}
	acquire();
	holding = 1;
	outer_cost = cost_begin(PURPOSE_LOG);
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
	struct cost outer;

	if (holding == 0 || --holding > 0 || record == &nested)
		return;
	end_record();
	outer = outer_cost;
	release();
	log_live_write();
	cost_end(outer);
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

void log_finish(void)
{
	const int saved_errno = errno;
	struct live_file *counters;
	struct json *record;

	if (holding || atomic_load(&state) != LOG_OPEN || atomic_load(&owner) != (int)getpid())
		return;
	record = log_record("summary");
	if (atomic_load(&state) == LOG_OPEN) { /* else another thread finished meanwhile */
		counters = log_live();
		counters->last_ns = clock_ns(CLOCK_REALTIME);
		log_live_costs();
		log_summary(record, counters, names_start_ns());
		end_record();
		log_live_remove();
		own_file_close(&file);
		atomic_store(&state, LOG_DONE);
		message_info("done; see: fashim report %s", path);
	}
	holding--;
	cost_end(outer_cost);
	release();
	errno = saved_errno;
}

const char *log_path(void)
{
	const int now = atomic_load(&state);

	return (now == LOG_OPEN || now == LOG_DONE) && path[0] ? path : NULL;
}
