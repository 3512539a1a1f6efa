/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over the pattern; no allocation, no locale, no time zone (the C library's gmtime takes a
 * lock that a fork can leave held).
 */
#include "shim/base/names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LAST_NUMBER 100000

struct text {
	char *out;
	size_t size, used; /* used may pass size: then the text did not fit */
};

static void add_bytes(struct text *text, const char *bytes, size_t count)
{
	if (text->used < text->size && count < text->size - text->used)
		memcpy(text->out + text->used, bytes, count);
	else
		text->used = text->size;
	if (text->used < text->size)
		text->used += count;
}

static void add(struct text *text, const char *string)
{
	add_bytes(text, string, strlen(string));
}

static int finish(struct text *text)
{
	if (text->used >= text->size) {
		if (text->size)
			text->out[0] = '\0';
		return -ENAMETOOLONG;
	}
	text->out[text->used] = '\0';
	return (int)text->used;
}

static bool harmless(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-' || c == '+';
}

/* For names we did not choose: what they hold must not lead into another folder. */
static void add_sanitised(struct text *text, const char *string)
{
	for (; *string; string++)
		add_bytes(text, harmless(*string) ? string : "_", 1);
}

const char *names_program(void)
{
	const char *name = program_invocation_short_name;

	return name && *name ? name : "unknown";
}

void names_host(char *out, size_t size)
{
	const int saved_errno = errno;
	struct text text = {out, size, 0};
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1) != 0 || !host[0])
		strcpy(host, "unknown");
	add_sanitised(&text, host);
	finish(&text);
	errno = saved_errno;
}

long names_rank(void)
{
	static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
						"PMI_RANK", "SLURM_PROCID"};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = secure_getenv(variables[i]);
		long rank = 0;

		if (!value || !*value || strlen(value) > 9)
			continue;
		for (; *value >= '0' && *value <= '9'; value++)
			rank = rank * 10 + (*value - '0');
		if (!*value)
			return rank;
	}
	return -1;
}

uint64_t names_start_ns(void)
{
	static atomic_int owner;
	static _Atomic uint64_t start;
	const int pid = (int)getpid();
	struct timespec now;

	if (atomic_load(&owner) != pid) {
		clock_gettime(CLOCK_REALTIME, &now);
		atomic_store(&start, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
		atomic_store(&owner, pid);
	}
	return atomic_load(&start);
}

void names_utc(uint64_t ns, int compact, char out[NAMES_UTC_SIZE])
{
	const uint64_t seconds = ns / 1000000000u;
	const unsigned of_day = (unsigned)(seconds % 86400);
	unsigned year = 1970, month = 0;
	uint64_t days = seconds / 86400;

	for (;; year++) {
		const unsigned length = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

		if (days < 365 + length)
			break;
		days -= 365 + length;
	}
	for (;; month++) {
		static const unsigned char lengths[] = {31, 28, 31, 30, 31, 30,
							31, 31, 30, 31, 30, 31};
		const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
		const unsigned length = lengths[month] + (month == 1 && leap ? 1u : 0u);

		if (days < length)
			break;
		days -= length;
	}
	snprintf(out, NAMES_UTC_SIZE,
		 compact ? "%04u%02u%02uT%02u%02u%02uZ" : "%04u-%02u-%02uT%02u:%02u:%02uZ", year,
		 month + 1, (unsigned)days + 1, of_day / 3600, of_day / 60 % 60, of_day % 60);
}

int names_insert(const char *path, const char *suffix, char *out, size_t size)
{
	struct text text = {out, size, 0};
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	const char *dot = strrchr(base, '.');

	if (!dot || dot == base)
		dot = base + strlen(base);
	add_bytes(&text, path, (size_t)(dot - path));
	add(&text, ".");
	add(&text, suffix);
	add(&text, dot);
	return finish(&text);
}

/* %q{VAR}: returns the closing brace, or NULL where this is no such thing. */
static const char *add_variable(struct text *text, const char *brace)
{
	const char *end = *brace == '{' ? strchr(brace, '}') : NULL;
	char variable[256];
	const char *value;

	if (!end || end == brace + 1 || (size_t)(end - brace) > sizeof(variable))
		return NULL;
	memcpy(variable, brace + 1, (size_t)(end - brace - 1));
	variable[end - brace - 1] = '\0';
	value = secure_getenv(variable);
	if (value)
		add(text, value);
	return end;
}

static int expand(const char *pattern, int number, char *out, size_t size, bool *numbered)
{
	struct text text = {out, size, 0};
	bool distinct = false; /* names the process already */
	char part[256];

	*numbered = false;
	for (const char *p = pattern; *p; p++) {
		if (*p != '%') {
			add_bytes(&text, p, 1);
			continue;
		}
		part[0] = '\0';
		switch (p[1]) {
		case 'e':
			add_sanitised(&text, names_program());
			break;
		case 'p':
			snprintf(part, sizeof(part), "%d", (int)getpid());
			distinct = true;
			break;
		case 'h':
			names_host(part, sizeof(part));
			break;
		case 'r':
			snprintf(part, sizeof(part), "%ld", names_rank() < 0 ? 0 : names_rank());
			distinct = true;
			break;
		case 'n':
			snprintf(part, sizeof(part), "%d", number);
			*numbered = true;
			break;
		case 't':
			names_utc(names_start_ns(), 1, part);
			break;
		case '%':
			strcpy(part, "%");
			break;
		case 'q': {
			const char *end = add_variable(&text, p + 2);

			if (end) {
				p = end - 1; /* the p++ below and the loop's step past it */
				break;
			}
		}
		/* fall through */
		default:
			add_bytes(&text, "%", 1);
			continue;
		}
		add(&text, part);
		p++;
	}
	if (finish(&text) < 0)
		return -ENAMETOOLONG;
	if (names_rank() >= 0 && !distinct) {
		char plain[4096];

		if (text.used >= sizeof(plain))
			return out[0] = '\0', -ENAMETOOLONG;
		memcpy(plain, out, text.used + 1);
		snprintf(part, sizeof(part), "r%ld", names_rank());
		return names_insert(plain, part, out, size);
	}
	return (int)text.used;
}

int names_expand(const char *pattern, char *out, size_t size)
{
	const int saved_errno = errno;
	int result = -EEXIST;

	for (int number = 1; number < LAST_NUMBER; number++) {
		bool numbered;

		result = expand(pattern, number, out, size, &numbered);
		if (result < 0 || !numbered || access(out, F_OK) != 0)
			break;
		result = -EEXIST;
	}
	if (result < 0 && size)
		out[0] = '\0';
	errno = saved_errno;
	return result;
}
