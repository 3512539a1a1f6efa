/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathering slices and marks, and putting them in order.
 */
#include "tools/export/timeline.h"
#include "tools/read/log_reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No run lasts three years and no call of attention a quarter of an hour; sums of such times stay
 * far from the largest that a track can show. */
#define LONGEST_RUN_US	1e14
#define LONGEST_CALL_US 1e9

/* Makes room for one more element. 0 or -ENOMEM. */
static int grow(void **array, size_t *room, size_t count, size_t size)
{
	size_t wanted = *room ? *room * 2 : 64;
	void *larger;

	if (count < *room)
		return 0;
	larger = realloc(*array, wanted * size);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*room = wanted;
	return 0;
}

static struct timeline_run *run_of(struct timeline *timeline, int run)
{
	struct timeline_run *runs;

	if (run >= timeline->run_count) {
		runs = realloc(timeline->runs, (size_t)(run + 1) * sizeof(*runs));
		if (!runs)
			return NULL;
		memset(runs + timeline->run_count, 0,
		       (size_t)(run + 1 - timeline->run_count) * sizeof(*runs));
		timeline->runs = runs;
		timeline->run_count = run + 1;
	}
	return &timeline->runs[run];
}

/* The index of a stream among those of the run, or -ENOMEM. */
static int track_of(struct timeline_run *run, double stream)
{
	double *streams;

	for (int i = 0; i < run->stream_count; i++) {
		if (run->streams[i] == stream || (isnan(stream) && isnan(run->streams[i])))
			return i;
	}
	streams = realloc(run->streams, (size_t)(run->stream_count + 1) * sizeof(*streams));
	if (!streams)
		return -ENOMEM;
	run->streams = streams;
	streams[run->stream_count] = stream;
	return run->stream_count++;
}

/* µs to ns; -1 for what is unknown, negative or beyond `longest`. */
static int64_t nanoseconds(double us, double longest)
{
	return us >= 0 && us <= longest ? llround(us * 1e3) : -1;
}

int64_t timeline_length(const struct timeline_slice *slice)
{
	return (slice->app_ns > 0 ? slice->app_ns : 0) +
	       (slice->fused_ns > 0 ? slice->fused_ns : 0);
}

int timeline_add_sample(struct timeline *timeline, int run, const struct sample *sample)
{
	struct timeline_slice slice = {.run = run,
				       .start_ns = nanoseconds(sample->at_us, LONGEST_RUN_US),
				       .app_ns = nanoseconds(sample->app_us, LONGEST_CALL_US),
				       .fused_ns = nanoseconds(sample->fused_us, LONGEST_CALL_US),
				       .site = sample->site,
				       .occurrence = sample->occurrence,
				       .order = timeline->slice_count,
				       .max_rel = sample->max_rel};
	struct timeline_run *of = run_of(timeline, run);
	bool told = slice.start_ns >= 0;
	int64_t end_ns;

	if (!of || grow((void **)&timeline->slices, &timeline->slice_room, timeline->slice_count,
			sizeof(slice)))
		return -ENOMEM;
	slice.track = track_of(of, told ? sample->stream : INFINITY);
	if (slice.track < 0)
		return -ENOMEM;
	memcpy(slice.verdict, sample->verdict, sizeof(slice.verdict));
	if (!told)
		slice.start_ns = of->laid_ns;
	end_ns = slice.start_ns + timeline_length(&slice);
	if (!told)
		of->laid_ns = end_ns;
	if (end_ns > of->now_ns)
		of->now_ns = end_ns;
	timeline->slices[timeline->slice_count++] = slice;
	return 0;
}

/* What a record says in a few words, for free(); NULL for those that say nothing here. */
static char *mark_name(const json_t *record)
{
	const char *type = text_of(record, "type"), *reason = text_of(record, "reason");
	double site = number_of(record, "site", 0);
	char *name = NULL;
	int length = 0;

	if (!strcmp(type, "state"))
		length = asprintf(&name, "site %.0f %s%s%s", site, text_of(record, "state"),
				  *reason ? ": " : "", reason);
	else if (!strcmp(type, "materialise"))
		length =
			asprintf(&name, "site %.0f scores read by %s", site, text_of(record, "by"));
	else if (!strcmp(type, "decline"))
		length = asprintf(&name, "not replaced: %s", reason);
	else if (!strcmp(type, "violation"))
		length = asprintf(&name, "error of the shim: %s", text_of(record, "what"));
	return length > 0 ? name : NULL;
}

int timeline_add_record(struct timeline *timeline, int run, const json_t *record)
{
	struct timeline_run *of = run_of(timeline, run);
	char *name = mark_name(record);

	if (!of || grow((void **)&timeline->marks, &timeline->mark_room, timeline->mark_count,
			sizeof(*timeline->marks))) {
		free(name);
		return -ENOMEM;
	}
	if (name)
		timeline->marks[timeline->mark_count++] =
			(struct timeline_mark){run, of->now_ns, name};
	return 0;
}

static int by_track(const void *left, const void *right)
{
	const struct timeline_slice *a = left, *b = right;

	if (a->run != b->run)
		return a->run - b->run;
	if (a->track != b->track)
		return a->track - b->track;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

void timeline_untangle(struct timeline *timeline)
{
	if (timeline->slice_count)
		qsort(timeline->slices, timeline->slice_count, sizeof(*timeline->slices), by_track);
	for (size_t i = 1; i < timeline->slice_count; i++) {
		const struct timeline_slice *ahead = &timeline->slices[i - 1];
		struct timeline_slice *slice = &timeline->slices[i];
		int64_t free_ns = ahead->start_ns + timeline_length(ahead);

		if (slice->run == ahead->run && slice->track == ahead->track &&
		    slice->start_ns < free_ns)
			slice->start_ns = free_ns;
	}
}

void timeline_free(struct timeline *timeline)
{
	for (size_t i = 0; i < timeline->mark_count; i++)
		free(timeline->marks[i].name);
	for (int i = 0; i < timeline->run_count; i++)
		free(timeline->runs[i].streams);
	free(timeline->runs);
	free(timeline->marks);
	free(timeline->slices);
	*timeline = (struct timeline){0};
}
