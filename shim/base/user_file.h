/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that the user names and the shim reads: rules, caches. The name is only a name: what
 * it leads to may be a FIFO without a writer, a device without an end, or somebody else's.
 */
#ifndef FASHIM_USER_FILE_H
#define FASHIM_USER_FILE_H

#include <stddef.h>

/* The whole of a file as a string, to be freed. NULL where it cannot be read, is no regular file,
 * holds more than `largest` bytes, belongs to others than this user and root, or may be written by
 * everyone; *why says so then (kept until the next call), and errno. Never waits. */
char *user_file_read(const char *path, size_t largest, const char **why);

/* The same of a file that is no text: *size bytes, and a NUL behind them. */
char *user_file_bytes(const char *path, size_t largest, size_t *size, const char **why);

#endif
