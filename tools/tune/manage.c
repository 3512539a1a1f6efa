/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches are read one by one; one that cannot be does not hide the others.
 */
#include "tools/tune/manage.h"
#include "tools/base/tool.h"
#include "tools/tune/cache.h"
#include "tools/tune/files.h"
#include "tools/tune/print.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tune_list(const char *named, enum format format)
{
	struct tune_section *sections;
	int shown = 0, code = EXIT_OK;
	char **files;
	const int count = tune_files(named, &files);

	if (count < 0)
		return EXIT_FAILED;
	sections = calloc((size_t)count + 1, sizeof(*sections));
	for (int i = 0; sections && i < count; i++) {
		struct tune_cache cache;
		const int error = tune_cache_read(&cache, files[i]);

		if (error) {
			complain("%s: %s", files[i],
				 error == -EPROTO   ? "of another version"
				 : error == -EINVAL ? "no tuning cache"
						    : strerror(-error));
			code = EXIT_FAILED;
			tune_cache_free(&cache);
			continue;
		}
		sections[shown++] = (struct tune_section){.machine = cache.machine,
							  .path = files[i],
							  .results = cache.results,
							  .count = cache.count};
	}
	if (shown || format == FORMAT_JSON)
		tune_print(sections, shown, format);
	else if (code == EXIT_OK)
		complain("nothing was tuned here yet");
	for (int i = 0; i < shown; i++)
		free(sections[i].results);
	free(sections);
	tune_files_free(files, count);
	return code;
}

/* What is no cache of ours is left alone. */
static int remove_file(const char *file)
{
	struct tune_cache cache;
	int error = tune_cache_read(&cache, file);

	tune_cache_free(&cache);
	if (!error || error == -EPROTO)
		error = unlink(file) ? -errno : 0;
	if (error)
		complain("%s: %s", file, error == -EINVAL ? "no tuning cache" : strerror(-error));
	else
		printf("removed %s\n", file);
	return error;
}

int tune_clear(const char *named)
{
	int code = EXIT_OK;
	char **files;
	const int count = tune_files(named, &files);

	if (count == 0)
		complain("nothing was tuned here yet");
	for (int i = 0; i < count; i++)
		if (remove_file(files[i]))
			code = EXIT_FAILED;
	tune_files_free(files, count);
	return count < 0 ? EXIT_FAILED : code;
}
