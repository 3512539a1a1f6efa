/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages are put together on the stack and leave by one write(2), so lines of several threads or
 * processes do not mix and no stdio lock of the host is taken. A host that does not write to a
 * closed pipe must not die because we do: the signals a write can raise are held back and taken off
 * again.
 */
#include "shim/base/message.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/config.h"
#include "shim/base/names.h"

#define LINE_SIZE 512

/* Those that have something to say at level debug. */
static const char *const rooms[] = {"act",    "ask", "code", "flow",  "gpu",
				    "hazard", "log", "real", "rules", "site"};

static atomic_int shown_level = -1;
static const char *_Atomic shown_rooms;
static atomic_int severe_count;

/* Is the first word of a list of words between commas this one, of `size` bytes? */
static bool first_is(const char *list, const char *word, size_t size)
{
	return strncmp(list, word, size) == 0 && (list[size] == ',' || !list[size]);
}

static bool all_are_rooms(const char *list)
{
	size_t i;

	do {
		for (i = 0; i < sizeof(rooms) / sizeof(*rooms); i++)
			if (first_is(list, rooms[i], strlen(rooms[i])))
				break;
		list += strcspn(list, ",");
	} while (i < sizeof(rooms) / sizeof(*rooms) && *list++);
	return i < sizeof(rooms) / sizeof(*rooms);
}

int message_level_named(const char *name)
{
	static const char *const names[] = {"none", "error", "warn", "info", "debug"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return (int)i;
	return strncmp(name, "debug:", 6) == 0 && all_are_rooms(name + 6) ? MESSAGE_DEBUG : -EINVAL;
}

void message_set_level(enum message_level level, const char *name)
{
	const char *colon = strchr(name, ':');

	atomic_store(&shown_rooms, colon ? colon + 1 : NULL);
	atomic_store(&shown_level, (int)level);
}

/* The room of a source file, "shim/ROOM/file.c". */
static const char *room_of(const char *file, int *size)
{
	const char *room = strstr(file, "shim/");

	room = room ? room + 5 : file;
	*size = (int)strcspn(room, "/");
	return room;
}

static bool room_shown(const char *room, size_t size)
{
	const char *list = atomic_load_explicit(&shown_rooms, memory_order_relaxed);

	if (!list)
		return true;
	for (; !first_is(list, room, size); list++) {
		list += strcspn(list, ",");
		if (!*list)
			return false;
	}
	return true;
}

/* Holds back the signals that a write can raise and that are not waiting already, and cancellation,
 * which would end the host's thread in the middle of our business. */
struct quiet {
	sigset_t raised, before;
	int cancel_state;
};

static void quiet_begin(struct quiet *quiet)
{
	sigset_t pending;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &quiet->cancel_state);
	sigemptyset(&quiet->raised);
	sigpending(&pending);
	if (!sigismember(&pending, SIGPIPE))
		sigaddset(&quiet->raised, SIGPIPE);
	if (!sigismember(&pending, SIGXFSZ))
		sigaddset(&quiet->raised, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &quiet->raised, &quiet->before);
}

/* Only a call that failed can have raised one. */
static void quiet_end(const struct quiet *quiet, bool failed)
{
	static const struct timespec at_once;

	if (failed)
		while (sigtimedwait(&quiet->raised, NULL, &at_once) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
	pthread_setcancelstate(quiet->cancel_state, NULL);
}

ssize_t message_write(int fd, const void *data, size_t size)
{
	return message_write_at(fd, data, size, -1);
}

ssize_t message_write_at(int fd, const void *data, size_t size, off_t place)
{
	const int saved_errno = errno;
	struct quiet quiet;
	size_t done = 0;
	ssize_t result = 0;

	quiet_begin(&quiet);
	while (done < size) {
		const char *from = (const char *)data + done;
		const ssize_t n = place < 0 ? write(fd, from, size - done)
					    : pwrite(fd, from, size - done, place + (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			result = n < 0 ? -errno : -EIO;
			break;
		}
		done += (size_t)n;
	}
	quiet_end(&quiet, result < 0);
	errno = saved_errno;
	return done ? (ssize_t)done : result;
}

int message_allocate(int fd, size_t size)
{
	const int saved_errno = errno;
	struct quiet quiet;
	int result;

	quiet_begin(&quiet);
	do
		result = posix_fallocate(fd, 0, (off_t)size);
	while (result == EINTR);
	quiet_end(&quiet, result != 0);
	errno = saved_errno;
	return -result;
}

__attribute__((format(printf, 2, 0))) static int format_line(char *line, const char *format,
							     va_list arguments)
{
	const long rank = names_rank();
	int used, n;

	if (rank >= 0)
		used = snprintf(line, LINE_SIZE, "fashim[%ld]: ", rank);
	else
		used = snprintf(line, LINE_SIZE, "fashim: ");
	n = vsnprintf(line + used, (size_t)(LINE_SIZE - used), format, arguments);
	if (n < 0)
		n = 0;
	used += n;
	if (used > LINE_SIZE - 1)
		used = LINE_SIZE - 1;
	/* One message is one line, whatever it quotes. */
	for (int i = 0; i < used; i++)
		if ((unsigned char)line[i] < ' ')
			line[i] = ' ';
	line[used++] = '\n';
	return used;
}

__attribute__((format(printf, 2, 0))) static void say(enum message_level level, const char *format,
						      va_list arguments)
{
	static const char last[] = "fashim: further errors and warnings are not shown\n";
	const int saved_errno = errno;
	char line[LINE_SIZE];

	if (atomic_load_explicit(&shown_level, memory_order_relaxed) < 0)
		config();
	if ((int)level <= atomic_load_explicit(&shown_level, memory_order_relaxed)) {
		int before = 0;

		if (level <= MESSAGE_WARN)
			before = atomic_fetch_add(&severe_count, 1);
		if (before < MESSAGE_LIMIT)
			message_write(STDERR_FILENO, line,
				      (size_t)format_line(line, format, arguments));
		else if (before == MESSAGE_LIMIT)
			message_write(STDERR_FILENO, last, sizeof(last) - 1);
		else
			atomic_store(&severe_count, MESSAGE_LIMIT + 1);
	}
	errno = saved_errno;
}

__attribute__((format(printf, 2, 3))) static void say_as(enum message_level level,
							 const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(level, format, arguments);
	va_end(arguments);
}

#define SAY(level)                                                                                 \
	do {                                                                                       \
		va_list arguments;                                                                 \
		va_start(arguments, format);                                                       \
		say(level, format, arguments);                                                     \
		va_end(arguments);                                                                 \
	} while (0)

void message_error(const char *format, ...)
{
	SAY(MESSAGE_ERROR);
}

void message_warn(const char *format, ...)
{
	SAY(MESSAGE_WARN);
}

void message_info(const char *format, ...)
{
	SAY(MESSAGE_INFO);
}

void message_debug_of(const char *file, const char *format, ...)
{
	char text[LINE_SIZE];
	va_list arguments;
	const char *room;
	int size;

	if (atomic_load_explicit(&shown_level, memory_order_relaxed) < 0)
		config();
	if (atomic_load_explicit(&shown_level, memory_order_relaxed) < MESSAGE_DEBUG)
		return;
	room = room_of(file, &size);
	if (!room_shown(room, (size_t)size))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say_as(MESSAGE_DEBUG, "%.*s: %s", size, room, text);
}
