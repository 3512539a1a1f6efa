/* SPDX-License-Identifier: Apache-2.0
 *
 * Values for JSON that hold whatever the log held: text that may be no UTF-8, numbers that may be
 * none.
 */
#ifndef FASHIM_JSON_TEXT_H
#define FASHIM_JSON_TEXT_H

#include <jansson.h>
#include <stdio.h>

/* A JSON string; where `text` is not UTF-8 (a path, a name cut short) every byte beyond ASCII
 * becomes
 * '?'. NULL when memory is short. */
json_t *json_text(const char *text);

/* A JSON real, or null for what is not finite. */
json_t *json_number(double value);

/* json_dumpf(), with what is not harmless (safe_text.h) as \uXXXX. 0 or -ENOMEM. */
int json_print(const json_t *root, FILE *out, size_t flags);

/* Prints a document on stdout, a member a line, and drops it. digits: of what is no whole number;
 * 0: all. */
void json_document(json_t *root, size_t digits);

#endif
