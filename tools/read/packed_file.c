/* SPDX-License-Identifier: Apache-2.0
 *
 * The program gzip stands between the file and whoever reads.
 */
#include "tools/read/packed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A pipe's beginning cannot be looked at without taking it. */
static bool is_packed(int fd, const char *path)
{
	const size_t length = strlen(path);
	const off_t at = lseek(fd, 0, SEEK_CUR);
	unsigned char start[2] = {0};

	if (at < 0 || pread(fd, start, sizeof(start), at) < 0)
		return length > 3 && !strcmp(path + length - 3, ".gz");
	return start[0] == 0x1f && start[1] == 0x8b;
}

/* The other end of a pipe in place of `fd`. */
static int unpack(int fd, pid_t *unpacker)
{
	const char *const null = "/dev/null"; /* what gzip has to say, we say */
	int ends[2], error = pipe2(ends, O_CLOEXEC) ? errno : 0;

	if (!error) {
		*unpacker = fork();
		if (*unpacker == 0) {
			dup2(fd, STDIN_FILENO);
			dup2(ends[1], STDOUT_FILENO);
			dup2(open(null, O_WRONLY), STDERR_FILENO);
			execlp("gzip", "gzip", "-dc", (char *)NULL);
			_exit(127);
		}
		error = *unpacker < 0 ? errno : 0;
		close(ends[1]);
		if (error)
			close(ends[0]);
	}
	close(fd);
	return error ? -error : ends[0];
}

int packed_file_open(const char *path, pid_t *unpacker)
{
	const int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
					 : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);

	*unpacker = 0;
	if (fd < 0)
		return -errno;
	return is_packed(fd, path) ? unpack(fd, unpacker) : fd;
}

int packed_file_end(pid_t unpacker)
{
	int status = 0;

	while (unpacker > 0 && waitpid(unpacker, &status, 0) < 0 && errno == EINTR)
		;
	return status ? -EBADMSG : 0;
}
