/* SPDX-License-Identifier: Apache-2.0
 *
 * A JSON scanner that knows where the numbers of a sample belong. It walks the line once, allocates
 * nothing, and steps over what it does not know, so that a later format may add fields.
 */
#include "tools/read/sample_scan.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The place being read. Behind `end` nothing may be touched. */
struct scanner {
	const char *at, *end;
};

enum { DEEPEST = 16 };

struct number_field {
	const char *key;
	size_t length; /* of the key */
	size_t offset;
};

#define FIELD(name)                                                                                \
	{                                                                                          \
#name, sizeof(#name) - 1, offsetof(struct sample, name)                            \
	}
static const struct number_field sample_fields[] = {
	FIELD(app_us),	  FIELD(fused_us), FIELD(max_abs),     FIELD(max_rel),	 FIELD(rmse),
	FIELD(cosine),	  FIELD(beyond),   FIELD(worst_index), FIELD(worst_app), FIELD(worst_fused),
	FIELD(nonfinite), FIELD(at_us),	   FIELD(stream),
};
static const struct number_field reference_fields[] = {
	{"rows", 4, offsetof(struct sample, reference_rows)},
	FIELD(app_max),
	FIELD(app_rmse),
	FIELD(fused_max),
	FIELD(fused_rmse),
};
static const struct number_field part_fields[] = {
	{"gemm1", 5, offsetof(struct sample, parts_us[PART_GEMM1])},
	{"middle", 6, offsetof(struct sample, parts_us[PART_MIDDLE])},
	{"softmax", 7, offsetof(struct sample, parts_us[PART_SOFTMAX])},
	{"gemm2", 5, offsetof(struct sample, parts_us[PART_GEMM2])},
};
#undef FIELD
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline void skip_space(struct scanner *scan)
{
	while (scan->at < scan->end &&
	       (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
		scan->at++;
}

static inline bool take(struct scanner *scan, char wanted)
{
	skip_space(scan);
	if (scan->at >= scan->end || *scan->at != wanted)
		return false;
	scan->at++;
	return true;
}

static bool take_word(struct scanner *scan, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length))
		return false;
	scan->at += length;
	return true;
}

/* strtod for a number that is not followed by a null byte. */
static int number_by_library(const char *text, size_t length, double *value)
{
	char buffer[64];
	char *copy = length < sizeof(buffer) ? buffer : malloc(length + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, length);
	copy[length] = '\0';
	*value = strtod(copy, NULL);
	if (copy != buffer)
		free(copy);
	return 0;
}

int scan_number(const char **cursor, const char *end, double *value)
{
	static const double powers[] = {1e0,  1e1,  1e2,  1e3,	1e4,  1e5,  1e6,  1e7,
					1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
					1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
	const char *at = *cursor, *start = at;
	uint64_t mantissa = 0;
	int exponent = 0, digits = 0;
	bool negative = false;

	if (at < end && *at == '-') {
		negative = true;
		at++;
	}
	for (; at < end && is_digit(*at); at++, digits++) {
		if (digits < 19)
			mantissa = mantissa * 10 + (uint64_t)(*at - '0');
	}
	if (!digits)
		return -EBADMSG;
	if (at < end && *at == '.') {
		int whole = digits;

		for (at++; at < end && is_digit(*at); at++, digits++) {
			if (digits < 19)
				mantissa = mantissa * 10 + (uint64_t)(*at - '0');
		}
		if (digits == whole)
			return -EBADMSG;
		exponent = whole - digits;
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		bool minus = false;
		int number = 0, seen = 0;

		at++;
		if (at < end && (*at == '+' || *at == '-'))
			minus = *at++ == '-';
		for (; at < end && is_digit(*at); at++, seen++) {
			if (number < 100000)
				number = number * 10 + (*at - '0');
		}
		if (!seen)
			return -EBADMSG;
		exponent += minus ? -number : number;
	}
	*cursor = at;
	/* Both factors exact in a double: one rounding, the right one. */
	if (digits <= 19 && mantissa <= (UINT64_C(1) << 53) && exponent >= -22 && exponent <= 22) {
		double result = (double)mantissa;

		result = exponent < 0 ? result / powers[-exponent] : result * powers[exponent];
		*value = negative ? -result : result;
		return 0;
	}
	return number_by_library(start, (size_t)(at - start), value);
}

/* A string, opening quote already taken; *text and *length give its raw inside, escapes as written.
 */
static int scan_string(struct scanner *scan, const char **text, size_t *length)
{
	*text = scan->at;
	for (; scan->at < scan->end; scan->at++) {
		if (*scan->at == '\\') {
			scan->at++;
			continue;
		}
		if ((unsigned char)*scan->at < 0x20)
			return -EBADMSG;
		if (*scan->at == '"') {
			*length = (size_t)(scan->at - *text);
			scan->at++;
			return 0;
		}
	}
	return -EBADMSG;
}

static int skip_value(struct scanner *scan, int depth);

/* The rest of an object or array whose opening bracket was taken. */
static int skip_inside(struct scanner *scan, char closing, int depth)
{
	const char *text;
	size_t length;

	if (depth >= DEEPEST)
		return -EBADMSG;
	if (take(scan, closing))
		return 0;
	do {
		if (closing == '}' &&
		    (!take(scan, '"') || scan_string(scan, &text, &length) || !take(scan, ':')))
			return -EBADMSG;
		if (skip_value(scan, depth + 1))
			return -EBADMSG;
	} while (take(scan, ','));
	return take(scan, closing) ? 0 : -EBADMSG;
}

static int skip_value(struct scanner *scan, int depth)
{
	const char *text;
	size_t length;
	double number;

	if (take(scan, '{'))
		return skip_inside(scan, '}', depth);
	if (take(scan, '['))
		return skip_inside(scan, ']', depth);
	if (take(scan, '"'))
		return scan_string(scan, &text, &length);
	if (take_word(scan, "null") || take_word(scan, "true") || take_word(scan, "false"))
		return 0;
	return scan_number(&scan->at, scan->end, &number);
}

/* A number or null (NAN) into `value`; anything else is skipped and leaves NAN. */
static int number_or_null(struct scanner *scan, double *value)
{
	*value = NAN;
	skip_space(scan);
	if (scan->at < scan->end && (*scan->at == '-' || is_digit(*scan->at)))
		return scan_number(&scan->at, scan->end, value);
	return skip_value(scan, 0);
}

/* True when `key` was among the fields and *result tells how reading it went. */
static bool known_number(struct scanner *scan, struct sample *sample, const char *key,
			 size_t length, const struct number_field *fields, size_t count,
			 int *result)
{
	for (size_t i = 0; i < count; i++) {
		if (fields[i].length != length || fields[i].key[0] != key[0] ||
		    memcmp(fields[i].key, key, length))
			continue;
		*result = number_or_null(scan, (void *)((char *)sample + fields[i].offset));
		return true;
	}
	return false;
}

/* An object of numbers, or anything else, which is skipped. */
static int scan_numbers(struct scanner *scan, struct sample *sample,
			const struct number_field *fields, size_t count)
{
	const char *key;
	size_t length;
	int result;

	if (!take(scan, '{'))
		return skip_value(scan, 0);
	if (take(scan, '}'))
		return 0;
	do {
		if (!take(scan, '"') || scan_string(scan, &key, &length) || !take(scan, ':'))
			return -EBADMSG;
		if (!known_number(scan, sample, key, length, fields, count, &result))
			result = skip_value(scan, 0);
		if (result)
			return result;
	} while (take(scan, ','));
	return take(scan, '}') ? 0 : -EBADMSG;
}

static int scan_member(struct scanner *scan, struct sample *sample, const char *key, size_t length)
{
	double number;
	int result;

	if (known_number(scan, sample, key, length, sample_fields, COUNT(sample_fields), &result))
		return result;
	if (length == 4 && !memcmp(key, "site", 4)) {
		result = number_or_null(scan, &number);
		sample->site = number >= 0 && number < 4294967295.0 ? (uint32_t)number : 0;
		return result;
	}
	if (length == 10 && !memcmp(key, "occurrence", 10)) {
		result = number_or_null(scan, &number);
		sample->occurrence = number >= 0 && number < 1e18 ? (uint64_t)number : 0;
		return result;
	}
	if (length == 9 && !memcmp(key, "reference", 9))
		return scan_numbers(scan, sample, reference_fields, COUNT(reference_fields));
	if (length == 8 && !memcmp(key, "parts_us", 8))
		return scan_numbers(scan, sample, part_fields, COUNT(part_fields));
	if (length == 7 && !memcmp(key, "verdict", 7) && take(scan, '"')) {
		const char *text;
		size_t size;

		if (scan_string(scan, &text, &size))
			return -EBADMSG;
		if (size >= sizeof(sample->verdict))
			size = sizeof(sample->verdict) - 1;
		memcpy(sample->verdict, text, size);
		sample->verdict[size] = '\0';
		return 0;
	}
	return skip_value(scan, 0);
}

int sample_scan(const char *line, size_t length, struct sample *sample)
{
	struct scanner scan = {line, line + length};
	const char *key;
	size_t size;

	*sample = (struct sample){.at_us = NAN,
				  .stream = NAN,
				  .app_us = NAN,
				  .fused_us = NAN,
				  .parts_us = {NAN, NAN, NAN, NAN},
				  .max_abs = NAN,
				  .max_rel = NAN,
				  .rmse = NAN,
				  .cosine = NAN,
				  .beyond = NAN,
				  .worst_index = NAN,
				  .worst_app = NAN,
				  .worst_fused = NAN,
				  .nonfinite = NAN,
				  .reference_rows = NAN,
				  .app_max = NAN,
				  .app_rmse = NAN,
				  .fused_max = NAN,
				  .fused_rmse = NAN};
	if (!take(&scan, '{'))
		return -EBADMSG;
	if (!take(&scan, '}')) {
		do {
			if (!take(&scan, '"') || scan_string(&scan, &key, &size) ||
			    !take(&scan, ':') || scan_member(&scan, sample, key, size))
				return -EBADMSG;
		} while (take(&scan, ','));
		if (!take(&scan, '}'))
			return -EBADMSG;
	}
	skip_space(&scan);
	return scan.at == scan.end ? 0 : -EBADMSG;
}
