/* SPDX-License-Identifier: Apache-2.0
 *
 * The measured calls of logs as slices on tracks: a track a stream. Slices of a track never
 * overlap, and all times are whole nanoseconds, so that sums of them are exact.
 */
#ifndef FASHIM_TIMELINE_H
#define FASHIM_TIMELINE_H

#include "tools/read/sample_scan.h"

#include <jansson.h>

/* A comparison: the program's own chain, and behind it the fused kernel. */
struct timeline_slice {
	int run, track;			    /* track: index into the run's streams */
	int64_t start_ns, app_ns, fused_ns; /* lengths are -1 where unknown */
	uint32_t site;
	uint64_t occurrence;
	uint64_t order; /* in which the samples came */
	double max_rel; /* NAN unknown */
	char verdict[24];
};

/* A record that is no sample, at the time at which the latest sample before it ended. */
struct timeline_mark {
	int run;
	int64_t at_ns;
	char *name;
};

/* A run's streams, and how far its records have come. */
struct timeline_run {
	double *streams; /* NAN: a stream that is not told, INFINITY: samples without a time */
	int stream_count;
	int64_t now_ns;	 /* where the latest sample ended */
	int64_t laid_ns; /* the same on the track of samples without a time */
};

struct timeline {
	struct timeline_slice *slices;
	size_t slice_count, slice_room;
	struct timeline_mark *marks;
	size_t mark_count, mark_room;
	struct timeline_run *runs;
	int run_count;
};

/* Adds a sample of run number `run`. One that does not tell when it was taken goes behind the one
 * before it, on a track for such. 0 or -ENOMEM. */
int timeline_add_sample(struct timeline *timeline, int run, const struct sample *sample);

/* Adds a mark for a record that decides or reports something; others are left out. 0 or -ENOMEM. */
int timeline_add_record(struct timeline *timeline, int run, const json_t *record);

/* After the last: orders the slices by run, track and start, and moves one that would begin inside
 * the one ahead of it behind that. */
void timeline_untangle(struct timeline *timeline);

/* Of both parts together. */
int64_t timeline_length(const struct timeline_slice *slice);

void timeline_free(struct timeline *timeline);

#endif
