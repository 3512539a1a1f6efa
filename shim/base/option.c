/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers are read and written, and words compared, without regard to the host's locale.
 */
#include "shim/base/option.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 4 };

static const char *const words[][MOST_WORDS] = {
	[OPTION_MODE] = {"off", "audit", "compare", "replace"},
	[OPTION_ASK] = {"off", "chain", "all"},
	[OPTION_GRAPHS] = {"off", "prove", "trust"},
};

const char *const option_wants[] = {"off, audit, compare or replace",
				    "off, chain or all",
				    "off, prove or trust",
				    "a shorter text",
				    "a whole number >= 0",
				    "0, 1, on or off",
				    "a number >= 0"};

/* Letters of ASCII alone: what is one letter in the host's locale does not matter here. */
static bool same_word(const char *a, const char *b)
{
	for (;; a++, b++) {
		const int x = *a >= 'A' && *a <= 'Z' ? *a + 32 : *a;

		if (x != *b)
			return false;
		if (!x)
			return true;
	}
}

static bool parse_word(enum option_kind kind, const char *text, int *value)
{
	for (int i = 0; i < MOST_WORDS && words[kind][i]; i++)
		if (same_word(text, words[kind][i]))
			return *value = i, true;
	return false;
}

bool option_parse_count(const char *text, uint64_t *count)
{
	uint64_t result = 0;

	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(result, 10u, &result) ||
		    __builtin_add_overflow(result, (uint64_t)(*text - '0'), &result))
			return false;
	*count = result;
	return *text == '\0';
}

static bool parse_flag(const char *text, bool *flag)
{
	static const char *const flags[] = {"0", "1", "off", "on", "no", "yes", "false", "true"};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (same_word(text, flags[i]))
			return *flag = i & 1, true;
	return false;
}

static bool parse_number(const char *text, double *number)
{
	locale_t c_locale;
	char *end;

	/* Decimal notation only: strtod would take "nan", "0x1p3" and leading space too. */
	if (!*text || text[strspn(text, "0123456789.eE+-")])
		return false;
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		return false;
	*number = strtod_l(text, &end, c_locale);
	freelocale(c_locale);
	return *end == '\0' && isfinite(*number) && *number >= 0 && *text != '-';
}

bool option_parse(enum option_kind kind, const char *text, void *value)
{
	bool flag;

	switch (kind) {
	case OPTION_MODE:
	case OPTION_ASK:
		return parse_word(kind, text, value);
	case OPTION_GRAPHS: /* `1` is what needs no promise */
		return parse_word(kind, text, value) ||
		       (parse_flag(text, &flag) && (*(int *)value = flag, true));
	case OPTION_COUNT:
		return option_parse_count(text, value);
	case OPTION_FLAG:
		return parse_flag(text, value);
	case OPTION_NUMBER:
		return parse_number(text, value);
	case OPTION_STRING:
		break;
	}
	return true;
}

static void format_number(double number, char *text, size_t size)
{
	const locale_t ours = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	locale_t theirs;

	if (!ours)
		return;
	theirs = uselocale(ours);
	snprintf(text, size, "%.15g", number);
	uselocale(theirs);
	freelocale(ours);
}

void option_format(enum option_kind kind, const void *value, char *text, size_t size)
{
	*text = '\0';
	switch (kind) {
	case OPTION_MODE:
	case OPTION_ASK:
	case OPTION_GRAPHS:
		snprintf(text, size, "%s", words[kind][*(const int *)value]);
		break;
	case OPTION_COUNT:
		snprintf(text, size, "%llu", (unsigned long long)*(const uint64_t *)value);
		break;
	case OPTION_FLAG:
		snprintf(text, size, "%d", *(const bool *)value);
		break;
	case OPTION_NUMBER:
		format_number(*(const double *)value, text, size);
		break;
	case OPTION_STRING:
		break;
	}
}

const char *option_otherwise(enum option_kind kind, const char *standard)
{
	return kind == OPTION_MODE ? words[OPTION_MODE][0] : standard;
}
