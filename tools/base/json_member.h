/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of JSON that somebody else wrote: what is missing, or of another type, is unknown and
 * never an error.
 */
#ifndef FASHIM_JSON_MEMBER_H
#define FASHIM_JSON_MEMBER_H

#include <jansson.h>
#include <stdbool.h>

/* A string member of an object, or "". */
const char *text_of(const json_t *record, const char *key);
/* A number member, or `otherwise`. */
double number_of(const json_t *record, const char *key, double otherwise);

/* Whether both have the member and alike, numbers by their value, or neither has it; of all keys up
 * to NULL. */
bool same_member(const json_t *a, const json_t *b, const char *key);
bool same_members(const json_t *a, const json_t *b, const char *const *keys);

/* Copies the members of `from` named in the NULL-ended list; null where it has none. */
void copy_members(json_t *to, const json_t *from, const char *const *keys);

#endif
