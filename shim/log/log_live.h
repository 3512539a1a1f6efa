/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters of log_format.h, and the file LOG.live that keeps them when the process is killed.
 * They are counted in memory and written every LIVE_INTERVAL_MS at the most: a mapped file would
 * end the process by SIGBUS when somebody truncates it.
 */
#ifndef FASHIM_LOG_LIVE_H
#define FASHIM_LOG_LIVE_H

#include "shim/log/log_format.h"

/* Creates `name` and writes what was counted so far. 0, or -errno: the counters stay in memory
 * alone. */
int log_live_open(const char *name);

/* Writes the counters now; nothing where there is no file. */
void log_live_write(void);

/* Takes what things cost so far to the counters. */
void log_live_costs(void);

/* Closes the file and removes it. */
void log_live_remove(void);

/* In a forked child: the file is the parent's, and nothing was counted yet. */
void log_live_forget(void);

#endif
