/* SPDX-License-Identifier: Apache-2.0
 *
 * From two reports to their differences. Nothing is printed here.
 */
#include "tools/diff/diff.h"
#include "tools/sites/report_names.h"
#include "tools/sites/site_values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum diff_change diff_change(const struct bootstrap_interval *interval)
{
	if (isnan(interval->low))
		return DIFF_UNKNOWN;
	if (interval->high < 1)
		return DIFF_LESS;
	return interval->low > 1 ? DIFF_MORE : DIFF_SAME;
}

bool diff_changed(const struct diff_site *site)
{
	const struct bootstrap_interval *intervals[] = {&site->app, &site->fused, &site->drift};

	if (!site->pair.a || !site->pair.b ||
	    strcmp(report_verdict(site->pair.a), report_verdict(site->pair.b)))
		return true;
	for (size_t i = 0; i < sizeof(intervals) / sizeof(*intervals); i++) {
		enum diff_change change = diff_change(intervals[i]);

		if (change == DIFF_LESS || change == DIFF_MORE)
			return true;
	}
	return false;
}

static bool all_zero(const double *values, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (values[i] != 0)
			return false;
	}
	return count > 0;
}

/* Drift may be zero, bit for bit, which is no ratio: zero against zero is 1 and certain. */
static int compare_drift(const struct site_values *a, const struct site_values *b,
			 struct bootstrap_interval *interval)
{
	if (all_zero(a->drift, a->drifts) && all_zero(b->drift, b->drifts)) {
		*interval = (struct bootstrap_interval){1, 1, 1};
		return 0;
	}
	return bootstrap_ratio(b->drift, b->drifts, a->drift, a->drifts, BOOTSTRAP_SEED, interval);
}

static const struct bootstrap_interval unknown = {NAN, NAN, NAN};

/* Too few samples, or times that are none, leave an interval unknown, and that is the answer. */
static int compare_site(struct diff_site *site, const struct site_values *a,
			const struct site_values *b)
{
	site->app = site->fused = site->drift = unknown;
	if (bootstrap_ratio(b->app, b->timed, a->app, a->timed, BOOTSTRAP_SEED, &site->app) ==
		    -ENOMEM ||
	    bootstrap_ratio(b->fused, b->timed, a->fused, a->timed, BOOTSTRAP_SEED, &site->fused) ==
		    -ENOMEM ||
	    compare_drift(a, b, &site->drift) == -ENOMEM)
		return -ENOMEM;
	return 0;
}

static double calls_of(const struct report_row *row)
{
	return row->site->counted ? (double)row->site->counters.seen : (double)row->site->samples;
}

static int compare_all(struct diff *diff, const struct site_values *a, const struct site_values *b)
{
	struct bootstrap_part *app = calloc(2 * (size_t)diff->site_count + 1, sizeof(*app));
	struct bootstrap_part *fused = app + diff->site_count;
	size_t count = 0;
	int result = app ? 0 : -ENOMEM;

	diff->app = diff->fused = unknown;
	for (int i = 0; i < diff->site_count && !result; i++) {
		const struct diff_site *site = &diff->sites[i];

		if (isnan(site->app.low) || isnan(site->fused.low))
			continue;
		app[count] = (struct bootstrap_part){b[i].app, b[i].timed, a[i].app, a[i].timed,
						     calls_of(site->pair.a)};
		fused[count++] = (struct bootstrap_part){b[i].fused, b[i].timed, a[i].fused,
							 a[i].timed, calls_of(site->pair.a)};
	}
	diff->timed = (int)count;
	if (count && (bootstrap_sum_ratio(app, count, BOOTSTRAP_SEED, &diff->app) == -ENOMEM ||
		      bootstrap_sum_ratio(fused, count, BOOTSTRAP_SEED, &diff->fused) == -ENOMEM))
		result = -ENOMEM;
	free(app);
	return result;
}

static int compare(struct diff *diff)
{
	struct site_values *a = calloc(2 * (size_t)diff->site_count + 1, sizeof(*a));
	struct site_values *b = a + diff->site_count;
	int result = a ? 0 : -ENOMEM;

	for (int i = 0; i < diff->site_count && !result; i++) {
		struct diff_site *site = &diff->sites[i];

		if (site->pair.a)
			result = site_values_read(&a[i], site->pair.a);
		if (!result && site->pair.b)
			result = site_values_read(&b[i], site->pair.b);
		if (!result)
			result = compare_site(site, &a[i], &b[i]);
	}
	if (!result)
		result = compare_all(diff, a, b);
	for (int i = 0; a && i < 2 * diff->site_count; i++)
		site_values_free(&a[i]);
	free(a);
	return result;
}

/* ---- what the headers say -----------------------------------------------------------------------
 */

static void version_text(char *buffer, size_t size, double number, int major, int minor)
{
	int version = number > 0 && number < 1e8 ? (int)number : 0;

	if (!version)
		snprintf(buffer, size, "unknown");
	else if (minor == 10)
		snprintf(buffer, size, "%d.%d", version / major, version % major / minor);
	else
		snprintf(buffer, size, "%d.%d.%d", version / major, version / minor % minor,
			 version % minor);
}

static void add_header(struct diff *diff, const char *name, const char *a, const char *b)
{
	struct diff_header *header = &diff->headers[diff->header_count];

	if (!strcmp(a, b) || diff->header_count == MOST_DIFF_HEADERS)
		return;
	header->name = name;
	snprintf(header->a, sizeof(header->a), "%s", *a ? a : "unknown");
	snprintf(header->b, sizeof(header->b), "%s", *b ? b : "unknown");
	diff->header_count++;
}

static void compare_versions(struct diff *diff, const json_t *a, const json_t *b)
{
	static const struct {
		const char *name, *key;
		int major, minor;
	} versions[] = {{"driver", "driver", 1000, 10}, {"cuBLAS", "cublas", 10000, 100}};
	char text_a[32], text_b[32];

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		version_text(text_a, sizeof(text_a), number_of(a, versions[i].key, 0),
			     versions[i].major, versions[i].minor);
		version_text(text_b, sizeof(text_b), number_of(b, versions[i].key, 0),
			     versions[i].major, versions[i].minor);
		add_header(diff, versions[i].name, text_a, text_b);
	}
}

/* FASHIM is the mode, FASHIM_OUT and FASHIM_RECORD name files: neither changes what is measured. */
static void compare_options(struct diff *diff, const json_t *a, const json_t *b)
{
	static const char *const aside[] = {"FASHIM", "FASHIM_OUT", "FASHIM_RECORD", "FASHIM_LOG"};
	json_t *options = json_object_get(a, "options"), *value;
	const json_t *others = json_object_get(b, "options");
	const char *name;

	json_object_foreach(options, name, value)
	{
		bool skip =
			!json_is_string(json_object_get(others, name)) || !json_is_string(value);

		for (size_t i = 0; i < sizeof(aside) / sizeof(*aside); i++)
			skip |= !strcmp(name, aside[i]);
		if (!skip)
			add_header(diff, name, json_string_value(value), text_of(others, name));
	}
}

static void compare_headers(struct diff *diff)
{
	static const char *const members[][2] = {
		{"GPU", "gpu"}, {"fashim", "fashim"}, {"mode", "mode"}, {"host", "host"}};
	const struct run_log *a = diff->a->set.runs[0], *b = diff->b->set.runs[0];
	char *command_a = report_command(a), *command_b = report_command(b);

	if (command_a && command_b)
		add_header(diff, "program", command_a, command_b);
	free(command_a);
	free(command_b);
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		add_header(diff, members[i][0], text_of(a->header, members[i][1]),
			   text_of(b->header, members[i][1]));
	compare_versions(diff, a->header, b->header);
	compare_options(diff, a->header, b->header);
	diff->other_machine = strcmp(text_of(a->header, "gpu"), text_of(b->header, "gpu")) != 0;
	diff->simulated = a->simulated || b->simulated;
}

int diff_build(struct diff *diff, const struct report *a, const struct report *b)
{
	struct site_pair *pairs;
	int result;

	*diff = (struct diff){.a = a, .b = b};
	compare_headers(diff);
	result = site_match(a, b, &pairs, &diff->site_count);
	if (result)
		return result;
	diff->sites = calloc((size_t)diff->site_count + 1, sizeof(*diff->sites));
	if (!diff->sites)
		result = -ENOMEM;
	for (int i = 0; i < diff->site_count && !result; i++) {
		diff->sites[i].pair = pairs[i];
		diff->common += pairs[i].a && pairs[i].b;
		diff->by_shape += pairs[i].how == SITE_LIKE_SHAPE;
		diff->only_a += !pairs[i].b;
		diff->only_b += !pairs[i].a;
	}
	free(pairs);
	return result ? result : compare(diff);
}

void diff_free(struct diff *diff)
{
	free(diff->sites);
	*diff = (struct diff){0};
}
