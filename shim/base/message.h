/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages on stderr. The shim is a guest: it speaks seldom, in single lines that begin with
 * "fashim: " (or "fashim[RANK]: "), and stops after MESSAGE_LIMIT errors and warnings.
 */
#ifndef FASHIM_MESSAGE_H
#define FASHIM_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

#define MESSAGE_LIMIT 32

enum message_level { MESSAGE_NONE, MESSAGE_ERROR, MESSAGE_WARN, MESSAGE_INFO, MESSAGE_DEBUG };

/* One line each, cut at 512 bytes, written by one write(2), errno kept. FASHIM_LOG says which
 * levels are shown. Any thread, any time. Errors and warnings together are shown MESSAGE_LIMIT
 * times. */
void message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* At level debug, begun with the room that says it, which is the folder of the file. For what a
 * program does seldom: never on the way of each call. */
#define message_debug(...) message_debug_of(__FILE__, __VA_ARGS__)
void message_debug_of(const char *file, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The level called `name`, or -EINVAL. "debug:site,ask" is debug, of these rooms alone. */
int message_level_named(const char *name);

/* Shows this level and those more severe; of debug the rooms that `name`, which stays where it is,
 * names behind a colon, or all. Called once by the configuration. */
void message_set_level(enum message_level level, const char *name);

/* All of `size` bytes to `fd`, without ever raising SIGPIPE or SIGXFSZ in the host. Returns the
 * bytes written, fewer than `size` only on an error, or -errno when nothing was written. */
ssize_t message_write(int fd, const void *data, size_t size);

/* The same at `place` of the file; -1: where the descriptor stands. */
ssize_t message_write_at(int fd, const void *data, size_t size, off_t place);

/* Gives `fd` disk space for `size` bytes, as quietly. 0 or -errno. */
int message_allocate(int fd, size_t size);

#endif
