/* SPDX-License-Identifier: Apache-2.0
 *
 * Logs as a person names them: a file, or a directory that stands for the logs in it (one per rank,
 * say).
 */
#ifndef FASHIM_LOG_PATHS_H
#define FASHIM_LOG_PATHS_H

#include "tools/read/log_reader.h"

/* log_read() for the file `path`, or for each *.jsonl of the directory `path`, in the order of
 * their names. What is wrong with a file is said on stderr, one line each, and the others are still
 * read. 0, or -errno when at least one could not be read. */
int log_set_read(struct log_set *set, const char *path, uint32_t keep_site);

/* The newest log here or, where there is none, in the folder that `fashim run` falls back to;
 * malloc'ed, or NULL. */
char *log_paths_newest(void);

#endif
