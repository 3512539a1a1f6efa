/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of options by their kind, from text and to text. The command tells with it what the
 * shim would take.
 */
#ifndef FASHIM_OPTION_H
#define FASHIM_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the rows of config.def name them. */
enum option_kind {
	OPTION_MODE,
	OPTION_ASK,
	OPTION_GRAPHS,
	OPTION_STRING,
	OPTION_COUNT,
	OPTION_FLAG,
	OPTION_NUMBER
};

/* What a kind takes, in words. */
extern const char *const option_wants[];

/* A value of that kind: an enum of config.h, uint64_t, bool or double. Of a STRING nothing is
 * taken, and any text is one. false: the text is no value. */
bool option_parse(enum option_kind kind, const char *text, void *value);
bool option_parse_count(const char *text, uint64_t *count);

/* The value as text; nothing for a STRING. */
void option_format(enum option_kind kind, const void *value, char *text, size_t size);

/* What a value that is none becomes: a mistyped mode may mean to keep us from acting. */
const char *option_otherwise(enum option_kind kind, const char *standard);

#endif
