/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the cache as it finds it: nobody promises that the file is whole, or ours.
 */
#include "shim/gpu/tuned_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it is for ------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const void *data, size_t bytes)
{
	uint64_t word;
	size_t i;

	for (i = 0; i + sizeof(word) <= bytes; i += sizeof(word)) {
		memcpy(&word, (const char *)data + i, sizeof(word));
		hash = mix(hash, word);
	}
	word = 0;
	memcpy(&word, (const char *)data + i, bytes - i);
	return mix(mix(hash, word), bytes);
}

uint64_t tuned_number(const void *data, size_t bytes)
{
	return mix_bytes(0, data, bytes);
}

uint64_t tuned_build(const void *image, size_t bytes)
{
	uint64_t hash = mix_bytes(0, image, bytes);

	for (int i = 0; i < attn_variant_total; i++)
		hash = mix_bytes(hash, attn_variants[i].name, strlen(attn_variants[i].name));
	return hash;
}

int tuned_folder(char *path, size_t size)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	int length;

	if (cache && *cache == '/')
		length = snprintf(path, size, "%s/fashim", cache);
	else if (home && *home == '/')
		length = snprintf(path, size, "%s/.cache/fashim", home);
	else
		return -ENOENT;
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

static bool plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '-';
}

int tuned_name(const struct tuned_machine *machine, char *name, size_t size)
{
	char gpu[sizeof(machine->gpu)];
	int length;

	snprintf(gpu, sizeof(gpu), "%s", machine->gpu);
	for (char *c = gpu; *c; c++)
		if (!plain(*c))
			*c = '_';
	length = snprintf(name, size, TUNED_PREFIX "%s-%d-%016llx" TUNED_SUFFIX, gpu,
			  machine->driver, (unsigned long long)machine->build);
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

bool tuned_same_machine(const struct tuned_machine *a, const struct tuned_machine *b)
{
	return !strcmp(a->gpu, b->gpu) && a->driver == b->driver && a->build == b->build;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* The next line without its end; NULL: there is none. */
static const char *next_line(const char **text, int *length)
{
	const char *line = *text;

	if (!*line)
		return NULL;
	*length = (int)strcspn(line, "\n");
	*text = line + *length + (line[*length] == '\n');
	return line;
}

/* What follows `word` and a blank on the next line, as a string; NULL: not that line. */
static const char *value_of(const char **text, const char *word, char *value, size_t size)
{
	const size_t letters = strlen(word);
	int length;
	const char *line = next_line(text, &length);

	if (!line || (size_t)length <= letters || strncmp(line, word, letters) ||
	    line[letters] != ' ' || (size_t)length - letters > size)
		return NULL;
	length -= (int)letters + 1;
	memcpy(value, line + letters + 1, (size_t)length);
	value[length] = '\0';
	return value;
}

static bool number_of(const char *text, int base, unsigned long long *number)
{
	char *end;

	*number = strtoull(text, &end, base);
	return end != text && !*end && *text != '-';
}

int tuned_header(const char *text, struct tuned_machine *machine, const char **rest)
{
	unsigned long long number;
	char value[64];

	memset(machine, 0, sizeof(*machine));
	if (!value_of(&text, TUNED_NAME, value, sizeof(value)) || !number_of(value, 10, &number))
		return -EINVAL;
	if (number != TUNED_VERSION)
		return -EPROTO;
	if (!value_of(&text, "gpu", machine->gpu, sizeof(machine->gpu)))
		return -EINVAL;
	if (!value_of(&text, "driver", value, sizeof(value)) || !number_of(value, 10, &number) ||
	    number > INT32_MAX)
		return -EINVAL;
	machine->driver = (int)number;
	if (!value_of(&text, "build", value, sizeof(value)) || !number_of(value, 16, &number))
		return -EINVAL;
	machine->build = number;
	*rest = text;
	return 0;
}

/* The next word of a line, and *line behind it. */
static int word_of(const char **line, const char *end, const char **word)
{
	while (*line < end && **line == ' ')
		(*line)++;
	*word = *line;
	while (*line < end && **line != ' ')
		(*line)++;
	return (int)(*line - *word);
}

static bool same(const char *word, int length, const char *wanted)
{
	return (size_t)length == strlen(wanted) && !memcmp(word, wanted, (size_t)length);
}

static bool read_line(struct tuned_line *line, const char *at, const char *end)
{
	const char *word;
	int length = word_of(&at, end, &word);

	line->choice = same(word, length, "choice");
	if (!line->choice && !same(word, length, "kept"))
		return false;
	length = word_of(&at, end, &word);
	if (call_form_parse(&line->form, word, (size_t)length))
		return false;
	line->kernel_length = word_of(&at, end, &line->kernel);
	line->more = at;
	line->more_length = (int)(end - at);
	return line->kernel_length > 0;
}

bool tuned_next(const char **text, struct tuned_line *line)
{
	const char *begin;
	int length;

	while ((begin = next_line(text, &length)))
		if (read_line(line, begin, begin + length))
			return true;
	return false;
}
