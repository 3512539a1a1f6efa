/* SPDX-License-Identifier: Apache-2.0
 *
 * The log of a process that is running.
 */
#ifndef FASHIM_FIND_LOG_H
#define FASHIM_FIND_LOG_H

/* The log that is meant: by a path (LOG, or LOG.live), by the number of a process, or, with NULL,
 * the newest of those here whose process runs; *others: how many more run here. Malloc'ed, or NULL
 * after a line on stderr. */
char *find_log(const char *what, int *others);

#endif
