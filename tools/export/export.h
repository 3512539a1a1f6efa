/* SPDX-License-Identifier: Apache-2.0
 *
 * What the forms of `fashim export` have in common: a form sees the records of the logs while they
 * are read, then writes what it made of them and of the whole set.
 */
#ifndef FASHIM_EXPORT_H
#define FASHIM_EXPORT_H

#include "tools/read/log_reader.h"

enum export_weight { EXPORT_TIME, EXPORT_CALLS };

struct export
{
	struct log_set set;
	const char *path; /* of the output; "-" is stdout */
	enum export_weight weight;
	void *own;	   /* the form's */
	char problem[256]; /* why a step failed, one line */
};

struct export_form {
	const char *name, *alias;
	bool needs_file; /* cannot be written to stdout */
	/* Before the first record. 0 or -errno. */
	int (*open)(struct export *export);
	/* As in struct log_observer, the context being the struct export. Either may be NULL. */
	int (*sample)(void *context, struct run_log *run, const struct sample *sample);
	int (*record)(void *context, struct run_log *run, const json_t *record);
	/* After the last record: the whole output is there once it returns 0; else -errno, with
	 * export->problem filled. */
	int (*write)(struct export *export);
	/* Always called last; frees, and takes away what is half-written. */
	void (*close)(struct export *export);
};

extern const struct export_form export_perfetto, export_folded, export_sqlite;

/* The output, opened for writing; NULL with export->problem filled. */
FILE *export_stream(struct export *export);

/* Flushes and closes it. 0, or -errno with export->problem filled. */
int export_stream_close(struct export *export, FILE *stream);

/* The position of a run of the set. */
int export_run_index(const struct export *export, const struct run_log *run);

#endif
