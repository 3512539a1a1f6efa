/* SPDX-License-Identifier: Apache-2.0
 *
 * From the arguments of a command to a set of runs, with a word on stderr for each file that is not
 * what it should be.
 */
#include "log_paths.h"
#include "tool.h"

#include <dirent.h>
#include <errno.h>
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
	const char *dot = strrchr(entry->d_name, '.');

	return dot && !strcmp(dot, ".jsonl");
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
