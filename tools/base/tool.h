/* SPDX-License-Identifier: Apache-2.0
 *
 * What the subcommands of `fashim` share: the exit codes, and the few helpers for speaking to a
 * person (suggestions for typos, colour, text that is safe to print).
 */
#ifndef FASHIM_TOOL_H
#define FASHIM_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifndef FASHIM_VERSION
#define FASHIM_VERSION "unknown"
#endif

/* Exit codes of everything but `run`, which has env's: 125 own failure, 126 not executable, 127 not
 * found, else the program's. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1, /* input that cannot be read; for gate, a threshold that is broken */
	EXIT_USAGE = 2
};

/* Prints "fashim: …" and a newline on stderr, as one write. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on "fashim[RANK]: …", as the shim does; NULL: no rank. The string must last. */
void complain_as(const char *rank);

/* The candidate that `word` most probably meant, or NULL when none is near. Case is ignored. */
const char *did_you_mean(const char *word, const char *const *candidates, int count);

/* True when the locale prints UTF-8, so that µ, ± and × may be used. Needs setlocale() before. */
bool utf8_output(void);

/* Writes `text` with '?' for every character that is not harmless (safe_text.h); names in a log
 * come from strangers. */
void print_safe(FILE *stream, const char *text);

/* Flushes stdout. 0, or -errno after a line on stderr that the writing of `what` failed; a reader
 * that has gone has had enough, and that is none. */
int finish_output(const char *what);

/* "1,234,567" style groups with a thin separator that survives any font: a space. Returns buffer.
 */
char *format_count(char *buffer, size_t size, unsigned long long value);

/* A time in µs with the unit that suits it ("15.2 µs", "1.23 s"). Returns buffer. */
char *format_duration(char *buffer, size_t size, double us);

#endif
