/* SPDX-License-Identifier: Apache-2.0
 *
 * One buffer, no larger than the file, moved to its front when something is to be read behind a
 * line's beginning, and doubled for lines that fill half of it.
 */
#include "tools/read/line_reader.h"
#include "tools/read/packed_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SMALLEST = 1 << 10, LARGEST = 2 << 20, LONGEST_LINE = 1 << 20 };

int line_reader_open(struct line_reader *reader, const char *path)
{
	off_t bytes;

	*reader = (struct line_reader){.size = LARGEST};
	reader->fd = packed_file_open(path, &reader->unpacker);
	if (reader->fd < 0)
		return reader->fd;
	bytes = line_reader_size(reader);
	if (bytes > 0 && bytes < LARGEST)
		reader->size = bytes < SMALLEST ? SMALLEST : (size_t)bytes + 1;
	reader->buffer = malloc(reader->size);
	if (reader->buffer)
		return 0;
	line_reader_close(reader);
	return -ENOMEM;
}

off_t line_reader_size(const struct line_reader *reader)
{
	struct stat info;

	return fstat(reader->fd, &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : 0;
}

int line_reader_close(struct line_reader *reader)
{
	free(reader->buffer);
	close(reader->fd);
	return packed_file_end(reader->unpacker);
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
		if (reader->size - left < reader->size / 2) {
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
