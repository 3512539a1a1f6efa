/* SPDX-License-Identifier: Apache-2.0
 *
 * LOG.live: the counters of a run that never wrote its summary, because it was killed or is still
 * going.
 */
#ifndef FASHIM_LIVE_H
#define FASHIM_LIVE_H

#include "tools/read/run_log.h"

/* Reads LOG.live beside run->path into the counters. 0 or -errno; -EPROTO when it is of another
 * version or size. */
int live_read(struct run_log *run);

/* Whether the process that writes the log `log` runs on this machine. */
bool live_runs(const char *log);

#endif
