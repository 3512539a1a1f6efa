/* SPDX-License-Identifier: Apache-2.0
 *
 * A streaming writer: a depth, and per depth one bit for "array" and one for "has members", is all
 * the state that commas and brackets need. Bytes that are not UTF-8 become U+FFFD, so that whatever
 * a host puts in its argv the line stays readable.
 */
#include "shim/base/json.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_begin(struct json *json, char *buffer, size_t size)
{
	memset(json, 0, sizeof(*json));
	json->buffer = buffer;
	json->size = size;
	json->broken = size == 0;
}

size_t json_end(struct json *json)
{
	if (json->broken || json->depth || json->used == 0)
		return 0;
	json->buffer[json->used] = '\0';
	return json->used;
}

/* One byte stays free for the terminating NUL. */
static void put(struct json *json, const char *bytes, size_t count)
{
	if (json->broken || count >= json->size - json->used) {
		json->broken = true;
		return;
	}
	memcpy(json->buffer + json->used, bytes, count);
	json->used += count;
}

/* Length of the UTF-8 sequence at `s` of at most `left` bytes, 0 where it is none (RFC 3629). */
static size_t sequence(const unsigned char *s, size_t left)
{
	size_t count;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		count = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		count = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		count = 4;
	else
		return 0;
	if (count > left)
		return 0;
	for (size_t i = 1; i < count; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return count;
}

static void put_string(struct json *json, const char *bytes, size_t count)
{
	const unsigned char *s = (const unsigned char *)bytes;

	put(json, "\"", 1);
	for (size_t i = 0; i < count && !json->broken;) {
		const size_t length = sequence(s + i, count - i);
		char escape[8];

		if (length == 0) {
			put(json, "\\ufffd", 6);
			i++;
		} else if (s[i] == '"' || s[i] == '\\') {
			escape[0] = '\\';
			escape[1] = (char)s[i++];
			put(json, escape, 2);
		} else if (s[i] < 0x20 || s[i] == 0x7f) {
			snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)s[i++]);
			put(json, escape, 6);
		} else {
			put(json, bytes + i, length);
			i += length;
		}
	}
	put(json, "\"", 1);
}

/* What stands before a value: the comma and the key. */
static void begin_value(struct json *json, const char *key)
{
	const uint32_t bit = UINT32_C(1) << (json->depth & 31);

	if (json->depth == 0) {
		if (json->used || key)
			json->broken = true;
		return;
	}
	if (!key != !!(json->is_array & bit))
		json->broken = true;
	if (json->has_members & bit)
		put(json, ",", 1);
	json->has_members |= bit;
	if (key) {
		put_string(json, key, strlen(key));
		put(json, ":", 1);
	}
}

static void open_value(struct json *json, const char *key, bool is_array)
{
	uint32_t bit;

	begin_value(json, key);
	if (json->depth + 1 >= JSON_DEPTH)
		json->broken = true;
	if (json->broken)
		return;
	json->depth++;
	bit = UINT32_C(1) << json->depth;
	json->has_members &= ~bit;
	json->is_array = is_array ? json->is_array | bit : json->is_array & ~bit;
	put(json, is_array ? "[" : "{", 1);
}

void json_open_object(struct json *json, const char *key)
{
	open_value(json, key, false);
}

void json_open_array(struct json *json, const char *key)
{
	open_value(json, key, true);
}

void json_close(struct json *json)
{
	if (json->depth == 0)
		json->broken = true;
	if (json->broken)
		return;
	put(json, json->is_array & UINT32_C(1) << json->depth ? "]" : "}", 1);
	json->depth--;
}

void json_string_n(struct json *json, const char *key, const char *bytes, size_t count)
{
	begin_value(json, key);
	put_string(json, bytes, count);
}

void json_string(struct json *json, const char *key, const char *string)
{
	if (string)
		json_string_n(json, key, string, strlen(string));
	else
		json_null(json, key);
}

static void put_literal(struct json *json, const char *key, const char *literal)
{
	begin_value(json, key);
	put(json, literal, strlen(literal));
}

void json_int(struct json *json, const char *key, int64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	put_literal(json, key, text);
}

void json_uint(struct json *json, const char *key, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	put_literal(json, key, text);
}

/* The fewest of 15 or 17 digits that read back as the same number. The thread's locale is the "C"
 * one meanwhile: glibc keeps that one ready, so asking for it neither allocates nor fails. */
void json_double(struct json *json, const char *key, double number)
{
	const int saved_errno = errno;
	char text[40];
	locale_t ours, theirs;

	if (!isfinite(number)) {
		json_null(json, key);
		return;
	}
	ours = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!ours) {
		json_null(json, key);
		errno = saved_errno;
		return;
	}
	theirs = uselocale(ours);
	snprintf(text, sizeof(text), "%.15g", number);
	if (strtod(text, NULL) != number)
		snprintf(text, sizeof(text), "%.17g", number);
	uselocale(theirs);
	freelocale(ours);
	put_literal(json, key, text);
	errno = saved_errno;
}

void json_null(struct json *json, const char *key)
{
	put_literal(json, key, "null");
}
