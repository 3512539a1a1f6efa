/* SPDX-License-Identifier: Apache-2.0
 *
 * A process keeps its LOG.live open, so the kernel knows its name.
 */
#include "tools/top/find_log.h"
#include "tools/base/tool.h"
#include "tools/read/live.h"
#include "tools/read/log_place.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIVE ".live"

static bool ends_live(const char *path)
{
	const size_t length = strlen(path);

	return length > strlen(LIVE) && !strcmp(path + length - strlen(LIVE), LIVE);
}

static char *without_live(const char *path)
{
	return strndup(path, strlen(path) - (ends_live(path) ? strlen(LIVE) : 0));
}

static char *log_of_process(long pid)
{
	char place[64], target[PATH_MAX];
	const struct dirent *entry;
	char *found = NULL;
	DIR *folder;

	if (kill((pid_t)pid, 0) && errno == ESRCH) {
		complain("there is no process %ld", pid);
		return NULL;
	}
	snprintf(place, sizeof(place), "/proc/%ld/fd", pid);
	folder = opendir(place);
	if (!folder) {
		complain("process %ld: %s", pid, strerror(errno));
		return NULL;
	}
	while (!found && (entry = readdir(folder)) != NULL) {
		const ssize_t length =
			readlinkat(dirfd(folder), entry->d_name, target, sizeof(target) - 1);

		target[length < 0 ? 0 : length] = '\0';
		if (ends_live(target) && access(target, R_OK) == 0)
			found = without_live(target);
	}
	closedir(folder);
	if (!found)
		complain("process %ld has no log: it runs without the shim, writes none, or has "
			 "not called cuBLAS yet; see fashim doctor %ld",
			 pid, pid);
	return found;
}

/* Appends to *paths, whose first is the newest. */
static void look_in(const char *folder, glob_t *paths)
{
	char *pattern;

	if (asprintf(&pattern, "%s*.jsonl" LIVE, folder) < 0)
		return;
	glob(pattern, paths->gl_pathc ? GLOB_APPEND : 0, NULL, paths);
	free(pattern);
}

static char *newest_running(int *others)
{
	char *state = log_place_state(false), *folder = NULL, *newest = NULL;
	struct timespec latest = {0};
	glob_t found = {0};

	look_in("", &found);
	if (state && asprintf(&folder, "%s/", state) >= 0)
		look_in(folder, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *log = without_live(found.gl_pathv[i]);
		struct stat info;

		if (!log || !live_runs(log) || stat(found.gl_pathv[i], &info)) {
			free(log);
			continue;
		}
		*others += newest != NULL;
		if (newest && (info.st_mtim.tv_sec < latest.tv_sec ||
			       (info.st_mtim.tv_sec == latest.tv_sec &&
				info.st_mtim.tv_nsec <= latest.tv_nsec))) {
			free(log);
			continue;
		}
		latest = info.st_mtim;
		free(newest);
		newest = log;
	}
	if (!newest)
		complain("no process that is running has its log here (*.jsonl); name its log or "
			 "its number");
	globfree(&found);
	free(folder);
	free(state);
	return newest;
}

char *find_log(const char *what, int *others)
{
	char *end;
	long pid;

	*others = 0;
	if (!what)
		return newest_running(others);
	pid = strtol(what, &end, 10);
	if (*what >= '0' && *what <= '9' && !*end && access(what, F_OK))
		return log_of_process(pid);
	return without_live(what);
}
