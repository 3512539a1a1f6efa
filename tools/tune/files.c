/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache in the folder is what is named as one.
 */
#include "tools/tune/files.h"
#include "tools/base/tool.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *tune_named_file(const char *named)
{
	const char *set = getenv("FASHIM_TUNE_CACHE");

	if (named)
		return named;
	return set && *set && strcmp(set, "off") ? set : NULL;
}

static int folder(char *path, size_t size)
{
	const int result = tuned_folder(path, size);

	if (result)
		complain("there is no place for a cache: neither XDG_CACHE_HOME nor HOME is an "
			 "absolute path");
	return result;
}

char *tune_file(const char *named, const struct tuned_machine *machine)
{
	char path[PATH_MAX], name[NAME_MAX + 1], *file;

	if (named)
		return strdup(named);
	if (folder(path, sizeof(path)) || tuned_name(machine, name, sizeof(name)) ||
	    asprintf(&file, "%s/%s", path, name) < 0)
		return NULL;
	return file;
}

static int is_cache(const struct dirent *entry)
{
	const size_t length = strlen(entry->d_name);

	return length > strlen(TUNED_SUFFIX) &&
	       !strncmp(entry->d_name, TUNED_PREFIX, strlen(TUNED_PREFIX)) &&
	       !strcmp(entry->d_name + length - strlen(TUNED_SUFFIX), TUNED_SUFFIX);
}

static int files_in_folder(char ***files)
{
	struct dirent **entries;
	char path[PATH_MAX];
	int count, result = folder(path, sizeof(path));

	if (result)
		return result;
	count = scandir(path, &entries, is_cache, alphasort);
	if (count < 0 && errno == ENOENT)
		return 0;
	if (count < 0) {
		result = -errno;
		complain("%s: %s", path, strerror(-result));
		return result;
	}
	*files = calloc((size_t)count + 1, sizeof(**files));
	for (int i = 0; i < count; i++) {
		if (*files && asprintf(&(*files)[i], "%s/%s", path, entries[i]->d_name) < 0)
			(*files)[i] = NULL;
		free(entries[i]);
	}
	free(entries);
	return *files ? count : -ENOMEM;
}

int tune_files(const char *named, char ***files)
{
	*files = NULL;
	if (!named)
		return files_in_folder(files);
	*files = calloc(1, sizeof(**files));
	if (!*files)
		return -ENOMEM;
	(*files)[0] = strdup(named);
	return 1;
}

void tune_files_free(char **files, int count)
{
	for (int i = 0; files && i < count; i++)
		free(files[i]);
	free(files);
}
