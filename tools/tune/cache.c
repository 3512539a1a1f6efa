/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing is reading, replacing a line, and renaming a new file over the old one, under a lock on
 * the folder, which needs no file of its own.
 */
#include "tools/tune/cache.h"
#include "tools/base/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const struct {
	const char *key;
	size_t place; /* of a double in struct tune_result */
} numbers[] = {
	{"us", offsetof(struct tune_result, us)},
	{"built_in_us", offsetof(struct tune_result, built_in_us)},
	{"spread_us", offsetof(struct tune_result, spread_us)},
	{"built_in_spread_us", offsetof(struct tune_result, built_in_spread_us)},
	{"ratio", offsetof(struct tune_result, ratio)},
	{"low", offsetof(struct tune_result, low)},
	{"high", offsetof(struct tune_result, high)},
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static double *number_in(struct tune_result *result, size_t which)
{
	void *at = (char *)result + numbers[which].place;

	return at;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_text(const char *path, char **text)
{
	FILE *file = fopen(path, "re");
	size_t size;
	int result = 0;

	*text = NULL;
	if (!file)
		return -errno;
	*text = calloc(1, TUNED_LARGEST + 1);
	size = *text ? fread(*text, 1, TUNED_LARGEST + 1, file) : 0;
	if (!*text)
		result = -ENOMEM;
	else if (ferror(file))
		result = -errno;
	else if (size > TUNED_LARGEST)
		result = -EFBIG;
	fclose(file);
	if (result) {
		free(*text);
		*text = NULL;
	}
	return result;
}

static void read_member(struct tune_result *result, const char *member)
{
	const char *value = strchr(member, '=');

	if (!value)
		return;
	if (!strncmp(member, "built_in=", strlen("built_in=")))
		snprintf(result->built_in, sizeof(result->built_in), "%s", value + 1);
	for (size_t i = 0; i < NUMBERS; i++)
		if (strlen(numbers[i].key) == (size_t)(value - member) &&
		    !strncmp(numbers[i].key, member, (size_t)(value - member)))
			*number_in(result, i) = strtod(value + 1, NULL);
}

static void read_result(struct tune_result *result, const struct tuned_line *line)
{
	char *members = strndup(line->more, (size_t)line->more_length), *rest = members, *member;

	*result = (struct tune_result){.form = line->form, .choice = line->choice};
	for (size_t i = 0; i < NUMBERS; i++)
		*number_in(result, i) = NAN;
	snprintf(result->kernel, sizeof(result->kernel), "%.*s", line->kernel_length, line->kernel);
	while (members && (member = strsep(&rest, " ")))
		read_member(result, member);
	free(members);
}

int tune_cache_read(struct tune_cache *cache, const char *path)
{
	struct tuned_line line;
	char *text;
	const char *at;
	int result = read_text(path, &text);

	memset(cache, 0, sizeof(*cache));
	if (!result)
		result = tuned_header(text, &cache->machine, &at);
	while (!result && tuned_next(&at, &line)) {
		struct tune_result *more =
			reallocarray(cache->results, (size_t)cache->count + 1, sizeof(*more));

		if (!more) {
			result = -ENOMEM;
			break;
		}
		cache->results = more;
		read_result(&more[cache->count++], &line);
	}
	free(text);
	return result;
}

void tune_cache_free(struct tune_cache *cache)
{
	free(cache->results);
	memset(cache, 0, sizeof(*cache));
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The folder, locked, as a descriptor; or -errno. */
static int lock_folder(const char *path)
{
	char *copy = strdup(path);
	int fd, result;

	if (!copy)
		return -ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	if (fd < 0)
		return -errno;
	while ((result = flock(fd, LOCK_EX)) && errno == EINTR)
		;
	if (result) {
		result = -errno;
		close(fd);
		return result;
	}
	return fd;
}

static void write_header(FILE *out, const struct tuned_machine *machine)
{
	fprintf(out, "%s %d\ngpu %s\ndriver %d\nbuild %016llx\n", TUNED_NAME, TUNED_VERSION,
		machine->gpu, machine->driver, (unsigned long long)machine->build);
}

static void write_result(FILE *out, const struct tune_result *result)
{
	struct tune_result copy = *result;
	char form[FORM_TEXT];

	fprintf(out, "%s %s %s built_in=%s", result->choice ? "choice" : "kept",
		call_form_text(&result->form, form), result->kernel, result->built_in);
	for (size_t i = 0; i < NUMBERS; i++) {
		const double value = *number_in(&copy, i);

		if (!isnan(value))
			fprintf(out, " %s=%.5g", numbers[i].key, value);
	}
	fputc('\n', out);
}

/* The lines of a text, less those about the form. */
static void copy_others(FILE *out, const char *text, const struct call_form *form)
{
	while (*text) {
		const size_t length = strcspn(text, "\n");
		char *one = strndup(text, length);
		const char *at = one;
		struct tuned_line line;

		if (one && !(tuned_next(&at, &line) && !memcmp(&line.form, form, sizeof(*form))))
			fprintf(out, "%s\n", one);
		free(one);
		text += length + (text[length] == '\n');
	}
}

/* What the file says below its first lines: "" where there is no file. */
static int read_others(const char *path, const struct tuned_machine *machine, char **text,
		       const char **others)
{
	struct tuned_machine theirs;
	int result = read_text(path, text);

	*others = "";
	if (result == -ENOENT)
		return 0;
	if (!result &&
	    (tuned_header(*text, &theirs, others) || !tuned_same_machine(&theirs, machine)))
		result = -EEXIST;
	return result;
}

static int replace_file(const char *path, const struct tuned_machine *machine,
			const struct tune_result *result, const char *others)
{
	char *fresh;
	FILE *out = NULL;
	int fd, error = 0;

	if (asprintf(&fresh, "%s.XXXXXX", path) < 0)
		return -ENOMEM;
	fd = mkostemp(fresh, O_CLOEXEC);
	if (fd >= 0)
		out = fdopen(fd, "w");
	if (!out) {
		error = -errno;
		goto out;
	}
	write_header(out, machine);
	copy_others(out, others, &result->form);
	write_result(out, result);
	if (fflush(out) || ferror(out) || fsync(fd))
		error = errno ? -errno : -EIO;
	if (fclose(out) && !error)
		error = -errno;
	if (!error && rename(fresh, path))
		error = -errno;
out:
	if (error && fd >= 0)
		unlink(fresh);
	free(fresh);
	return error;
}

int tune_cache_put(const char *path, const struct tuned_machine *machine,
		   const struct tune_result *result)
{
	const char *others;
	char *text = NULL;
	int lock, error;

	if (!*result->kernel)
		return -ENODATA;
	error = make_folders(path);
	if (error)
		return error;
	lock = lock_folder(path);
	if (lock < 0)
		return lock;
	error = read_others(path, machine, &text, &others);
	if (!error)
		error = replace_file(path, machine, result, others);
	free(text);
	close(lock);
	return error;
}
