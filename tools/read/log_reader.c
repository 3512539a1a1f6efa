/* SPDX-License-Identifier: Apache-2.0
 *
 * The log reader. Lines are cut from large blocks; samples go through the scanner of sample_scan.c,
 * the few other records through a JSON tree. A line that is no JSON is counted and skipped, a last
 * line without its newline is a crash's trace and no error.
 */
#include "tools/read/log_reader.h"
#include "tools/base/progress.h"
#include "tools/read/kernel_name.h"
#include "tools/read/line_reader.h"
#include "tools/read/live.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* What is kept of a log must be in proportion to it: a site takes its record, a reason its name and
 * a count. Small logs may have as many as they like, and none more than any program has. */
enum {
	FREE_SITES = 4096,
	SITE_BYTES = 128,
	MOST_SITES = 1 << 16,
	FREE_REASONS = 1024,
	REASON_BYTES = 32,
	MOST_RUNS = 1 << 14
};

/* What a file made us keep so far. */
struct weight {
	const struct run_log *run; /* the one that is read; the others are in the sums */
	uint64_t bytes, sites, reasons;
};

/* A count that may be anything; 0 for what is none, and at most what a double tells exactly, so
 * that sums of them do not overflow. */
static uint64_t whole(double value)
{
	return value > 0 ? (uint64_t)fmin(value, 9e15) : 0;
}

static uint64_t count_of(const json_t *record, const char *key)
{
	return whole(number_of(record, key, 0));
}

static uint32_t site_number(const json_t *record)
{
	uint64_t number = count_of(record, "site");

	return number <= UINT32_MAX ? (uint32_t)number : 0;
}

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

static int problem(struct log_set *set, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int problem(struct log_set *set, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(set->problem, sizeof(set->problem), format, args);
	va_end(args);
	return error;
}

static void add_detail(struct reason_tally *tally, const char *detail)
{
	for (int i = 0; *detail && i < KEPT_DETAILS; i++) {
		if (!strncmp(tally->details[i], detail, sizeof(tally->details[i]) - 1))
			return;
		if (!*tally->details[i]) {
			copy_text(tally->details[i], sizeof(tally->details[i]), detail);
			return;
		}
	}
}

static bool timed(const struct sample *sample)
{
	return !isnan(sample->app_us) && !isnan(sample->fused_us);
}

/* Returns whether the times are the run's first of this site. */
static bool add_times(struct site_log *site, const struct sample *sample)
{
	bool first = !site->first_app.count;

	if (!timed(sample))
		return false;
	series_add(first ? &site->first_app : &site->app, sample->app_us);
	series_add(first ? &site->first_fused : &site->fused, sample->fused_us);
	for (int i = 0; i < PART_COUNT && !isnan(sample->parts_us[i]); i++)
		series_add(first ? &site->first_parts[i] : &site->parts[i], sample->parts_us[i]);
	return first;
}

static struct sample without_times(const struct sample *sample)
{
	struct sample result = *sample;

	result.app_us = result.fused_us = NAN;
	for (int i = 0; i < PART_COUNT; i++)
		result.parts_us[i] = NAN;
	return result;
}

static int take_sample(const struct log_set *set, struct run_log *run, const struct sample *logged,
		       uint32_t keep_site)
{
	struct site_log *site = run_site(run, logged->site);
	const struct sample untimed = without_times(logged);
	const struct sample *sample = run->simulated ? &untimed : logged;

	if (!site)
		return -EBADMSG;
	if (keep_site == sample->site && !site->kept)
		site->kept = calloc(2 * KEPT_SAMPLES, sizeof(*site->kept));
	if (keep_site == sample->site && site->kept) {
		uint64_t slot = site->kept_of++;

		if (slot >= KEPT_SAMPLES)
			slot = KEPT_SAMPLES + (slot - KEPT_SAMPLES) % KEPT_SAMPLES;
		site->kept[slot] = *sample;
	}
	if (isfinite(sample->at_us) && sample->at_us > run->last_us)
		run->last_us = sample->at_us;
	site->samples++;
	if (sample_points_add(&site->points, sample, add_times(site, sample)))
		return -ENOMEM;
	site->max_abs = fmax(site->max_abs, sample->max_abs);
	if (!isnan(sample->max_rel) && !(sample->max_rel <= site->max_rel))
		site->worst = *sample;
	site->max_rel = fmax(site->max_rel, sample->max_rel);
	site->beyond = fmax(site->beyond, sample->beyond);
	site->nonfinite += whole(sample->nonfinite);
	if (!isnan(sample->app_rmse) && !isnan(sample->fused_rmse)) {
		site->references++;
		site->sum_app_rmse2 += sample->app_rmse * sample->app_rmse;
		site->sum_fused_rmse2 += sample->fused_rmse * sample->fused_rmse;
		site->app_max = fmax(site->app_max, sample->app_max);
		site->fused_max = fmax(site->fused_max, sample->fused_max);
	}
	if (strcmp(sample->verdict, "ok")) {
		site->not_ok++;
		copy_text(site->bad_verdict, sizeof(site->bad_verdict), sample->verdict);
	}
	if (set->observer && set->observer->sample)
		return set->observer->sample(set->observer->context, run, logged);
	return 0;
}

static bool only_text(const json_t *array)
{
	const json_t *entry;
	size_t index;

	json_array_foreach(array, index, entry)
	{
		if (!json_is_string(entry))
			return false;
	}
	return true;
}

/* Drops what no site tells: trees take many times the room of their text. */
static void prune(json_t *record)
{
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(record, next, key, value)
	{
		if (json_is_object(value) || !only_text(value))
			json_object_del(record, key);
	}
}

static int take_site(struct run_log *run, json_t *record)
{
	struct site_log *site = run_site(run, site_number(record));

	if (!site)
		return -EBADMSG;
	prune(record);
	json_decref(site->record);
	site->record = json_incref(record);
	return 0;
}

static int take_state(struct run_log *run, const json_t *record)
{
	struct site_log *site = run_site(run, site_number(record));

	if (!site)
		return -EBADMSG;
	copy_text(site->state, sizeof(site->state), text_of(record, "state"));
	copy_text(site->reason, sizeof(site->reason), text_of(record, "reason"));
	kernel_name(text_of(record, "detail"), site->detail, sizeof(site->detail));
	if (run->simulated && !strcmp(site->reason, "slower")) /* how much slower */
		*site->detail = '\0';
	return 0;
}

static int take_decline(struct run_log *run, const json_t *record)
{
	struct reason_tally *tally = run_reason(run, text_of(record, "reason"));
	char detail[sizeof(tally->details[0])];

	if (tally) {
		tally->records++;
		add_detail(tally, kernel_name(text_of(record, "detail"), detail, sizeof(detail)));
	}
	return 0;
}

static int take_materialise(struct run_log *run, const json_t *record)
{
	struct site_log *site = run_site(run, site_number(record));
	char by[sizeof(site->read_by[0])];

	kernel_name(text_of(record, "by"), by, sizeof(by));
	for (int i = 0; site && *by && i < KEPT_READERS; i++) {
		if (!strncmp(site->read_by[i], by, sizeof(site->read_by[i]) - 1))
			break;
		if (!*site->read_by[i]) {
			copy_text(site->read_by[i], sizeof(site->read_by[i]), by);
			break;
		}
	}
	return site ? 0 : -EBADMSG;
}

static int take_copy(struct run_log *run, const json_t *record)
{
	if (!*run->copy_by)
		kernel_name(text_of(record, "by"), run->copy_by, sizeof(run->copy_by));
	return 0;
}

static int take_counters(struct run_log *run, const json_t *record)
{
	struct site_log *site = run_site(run, site_number(record));

	if (!site)
		return -EBADMSG;
	copy_text(site->state, sizeof(site->state), text_of(record, "state"));
	copy_text(site->reason, sizeof(site->reason), text_of(record, "reason"));
	site->counters = (struct site_counters){
		.seen = count_of(record, "seen"),
		.replaced = count_of(record, "replaced"),
		.compared = count_of(record, "compared"),
		.agreed = count_of(record, "agreed"),
		.passed = count_of(record, "passed"),
		.materialised = count_of(record, "materialised"),
		.snapshots = count_of(record, "snapshots"),
		.replays = count_of(record, "replays"),
		.saved_us = run->simulated ? NAN : number_of(record, "saved_us", 0),
	};
	site->counted = true;
	return 0;
}

const char *purpose_name(int purpose)
{
	static const char *const names[] = {
#define PURPOSE(id, name, what) name,
#include "shim/base/purposes.def"
#undef PURPOSE
	};

	return names[purpose];
}

static void take_costs(struct run_log *run, const json_t *costs)
{
	const json_t *host = json_object_get(costs, "host"), *gpu = json_object_get(costs, "gpu");

	for (int i = 0; i < PURPOSE_COUNT; i++) {
		run->cost_us[i] = number_of(host, purpose_name(i), 0);
		run->cost_gpu_us[i] = number_of(gpu, purpose_name(i), 0);
	}
}

static int take_summary(struct run_log *run, json_t *record)
{
	const json_t *copies = json_object_get(record, "copies"),
		     *rests = json_object_get(record, "rests");
	const json_t *entry;
	json_t *value;
	const char *key;
	size_t index;

	copy_text(run->end, sizeof(run->end), text_of(record, "end"));
	run->wall_us = number_of(record, "wall_us", 0);
	run->overhead_us = number_of(record, "overhead_us", 0);
	take_costs(run, json_object_get(record, "costs_us"));
	run->gemms = count_of(record, "gemms");
	run->launches = count_of(record, "launches");
	run->scratch_peak = count_of(record, "scratch_peak");
	run->copies_held = count_of(copies, "held");
	run->copies_made = count_of(copies, "made");
	run->copies_unfit = count_of(copies, "unfit");
	run->rests = count_of(rests, "count");
	run->rest_us = number_of(rests, "us", 0);
	run->counted = true;
	json_object_foreach(json_object_get(record, "reasons"), key, value)
	{
		struct reason_tally *tally = run_reason(run, key);

		if (tally && json_number_value(value) > 0)
			tally->count = whole(json_number_value(value));
	}
	json_array_foreach(json_object_get(record, "sites"), index, entry)
	{
		take_counters(run, entry);
	}
	return 0;
}

bool site_waits(const struct site_log *site)
{
	return !strcmp(site->reason, "learning") || !strcmp(site->reason, "budget");
}

/* Why a site that was seen is not replaced yet. */
static void explain_learning(const struct run_log *run, struct site_log *site)
{
	const json_t *options = json_object_get(run->header, "options");
	const unsigned long long agreed = site->counters.agreed;
	const unsigned long long wanted = strtoull(text_of(options, "FASHIM_LEARN"), NULL, 10);

	if (agreed < wanted)
		snprintf(site->detail, sizeof(site->detail), "%llu of %llu comparisons agreed",
			 agreed, wanted);
	else
		copy_text(site->detail, sizeof(site->detail), "not yet seen to be faster");
}

static void finish_run(struct run_log *run)
{
	if (!run->counted && live_read(run))
		copy_text(run->end, sizeof(run->end), "unknown");
	for (uint32_t i = 0; i < run->site_count; i++)
		if (run->sites[i] && site_waits(run->sites[i]))
			explain_learning(run, run->sites[i]);
}

void log_set_remove(struct log_set *set, int index)
{
	run_free(set->runs[index]);
	set->count--;
	memmove(set->runs + index, set->runs + index + 1,
		(size_t)(set->count - index) * sizeof(*set->runs));
}

void log_set_free(struct log_set *set)
{
	for (int i = 0; i < set->count; i++)
		run_free(set->runs[i]);
	free(set->runs);
	*set = (struct log_set){0};
}

static int start_run(struct log_set *set, const char *path, json_t *header)
{
	struct run_log **runs = realloc(set->runs, (size_t)(set->count + 1) * sizeof(*runs));
	struct run_log *run = runs ? calloc(1, sizeof(*run)) : NULL;
	double version = number_of(header, "version", 0);

	if (runs)
		set->runs = runs;
	if (!run)
		return problem(set, -ENOMEM, "out of memory");
	if (set->count >= MOST_RUNS) {
		free(run);
		return problem(set, -E2BIG, "more than %d runs; name fewer at a time", MOST_RUNS);
	}
	if (version != floor(version) || version < LOG_OLDEST_VERSION ||
	    version > LOG_FORMAT_VERSION) {
		free(run);
		return problem(set, -EPROTO, "log format version %g; this fashim reads %s%d",
			       version,
			       LOG_OLDEST_VERSION < LOG_FORMAT_VERSION ? "the last two, up to "
								       : "version ",
			       LOG_FORMAT_VERSION);
	}
	run->path = strdup(path);
	run->header = json_incref(header);
	run->simulated = !strncmp(text_of(header, "gpu"), "simgpu", 6);
	set->runs[set->count++] = run;
	return 0;
}

/* One record other than a fast-path sample. */
static int take_record(struct log_set *set, const char *path, json_t *record, struct run_log **run,
		       uint32_t keep_site)
{
	static const struct {
		const char *type;
		int (*take)(struct run_log *run, const json_t *record);
	} takers[] = {
		{"state", take_state},
		{"decline", take_decline},
		{"materialise", take_materialise},
		{"copy", take_copy},
		{"forgotten", take_counters},
	};
	const char *type = text_of(record, "type");
	int result;

	if (!strcmp(type, "header")) {
		if (strcmp(text_of(record, "format"), LOG_FORMAT_NAME))
			return problem(set, -EBADMSG,
				       "no fashim log (its header is of another format)");
		if (*run)
			finish_run(*run);
		result = start_run(set, path, record);
		*run = result ? NULL : set->runs[set->count - 1];
		return result;
	}
	if (!*run)
		return problem(set, -EBADMSG, "no fashim log (it does not start with a header)");
	if (!strcmp(type, "site"))
		return take_site(*run, record);
	if (!strcmp(type, "summary"))
		return take_summary(*run, record);
	if (!strcmp(type, "violation")) {
		if (!(*run)->violations++)
			copy_text((*run)->violation, sizeof((*run)->violation),
				  text_of(record, "what"));
		return 0;
	}
	if (!strcmp(type, "sample")) {
		/* Spelt in an order that the scanner's shortcut does not look for. */
		char *line = json_dumps(record, JSON_COMPACT);
		struct sample sample;

		result = line ? sample_scan(line, strlen(line), &sample) : -ENOMEM;
		free(line);
		return result ? result : take_sample(set, *run, &sample, keep_site);
	}
	for (size_t i = 0; i < sizeof(takers) / sizeof(*takers); i++) {
		if (!strcmp(type, takers[i].type))
			return takers[i].take(*run, record);
	}
	return 0; /* a type of a later version */
}

static int take_line(struct log_set *set, const char *path, const char *line, size_t length,
		     struct run_log **run, uint32_t keep_site)
{
	static const char shortcut[] = "{\"type\":\"sample\",";
	json_t *record;
	int result;

	if (*run && length > sizeof(shortcut) && !memcmp(line, shortcut, sizeof(shortcut) - 1)) {
		struct sample sample;

		result = sample_scan(line, length, &sample);
		return result ? result : take_sample(set, *run, &sample, keep_site);
	}
	record = json_loadb(line, length, JSON_ALLOW_NUL, NULL);
	if (!json_is_object(record)) {
		json_decref(record);
		return -EBADMSG;
	}
	result = take_record(set, path, record, run, keep_site);
	if (!result && set->observer && set->observer->record &&
	    strcmp(text_of(record, "type"), "sample"))
		result = set->observer->record(set->observer->context, *run, record);
	json_decref(record);
	return result;
}

/* A record of who ran, or of how it ended, as the shim spells it. */
static bool is_head(const char *line, size_t length)
{
	static const char header[] = "{\"type\":\"header\"", summary[] = "{\"type\":\"summary\"";

	return (length >= sizeof(header) && !memcmp(line, header, sizeof(header) - 1)) ||
	       (length >= sizeof(summary) && !memcmp(line, summary, sizeof(summary) - 1));
}

/* Whether the run just read from has more in it than the file can have told. */
static bool too_much(struct weight *weight, const struct run_log *run)
{
	if (run != weight->run) {
		weight->sites += weight->run ? weight->run->site_count : 0;
		weight->reasons += weight->run ? (uint64_t)weight->run->reason_count : 0;
		weight->run = run;
	}
	return run && (run->site_count > MOST_SITES ||
		       weight->sites + run->site_count > FREE_SITES + weight->bytes / SITE_BYTES ||
		       weight->reasons + (uint64_t)run->reason_count >
			       FREE_REASONS + weight->bytes / REASON_BYTES);
}

static int read_lines(struct log_set *set, const char *path, struct line_reader *reader,
		      uint32_t keep_site)
{
	const double size = (double)line_reader_size(reader);
	struct weight weight = {.run = NULL};
	struct run_log *run = NULL;
	uint64_t number = 0;
	size_t length = 0;
	bool complete = true;
	char *line = NULL;
	int more, result = 0;

	while ((more = line_reader_next(reader, &line, &length, &complete)) > 0) {
		if (!length)
			continue;
		number++;
		progress(path, (double)(weight.bytes + number), size, "bytes");
		if (run && set->heads_only && !is_head(line, length)) {
			weight.bytes += length;
			continue;
		}
		result = take_line(set, path, line, length, &run, keep_site);
		if (run && result == -EBADMSG) {
			if (complete)
				run->unreadable++;
			else
				run->truncated = true;
			result = 0;
		}
		weight.bytes += length;
		if (!result && too_much(&weight, run))
			result = problem(set, -E2BIG,
					 "more sites or reasons than a log of its size can have; "
					 "what follows line %llu is left out",
					 (unsigned long long)number);
		if (result)
			break;
	}
	if (run)
		finish_run(run);
	if (more < 0 && more != -EBADMSG)
		return problem(set, more, "%s", strerror(-more));
	if (!number && !more)
		return problem(set, -ENODATA,
			       "empty log: the program ended before its first record, or the "
			       "disk was full");
	if (result == -EBADMSG && !*set->problem)
		return problem(set, -EBADMSG,
			       complete ? "no fashim log (line 1 is no JSON record)"
					: "its only line is cut short");
	if (more < 0)
		return problem(set, -EBADMSG, "%s (a line of more than 1 MiB)",
			       run ? "its rest is left out" : "no fashim log");
	if (result && !*set->problem)
		return problem(set, result, "%s", strerror(-result));
	return result;
}

int log_read(struct log_set *set, const char *path, uint32_t keep_site)
{
	struct line_reader reader;
	int result;

	*set->problem = '\0';
	result = line_reader_open(&reader, path);
	if (result)
		return problem(set, result, "%s", strerror(-result));
	result = read_lines(set, path, &reader, keep_site);
	progress_end();
	if (line_reader_close(&reader) && (!result || result == -ENODATA))
		return problem(set, -EBADMSG, "gzip cannot unpack it, or not all of it");
	return result;
}
