/* SPDX-License-Identifier: Apache-2.0
 *
 * From the arguments of a command to a set of runs, with a word on stderr for each file that is not
 * what it should be.
 */
#include "tools/read/log_paths.h"
#include "tools/base/tool.h"
#include "tools/read/log_place.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Reads one file into the set and says on stderr what is wrong with it. */
static int read_file(struct log_set *set, const char *path, uint32_t site)
{
	int before = set->count;
	int result = log_read(set, path, site);

	if (result)
		complain("%s: %s", path, set->problem);
	for (int i = before; i < set->count; i++) {
		if (set->runs[i]->unreadable)
			complain("%s: %llu unreadable lines skipped", path,
				 (unsigned long long)set->runs[i]->unreadable);
		if (set->runs[i]->truncated)
			complain("%s: the last line is cut short and was ignored", path);
	}
	return result;
}

static int is_log(const struct dirent *entry)
{
	const size_t length = strlen(entry->d_name);
	const char *const end = entry->d_name + length;

	return (length > 6 && !strcmp(end - 6, ".jsonl")) ||
	       (length > 9 && !strcmp(end - 9, ".jsonl.gz"));
}

static int read_directory(struct log_set *set, const char *path, uint32_t site)
{
	struct dirent **entries = NULL;
	int count = scandir(path, &entries, is_log, alphasort);
	int result = 0;

	if (count <= 0) {
		complain("%s: %s", path, count ? strerror(errno) : "no *.jsonl in this directory");
		free(entries);
		return -ENOENT;
	}
	for (int i = 0; i < count; i++) {
		char *file;

		if (asprintf(&file, "%s/%s", path, entries[i]->d_name) >= 0) {
			if (read_file(set, file, site))
				result = -EBADMSG;
			free(file);
		}
		free(entries[i]);
	}
	free(entries);
	return result;
}

int log_set_read(struct log_set *set, const char *path, uint32_t keep_site)
{
	struct stat info;
	bool directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);

	return directory ? read_directory(set, path, keep_site) : read_file(set, path, keep_site);
}

/* Whether a file's first line is a log's, as the shim writes it; other programs write *.jsonl, too.
 */
static bool begins_a_log(const char *path)
{
	static const char head[] = "{\"type\":\"header\",\"format\":\"" LOG_FORMAT_NAME "\"";
	char begin[sizeof(head) - 1];
	FILE *file = fopen(path, "re");
	const bool is = file && fread(begin, sizeof(begin), 1, file) == 1 &&
			!memcmp(begin, head, sizeof(begin));

	if (file)
		fclose(file);
	return is;
}

/* The newest log of a folder, malloc'ed, or NULL. */
static char *newest_in(const char *folder)
{
	char *pattern = NULL, *newest = NULL;
	struct timespec latest = {0};
	glob_t found = {0};

	if (asprintf(&pattern, "%s*.jsonl", folder) < 0)
		return NULL;
	glob(pattern, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct stat info;

		if (stat(found.gl_pathv[i], &info) || !S_ISREG(info.st_mode))
			continue;
		if (newest && (info.st_mtim.tv_sec < latest.tv_sec ||
			       (info.st_mtim.tv_sec == latest.tv_sec &&
				info.st_mtim.tv_nsec < latest.tv_nsec)))
			continue;
		if (!begins_a_log(found.gl_pathv[i]))
			continue;
		latest = info.st_mtim;
		free(newest);
		newest = strdup(found.gl_pathv[i]);
	}
	globfree(&found);
	free(pattern);
	return newest;
}

char *log_paths_newest(void)
{
	char *newest = newest_in(""), *state = newest ? NULL : log_place_state(false);
	char *folder = NULL;

	if (state && asprintf(&folder, "%s/", state) >= 0)
		newest = newest_in(folder);
	free(folder);
	free(state);
	return newest;
}
