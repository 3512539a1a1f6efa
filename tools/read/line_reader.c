/* SPDX-License-Identifier: Apache-2.0
 *
 * One buffer, moved to its front when a block is to be read behind a line's beginning, and doubled
 * for lines longer than it.
 */
#include "tools/read/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCK = 1 << 20, LONGEST_LINE = 1 << 20 };

/* Puts gzip between the file and the reader. */
static int unpack(struct line_reader *reader)
{
	const char *const null = "/dev/null"; /* what gzip has to say, we say */
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	reader->unpacker = fork();
	if (reader->unpacker == 0) {
		dup2(reader->fd, STDIN_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		dup2(open(null, O_WRONLY), STDERR_FILENO);
		execlp("gzip", "gzip", "-dc", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	close(reader->fd);
	reader->fd = ends[0];
	return reader->unpacker < 0 ? -EAGAIN : 0;
}

int line_reader_open(struct line_reader *reader, const char *path)
{
	const size_t length = strlen(path);
	int result = 0;

	*reader = (struct line_reader){.size = 2 * BLOCK};
	reader->fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
				       : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (reader->fd < 0)
		return -errno;
	reader->buffer = malloc(reader->size);
	if (!reader->buffer)
		result = -ENOMEM;
	else if (length > 3 && !strcmp(path + length - 3, ".gz"))
		result = unpack(reader);
	if (result)
		line_reader_close(reader);
	return result;
}

int line_reader_close(struct line_reader *reader)
{
	int status = 0;

	free(reader->buffer);
	close(reader->fd);
	while (reader->unpacker > 0 && waitpid(reader->unpacker, &status, 0) < 0 && errno == EINTR)
		;
	return status ? -EBADMSG : 0;
}

int line_reader_next(struct line_reader *reader, char **line, size_t *length, bool *complete)
{
	size_t searched = 0;

	for (;;) {
		char *from = reader->buffer + reader->start;
		size_t left = reader->used - reader->start;
		char *newline = memchr(from + searched, '\n', left - searched);
		ssize_t got;

		if (newline || (reader->end && left)) {
			*line = from;
			*length = newline ? (size_t)(newline - from) : left;
			*complete = newline != NULL;
			reader->start += *length + (newline ? 1 : 0);
			return 1;
		}
		if (reader->end)
			return 0;
		searched = left;
		memmove(reader->buffer, from, left);
		reader->start = 0;
		reader->used = left;
		if (reader->size - left < BLOCK) {
			char *larger;

			if (left > LONGEST_LINE)
				return -EBADMSG;
			larger = realloc(reader->buffer, 2 * reader->size);
			if (!larger)
				return -ENOMEM;
			reader->buffer = larger;
			reader->size *= 2;
		}
		got = read(reader->fd, reader->buffer + left, reader->size - left);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		reader->end = got == 0;
		reader->used += (size_t)got;
	}
}
