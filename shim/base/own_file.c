/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors live high, out of the way of 0, 1 and 2 and of programs that count on the next
 * number. What was checked by name is checked again by descriptor.
 */
#include "shim/base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/message.h"
#include "shim/base/names.h"

#define LOWEST_FD 100
#define TRIES	  100000

/* Never waits for the other end of a FIFO, never follows a link, never becomes a terminal's owner.
 */
#define OPEN_FLAGS (O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW)

/* Our descriptor away from the low numbers, which hosts expect to get when they ask for one. Where
 * the limit allows no high one, it is good for one write (rest). */
static int move_up(int fd)
{
	const int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);

	if (high < 0 && fd > STDERR_FILENO)
		return fd;
	close(fd);
	return high < 0 ? -EMFILE : high;
}

/* Under a low limit even one descriptor may be the one that the host lacks. */
static void rest(struct own_file *file)
{
	if (file->fd >= 0 && file->fd < LOWEST_FD) {
		close(file->fd);
		file->fd = -1;
	}
}

/* Our descriptor still is our file, not one that the host has opened since under the same number.
 */
static bool still_ours(const struct own_file *file)
{
	struct stat status;

	return file->fd >= 0 && fstat(file->fd, &status) == 0 &&
	       status.st_dev == file->identity.st_dev && status.st_ino == file->identity.st_ino;
}

static int begin(struct own_file *file, int fd)
{
	int error;

	file->fd = move_up(fd);
	if (file->fd < 0) {
		error = file->fd;
	} else if (fstat(file->fd, &file->identity) != 0) {
		error = -errno;
		close(file->fd);
	} else {
		file->regular = S_ISREG(file->identity.st_mode);
		if (file->regular || S_ISCHR(file->identity.st_mode))
			return 0;
		error = -EINVAL;
		close(file->fd);
	}
	file->fd = -1;
	return error;
}

/* A device is used as it is, links to one included. */
static int open_device(const char *path)
{
	const int fd = open(path, (O_WRONLY | OPEN_FLAGS) & ~O_NOFOLLOW);
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) != 0 || !S_ISCHR(status.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); /* of this opening alone */
	return fd;
}

int own_file_create_exactly(struct own_file *file, const char *path, bool append, mode_t mode)
{
	int fd;

	if (strlen(path) >= sizeof(file->path))
		return -ENAMETOOLONG;
	if (path != file->path)
		strcpy(file->path, path);
	file->append = append;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | OPEN_FLAGS | (append ? O_APPEND : 0), mode);
	return fd < 0 ? -errno : begin(file, fd);
}

int own_file_create(struct own_file *file, const char *path)
{
	char name[PATH_MAX], number[16];
	struct stat status;
	int error;

	if (strlen(path) >= sizeof(name))
		return -ENAMETOOLONG;
	strcpy(name, path);
	strcpy(file->path, path);
	if (stat(path, &status) == 0 && S_ISCHR(status.st_mode)) {
		const int fd = open_device(path);

		error = fd < 0 ? fd : begin(file, fd);
		rest(file);
		return error;
	}
	for (int i = 1; i < TRIES; i++) {
		error = own_file_create_exactly(file, name, true, 0666);
		if (error != -EEXIST) {
			rest(file);
			return error;
		}
		snprintf(number, sizeof(number), "%d", i);
		if (names_insert(path, number, name, sizeof(name)) < 0)
			return -ENAMETOOLONG;
	}
	return -EEXIST;
}

/* Whether the file can be written now: its descriptor still is our file, or was opened again. */
static bool hold(struct own_file *file)
{
	int fd;

	if (still_ours(file))
		return true;
	file->fd = -1;
	if (!file->path[0])
		return false;
	if (file->regular)
		fd = open(file->path, O_WRONLY | OPEN_FLAGS | (file->append ? O_APPEND : 0));
	else
		fd = open_device(file->path);
	if (fd < 0)
		return false;
	file->fd = move_up(fd);
	if (still_ours(file))
		return true;
	if (file->fd >= 0)
		close(file->fd); /* another file of that name */
	file->fd = -1;
	return false;
}

int own_file_overwrite(struct own_file *file, const void *data, size_t size)
{
	ssize_t written;

	if (!hold(file))
		return -EBADF;
	written = message_write_at(file->fd, data, size, 0);
	rest(file);
	return written == (ssize_t)size ? 0 : written < 0 ? (int)written : -ENOSPC;
}

int own_file_append(struct own_file *file, const void *data, size_t size)
{
	struct stat before;
	ssize_t written;
	int error = 0;

	if (!hold(file) || fstat(file->fd, &before) != 0)
		return -EBADF;
	written = message_write(file->fd, data, size);
	if (written != (ssize_t)size) {
		error = written < 0 ? (int)written : -ENOSPC;
		if (written > 0 && file->regular && ftruncate(file->fd, before.st_size) != 0)
			error = -EIO;
	}
	rest(file);
	return error;
}

void own_file_close(struct own_file *file)
{
	if (still_ours(file))
		close(file->fd);
	file->fd = -1;
}

void own_file_remove(struct own_file *file)
{
	struct stat status;

	if (lstat(file->path, &status) == 0 && status.st_dev == file->identity.st_dev &&
	    status.st_ino == file->identity.st_ino)
		unlink(file->path);
}
