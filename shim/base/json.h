/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes one JSON value into a buffer of fixed size. Misuse and lack of room are remembered, not
 * reported call by call: json_end() says whether the text is whole. Numbers look the same in every
 * locale.
 */
#ifndef FASHIM_JSON_H
#define FASHIM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH 32

struct json {
	char *buffer;
	size_t size, used;
	unsigned depth;
	uint32_t is_array, has_members; /* one bit per depth */
	bool broken;			/* out of room, or calls that do not make JSON */
};

/* Starts a value in buffer[0..size), which must outlive `json`. */
void json_begin(struct json *json, char *buffer, size_t size);

/* The length of the text, NUL-terminated in the buffer; 0 when it is not one whole value. */
size_t json_end(struct json *json);

/* A member `key` of the open object; NULL as key for an element of the open array and for the root.
 */
void json_open_object(struct json *json, const char *key);
void json_open_array(struct json *json, const char *key);
void json_close(struct json *json);
void json_string(struct json *json, const char *key, const char *string); /* NULL: null */
void json_string_n(struct json *json, const char *key, const char *bytes, size_t count);
void json_int(struct json *json, const char *key, int64_t number);
void json_uint(struct json *json, const char *key, uint64_t number);
void json_double(struct json *json, const char *key, double number); /* NaN and infinities: null */
void json_null(struct json *json, const char *key);

#endif
