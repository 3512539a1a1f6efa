/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is the struct that the shim had mapped.
 */
#include "tools/read/live.h"
#include "shim/log/log_format.h"
#include "tools/read/line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const reason_names[] = {
#define REASON(id, name, sentence, hint) name,
#include "shim/log/reasons.def"
#undef REASON
};

static const char *const state_names[] = {"learning", "verified", "declined"};

static void take_site(struct run_log *run, uint32_t number, const struct live_site *live,
		      uint64_t replays)
{
	struct site_log *site = run_site(run, number);

	if (!site)
		return;
	if (live->state <= SITE_DECLINED)
		snprintf(site->state, sizeof(site->state), "%s", state_names[live->state]);
	if (live->reason < REASON_COUNT)
		snprintf(site->reason, sizeof(site->reason), "%s", reason_names[live->reason]);
	site->counters = (struct site_counters){
		.seen = live->seen,
		.replaced = live->replaced,
		.compared = live->compared,
		.agreed = live->agreed,
		.materialised = live->materialised,
		.snapshots = live->snapshots,
		.replays = replays,
		/* A loss wraps around. */
		.saved_us = run->simulated ? NAN : (double)(int64_t)live->saved_ns / 1e3,
	};
	if (live->seen > live->replaced + live->compared)
		site->counters.passed = live->seen - live->replaced - live->compared;
	site->counted = true;
}

/* The process may be alive: then its counters are of the moment, not of its end. */
static bool still_running(const json_t *header)
{
	char host[256] = "";
	const double number = number_of(header, "pid", 0);
	const pid_t pid = number > 0 && number < 1e9 ? (pid_t)number : 0;

	if (gethostname(host, sizeof(host) - 1) || strcmp(host, text_of(header, "host")))
		return false;
	return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

/* Until now, or until the file was written last: a killed process went on for a while. 0: a shim
 * that noted the time at the end alone was killed. */
static double duration_us(const struct live_file *live, bool running)
{
	struct timespec now;
	uint64_t end = live->last_ns;

	if (running && clock_gettime(CLOCK_REALTIME, &now) == 0)
		end = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return end > live->start_ns ? (double)(end - live->start_ns) / 1e3 : 0;
}

bool live_runs(const char *log)
{
	struct line_reader reader;
	bool complete, runs = false;
	size_t length;
	char *line;

	if (line_reader_open(&reader, log))
		return false;
	if (line_reader_next(&reader, &line, &length, &complete) > 0) {
		json_t *header = json_loadb(line, length, JSON_ALLOW_NUL, NULL);

		runs = header && still_running(header);
		json_decref(header);
	}
	line_reader_close(&reader);
	return runs;
}

int live_read(struct run_log *run)
{
	bool running;
	size_t length = strlen(run->path) + sizeof(".live");
	char *path = malloc(length);
	struct live_file *live = malloc(sizeof(*live));
	int fd = -1, result = -ENOMEM;

	if (!path || !live)
		goto out;
	result = -ENOENT;
	if (!strcmp(run->path, "-"))
		goto out;
	snprintf(path, length, "%s.live", run->path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	result = fd < 0 ? -errno : 0;
	if (result)
		goto out;
	result = -EPROTO;
	memset(live, 0, sizeof(*live));
	length = (size_t)read(fd, live, sizeof(*live));
	if ((length != sizeof(*live) && length != LIVE_WITH_REPLAYS && length != LIVE_WITH_COSTS &&
	     length != LIVE_LEAST) ||
	    memcmp(live->magic, LIVE_MAGIC, sizeof(live->magic)) || live->version != LIVE_VERSION)
		goto out;
	for (uint32_t i = 0; i < live->site_count && i < LIVE_SITES; i++)
		take_site(run, i + 1 + (uint32_t)live->sites[i].turn * LIVE_SITES, &live->sites[i],
			  live->replays[i]);
	for (int i = 0; i < REASON_COUNT; i++) {
		struct reason_tally *tally =
			live->reasons[i] ? run_reason(run, reason_names[i]) : NULL;

		if (tally)
			tally->count = live->reasons[i];
	}
	running = still_running(run->header);
	run->wall_us = duration_us(live, running);
	run->overhead_us = (double)live->overhead_ns / 1e3;
	for (int i = 0; i < PURPOSE_COUNT; i++) {
		run->cost_us[i] = (double)live->cost_ns[i] / 1e3;
		run->cost_gpu_us[i] = (double)live->cost_gpu_ns[i] / 1e3;
	}
	run->gemms = live->gemms;
	run->launches = live->launches;
	run->scratch_peak = live->scratch_peak;
	run->copies_held = live->copies_held;
	run->copies_made = live->copies_made;
	run->copies_unfit = live->copies_unfit;
	run->rests = live->rests;
	run->rest_us = (double)live->rest_ns / 1e3;
	run->counted = true;
	snprintf(run->end, sizeof(run->end), running ? "running" : "killed");
	result = 0;
out:
	if (fd >= 0)
		close(fd);
	free(live);
	free(path);
	return result;
}
