/* SPDX-License-Identifier: Apache-2.0
 *
 * Opened first, looked at then: what a descriptor leads to cannot be exchanged any more.
 */
#include "shim/base/user_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *refusal(const struct stat *info, size_t largest)
{
	if (!S_ISREG(info->st_mode))
		return "not a regular file";
	if (info->st_uid != geteuid() && info->st_uid != 0)
		return "belongs to another user";
	if (info->st_mode & S_IWOTH)
		return "may be written by everyone";
	if (info->st_size < 0 || (size_t)info->st_size > largest)
		return "too large";
	return NULL;
}

static char *read_all(int fd, size_t *size, const char **why)
{
	const size_t room = *size;
	char *text = malloc(room + 1);
	size_t used = 0;
	ssize_t n = 0;

	while (text && used < room) {
		n = read(fd, text + used, room - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	if (!text || n < 0) {
		*why = strerror(errno);
		free(text);
		return NULL;
	}
	text[used] = '\0';
	*size = used;
	return text;
}

char *user_file_read(const char *path, size_t largest, const char **why)
{
	size_t size;

	return user_file_bytes(path, largest, &size, why);
}

char *user_file_bytes(const char *path, size_t largest, size_t *size, const char **why)
{
	struct stat info;
	char *text = NULL;
	int fd, error, cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &info) != 0) {
		*why = strerror(errno);
	} else {
		*why = refusal(&info, largest);
		*size = (size_t)info.st_size;
		if (*why)
			errno = EINVAL;
		else
			text = read_all(fd, size, why);
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	pthread_setcancelstate(cancel_state, NULL);
	errno = error;
	return text;
}
