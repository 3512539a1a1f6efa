/* SPDX-License-Identifier: Apache-2.0
 *
 * fashim export --format=perfetto: a Chrome trace. A run is a process, a stream a track, a measured
 * call a slice with two inside it: the program's own chain, then the fused kernel. What the shim
 * decided stands on a track above, and the drift of each site is a counter.
 */
#include "tools/export/export.h"
#include "tools/base/json_text.h"
#include "tools/export/timeline.h"
#include "tools/sites/report_names.h"
#include "tools/sites/site_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Tracks of a process; those of the streams follow. */
enum { TRACK_COUNTERS, TRACK_DECISIONS, TRACK_FIRST };

/* Process ids of Linux stay below; those of runs that share one lie above. */
#define OTHER_PROCESSES 10000000LL

/* The names of a site's slices, quoted for JSON; NULL: not written yet. */
struct slice_names {
	char *site, *app, *fused;
};

struct trace {
	struct timeline timeline;
	FILE *out;
	bool begun;		   /* some event is written */
	bool simulated;		   /* no GPU's times are in the run being written */
	long long process;	   /* of the run being written */
	struct slice_names *names; /* of its sites, by number - 1 */
	uint32_t name_count;
};

static int perfetto_sample(void *context, struct run_log *run, const struct sample *sample)
{
	struct export *export = context;
	struct trace *trace = export->own;

	return timeline_add_sample(&trace->timeline, export_run_index(export, run), sample);
}

static int perfetto_record(void *context, struct run_log *run, const json_t *record)
{
	struct export *export = context;
	struct trace *trace = export->own;

	return timeline_add_record(&trace->timeline, export_run_index(export, run), record);
}

/* The run's own process id, unless an earlier run had the same. */
static long long process_id(const struct export *export, int run)
{
	double pid = number_of(export->set.runs[run]->header, "pid", 0);

	for (int i = 0; i < run; i++) {
		if (number_of(export->set.runs[i]->header, "pid", 0) == pid)
			return OTHER_PROCESSES + run;
	}
	return pid >= 1 && pid < OTHER_PROCESSES ? (long long)pid : OTHER_PROCESSES + run;
}

/* "…", quoted for JSON, for free(); NULL when memory is short. */
static char *quoted(const char *text)
{
	json_t *string = json_text(text);
	char *json = NULL;
	size_t size;
	FILE *stream = string ? open_memstream(&json, &size) : NULL;

	if (stream && (json_print(string, stream, JSON_ENCODE_ANY) | fclose(stream))) {
		free(json);
		json = NULL;
	}
	json_decref(string);
	return json;
}

/* ---- members ------------------------------------------------------------------------------------
 */

/* Begins an event: everything up to the members that only some kinds have. */
static void event(struct trace *trace, char phase, int track)
{
	fprintf(trace->out, "%s\n{\"ph\":\"%c\",\"pid\":%lld,\"tid\":%d", trace->begun ? "," : "",
		phase, trace->process, track);
	trace->begun = true;
}

static void put_time(const struct trace *trace, const char *member, int64_t ns)
{
	fprintf(trace->out, ",\"%s\":%lld.%03lld", member, (long long)(ns / 1000),
		(long long)(ns % 1000));
}

/* ,"member":"text", with the text quoted here or before. */
static void put_quoted(const struct trace *trace, const char *member, const char *text)
{
	fprintf(trace->out, ",\"%s\":%s", member, text ? text : "\"\"");
}

static void put_text(const struct trace *trace, const char *member, const char *text)
{
	char *json = quoted(text);

	put_quoted(trace, member, json);
	free(json);
}

/* ---- what a run is called -----------------------------------------------------------------------
 */

/* Names a process or a track; what: "process_name", …; member: "name" or "labels". */
static void put_title(struct trace *trace, int track, const char *what, const char *member,
		      const char *title)
{
	char *json = quoted(title);

	event(trace, 'M', track);
	fprintf(trace->out, ",\"name\":\"%s\",\"args\":{\"%s\":%s}}", what, member,
		json ? json : "\"\"");
	free(json);
}

static void put_track_title(struct trace *trace, int track, double stream)
{
	char title[80];

	if (isinf(stream))
		snprintf(title, sizeof(title),
			 "measured calls, end to end (this log does not tell when)");
	else if (isnan(stream))
		snprintf(title, sizeof(title), "measured calls");
	else
		snprintf(title, sizeof(title), "stream %#llx", (unsigned long long)stream);
	put_title(trace, track, "thread_name", "name", title);
}

static void put_titles(struct trace *trace, const struct export *export, int run)
{
	const struct run_log *log = export->set.runs[run];
	const struct timeline *timeline = &trace->timeline;
	char *command = report_command(log), device[300], label[400];

	put_title(trace, 0, "process_name", "name", command ? command : "?");
	free(command);
	snprintf(label, sizeof(label), "%s, mode %s", report_device(log, device, sizeof(device)),
		 text_of(log->header, "mode"));
	put_title(trace, 0, "process_labels", "labels", label);
	put_title(trace, TRACK_DECISIONS, "thread_name", "name", "decisions of the shim");
	for (int i = 0; run < timeline->run_count && i < timeline->runs[run].stream_count; i++)
		put_track_title(trace, TRACK_FIRST + i, timeline->runs[run].streams[i]);
}

/* ---- what happened ------------------------------------------------------------------------------
 */

/* "app: cublasGemmEx, softmax, cublasGemmEx" */
static void chain_text(char *buffer, size_t size, const struct site_log *site)
{
	const json_t *chain = json_object_get(site->record, "chain"), *step;
	size_t used, index;

	used = (size_t)snprintf(buffer, size, "app");
	json_array_foreach(chain, index, step)
	{
		const char *name = json_string_value(step);

		if (used + 1 < size)
			used += (size_t)snprintf(buffer + used, size - used, "%s %s",
						 index ? "," : ":", name ? name : "?");
	}
}

static void free_names(struct trace *trace)
{
	for (uint32_t i = 0; i < trace->name_count; i++) {
		free(trace->names[i].site);
		free(trace->names[i].app);
		free(trace->names[i].fused);
	}
	free(trace->names);
	trace->names = NULL;
	trace->name_count = 0;
}

static const struct slice_names *names_of(struct trace *trace, const struct run_log *run,
					  uint32_t number)
{
	const uint32_t place = run_site_place(run, number);
	const struct site_log *site = run->sites[place];
	struct slice_names *names = &trace->names[place];
	char title[300], text[400];

	if (names->site)
		return names;
	snprintf(text, sizeof(text), "site %u %s", site->number,
		 site->record ? site_title(site, title, sizeof(title)) : "");
	names->site = quoted(text);
	chain_text(text, sizeof(text), site);
	names->app = quoted(text);
	snprintf(text, sizeof(text), "fused: %s", text_of(site->record, "kernel"));
	names->fused = quoted(text);
	return names;
}

static void put_part(struct trace *trace, int track, const char *kind, const char *name,
		     int64_t start_ns, int64_t length_ns)
{
	event(trace, 'X', track);
	put_time(trace, "ts", start_ns);
	put_time(trace, "dur", length_ns);
	fprintf(trace->out, ",\"cat\":\"%s\"", kind);
	put_quoted(trace, "name", name);
	fputc('}', trace->out);
}

/* The call as a whole; an instant where neither of its parts was timed. */
static void put_call(struct trace *trace, const struct timeline_slice *slice, const char *name)
{
	bool timed = slice->app_ns >= 0 || slice->fused_ns >= 0;

	event(trace, timed ? 'X' : 'i', TRACK_FIRST + slice->track);
	put_time(trace, "ts", slice->start_ns);
	if (timed)
		put_time(trace, "dur", timeline_length(slice));
	else
		fputs(",\"s\":\"t\"", trace->out);
	fputs(",\"cat\":\"attention\"", trace->out);
	put_quoted(trace, "name", name);
	fprintf(trace->out, ",\"args\":{\"call\":%llu", (unsigned long long)slice->occurrence);
	if (slice->app_ns > 0 && slice->fused_ns > 0 && !trace->simulated)
		fprintf(trace->out, ",\"speedup\":%.3f",
			(double)slice->app_ns / (double)slice->fused_ns);
	if (isfinite(slice->max_rel))
		fprintf(trace->out, ",\"max_rel\":%.6g", slice->max_rel);
	if (*slice->verdict)
		put_text(trace, "verdict", slice->verdict);
	fputs("}}", trace->out);
}

static void put_slice(struct trace *trace, const struct timeline_slice *slice,
		      const struct slice_names *names)
{
	int track = TRACK_FIRST + slice->track;
	int64_t middle_ns = slice->start_ns + (slice->app_ns > 0 ? slice->app_ns : 0);

	put_call(trace, slice, names->site);
	if (slice->app_ns >= 0)
		put_part(trace, track, "app", names->app, slice->start_ns, slice->app_ns);
	if (slice->fused_ns >= 0)
		put_part(trace, track, "fused", names->fused, middle_ns, slice->fused_ns);
	if (!isfinite(slice->max_rel))
		return;
	event(trace, 'C', TRACK_COUNTERS);
	put_time(trace, "ts", slice->start_ns);
	fprintf(trace->out, ",\"name\":\"drift of site %u\",\"args\":{\"max_rel\":%.6g}}",
		slice->site, slice->max_rel);
}

/* One run: its names, its decisions, and its slices, which begin at *next. 0 or -ENOMEM. */
static int put_run(struct trace *trace, const struct export *export, int run, size_t *next)
{
	const struct run_log *log = export->set.runs[run];
	const struct timeline *timeline = &trace->timeline;

	trace->process = process_id(export, run);
	trace->simulated = log->simulated;
	free_names(trace);
	trace->names = calloc((size_t)log->site_count + 1, sizeof(*trace->names));
	if (!trace->names)
		return -ENOMEM;
	trace->name_count = log->site_count;
	put_titles(trace, export, run);
	for (size_t i = 0; i < timeline->mark_count; i++) {
		if (timeline->marks[i].run != run)
			continue;
		event(trace, 'i', TRACK_DECISIONS);
		put_time(trace, "ts", timeline->marks[i].at_ns);
		fputs(",\"s\":\"t\",\"cat\":\"decision\"", trace->out);
		put_text(trace, "name", timeline->marks[i].name);
		fputc('}', trace->out);
	}
	for (; *next < timeline->slice_count && timeline->slices[*next].run == run; ++*next) {
		const struct timeline_slice *slice = &timeline->slices[*next];

		put_slice(trace, slice, names_of(trace, log, slice->site));
	}
	return 0;
}

static int perfetto_write(struct export *export)
{
	struct trace *trace = export->own;
	size_t next = 0;
	int result = 0, closed;

	trace->out = export_stream(export);
	if (!trace->out)
		return -EIO;
	timeline_untangle(&trace->timeline);
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", trace->out);
	for (int i = 0; i < export->set.count && !result; i++)
		result = put_run(trace, export, i, &next);
	fputs("\n]}\n", trace->out);
	closed = export_stream_close(export, trace->out);
	if (result)
		snprintf(export->problem, sizeof(export->problem), "out of memory");
	return result ? result : closed;
}

static int perfetto_open(struct export *export)
{
	export->own = calloc(1, sizeof(struct trace));
	if (!export->own)
		snprintf(export->problem, sizeof(export->problem), "out of memory");
	return export->own ? 0 : -ENOMEM;
}

static void perfetto_close(struct export *export)
{
	struct trace *trace = export->own;

	if (!trace)
		return;
	free_names(trace);
	timeline_free(&trace->timeline);
	free(trace);
}

const struct export_form export_perfetto = {
	.name = "perfetto",
	.alias = "chrome",
	.open = perfetto_open,
	.sample = perfetto_sample,
	.record = perfetto_record,
	.write = perfetto_write,
	.close = perfetto_close,
};
