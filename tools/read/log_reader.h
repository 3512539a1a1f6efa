/* SPDX-License-Identifier: Apache-2.0
 *
 * A log, read line by line into what a report needs. A file may hold several runs (several
 * headers); each becomes a struct run_log of its own.
 *
 * The promise about versions: a reader accepts logs of its own format version and of the one
 * before; any other is refused by its number, not misread. Within a version fields and record types
 * are only added, what is unknown is skipped, what is absent counts as unknown, and a last line
 * that was cut short is not an error.
 */
#ifndef FASHIM_LOG_READER_H
#define FASHIM_LOG_READER_H

#include "shim/log/log_format.h"
#include "tools/read/run_log.h"

/* The oldest log format version that is read. */
#define LOG_OLDEST_VERSION (LOG_FORMAT_VERSION > 1 ? LOG_FORMAT_VERSION - 1 : 1)

/* Sees the records one by one as they are read, in the file's order: each sample after its site's
 * series took it, every other record of its run, the header first. 0, or -errno, which ends the
 * reading; -EBADMSG only skips the record. */
struct log_observer {
	int (*sample)(void *context, struct run_log *run, const struct sample *sample);
	int (*record)(void *context, struct run_log *run, const json_t *record);
	void *context;
};

struct log_set {
	struct run_log **runs;
	int count;
	char problem[256];		     /* why log_read() failed, one line without the path */
	const struct log_observer *observer; /* or NULL */
	bool heads_only; /* headers and summaries are read, what lies between is stepped over */
};

/* Is it learned yet, or about to be once that is affordable? */
bool site_waits(const struct site_log *site);

/* As the log spells it. */
const char *purpose_name(int purpose);

/* Appends the runs of the file `path` to *set. keep_site: site whose samples are kept one by one,
 * or 0. 0, or -errno with set->problem filled: -ENODATA empty, -EBADMSG no log, -EPROTO another
 * format version, else what opening and reading gave. */
int log_read(struct log_set *set, const char *path, uint32_t keep_site);
/* Drops one run from the set. */
void log_set_remove(struct log_set *set, int index);
void log_set_free(struct log_set *set);

#endif
