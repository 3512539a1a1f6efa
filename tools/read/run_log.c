/* SPDX-License-Identifier: Apache-2.0
 *
 * The sites of a run, sorted by their numbers, and its reasons. Numbers come from a file that may
 * hold anything, so they size nothing: a site takes room when it is told of, not for its number.
 */
#include "tools/read/run_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the number is, or would go. */
static uint32_t place_of(const struct run_log *run, uint32_t number)
{
	uint32_t low = 0, high = run->site_count;

	/* Of a real log every number up to the last is there. */
	if (number <= high && run->sites[number - 1]->number == number)
		return number - 1;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (run->sites[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct site_log *new_site(uint32_t number)
{
	struct site_log *site = calloc(1, sizeof(*site));

	if (!site)
		return NULL;
	site->number = number;
	site->ranks = 1;
	site->max_abs = site->max_rel = site->beyond = NAN;
	return site;
}

struct site_log *run_site(struct run_log *run, uint32_t number)
{
	uint32_t place;

	if (!number)
		return NULL;
	place = place_of(run, number);
	if (place < run->site_count && run->sites[place]->number == number)
		return run->sites[place];
	if (run->site_count == run->site_room) {
		const uint32_t room = run->site_room ? 2 * run->site_room : 16;
		struct site_log **sites = realloc(run->sites, room * sizeof(*sites));

		if (!sites)
			return NULL;
		run->sites = sites;
		run->site_room = room;
	}
	memmove(run->sites + place + 1, run->sites + place,
		(run->site_count - place) * sizeof(*run->sites));
	run->sites[place] = new_site(number);
	if (run->sites[place]) {
		run->site_count++;
		return run->sites[place];
	}
	memmove(run->sites + place, run->sites + place + 1,
		(run->site_count - place) * sizeof(*run->sites));
	return NULL;
}

uint32_t run_site_place(const struct run_log *run, uint32_t number)
{
	return place_of(run, number);
}

void run_drop_site(struct run_log *run, uint32_t place)
{
	struct site_log *site = run->sites[place];

	if (!site)
		return;
	json_decref(site->record);
	sample_points_free(&site->points);
	free(site->kept);
	free(site);
	run->sites[place] = NULL;
}

struct reason_tally *run_reason(struct run_log *run, const char *name)
{
	struct reason_tally *reasons;

	for (int i = 0; i < run->reason_count; i++) {
		if (!strncmp(run->reasons[i].name, name, sizeof(run->reasons[i].name) - 1))
			return &run->reasons[i];
	}
	if (run->reason_count >= 1024)
		return NULL;
	reasons = realloc(run->reasons, (size_t)(run->reason_count + 1) * sizeof(*reasons));
	if (!reasons)
		return NULL;
	run->reasons = reasons;
	reasons += run->reason_count++;
	memset(reasons, 0, sizeof(*reasons));
	snprintf(reasons->name, sizeof(reasons->name), "%s", name);
	return reasons;
}

bool site_times(const struct site_log *site, struct series *app, struct series *fused)
{
	*app = site->app;
	*fused = site->fused;
	if (site->app.count >= 2)
		return true;
	series_join(app, &site->first_app);
	series_join(fused, &site->first_fused);
	return false;
}

bool site_parts(const struct site_log *site, double us[PART_COUNT])
{
	for (int i = 0; i < PART_COUNT; i++) {
		struct series part = site->parts[i];

		if (site->app.count < 2)
			series_join(&part, &site->first_parts[i]);
		if (!part.count)
			return false;
		us[i] = part.mean;
	}
	return true;
}

void run_free(struct run_log *run)
{
	for (uint32_t i = 0; i < run->site_count; i++)
		run_drop_site(run, i);
	json_decref(run->header);
	free(run->sites);
	free(run->reasons);
	free(run->path);
	free(run);
}
