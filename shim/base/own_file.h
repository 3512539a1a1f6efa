/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that the shim writes: log, LOG.live, trace. It is created and never taken over: a file,
 * FIFO or link that stands there already is left alone. The process around us may close every
 * descriptor and use the number for its own data, so before each write we make sure that it still
 * is our file. Nothing here raises a signal or waits for a reader.
 */
#ifndef FASHIM_OWN_FILE_H
#define FASHIM_OWN_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct own_file {
	int fd;	      /* -1: none */
	bool regular; /* else a device */
	bool append;
	struct stat identity; /* as it was created */
	char path[PATH_MAX];  /* absolute */
};

#define OWN_FILE_NONE                                                                              \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Creates the file `path` or, where something has that name, the first free one
 * with a number before its extension; of what stands there only a device (/dev/null) is used. 0 or
 * -errno. */
int own_file_create(struct own_file *file, const char *path);

/* Creates exactly `path`, with these permissions, to be appended to or to be overwritten. 0 or
 * -errno. */
int own_file_create_exactly(struct own_file *file, const char *path, bool append, mode_t mode);

/* Appends all of it or, in a regular file, nothing. 0 or -errno. */
int own_file_append(struct own_file *file, const void *data, size_t size);

/* Writes from the beginning of the file on. 0 or -errno. */
int own_file_overwrite(struct own_file *file, const void *data, size_t size);

/* Closes the descriptor if it still is ours. */
void own_file_close(struct own_file *file);

/* Removes the name if it still is that of our file. */
void own_file_remove(struct own_file *file);

#endif
