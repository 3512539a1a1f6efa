/* SPDX-License-Identifier: Apache-2.0
 *
 * config.def is expanded three times: fields, table of rows, and the place of each field for the
 * parser. Strings are copied, since the host may change its environment under us; numbers are read
 * and written without regard to the host's locale.
 */
#include "shim/base/config.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "shim/base/message.h"
#include "shim/base/names.h"
#include "shim/base/option.h"

extern char **environ;

static const struct row {
	const char *name, *initial;
	enum option_kind kind;
	size_t place; /* of the field in struct config */
} rows[] = {
#define OPTION(field, kind, name, initial, help)                                                   \
	{name, initial, OPTION_##kind, offsetof(struct config, field)},
#include "shim/base/config.def"
#undef OPTION
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

static struct config parsed;
static bool program_selected;
static char strings[16384]; /* what the STRING fields point to */
static size_t strings_used;
static atomic_bool ready;

static bool parse_string(const char *text, const char **string)
{
	const size_t size = strlen(text) + 1;

	if (size > sizeof(strings) - strings_used)
		return false;
	*string = memcpy(strings + strings_used, text, size);
	strings_used += size;
	return true;
}

static bool parse(const struct row *row, const char *text)
{
	void *field = (char *)&parsed + row->place;

	return row->kind == OPTION_STRING ? parse_string(text, field)
					  : option_parse(row->kind, text, field);
}

/* How many letters must change to turn `a` into `b` (Levenshtein). */
static unsigned distance(const char *a, size_t a_length, const char *b)
{
	const size_t b_length = strlen(b);
	unsigned row[64];

	if (b_length >= sizeof(row) / sizeof(row[0]))
		return ~0u;
	for (size_t j = 0; j <= b_length; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned diagonal = row[0];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			const unsigned change = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			row[j] = row[j] < row[j - 1] ? row[j] : row[j - 1];
			row[j] = row[j] + 1 < change ? row[j] + 1 : change;
		}
	}
	return row[b_length];
}

static void warn_unknown(void)
{
	for (char **entry = environ; entry && *entry; entry++) {
		const size_t length = strcspn(*entry, "=");
		const struct row *nearest = NULL;
		unsigned least = 4;
		size_t i;

		if (strncmp(*entry, "FASHIM", 6) != 0 || (length > 6 && (*entry)[6] != '_'))
			continue;
		for (i = 0; i < ROW_COUNT; i++) {
			const unsigned far = distance(*entry, length, rows[i].name);

			if (far == 0)
				break;
			if (far < least) {
				least = far;
				nearest = &rows[i];
			}
		}
		if (i < ROW_COUNT)
			continue;
		if (nearest)
			message_error("unknown option %.*s; did you mean %s?", (int)length, *entry,
				      nearest->name);
		else
			message_error("unknown option %.*s", (int)length, *entry);
	}
}

/* The entries of a FASHIM_ONLY or FASHIM_SKIP list: how many are of one sort, and whether one is
 * it. */
struct match {
	bool any, hit;
};

static struct match match_list(const char *list, int site)
{
	struct match match = {false, false};

	while (*list) {
		const size_t length = strcspn(list, ",");
		char entry[256];

		if (length && length < sizeof(entry)) {
			memcpy(entry, list, length);
			entry[length] = '\0';
			if ((entry[0] == '#') == (site > 0)) {
				uint64_t number;

				match.any = true;
				if (site > 0)
					match.hit |= entry[1] &&
						     option_parse_count(entry + 1, &number) &&
						     number == (uint64_t)site;
				else
					match.hit |= fnmatch(entry, names_program(), 0) == 0;
			}
		}
		list += length + (list[length] == ',');
	}
	return match;
}

static bool selects(int site)
{
	const struct match only = match_list(parsed.only, site);
	const struct match skip = match_list(parsed.skip, site);

	return (!only.any || only.hit) && !skip.hit;
}

static void check_lists(void)
{
	const char *const lists[] = {parsed.only, parsed.skip};

	for (size_t i = 0; i < 2; i++)
		for (const char *p = lists[i]; *p; p += strcspn(p, ","), p += *p == ',') {
			const size_t length = strcspn(p, ",");
			const size_t digits = *p == '#' ? strspn(p + 1, "0123456789") : 0;

			if (*p == '#' && (digits == 0 || digits + 1 != length))
				message_error("%s: '%.*s' is no site number; write #3",
					      i ? "FASHIM_SKIP" : "FASHIM_ONLY", (int)length, p);
		}
}

/* A process with more rights than who started it (set-uid, capabilities): the environment is not
 * its own, and a file named there would be written with those rights. */
static void keep_out(void)
{
	for (size_t i = 0; i < ROW_COUNT; i++)
		parse(&rows[i], rows[i].initial);
	parsed.mode = MODE_OFF;
	parsed.out = "none";
	parsed.log = "none";
	message_set_level(MESSAGE_NONE, "");
	atomic_store_explicit(&ready, true, memory_order_release);
}

static const char *instead_of(const struct row *row)
{
	return option_otherwise(row->kind, row->initial);
}

static void read_environment(void)
{
	const struct row *bad[ROW_COUNT];
	size_t bad_count = 0;
	bool bad_level;
	int level;

	if (getauxval(AT_SECURE)) {
		keep_out();
		return;
	}
	for (size_t i = 0; i < ROW_COUNT; i++) {
		const char *value = getenv(rows[i].name);

		if (value && *value && parse(&rows[i], value))
			continue;
		if (value && *value)
			bad[bad_count++] = &rows[i];
		parse(&rows[i], value && *value ? instead_of(&rows[i]) : rows[i].initial);
	}
	level = message_level_named(parsed.log);
	bad_level = level < 0;
	if (bad_level) {
		level = MESSAGE_ERROR;
		parsed.log = "error";
	}
	message_set_level((enum message_level)level, parsed.log);
	program_selected = selects(0);
	atomic_store_explicit(&ready, true, memory_order_release);

	/* A mistyped option that goes unnoticed costs more than a line: these are errors. */
	for (size_t i = 0; i < bad_count; i++)
		message_error("%s=%s: want %s; using %s", bad[i]->name, getenv(bad[i]->name),
			      option_wants[bad[i]->kind],
			      *instead_of(bad[i]) ? instead_of(bad[i]) : "nothing");
	if (bad_level)
		message_error("FASHIM_LOG=%s: want none, error, warn, info, debug or debug:ROOM,…; "
			      "using error",
			      getenv("FASHIM_LOG"));
	check_lists();
	warn_unknown();
}

const struct config *config(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!atomic_load_explicit(&ready, memory_order_acquire)) {
		const int saved_errno = errno;

		pthread_once(&once, read_environment);
		errno = saved_errno;
	}
	return &parsed;
}

bool config_selects_program(void)
{
	config();
	return program_selected;
}

bool config_selects_site(int site)
{
	config();
	return program_selected && (site <= 0 || selects(site));
}

const char *config_option(size_t index, char *value, size_t size)
{
	const int saved_errno = errno;
	const char *name = NULL;

	config();
	if (index < ROW_COUNT && size) {
		const void *field = (const char *)&parsed + rows[index].place;

		name = rows[index].name;
		if (rows[index].kind == OPTION_STRING)
			snprintf(value, size, "%s", *(const char *const *)field);
		else
			option_format(rows[index].kind, field, value, size);
	}
	errno = saved_errno;
	return name;
}
