/* SPDX-License-Identifier: Apache-2.0
 *
 * A file cut into lines, read in large blocks. Lines may hold any bytes.
 */
#ifndef FASHIM_LINE_READER_H
#define FASHIM_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* buffer[start..used) is read and not yet handed out. */
struct line_reader {
	int fd;
	pid_t unpacker; /* gzip between file and fd; 0: none */
	char *buffer;
	size_t size, start, used;
	bool end;
};

/* - is standard input; what is packed is unpacked (packed_file.h). 0 or -errno. */
int line_reader_open(struct line_reader *reader, const char *path);
/* Bytes of the file; 0: not known, as of what is packed or comes through a pipe. */
off_t line_reader_size(const struct line_reader *reader);
/* 0, or -EBADMSG where gzip did not like the file, or was not read to its end. */
int line_reader_close(struct line_reader *reader);

/* The next line without its newline, valid until the next call; *complete says whether it had one.
 * 1, 0 at the end, or -errno; -EBADMSG when a line is longer than any record. */
int line_reader_next(struct line_reader *reader, char **line, size_t *length, bool *complete);

#endif
