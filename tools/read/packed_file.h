/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that may be packed by gzip, whatever its name says.
 */
#ifndef FASHIM_PACKED_FILE_H
#define FASHIM_PACKED_FILE_H

#include <sys/types.h>

/* Opens `path` (- is standard input) for reading. What begins as gzip's files do, or cannot be
 * looked at and ends in .gz, is unpacked: *unpacker is the process that does, else 0. The
 * descriptor, or -errno. */
int packed_file_open(const char *path, pid_t *unpacker);

/* After the descriptor was closed. 0, or -EBADMSG where gzip did not like the file, or was not read
 * to its end. */
int packed_file_end(pid_t unpacker);

#endif
